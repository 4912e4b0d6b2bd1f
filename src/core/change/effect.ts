import { UNLIMITED } from "../pricing/model.ts";
import type { FeatureValue, LimitValue, UsageLimit } from "../pricing/model.ts";

/**
 * What a change does for a subscriber: nothing, more, less, or `different` where neither side contains the other or the
 * file does not say which of two values is the better one.
 */
export type Effect = "same" | "more" | "less" | "different";

/** The effect seen from the other side: what was gained one way is lost the other way. */
export function mirrored(effect: Effect): Effect {
  return effect === "more" ? "less" : effect === "less" ? "more" : effect;
}

/** Two effects at once: a gain and a loss together are `different`. Commutative and associative, `same` is neutral. */
export function together(one: Effect, other: Effect): Effect {
  if (one === "same" || one === other) return other;
  return other === "same" ? one : "different";
}

/** From less to more of a number that is better when higher. */
function rising(before: number, after: number): Effect {
  return before === after ? "same" : before < after ? "more" : "less";
}

function isTruthy(value: FeatureValue | undefined): boolean {
  return value !== undefined && value !== false;
}

/**
 * Effect of a changed feature value. Absent is like false. Lists of payment methods compare by inclusion. Numbers and
 * texts that differ are `different`: whether 60 seconds are better than 300 is nowhere written.
 */
export function featureValueEffect(before: FeatureValue | undefined, after: FeatureValue | undefined): Effect {
  if (!isTruthy(before) || !isTruthy(after)) return rising(Number(isTruthy(before)), Number(isTruthy(after)));
  if (Array.isArray(before) && Array.isArray(after)) {
    const [old, now]: [readonly string[], readonly string[]] = [before, after];
    const gained: Effect = now.some((method) => !old.includes(method)) ? "more" : "same";
    const lost: Effect = old.some((method) => !now.includes(method)) ? "less" : "same";
    return together(gained, lost);
  }
  return before === after ? "same" : "different";
}

/** A number at or above what the format calls unlimited. */
export function isUnlimited(value: LimitValue | undefined): boolean {
  return typeof value === "number" && value >= UNLIMITED;
}

/** Effect of a changed limit: higher is more, true is more than false, and what is not granted at all is least. */
export function limitValueEffect(before: LimitValue | undefined, after: LimitValue | undefined): Effect {
  if (before === undefined || after === undefined)
    return rising(Number(before !== undefined), Number(after !== undefined));
  if (typeof before !== typeof after) return "different";
  // Add-ons stretch the unlimited too: a hundred million and ten is not more than a hundred million.
  return rising(Math.min(Number(before), UNLIMITED), Math.min(Number(after), UNLIMITED));
}

const SECONDS = { SEC: 1, MIN: 60, HOUR: 3_600, DAY: 86_400, MONTH: 2_629_746, YEAR: 31_556_952 } as const;

/** The period after which a limit starts again, in seconds of an average calendar; infinite when it never does. */
function renewalSeconds({ type, period }: UsageLimit): number {
  return type === "RENEWABLE" && period !== undefined ? period.value * SECONDS[period.unit] : Infinity;
}

/** Effect of a changed period: the sooner the same allowance starts again, the more it is. */
export function periodEffect(before: UsageLimit, after: UsageLimit): Effect {
  return mirrored(rising(renewalSeconds(before), renewalSeconds(after)));
}

/** `different` when numbers of the two limits cannot be compared. */
export function meaningEffect(before: UsageLimit, after: UsageLimit): Effect {
  if (before.valueType !== after.valueType) return "different";
  return before.unit === after.unit || before.unit === "" || after.unit === "" ? "same" : "different";
}
