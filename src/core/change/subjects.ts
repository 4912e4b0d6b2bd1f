import type { CompiledPricing } from "../pricing/compile.ts";
import type { Side } from "./holding.ts";

/** Keys of the add-ons of a pricing that bring a value of one of these features, or change one of these limits. */
function addOnsTouching(pricing: CompiledPricing, features: Iterable<string>, limits: Iterable<string>): string[] {
  const [wantedFeatures, wantedLimits] = [[...features], [...limits]];
  return [...pricing.addOns]
    .filter(
      ([, addOn]) =>
        wantedFeatures.some((name) => Object.hasOwn(addOn.features, name)) ||
        wantedLimits.some(
          (name) => Object.hasOwn(addOn.usageLimits, name) || Object.hasOwn(addOn.usageLimitsExtensions, name),
        ),
    )
    .map(([key]) => key);
}

/** Keys of the add-ons that can change what a feature is worth: its value, or anything that its expressions read. */
export function addOnsOfFeature(side: Side, feature: string): string[] {
  const modes = side.expressions.get(feature);
  const facts = [modes?.client, modes?.server].filter((each) => each !== undefined);
  return addOnsTouching(
    side.pricing,
    [feature, ...facts.flatMap((each) => each.features)],
    facts.flatMap((each) => each.limits),
  );
}

/** Keys of the add-ons that can change a limit. */
export function addOnsOfLimit(side: Side, limit: string): string[] {
  return addOnsTouching(side.pricing, [], [limit]);
}
