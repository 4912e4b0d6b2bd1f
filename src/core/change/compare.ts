import type { FeatureValue, LimitValue } from "../pricing/model.ts";
import { compareAccess } from "./access.ts";
import { budgetEffects } from "./budgets.ts";
import { creditEffects } from "./credits.ts";
import {
  featureValueEffect,
  isUnlimited,
  limitValueEffect,
  meaningEffect,
  mirrored,
  periodEffect,
  takesAway,
  together,
} from "./effect.ts";
import type { Effect } from "./effect.ts";
import type { Entitlements, Mode } from "./entitlements.ts";
import { ReadingCache } from "./readings.ts";
import { finish } from "../steps.ts";
import type { Steps } from "../steps.ts";

export const MODES: readonly Mode[] = ["client", "server"];

/** Comparison of one feature before and after a change. */
export interface FeatureComparison {
  readonly feature: string;
  readonly before: FeatureValue | null;
  readonly after: FeatureValue | null;
  readonly effect: Effect;
  /**
   * True if some access or payment method is lost, even if others are gained. Always true with `less`, possible with
   * `different`.
   */
  readonly loses: boolean;
  /**
   * True if the feature was usable before: its expression is true for some usage, or its value is not false if it has
   * no expression.
   */
  readonly hadIt: boolean;
  readonly hasIt: boolean;
  /** False when an expression cannot be analysed. */
  readonly decided: boolean;
}

/** Comparison of one usage limit before and after a change. */
export interface LimitComparison {
  readonly limit: string;
  readonly before: LimitValue | null;
  readonly after: LimitValue | null;
  readonly effect: Effect;
  /** True if something is lost (a lower value, a longer period, a dearer unit), even if something else is gained. */
  readonly loses: boolean;
  /** Names of the pricings' budgets that become tighter. Absent if none does. */
  readonly tighterBudgets?: readonly string[];
}

/** Features and limits that differ between two holdings. */
export interface HoldingComparison {
  readonly features: readonly FeatureComparison[];
  readonly limits: readonly LimitComparison[];
}

function hasExpression({ side }: Entitlements, feature: string): boolean {
  return side.expressions.get(feature)?.server !== undefined;
}

const comparisons = new ReadingCache<FeatureComparison>();

/**
 * Compares one feature of two holdings. If either side has an expression, compares when it is true, in both modes;
 * otherwise compares values. A feature that one pricing lacks counts as not held there.
 */
export function compareFeature(before: Entitlements, after: Entitlements, feature: string): FeatureComparison {
  return (
    comparisons.get(before, after, feature) ??
    comparisons.add(before, after, feature, comparedFeature(before, after, feature))
  );
}

function comparedFeature(before: Entitlements, after: Entitlements, feature: string): FeatureComparison {
  const old = before.grant.features.get(feature);
  const now = after.grant.features.get(feature);
  const valueEffect = featureValueEffect(old, now);
  const shown = { feature, before: old ?? null, after: now ?? null };
  if (!hasExpression(before, feature) && !hasExpression(after, feature)) {
    const [hadIt, hasIt] = [old !== undefined && old !== false, now !== undefined && now !== false];
    return { ...shown, effect: valueEffect, loses: takesAway(old, now), hadIt, hasIt, decided: true };
  }
  // A boolean value matters only through its expression. A text or number also matters by itself.
  let effect: Effect = typeof (old ?? now) === "boolean" ? "same" : valueEffect;
  const found = { loses: effect !== "same" && takesAway(old, now), hadIt: false, hasIt: false, decided: true };
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
 * Returns the effect of a limit that only one side has, seen from the side without it. A new cap is `less`. It is
 * `same` when it caps nothing, or only features that are new as well.
 */
export function newCapEffect(without: Entitlements, having: Entitlements, limit: string): Effect {
  const value = having.grant.usageLimits.get(limit);
  if (value === undefined || value === true || isUnlimited(value)) return "same";
  const governed = [...(having.side.governed.get(limit) ?? [])];
  const onlyNew = governed.length > 0 && governed.every((name) => !without.side.pricing.features.has(name));
  return onlyNew ? "same" : "less";
}

/**
 * Compares one limit of two holdings, including its renewal period. A limit that the new pricing lacks no longer caps.
 * A limit that the pricing has but the configuration does not grant ranks below every value.
 */
export function compareLimit(before: Entitlements, after: Entitlements, limit: string): LimitComparison {
  const old = before.grant.usageLimits.get(limit);
  const now = after.grant.usageLimits.get(limit);
  const [was, is] = [before.side.pricing.usageLimits.get(limit), after.side.pricing.usageLimits.get(limit)];
  let effects: Effect[] = [];
  let tighterBudgets: string[] = [];
  if (was !== undefined && is !== undefined) {
    const granted = old !== undefined && now !== undefined;
    effects = [limitValueEffect(old, now), ...(granted ? [periodEffect(was, is), meaningEffect(was, is)] : [])];
    if (granted) {
      const versions = [before.side.pricing.pricing, after.side.pricing.pricing] as const;
      const budgets = budgetEffects(...versions, limit);
      tighterBudgets = budgets.flatMap(([name, changed]) => (changed === "less" ? [name] : []));
      effects.push(...creditEffects(...versions, limit), ...budgets.map(([, changed]) => changed));
    }
  } else if (is !== undefined) effects = [newCapEffect(before, after, limit)];
  else if (was !== undefined) effects = [mirrored(newCapEffect(after, before, limit))];
  const effect = effects.reduce(together, "same");
  const compared = { limit, before: old ?? null, after: now ?? null, effect, loses: effects.includes("less") };
  return tighterBudgets.length === 0 ? compared : { ...compared, tighterBudgets };
}

/** Returns the distinct names of both lists: those of the first list, then the remaining ones of the second. */
export function namesOfBoth(
  one: readonly { readonly name: string }[],
  other: readonly { readonly name: string }[],
): string[] {
  return [...new Set([...one, ...other].map((item) => item.name))];
}

/** Returns the features and limits that a subscriber gains, loses or finds different, in the order of the pricings. */
export function compareHoldings(before: Entitlements, after: Entitlements): HoldingComparison {
  return finish(comparisonSteps(before, after));
}

/** Runs {@link compareHoldings} in steps. */
export function* comparisonSteps(before: Entitlements, after: Entitlements): Steps<HoldingComparison> {
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
