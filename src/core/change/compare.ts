import type { FeatureValue, LimitValue } from "../pricing/model.ts";
import { compareAccess } from "./access.ts";
import {
  featureValueEffect,
  isUnlimited,
  limitValueEffect,
  meaningEffect,
  mirrored,
  periodEffect,
  together,
} from "./effect.ts";
import type { Effect } from "./effect.ts";
import type { Holding, Mode } from "./holding.ts";
import { finish } from "../steps.ts";
import type { Steps } from "../steps.ts";

export const MODES: readonly Mode[] = ["client", "server"];

/** One feature, held before and after. */
export interface FeatureComparison {
  readonly feature: string;
  readonly before: FeatureValue | null;
  readonly after: FeatureValue | null;
  readonly effect: Effect;
  /** Whether some of it is lost, whatever else is gained: true with `less`, may be with `different`. */
  readonly loses: boolean;
  /** Whether the holder could use it at all: its expression is on at some usage, or without one its value is not false. */
  readonly hadIt: boolean;
  readonly hasIt: boolean;
  /** False when an expression could not be followed. */
  readonly decided: boolean;
}

/** One usage limit, held before and after. */
export interface LimitComparison {
  readonly limit: string;
  readonly before: LimitValue | null;
  readonly after: LimitValue | null;
  readonly effect: Effect;
  /** Whether some of it is lost, whatever else is gained: a lower value, or a longer period. */
  readonly loses: boolean;
}

/** All that differs between two holdings. */
export interface HoldingComparison {
  readonly features: readonly FeatureComparison[];
  readonly limits: readonly LimitComparison[];
}

function hasExpression({ side }: Holding, feature: string): boolean {
  return side.expressions.get(feature)?.server !== undefined;
}

/**
 * One feature of two holdings. With an expression on either side, what counts is when it is on, in both modes; without
 * any, its value. A feature that only one of the pricings has is held or not held there.
 */
export function compareFeature(before: Holding, after: Holding, feature: string): FeatureComparison {
  const old = before.grant.features.get(feature);
  const now = after.grant.features.get(feature);
  const valueEffect = featureValueEffect(old, now);
  const shown = { feature, before: old ?? null, after: now ?? null };
  if (!hasExpression(before, feature) && !hasExpression(after, feature)) {
    const [hadIt, hasIt] = [old !== undefined && old !== false, now !== undefined && now !== false];
    return { ...shown, effect: valueEffect, loses: valueEffect === "less", hadIt, hasIt, decided: true };
  }
  // A boolean value matters through its expression alone; a text or number also by itself.
  let effect: Effect = typeof (old ?? now) === "boolean" ? "same" : valueEffect;
  const found = { loses: effect === "less", hadIt: false, hasIt: false, decided: true };
  for (const mode of MODES) {
    const access = compareAccess(before, after, feature, mode);
    effect = together(effect, access.effect);
    found.loses ||= access.lost;
    found.hadIt ||= access.before;
    found.hasIt ||= access.after;
    found.decided &&= access.decided;
  }
  return { ...shown, ...found, effect };
}

/**
 * Effect of a limit that exists on one side only, seen from the side that lacks it: a new cap is less, unless it caps
 * nothing but features that are new as well, or caps nothing.
 */
export function newCapEffect(without: Holding, having: Holding, limit: string): Effect {
  const value = having.grant.usageLimits.get(limit);
  if (value === undefined || value === true || isUnlimited(value)) return "same";
  const governed = [...(having.side.governed.get(limit) ?? [])];
  const onlyNew = governed.length > 0 && governed.every((name) => !without.side.pricing.features.has(name));
  return onlyNew ? "same" : "less";
}

/**
 * One limit of two holdings, its period included. A limit that the new pricing lacks caps no more; one that the pricing
 * has and the configuration is not granted is worth nothing.
 */
export function compareLimit(before: Holding, after: Holding, limit: string): LimitComparison {
  const old = before.grant.usageLimits.get(limit);
  const now = after.grant.usageLimits.get(limit);
  const [was, is] = [before.side.pricing.usageLimits.get(limit), after.side.pricing.usageLimits.get(limit)];
  let effects: Effect[] = [];
  if (was !== undefined && is !== undefined) {
    const granted = old !== undefined && now !== undefined;
    effects = [limitValueEffect(old, now), ...(granted ? [periodEffect(was, is), meaningEffect(was, is)] : [])];
  } else if (is !== undefined) effects = [newCapEffect(before, after, limit)];
  else if (was !== undefined) effects = [mirrored(newCapEffect(after, before, limit))];
  const effect = effects.reduce(together, "same");
  return { limit, before: old ?? null, after: now ?? null, effect, loses: effects.includes("less") };
}

/** The names of both, each once, in the order of the first and then of the second. */
export function namesOfBoth(
  one: readonly { readonly name: string }[],
  other: readonly { readonly name: string }[],
): string[] {
  return [...new Set([...one, ...other].map((item) => item.name))];
}

/** Everything that a holder gains, loses or finds different, features and limits in the order of the pricings. */
export function compareHoldings(before: Holding, after: Holding): HoldingComparison {
  return finish(comparisonSteps(before, after));
}

/** {@link compareHoldings} step by step. */
export function* comparisonSteps(before: Holding, after: Holding): Steps<HoldingComparison> {
  const [old, now] = [before.side.pricing.pricing, after.side.pricing.pricing];
  const features: FeatureComparison[] = [];
  for (const name of namesOfBoth(old.features, now.features)) {
    const compared = compareFeature(before, after, name);
    if (compared.effect !== "same") features.push(compared);
    yield;
  }
  return {
    features,
    limits: namesOfBoth(old.usageLimits, now.usageLimits)
      .map((name) => compareLimit(before, after, name))
      .filter(({ effect }) => effect !== "same"),
  };
}
