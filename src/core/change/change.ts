import type { JsonValue } from "../pricing/model.ts";
import type { Effect } from "./effect.ts";
import type { Mode } from "./entitlements.ts";

/**
 * Meaning of a change for current and future subscribers. `widening`: more. `narrowing`: less. `neutral`: neither.
 * `incompatible`: not comparable with the previous state.
 */
export const CHANGE_CLASSES = ["incompatible", "narrowing", "widening", "neutral"] as const;
export type ChangeClass = (typeof CHANGE_CLASSES)[number];

export const SUBJECTS = ["pricing", "plan", "addOn", "feature", "usageLimit"] as const;
export type Subject = (typeof SUBJECTS)[number];

/**
 * One difference between two pricings. Swapping `before` with `after` and mirroring the class describes the reverse
 * change.
 */
export interface Change {
  readonly class: ChangeClass;
  readonly subject: Subject;
  /** Name of the subject. For the subject `pricing`, the name of the service. */
  readonly name: string;
  /** The aspect of the subject that changed: `presence`, `price`, `value`, `access`, `expression`, `availableFor`, … */
  readonly aspect: string;
  /** Null if the subject had no such value. */
  readonly before: JsonValue;
  readonly after: JsonValue;
  /** Plans that show the change. Absent if the change does not depend on plans. */
  readonly plans?: readonly string[];
  /** The smallest selection of add-ons that shows the change. Absent if the plan alone shows it. */
  readonly addOns?: Readonly<Record<string, number>>;
  /** Number of compared configurations that show the change. */
  readonly configurations?: number;
  /** The evaluation mode that changed. Absent if both did. */
  readonly mode?: Mode;
  /** True when an expression cannot be analysed: it changed, but the effect is unknown. */
  readonly unknown?: true;
}

/** True if numbers of a change mean "unlimited" from 100,000,000 on: those of features and limits. Prices do not. */
export const isCapped = ({ subject, aspect }: Pick<Change, "subject" | "aspect">): boolean =>
  (subject === "feature" || subject === "usageLimit") && !aspect.startsWith("rate ");

export function classOf(effect: Effect): ChangeClass {
  if (effect === "same") return "neutral";
  return effect === "more" ? "widening" : effect === "less" ? "narrowing" : "incompatible";
}

/** Compares JSON values; the order of keys does not matter. */
export function equalJson(one: unknown, other: unknown): boolean {
  return canonical(one) === canonical(other);
}

/** Serializes a value as JSON with sorted keys, so equal values yield identical text. */
export function canonical(value: unknown): string {
  return JSON.stringify(value ?? null, (_, each: unknown) =>
    typeof each === "object" && each !== null && !Array.isArray(each)
      ? Object.fromEntries(Object.entries(each).sort(([one], [other]) => (one < other ? -1 : 1)))
      : each,
  );
}
