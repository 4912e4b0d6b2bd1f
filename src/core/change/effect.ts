import { UNLIMITED } from "../pricing/model.ts";
import type { FeatureValue, LimitValue, UsageLimit } from "../pricing/model.ts";

/**
 * Effect of a change on a subscriber. `different` means that neither side contains the other, or that the pricing does
 * not define which of two values is better.
 */
export type Effect = "same" | "more" | "less" | "different";

/** Returns the effect of the reverse change: a gain becomes a loss and vice versa. */
export function mirrored(effect: Effect): Effect {
  return effect === "more" ? "less" : effect === "less" ? "more" : effect;
}

/** Combines two effects: a gain and a loss together are `different`. Commutative and associative; `same` is neutral. */
export function together(one: Effect, other: Effect): Effect {
  if (one === "same" || one === other) return other;
  return other === "same" ? one : "different";
}

/** Compares two numbers of which the higher is better. */
function rising(before: number, after: number): Effect {
  return before === after ? "same" : before < after ? "more" : "less";
}

function isTruthy(value: FeatureValue | undefined): boolean {
  return value !== undefined && value !== false;
}

/**
 * Returns the effect of a changed feature value. A missing value counts as false. Lists of payment methods compare by
 * inclusion. Numbers and texts that differ are `different`: nothing in a pricing defines whether 60 seconds are better
 * than 300.
 */
export function featureValueEffect(before: FeatureValue | undefined, after: FeatureValue | undefined): Effect {
  if (!isTruthy(before) || !isTruthy(after)) return rising(Number(isTruthy(before)), Number(isTruthy(after)));
  if (Array.isArray(before) && Array.isArray(after)) {
    const [old, now]: [readonly string[], readonly string[]] = [before, after];
    const gained: Effect = now.some((method) => !old.includes(method)) ? "more" : "same";
    const lost: Effect = old.some((method) => !now.includes(method)) ? "less" : "same";
    return together(gained, lost);
  }
  return before === after || isSameFigure(before, after) ? "same" : "different";
}

const FIGURE = /^\s*([-+]?\d+(?:\.\d+)?)\s*(\D*?)\s*$/;

/** Returns true for two texts that write the same number of the same unit, such as `99.90%` and `99.9 %`. */
function isSameFigure(before: FeatureValue | undefined, after: FeatureValue | undefined): boolean {
  if (typeof before !== "string" || typeof after !== "string") return false;
  const [old, now] = [FIGURE.exec(before), FIGURE.exec(after)];
  return old !== null && now !== null && Number(old[1]) === Number(now[1]) && old[2] === now[2];
}

/** Returns true if a feature value takes something away: all of it, or a payment method, whatever it adds. */
export function takesAway(before: FeatureValue | undefined, after: FeatureValue | undefined): boolean {
  if (!Array.isArray(before) || !Array.isArray(after)) return featureValueEffect(before, after) === "less";
  const now: readonly string[] = after;
  return (before as readonly string[]).some((method) => !now.includes(method));
}

/** Returns true for a number at or above the format's threshold for "unlimited". */
export function isUnlimited(value: LimitValue | undefined): boolean {
  return typeof value === "number" && value >= UNLIMITED;
}

/**
 * Returns the effect of a changed limit. Higher is more, true is more than false, and a limit that is not granted is
 * least.
 */
export function limitValueEffect(before: LimitValue | undefined, after: LimitValue | undefined): Effect {
  if (before === undefined || after === undefined)
    return rising(Number(before !== undefined), Number(after !== undefined));
  if (typeof before !== typeof after) return "different";
  // Add-ons extend unlimited values too, but 100,000,010 is not more than 100,000,000.
  return rising(Math.min(Number(before), UNLIMITED), Math.min(Number(after), UNLIMITED));
}

const SECONDS = { SEC: 1, MIN: 60, HOUR: 3_600, DAY: 86_400, MONTH: 2_629_746, YEAR: 31_556_952 } as const;

/** Returns the renewal period in seconds of an average calendar, or Infinity for a limit that never renews. */
function renewalSeconds({ type, period }: UsageLimit): number {
  return type === "RENEWABLE" && period !== undefined ? period.value * SECONDS[period.unit] : Infinity;
}

/** Returns the effect of a changed renewal period. A shorter period is more. */
export function periodEffect(before: UsageLimit, after: UsageLimit): Effect {
  return mirrored(rising(renewalSeconds(before), renewalSeconds(after)));
}

/** Returns `different` when the numbers of the two limits are not comparable. */
export function meaningEffect(before: UsageLimit, after: UsageLimit): Effect {
  if (before.valueType !== after.valueType) return "different";
  return before.unit === after.unit || before.unit === "" || after.unit === "" ? "same" : "different";
}
