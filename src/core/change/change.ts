import type { JsonValue } from "../pricing/model.ts";
import type { Effect } from "./effect.ts";
import type { Mode } from "./holding.ts";

/**
 * What a change means for those who are subscribed or might be: they get more (`widening`), less (`narrowing`), the same
 * (`neutral`), or something that cannot be held against what they had (`incompatible`).
 */
export const CHANGE_CLASSES = ["incompatible", "narrowing", "widening", "neutral"] as const;
export type ChangeClass = (typeof CHANGE_CLASSES)[number];

export const SUBJECTS = ["pricing", "plan", "addOn", "feature", "usageLimit"] as const;
export type Subject = (typeof SUBJECTS)[number];

/** One difference between two pricings. Swapping `before` with `after` and the class turned around tell it backwards. */
export interface Change {
  readonly class: ChangeClass;
  readonly subject: Subject;
  /** The name of the subject; of the pricing, of the service. */
  readonly name: string;
  /** What of the subject: `presence`, `price`, `value`, `access`, `expression`, `availableFor`, … */
  readonly aspect: string;
  /** Null where there is none. */
  readonly before: JsonValue;
  readonly after: JsonValue;
  /** The plans with which it shows; absent for what does not depend on plans. */
  readonly plans?: readonly string[];
  /** The fewest add-ons with which it shows; absent when it shows with the plan alone. */
  readonly addOns?: Readonly<Record<string, number>>;
  /** How many of the compared configurations show it. */
  readonly configurations?: number;
  /** Which evaluation it concerns; absent for both. */
  readonly mode?: Mode;
  /** True when an expression could not be followed, so that nothing is known but that it changed. */
  readonly unknown?: true;
}

export function classOf(effect: Effect): ChangeClass {
  if (effect === "same") return "neutral";
  return effect === "more" ? "widening" : effect === "less" ? "narrowing" : "incompatible";
}

/** Equality of what JSON can carry, whatever the order of keys. */
export function equalJson(one: unknown, other: unknown): boolean {
  return canonical(one) === canonical(other);
}

/** The JSON of a value with its keys in order: the same text for equal values. */
export function canonical(value: unknown): string {
  return JSON.stringify(value ?? null, (_, each: unknown) =>
    typeof each === "object" && each !== null && !Array.isArray(each)
      ? Object.fromEntries(Object.entries(each).sort(([one], [other]) => (one < other ? -1 : 1)))
      : each,
  );
}
