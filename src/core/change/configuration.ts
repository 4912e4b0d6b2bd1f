import { findAddOn, findPlan } from "../pricing/compile.ts";
import type { CompiledPricing } from "../pricing/compile.ts";
import type { Effect } from "./effect.ts";

/** The plan and the add-ons with quantities that a contract has for one service. Names are case-insensitive. */
export interface Configuration {
  readonly plan?: string;
  readonly addOns: Readonly<Record<string, number>>;
}

/** Target of the contracts with one configuration. */
export interface GroupTarget {
  /** Their current version. Default: any. */
  pricingVersion?: string | undefined;
  configuration: Configuration;
  target: Configuration;
}

/** Creates a configuration. `plan` is undefined for a pricing without plans. */
export function configurationOf(plan: string | undefined, addOns: Readonly<Record<string, number>>): Configuration {
  return plan === undefined ? { addOns } : { plan, addOns };
}

/** Returns a key that is equal for equivalent configurations. Ignores case and order of names. */
export function configurationKey({ plan, addOns }: Configuration): string {
  const names = Object.entries(addOns).map(([name, quantity]) => [name.toLowerCase(), quantity] as const);
  names.sort(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0));
  return JSON.stringify([plan?.toLowerCase() ?? null, names]);
}

/** Formats a configuration for people: `PRO + extraTasks × 2`. */
export function describeConfiguration({ plan, addOns }: Configuration): string {
  const parts = Object.entries(addOns).map(([name, quantity]) => (quantity === 1 ? name : `${name} × ${quantity}`));
  return [...(plan === undefined ? [] : [plan]), ...parts].join(" + ") || "nothing";
}

/** A price in the currency of its pricing. `unpriced` lists text prices ("Contact sales"), which no sum can include. */
export interface Price {
  readonly amount: number;
  readonly unpriced: readonly string[];
}

/**
 * Returns the price of a configuration: the plan plus each add-on times its quantity. Ignores billing periods and price
 * units. Names that the pricing lacks cost nothing.
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
  // Round away floating-point noise: 0.1 × 3 would otherwise count as a price change.
  return { amount: Math.round(amount * 1e6) / 1e6, unpriced: unpriced.sort() };
}

/**
 * Returns the effect of a price change on the payer: cheaper is `more`. A text price is comparable only with an
 * identical one.
 */
export function priceEffect(before: Price, after: Price): Effect {
  if (before.unpriced.join("\n") !== after.unpriced.join("\n")) return "different";
  if (before.amount === after.amount) return "same";
  return after.amount < before.amount ? "more" : "less";
}
