import { featureValueEffect, limitValueEffect } from "../../core/change/effect.ts";
import { entitlementsOf, type Side, withOverridesOf } from "../../core/change/entitlements.ts";
import type { LimitValue } from "../../core/pricing/model.ts";
import { isApplicable, type Override } from "../../core/pricing/overrides.ts";
import type { Group, OverrideOutcome } from "./assessment.ts";

/** Returns what becomes of an override when its contracts move to their target. */
export function outcomeOf(
  override: Override,
  after: Side | undefined,
  { target, chosenBy }: Pick<Group, "target" | "chosenBy">,
): OverrideOutcome["after"] {
  if (chosenBy === "unchanged") return "kept";
  if (after === undefined) return "ended";
  if (target === undefined) return "kept";
  if (!isApplicable(after.pricing, override)) return "inapplicable";
  const { kind, name } = override;
  const [without, with_] = [[], [override]].map((overrides) =>
    entitlementsOf(withOverridesOf(after, overrides), target).grant[kind].get(name),
  );
  const effect =
    kind === "features"
      ? featureValueEffect(with_, without)
      : limitValueEffect(with_ as LimitValue, without as LimitValue);
  return effect === "same" || effect === "more" ? "superfluous" : "kept";
}
