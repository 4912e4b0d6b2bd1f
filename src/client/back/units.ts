/**
 * The units of limits with rates, one property each; empty until declared. `faregate types` writes such a declaration:
 *
 *     declare module "faregate/client" {
 *       interface LimitUnits { "scribe-credits": "large.input" | "large.output" }
 *     }
 */
// oxlint-disable-next-line typescript/no-empty-object-type, typescript/no-empty-interface -- filled by module augmentation
export interface LimitUnits {}

/** Number by unit: those of LimitUnits if declared, otherwise any. */
export type Units = [keyof LimitUnits] extends [never]
  ? Readonly<Record<string, number>>
  : { readonly [Unit in Extract<LimitUnits[keyof LimitUnits], string>]?: number };
