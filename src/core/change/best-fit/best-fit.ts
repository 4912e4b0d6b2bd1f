import { type Found, PlanSearch } from "./plan.ts";
import { type Certificate, overriddenBy } from "./certificate.ts";
import { priceOf } from "../configuration.ts";
import type { Configuration } from "../configuration.ts";
import { entitlementsOf } from "../entitlements.ts";
import type { Side } from "../entitlements.ts";
import { compareRanks, excludes, floorSteps, measuresOf, offerOf, proves } from "../loss.ts";
import type { Loss } from "../loss.ts";
import { finish, NEVER_OVER } from "../../steps.ts";
import type { IsOver, Steps } from "../../steps.ts";

/** Proposed target for the contracts of one configuration. */
export interface Proposal {
  readonly configuration: Configuration;
  readonly target: Configuration;
  readonly loss: Loss;
  /** True if nothing is lost. */
  readonly keepsEverything: boolean;
  /** Evidence that lets a checker verify the proposal without searching. */
  readonly certificate: Certificate;
  /**
   * False when add-ons were too many or time was too short to try everything. A better target may exist then. The
   * certificate check may fail, because a target one step away can be better.
   */
  readonly complete: boolean;
}

/**
 * Finds the best configuration of `after` for contracts that have `configuration` of `before`. Best is the cheapest one
 * that keeps everything, otherwise the one with the smallest loss, in the order of {@link Rank}. Undefined when `after`
 * offers these contracts no plan.
 *
 * Targets are valid subscriptions with positive quantities. Private plans and add-ons are offered only to contracts
 * that already have them. Prices follow {@link priceOf}; a text price ranks after every number.
 *
 * Exact. Time grows with the largest group of add-ons that influence each other, not with the number of add-ons.
 * `complete` is false when such a group was too large.
 */
export function proposeTarget(before: Side, after: Side, configuration: Configuration): Proposal | undefined {
  return finish(proposeSteps(before, after, configuration));
}

/**
 * Runs {@link proposeTarget} in steps. When `isOver` returns true, returns the best target so far with `complete`
 * false.
 */
export function* proposeSteps(
  before: Side,
  after: Side,
  configuration: Configuration,
  isOver: IsOver = NEVER_OVER,
): Steps<Proposal | undefined> {
  const current = entitlementsOf(before, configuration);
  const { pricing } = after;
  const offer = offerOf(before, after, configuration);
  const floors = yield* floorSteps(current, after);
  let best: Found | undefined;
  let complete = true;
  // The plans with the lowest floors are searched first, because their targets exclude most other plans.
  for (const floor of floors.toSorted((one, other) => compareRanks(one.rank, other.rank))) {
    if (best !== undefined && excludes(floor, best.rank, after)) continue;
    const found = yield* new PlanSearch(current, after, floor.plan ?? undefined, offer, isOver).search();
    complete &&= found.complete;
    if (best === undefined || isBetter(found, best)) best = found;
  }
  if (best === undefined) return undefined;
  const { target, loss } = best;
  return {
    configuration,
    target,
    loss,
    keepsEverything: measuresOf(loss).every((measure) => measure === 0),
    certificate: {
      service: after.serviceName,
      from: { version: before.pricing.pricing.version, ...configuration },
      to: { version: pricing.pricing.version, ...target },
      ...overriddenBy(before),
      loss,
      price: { before: priceOf(before.pricing, configuration), after: priceOf(pricing, target) },
      floors,
      optimality: proves(floors, best.rank, after) ? "proven" : "searched",
    },
    complete,
  };
}

/** Breaks ties by name: the alphabetically first plan wins. */
function isBetter(one: Found, other: Found): boolean {
  const difference = compareRanks(one.rank, other.rank);
  if (difference !== 0) return difference < 0;
  const planOf = ({ target }: Found): string => target.plan?.toLowerCase() ?? "";
  return planOf(one) < planOf(other);
}
