import type { CompiledPricing } from "../pricing/compile.ts";
import type { Side } from "./entitlements.ts";

/** Index from features and limits to the positions of the add-ons that change them. */
interface AddOnIndex {
  readonly keys: readonly string[];
  readonly byFeature: ReadonlyMap<string, readonly number[]>;
  readonly byLimit: ReadonlyMap<string, readonly number[]>;
}

/** Built once per pricing. Scanning every add-on for every feature of a large pricing takes seconds. */
const indexes = new WeakMap<CompiledPricing, AddOnIndex>();

function indexOf(pricing: CompiledPricing): AddOnIndex {
  const known = indexes.get(pricing);
  if (known !== undefined) return known;
  const [byFeature, byLimit] = [new Map<string, number[]>(), new Map<string, number[]>()];
  const add = (map: Map<string, number[]>, names: Iterable<string>, position: number): void => {
    for (const name of names) {
      const positions = map.get(name);
      if (positions === undefined) map.set(name, [position]);
      else positions.push(position);
    }
  };
  for (const [position, addOn] of [...pricing.addOns.values()].entries()) {
    add(byFeature, Object.keys(addOn.features), position);
    add(byLimit, [...Object.keys(addOn.usageLimits), ...Object.keys(addOn.usageLimitsExtensions)], position);
  }
  const index = { keys: [...pricing.addOns.keys()], byFeature, byLimit };
  indexes.set(pricing, index);
  return index;
}

/** Returns the keys of the add-ons that set one of these features or change one of these limits. */
function addOnsTouching(pricing: CompiledPricing, features: Iterable<string>, limits: Iterable<string>): string[] {
  const { keys, byFeature, byLimit } = indexOf(pricing);
  const found = new Set<number>();
  for (const name of features) for (const position of byFeature.get(name) ?? []) found.add(position);
  for (const name of limits) for (const position of byLimit.get(name) ?? []) found.add(position);
  return [...found].sort((one, other) => one - other).map((position) => keys[position] ?? "");
}

/** Returns the keys of the add-ons that can affect a feature: its value, or anything its expressions read. */
export function addOnsOfFeature(side: Side, feature: string): string[] {
  const modes = side.expressions.get(feature);
  const facts = [modes?.client, modes?.server].filter((each) => each !== undefined);
  return addOnsTouching(
    side.pricing,
    [feature, ...facts.flatMap((each) => each.features)],
    facts.flatMap((each) => each.limits),
  );
}

/** Returns the keys of the add-ons that can change a limit. */
export function addOnsOfLimit(side: Side, limit: string): string[] {
  return addOnsTouching(side.pricing, [], [limit]);
}
