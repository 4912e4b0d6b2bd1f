import { PlanSearch } from "./plan.ts";
import type { Certificate } from "./certificate.ts";
import { priceOf } from "../configuration.ts";
import type { Configuration } from "../configuration.ts";
import { entitlementsOf } from "../entitlements.ts";
import type { Side } from "../entitlements.ts";
import { compareRanks, floorSteps, offerOf, offers } from "../loss.ts";
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
  const offered = offers(configuration);
  const offer = offerOf(before, after, configuration);
  const plans =
    pricing.plans.size === 0
      ? [undefined]
      : [...pricing.plans.values()].filter((plan) => offered.plan(plan)).map((plan) => plan.name);
  plans.sort((one = "", other = "") => (one.toLowerCase() < other.toLowerCase() ? -1 : 1));
  const found = [];
  for (const plan of plans) found.push(yield* new PlanSearch(current, after, plan, offer, isOver).search());
  const [first, ...others] = found;
  if (first === undefined) return undefined;
  const best = others.reduce((one, other) => (compareRanks(other.rank, one.rank) < 0 ? other : one), first);
  const { target, loss } = best;
  const floors = yield* floorSteps(current, after);
  const measures = best.rank.slice(0, 6);
  const discounts = pricing.pricing.addOns.some((addOn) => typeof addOn.price === "number" && addOn.price < 0);
  const proven = !discounts && floors.every((floor) => compareRanks(floor.rank, measures) >= 0);
  return {
    configuration,
    target,
    loss,
    keepsEverything: measures.slice(0, 4).every((measure) => measure === 0),
    certificate: {
      service: after.serviceName,
      from: { version: before.pricing.pricing.version, ...configuration },
      to: { version: pricing.pricing.version, ...target },
      loss,
      price: { before: priceOf(before.pricing, configuration), after: priceOf(pricing, target) },
      floors,
      optimality: proven ? "proven" : "searched",
    },
    complete: found.every((each) => each.complete),
  };
}
