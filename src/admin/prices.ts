import { configurationOf, type Price, priceOf } from "../core/change/configuration.ts";
import type { CompiledPricing } from "../core/pricing/compile.ts";
import { formatPrice, formatPriceChange } from "./format.ts";
import type { Choice } from "./pricing.ts";
import { texts } from "./texts.ts";

/** Returns the price of a plan with its add-ons, as the server computes it. */
export const choicePrice = (pricing: CompiledPricing, { plan, addOns }: Choice): Price =>
  priceOf(pricing, configurationOf(plan, addOns));

/** Formats a sum; text prices ("Contact sales") replace it. */
export function formatSum({ amount, unpriced }: Price, currency: string): string {
  return unpriced.length > 0 ? unpriced.join(", ") : formatPrice(amount, currency);
}

/** Prices before and after a change, and their difference where both are numbers. */
export interface PriceMove {
  before: string;
  after: string;
  /** With its sign; undefined for text prices and across currencies. */
  change: string | undefined;
  effect: "more" | "less" | "same" | undefined;
}

/** Compares the prices of two choices. Undefined stands for "not included". */
export function priceMove(
  before: { pricing: CompiledPricing; choice: Choice } | undefined,
  after: { pricing: CompiledPricing; choice: Choice } | undefined,
): PriceMove {
  const free: Price = { amount: 0, unpriced: [] };
  const one = before === undefined ? free : choicePrice(before.pricing, before.choice);
  const other = after === undefined ? free : choicePrice(after.pricing, after.choice);
  const currency = (after ?? before)?.pricing.pricing.currency ?? "EUR";
  const isComparable =
    one.unpriced.length + other.unpriced.length === 0 &&
    (before === undefined || after === undefined || before.pricing.pricing.currency === currency);
  const change = other.amount - one.amount;
  return {
    before: before === undefined ? texts.common.none : formatSum(one, before.pricing.pricing.currency),
    after: after === undefined ? texts.common.none : formatSum(other, currency),
    change: isComparable && change !== 0 ? formatPriceChange(change, currency) : undefined,
    effect: !isComparable ? undefined : change === 0 ? "same" : change > 0 ? "more" : "less",
  };
}
