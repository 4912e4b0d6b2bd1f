import { findAddOn, findPlan } from "../pricing/compile.ts";
import type { CompiledPricing } from "../pricing/compile.ts";
import type { Effect } from "./effect.ts";

/** What one contract has of one service: a plan, and add-ons with their quantities. Names in any case. */
export interface Configuration {
  readonly plan?: string;
  readonly addOns: Readonly<Record<string, number>>;
}

/** A configuration from names; `plan` undefined where a pricing has none. */
export function configurationOf(plan: string | undefined, addOns: Readonly<Record<string, number>>): Configuration {
  return plan === undefined ? { addOns } : { plan, addOns };
}

/** The same text for two configurations exactly when they mean the same: case and order of names do not count. */
export function configurationKey({ plan, addOns }: Configuration): string {
  const names = Object.entries(addOns).map(([name, quantity]) => [name.toLowerCase(), quantity] as const);
  names.sort(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0));
  return JSON.stringify([plan?.toLowerCase() ?? null, names]);
}

/** The configuration in words: `PRO + extraTasks × 2`. */
export function describeConfiguration({ plan, addOns }: Configuration): string {
  const parts = Object.entries(addOns).map(([name, quantity]) => (quantity === 1 ? name : `${name} × ${quantity}`));
  return [...(plan === undefined ? [] : [plan]), ...parts].join(" + ") || "nothing";
}

/** A price in the currency of its pricing; `unpriced` lists the price texts ("Contact sales") that no sum contains. */
export interface Price {
  readonly amount: number;
  readonly unpriced: readonly string[];
}

/**
 * What a configuration costs: the plan's price and, for each unit of an add-on, the add-on's. Billing periods and units
 * are left aside; names that the pricing lacks cost nothing.
 */
export function priceOf(pricing: CompiledPricing, { plan, addOns }: Configuration): Price {
  let amount = 0;
  const unpriced: string[] = [];
  const add = (price: number | string | undefined, quantity: number): void => {
    if (typeof price === "number") amount += price * quantity;
    else if (price !== undefined) unpriced.push(price);
  };
  if (plan !== undefined) add(findPlan(pricing, plan)?.price, 1);
  for (const [name, quantity] of Object.entries(addOns))
    if (quantity > 0) add(findAddOn(pricing, name)?.price, quantity);
  // A tenth of a cent is no money, but 0.1 × 3 would be a price change.
  return { amount: Math.round(amount * 1e6) / 1e6, unpriced: unpriced.sort() };
}

/** Effect of a changed price for who pays it: cheaper is more; a text compares with itself alone. */
export function priceEffect(before: Price, after: Price): Effect {
  if (before.unpriced.join("\n") !== after.unpriced.join("\n")) return "different";
  if (before.amount === after.amount) return "same";
  return after.amount < before.amount ? "more" : "less";
}
