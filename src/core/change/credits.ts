import { creditTermsOf, type Rates, type Rollover } from "../pricing/credits.ts";
import type { Pricing } from "../pricing/model.ts";
import { mirrored, together } from "./effect.ts";
import type { Effect } from "./effect.ts";

/** Compares two numbers of which the higher is better. */
const rising = (before: number, after: number): Effect =>
  before === after ? "same" : before < after ? "more" : "less";

/** Returns the effect of a changed rate on who spends the unit. Dearer is less, and a unit without rate cannot be spent. */
export function rateEffect(before: number | undefined, after: number | undefined): Effect {
  return mirrored(rising(before ?? Infinity, after ?? Infinity));
}

/** Names the units of both sides. */
export const unitsOf = (before: Rates | undefined, after: Rates | undefined): string[] => [
  ...new Set([...(before?.keys() ?? []), ...(after?.keys() ?? [])]),
];

/** Returns the effects of what two pricings say about credits of a limit. Most pricings say nothing. */
export function creditEffects(before: Pricing, after: Pricing, limit: string): Effect[] {
  const [old, now] = [creditTermsOf(before), creditTermsOf(after)];
  if (old === now) return [];
  const [had, has] = [old.rates.get(limit), now.rates.get(limit)];
  return [
    rolloverEffect(old.rollover.get(limit), now.rollover.get(limit)),
    ...unitsOf(had, has).map((unit) => rateEffect(had?.get(unit), has?.get(unit))),
  ];
}

/** Returns the effect of a changed rollover of one limit. */
export function rolloverEffect(before: Rollover | undefined, after: Rollover | undefined): Effect {
  const most = (terms: Rollover | undefined) => (terms === undefined ? 0 : (terms.max ?? Infinity));
  return together(rising(most(before), most(after)), rising(before?.periods ?? 0, after?.periods ?? 0));
}
