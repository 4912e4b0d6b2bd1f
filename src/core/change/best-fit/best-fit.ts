import { PlanSearch } from "./plan.ts";
import type { Certificate } from "./certificate.ts";
import { priceOf } from "../configuration.ts";
import type { Configuration } from "../configuration.ts";
import { holdingOf } from "../holding.ts";
import type { Side } from "../holding.ts";
import { compareRanks, floorSteps, offers } from "../loss.ts";
import type { Loss } from "../loss.ts";
import { Space } from "../space.ts";
import { finish, NEVER_OVER } from "../../steps.ts";
import type { IsOver, Steps } from "../../steps.ts";

/** Where the contracts of one configuration should go. */
export interface Proposal {
  readonly configuration: Configuration;
  readonly target: Configuration;
  readonly loss: Loss;
  /** Whether nothing is lost at all. */
  readonly keepsEverything: boolean;
  /** What a checker needs to agree without searching. */
  readonly certificate: Certificate;
  /**
   * False when add-ons were too many, or time too short, to try everything: a better target may exist, and the certificate may be refused for
   * one that is a step away.
   */
  readonly complete: boolean;
}

/**
 * The best configuration of the pricing `after` for contracts that now have `configuration` of `before`: the cheapest one
 * that keeps everything they have, else the one that loses least, in the order of {@link Rank}.
 *
 * Targets are valid by the rules of subscription, have positive quantities, and are offered: private plans and add-ons
 * only to those who have them. Prices are plan plus add-ons times quantity, as in {@link priceOf}; a price in words comes
 * after every number. Exact, in time that grows with the largest group of add-ons that influence each other, not with
 * their number; `complete` says when such a group was too large. Undefined when the pricing offers no plan at all to them.
 */
export function proposeTarget(before: Side, after: Side, configuration: Configuration): Proposal | undefined {
  return finish(proposeSteps(before, after, configuration));
}

/** {@link proposeTarget} step by step. Once `isOver` says so, returns the best target found so far, not `complete`. */
export function* proposeSteps(
  before: Side,
  after: Side,
  configuration: Configuration,
  isOver: IsOver = NEVER_OVER,
): Steps<Proposal | undefined> {
  const current = holdingOf(before, configuration);
  const { pricing } = after;
  const offered = offers(configuration);
  const space = new Space([pricing], (addOn) => offered.addOn(addOn));
  const plans =
    pricing.plans.size === 0
      ? [undefined]
      : [...pricing.plans.values()].filter((plan) => offered.plan(plan)).map((plan) => plan.name);
  plans.sort((one = "", other = "") => (one.toLowerCase() < other.toLowerCase() ? -1 : 1));
  const found = [];
  for (const plan of plans) found.push(yield* new PlanSearch(current, after, plan, space, isOver).search());
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
