import type { CompiledPricing } from "../pricing/compile.ts";
import { UNLIMITED } from "../pricing/model.ts";
import type { AddOn, LimitValue } from "../pricing/model.ts";
import { compareFeature, compareLimit, namesOfBoth } from "./compare.ts";
import type { FeatureComparison, LimitComparison } from "./compare.ts";
import { priceOf } from "./configuration.ts";
import type { Configuration } from "./configuration.ts";
import { planEntitlements } from "./entitlements.ts";
import type { Entitlements, Side } from "./entitlements.ts";
import { Space } from "./space.ts";
import type { Steps } from "../steps.ts";
import { addOnsOfFeature, addOnsOfLimit } from "./add-on-index.ts";

/*
 * Measures the loss of a subscriber who moves between configurations, and ranks losses. The search for the best target
 * and the check of its certificate share these definitions.
 */

/** Names of the features and limits that a move takes away, in the order of the pricings. */
export interface Loss {
  /** Features that the subscriber could use before and cannot use afterwards. */
  readonly lostFeatures: readonly string[];
  /** Features that remain usable, but under fewer circumstances than before. */
  readonly reducedFeatures: readonly string[];
  readonly reducedLimits: readonly string[];
  /** Features that are neither less nor more: the text or unit differs, or an expression cannot be analysed. */
  readonly differentFeatures: readonly string[];
  readonly differentLimits: readonly string[];
  /** Sum of the missing fractions of all reduced limits: 0.25 for 75 of 100, 1 for 0 of 100. */
  readonly shortfall: number;
}

/**
 * Measures of a target in lexicographic order; lower is better. In order: features lost, features and limits reduced,
 * shortfall, subjects that differ, text prices, price, differences from the current configuration, add-ons, units of
 * add-ons.
 */
export type Rank = readonly number[];

function missingPart(before: LimitValue | null, after: LimitValue | null): number {
  if (typeof before !== "number" || before <= 0) return 1;
  const [old, now] = [Math.min(before, UNLIMITED), Math.min(Number(after ?? 0), UNLIMITED)];
  return Math.min(1, Math.max(0, (old - Math.max(now, 0)) / old));
}

/** Aggregates comparisons of features and limits into one loss. */
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

/** Number of measures of a {@link Rank} that depend on the loss. */
const LOSS_MEASURES = 4;

/** Returns the first {@link LOSS_MEASURES} measures of a {@link Rank}: those that depend on the loss. */
export function measuresOf(loss: Loss): number[] {
  return [
    loss.lostFeatures.length,
    loss.reducedFeatures.length + loss.reducedLimits.length,
    loss.shortfall,
    loss.differentFeatures.length + loss.differentLimits.length,
  ];
}

/**
 * Returns a negative number when `one` is the better target. Values within 1e-9 count as equal, because sums of
 * fractions are inexact.
 */
export function compareRanks(one: Rank, other: Rank): number {
  for (const [index, value] of one.entries()) {
    const difference = value - (other[index] ?? 0);
    if (Math.abs(difference) > 1e-9) return difference;
  }
  return 0;
}

/** Counts the add-ons whose quantity changes. A changed plan counts as one. */
export function differencesFrom(current: Configuration, target: Configuration): number {
  const lower = (addOns: Readonly<Record<string, number>>): Map<string, number> =>
    new Map(Object.entries(addOns).map(([name, quantity]) => [name.toLowerCase(), quantity]));
  const [old, now] = [lower(current.addOns), lower(target.addOns)];
  const names = new Set([...old.keys(), ...now.keys()]);
  const moved = [...names].filter((name) => old.get(name) !== now.get(name)).length;
  return moved + Number(current.plan?.toLowerCase() !== target.plan?.toLowerCase());
}

/** Returns the measures of a {@link Rank} that follow the loss, such as price and number of add-ons. */
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

/**
 * Returns filters for the plans and add-ons on offer. Private ones are offered only to contracts that already have
 * them.
 */
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

/** Lower bound for every target on a plan: the loss that none of its add-ons can change, plus the plan's price. */
export interface Floor {
  readonly plan: string | null;
  readonly rank: Rank;
}

/** Returns true if a floor shows that every target on its plan ranks after `rank`. */
export function excludes({ rank: floor }: Floor, rank: Rank, after: Side): boolean {
  // Add-ons with a negative price can make a target cheaper than its plan.
  const length = hasDiscounts(after) ? LOSS_MEASURES : floor.length;
  return compareRanks(floor.slice(0, length), rank.slice(0, length)) > 0;
}

