import type { CompiledPricing } from "../pricing/compile.ts";
import { UNLIMITED } from "../pricing/model.ts";
import type { AddOn, LimitValue } from "../pricing/model.ts";
import { compareFeature, compareLimit, namesOfBoth } from "./compare.ts";
import type { FeatureComparison, LimitComparison } from "./compare.ts";
import { priceOf } from "./configuration.ts";
import type { Configuration } from "./configuration.ts";
import { holdingOf } from "./holding.ts";
import type { Holding, Side } from "./holding.ts";
import { Space } from "./space.ts";
import { finish } from "../steps.ts";
import type { Steps } from "../steps.ts";
import { addOnsOfFeature, addOnsOfLimit } from "./subjects.ts";

/*
 * What a subscriber loses by going from one configuration to another, and which of two losses is the smaller one. Stated
 * once, for those who look for the best target and those who check one.
 */

/** What is lost, by name, in the order of the pricings. */
export interface Loss {
  /** Could be used, and can no more. */
  readonly lostFeatures: readonly string[];
  /** Can be used less than before. */
  readonly reducedFeatures: readonly string[];
  readonly reducedLimits: readonly string[];
  /** Neither less nor more: another text, another unit, an expression that cannot be followed. */
  readonly differentFeatures: readonly string[];
  readonly differentLimits: readonly string[];
  /** The missing parts of all reduced limits: 0.25 for 75 of 100, 1 for nothing of 100. */
  readonly shortfall: number;
}

/**
 * The measures of a target, each counting only when those before it are equal; less is better: features lost, features
 * and limits reduced, shortfall, things that differ, prices in words, price, differences from what the contract has now,
 * add-ons, units of add-ons.
 */
export type Rank = readonly number[];

function missingPart(before: LimitValue | null, after: LimitValue | null): number {
  if (typeof before !== "number" || before <= 0) return 1;
  const [old, now] = [Math.min(before, UNLIMITED), Math.min(Number(after ?? 0), UNLIMITED)];
  return Math.min(1, Math.max(0, (old - Math.max(now, 0)) / old));
}

/** The loss that these comparisons amount to. */
export function lossOf(features: readonly FeatureComparison[], limits: readonly LimitComparison[]): Loss {
  const isLost = (each: FeatureComparison): boolean => each.hadIt && !each.hasIt;
  const kept = features.filter((each) => !isLost(each));
  const lowered = limits.filter((each) => each.loses);
  const differs = (each: FeatureComparison | LimitComparison): boolean => each.effect === "different" && !each.loses;
  return {
    lostFeatures: features.filter(isLost).map((each) => each.feature),
    reducedFeatures: kept.filter((each) => each.loses).map((each) => each.feature),
    reducedLimits: lowered.map((each) => each.limit),
    differentFeatures: kept.filter(differs).map((each) => each.feature),
    differentLimits: limits.filter(differs).map((each) => each.limit),
    shortfall: lowered.reduce((sum, { before, after }) => sum + (before === after ? 0 : missingPart(before, after)), 0),
  };
}

/** The first measures of a rank. */
export function measuresOf(loss: Loss): number[] {
  return [
    loss.lostFeatures.length,
    loss.reducedFeatures.length + loss.reducedLimits.length,
    loss.shortfall,
    loss.differentFeatures.length + loss.differentLimits.length,
  ];
}

/** Negative when `one` is the better target; sums of fractions count as equal up to a billionth. */
export function compareRanks(one: Rank, other: Rank): number {
  for (const [index, value] of one.entries()) {
    const difference = value - (other[index] ?? 0);
    if (Math.abs(difference) > 1e-9) return difference;
  }
  return 0;
}

/** Add-ons and quantities that are not as they were, the plan counting as one. */
export function differencesFrom(current: Configuration, target: Configuration): number {
  const lower = (addOns: Readonly<Record<string, number>>): Map<string, number> =>
    new Map(Object.entries(addOns).map(([name, quantity]) => [name.toLowerCase(), quantity]));
  const [old, now] = [lower(current.addOns), lower(target.addOns)];
  const names = new Set([...old.keys(), ...now.keys()]);
  const moved = [...names].filter((name) => old.get(name) !== now.get(name)).length;
  return moved + Number(current.plan?.toLowerCase() !== target.plan?.toLowerCase());
}

/** The measures of a target that follow the loss. */
export function costsOf(pricing: CompiledPricing, current: Configuration, target: Configuration): number[] {
  const { amount, unpriced } = priceOf(pricing, target);
  const quantities = Object.values(target.addOns);
  return [
    unpriced.length,
    amount,
    differencesFrom(current, target),
    quantities.length,
    quantities.reduce((sum, quantity) => sum + quantity, 0),
  ];
}

/** Plans and add-ons marked private are offered to those alone who have them already. */
export function offers(current: Configuration): {
  plan(item: { readonly name: string; readonly private: boolean }): boolean;
  addOn(item: AddOn): boolean;
} {
  const held = new Set(Object.keys(current.addOns).map((name) => name.toLowerCase()));
  return {
    plan: (item) => !item.private || item.name.toLowerCase() === current.plan?.toLowerCase(),
    addOn: (item) => !item.private || held.has(item.name.toLowerCase()),
  };
}

/** What no target on a plan can do better than: the loss that none of its add-ons can touch, and the plan's price. */
export interface Floor {
  readonly plan: string | null;
  readonly rank: Rank;
}

/** Names of features and limits of both pricings. */
export function subjectsOfBoth(before: Side, after: Side): { features: string[]; limits: string[] } {
  const [old, now] = [before.pricing.pricing, after.pricing.pricing];
  return {
    features: namesOfBoth(old.features, now.features),
    limits: namesOfBoth(old.usageLimits, now.usageLimits),
  };
}

/** The floor of each plan offered, in the order of the pricing; it counts what is certain and nothing else. */
export function floorsOf(current: Holding, after: Side): Floor[] {
  return finish(floorSteps(current, after));
}

/** {@link floorsOf} step by step. */
export function* floorSteps(current: Holding, after: Side): Steps<Floor[]> {
  const { pricing } = after;
  const offered = offers(current.configuration);
  const space = new Space([pricing], (addOn) => offered.addOn(addOn));
  const { features, limits } = subjectsOfBoth(current.side, after);
  const plans =
    pricing.plans.size === 0 ? [undefined] : [...pricing.plans.values()].filter((plan) => offered.plan(plan));
  const floors: Floor[] = [];
  for (const plan of plans) {
    const selectable = new Set(space.addOnKeys.filter((key) => space.closure(plan?.name, [key]) !== undefined));
    const isCertain = (keys: readonly string[]): boolean => !keys.some((key) => selectable.has(key));
    const bare = plan === undefined ? { addOns: {} } : { plan: plan.name, addOns: {} };
    const holding = holdingOf(after, bare);
    const compared: FeatureComparison[] = [];
    for (const name of features) {
      if (!isCertain(addOnsOfFeature(after, name))) continue;
      compared.push(compareFeature(current, holding, name));
      yield;
    }
    const loss = lossOf(
      compared,
      limits
        .filter((name) => isCertain(addOnsOfLimit(after, name)))
        .map((name) => compareLimit(current, holding, name)),
    );
    const { amount, unpriced } = priceOf(pricing, bare);
    floors.push({ plan: plan?.name ?? null, rank: [...measuresOf(loss), unpriced.length, amount] });
    yield;
  }
  return floors;
}
