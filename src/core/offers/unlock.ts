import { priceOf } from "../change/configuration.ts";
import type { Configuration } from "../change/configuration.ts";
import { entitlementsOf } from "../change/entitlements.ts";
import type { Side } from "../change/entitlements.ts";
import { compareRanks, differencesFrom, offerOf, offers } from "../change/loss.ts";
import type { Rank } from "../change/loss.ts";
import { findPlan } from "../pricing/compile.ts";
import type { CompiledPricing } from "../pricing/compile.ts";
import type { IsOver, Steps } from "../steps.ts";
import { changesFrom, judge } from "./changes.ts";
import type { Changes, Compared } from "./changes.ts";
import { needsContact, tieText, UnlockSearch } from "./unlock-search.ts";
import type { Goal } from "./unlock-search.ts";

/** A plan in the spelling of the pricing (null in a pricing without plans), and quantities above 0 by add-on. */
export interface NamedConfiguration {
  readonly pricingVersion: string;
  readonly plan: string | null;
  readonly addOns: Readonly<Record<string, number>>;
}

/** Price of a purchase. `null`: a part has a text as its price, or `now` has another currency. */
export interface PriceChange {
  readonly now: number | null;
  readonly then: number | null;
  readonly currency: string;
  readonly unit: string | null;
}

/** A configuration that unlocks a feature, and what buying it changes. */
export interface Purchase extends Changes {
  readonly target: NamedConfiguration;
  /** True if it has a text price ("Contact sales") that the contract does not have yet. */
  readonly contact: boolean;
  readonly price: PriceChange;
}

/** Result of {@link unlockSteps}: the best purchase first, then the best ones of up to three other plans. */
export interface FoundPurchases {
  readonly purchases: readonly Purchase[];
  /** False when time ran out, or quantities were too many to try. */
  readonly complete: boolean;
}

/** Maximum purchases beside the best one. */
const MAX_ALTERNATIVES = 3;

/** Writes a configuration in the spelling and order of its pricing. Omits what the pricing lacks. */
export function named({ pricing, plans }: CompiledPricing, { plan, addOns }: Configuration): NamedConfiguration {
  const held = new Map(Object.entries(addOns).map(([name, quantity]) => [name.toLowerCase(), quantity]));
  const entries = pricing.addOns.flatMap(({ name }) => {
    const quantity = held.get(name.toLowerCase()) ?? 0;
    return quantity > 0 ? [[name, quantity] as const] : [];
  });
  const found = plan === undefined ? undefined : plans.get(plan.toLowerCase());
  return { pricingVersion: pricing.version, plan: found?.name ?? null, addOns: Object.fromEntries(entries) };
}

function amountOf(pricing: CompiledPricing, configuration: Configuration): number | null {
  const { amount, unpriced } = priceOf(pricing, configuration);
  return unpriced.length > 0 ? null : amount;
}

/** Computes what moving from one configuration to another costs. */
export function priceChange(
  [before, current]: readonly [Side, Configuration],
  [after, target]: readonly [Side, Configuration],
): PriceChange {
  const { currency } = after.pricing.pricing;
  return {
    now: before.pricing.pricing.currency === currency ? amountOf(before.pricing, current) : null,
    // oxlint-disable-next-line unicorn/no-thenable -- a number, and the contract's name for it
    then: amountOf(after.pricing, target),
    currency,
    unit: target.plan === undefined ? null : (findPlan(after.pricing, target.plan)?.unit ?? null),
  };
}

/**
 * Searches the purchases of `after` that unlock a feature for a contract with the current configuration of `before`.
 * Private plans and add-ons are offered only to contracts that have them. When `isOver` returns true, returns what it
 * has found so far. Source: contract offers §2.
 */
export function* unlockSteps(
  { before, after, current }: { before: Side; after: Side; current: Configuration },
  goal: Goal,
  isOver: IsOver,
): Steps<FoundPurchases> {
  const holding = entitlementsOf(before, current);
  const offer = offerOf(before, after, current);
  const offered = offers(current);
  const { plans } = after.pricing;
  const candidates = plans.size === 0 ? [undefined] : [...plans.values()].filter((plan) => offered.plan(plan));
  const found: { target: Configuration; contact: boolean; compared: Compared; rank: Rank; text: string }[] = [];
  let complete = true;
  for (const plan of candidates) {
    if (isOver()) {
      complete = false;
      break;
    }
    const search = new UnlockSearch(holding, after, plan?.name, { goal, offer, isOver });
    const { best, complete: isComplete } = yield* search.search();
    complete &&= isComplete;
    if (best === undefined) continue;
    const { target, compared } = best;
    const losses = { feature: 0, limit: 0 };
    let differences = 0;
    judge(after, compared, (outcome, kind) => {
      if (outcome === "losses") losses[kind] += 1;
      else if (outcome === "differences") differences += 1;
    });
    const contact = needsContact(after, current, target);
    const quantities = Object.values(target.addOns);
    found.push({
      target,
      contact,
      compared,
      rank: [
        Number(contact),
        losses.feature,
        losses.limit,
        priceOf(after.pricing, target).amount,
        differences,
        differencesFrom(current, target),
        quantities.length,
        quantities.reduce((sum, quantity) => sum + quantity, 0),
      ],
      text: tieText(target),
    });
    yield;
  }
  found.sort((one, other) => compareRanks(one.rank, other.rank) || (one.text < other.text ? -1 : 1));
  const purchases = found.slice(0, 1 + MAX_ALTERNATIVES).map(({ target, contact, compared }): Purchase => ({
    target: named(after.pricing, target),
    contact,
    price: priceChange([before, current], [after, target]),
    ...changesFrom(after, compared),
  }));
  return { purchases, complete };
}
