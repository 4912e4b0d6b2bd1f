/**
 * The feature ids that exist, one property each; empty until declared. `faregate types` writes such a declaration:
 *
 *     declare module "faregate/client" {
 *       interface FeatureIds { "zoom-meetings": true }
 *     }
 */
// oxlint-disable-next-line typescript/no-empty-object-type, typescript/no-empty-interface -- filled by module augmentation
export interface FeatureIds {}

/** Feature id, `{service name in lower case}-{feature name}`: one of FeatureIds if declared, otherwise any string. */
export type FeatureId = [keyof FeatureIds] extends [never] ? string : Extract<keyof FeatureIds, string>;