/** Returns true if no target on any plan can rank before `rank`, so the search for better ones can end. */
export function proves(floors: readonly Floor[], rank: Rank, after: Side): boolean {
  return (
    !hasDiscounts(after) && floors.every((floor) => compareRanks(floor.rank, rank.slice(0, floor.rank.length)) >= 0)
  );
}

const hasDiscounts = ({ pricing }: Side): boolean => pricing.pricing.addOns.some((addOn) => Number(addOn.price) < 0);

/** Maps each feature and limit that either pricing has to the add-ons that can change it. */
export interface Touching {
  readonly features: ReadonlyMap<string, readonly string[]>;
  readonly limits: ReadonlyMap<string, readonly string[]>;
}

/** The plans and add-ons on offer to contracts that move from one pricing to another. */
export class Offer {
  readonly #before: Side;
  readonly #after: Side;
  readonly #touching = new Map<string | undefined, Touching>();
  readonly space: Space;

  constructor(before: Side, after: Side, current: Configuration) {
    this.#before = before;
    this.#after = after;
    const offered = offers(current);
    this.space = new Space([after], (addOn) => offered.addOn(addOn));
  }

  /** Returns the add-ons that can change each subject, as far as they can be selected on this plan. */
  touching(plan: string | undefined): Touching {
    const known = this.#touching.get(plan);
    if (known !== undefined) return known;
    const { space } = this;
    const selectable = new Set(space.addOnKeys.filter((key) => space.closure(plan, [key]) !== undefined));
    const [old, now] = [this.#before.pricing.pricing, this.#after.pricing.pricing];
    const index = (names: readonly string[], addOnsOf: (side: Side, name: string) => string[]) =>
      new Map(names.map((name) => [name, addOnsOf(this.#after, name).filter((key) => selectable.has(key))]));
    const touching = {
      features: index(namesOfBoth(old.features, now.features), addOnsOfFeature),
      limits: index(namesOfBoth(old.usageLimits, now.usageLimits), addOnsOfLimit),
    };
    this.#touching.set(plan, touching);
    return touching;
  }
}

/** Maximum cached offers per pair of pricings. They differ only in the private add-ons that contracts have. */
const MAX_OFFERS = 16;
const offersOfPair = new WeakMap<Side, WeakMap<Side, Map<string, Offer>>>();

/** Returns the offer to contracts with the current configuration. Most contracts of one change share it. */
export function offerOf(before: Side, after: Side, current: Configuration): Offer {
  let ofBefore = offersOfPair.get(before);
  if (ofBefore === undefined) offersOfPair.set(before, (ofBefore = new WeakMap()));
  let known = ofBefore.get(after);
  if (known === undefined) ofBefore.set(after, (known = new Map()));
  const held = Object.keys(current.addOns).map((name) => name.toLowerCase());
  const key = JSON.stringify(held.filter((name) => after.pricing.addOns.get(name)?.private === true).sort());
  let offer = known.get(key);
  if (offer === undefined) {
    if (known.size >= MAX_OFFERS) known.clear();
    known.set(key, (offer = new Offer(before, after, current)));
  }
  return offer;
}

/**
 * Computes the floor of each offered plan, in the order of the pricing. A floor includes only losses that no selectable
 * add-on can change.
 */
export function* floorSteps(current: Entitlements, after: Side): Steps<Floor[]> {
  const { pricing } = after;
  const offered = offers(current.configuration);
  const offer = offerOf(current.side, after, current.configuration);
  const plans =
    pricing.plans.size === 0 ? [undefined] : [...pricing.plans.values()].filter((plan) => offered.plan(plan));
  const floors: Floor[] = [];
  for (const plan of plans) {
    const { features, limits } = offer.touching(plan?.name);
    const bare = plan === undefined ? { addOns: {} } : { plan: plan.name, addOns: {} };
    const holding = planEntitlements(after, plan?.name);
    const compared: FeatureComparison[] = [];
    for (const [name, addOns] of features) {
      if (addOns.length > 0) continue;
      compared.push(compareFeature(current, holding, name));
      yield;
    }
    const loss = lossOf(
      compared,
      [...limits].filter(([, addOns]) => addOns.length === 0).map(([name]) => compareLimit(current, holding, name)),
    );
    const { amount, unpriced } = priceOf(pricing, bare);
    floors.push({ plan: plan?.name ?? null, rank: [...measuresOf(loss), unpriced.length, amount] });
    yield;
  }
  return floors;
}
