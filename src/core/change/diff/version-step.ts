import type { ChangeClass } from "../change.ts";

/** Size of a version increment. `none`: nothing changed. */
export const STEPS = ["none", "patch", "minor", "major"] as const;
export type VersionStep = (typeof STEPS)[number];

export interface VersionSuggestion {
  readonly step: VersionStep;
  /** Suggested version in the format of the old one. Null when that format has no increments. */
  readonly version: string | null;
  /**
   * True if the new pricing's version is at least the suggested step ahead. Null when the versions are not comparable.
   */
  readonly sufficient: boolean | null;
}

const STEP_OF: Readonly<Record<ChangeClass, VersionStep>> = {
  incompatible: "major",
  narrowing: "major",
  widening: "minor",
  neutral: "patch",
};

/** Returns the largest step that any of these classes requires. */
export function stepOf(classes: readonly ChangeClass[]): VersionStep {
  const ranks = classes.map((each) => STEPS.indexOf(STEP_OF[each]));
  return STEPS[Math.max(0, ...ranks)] ?? "none";
}

interface Numbers {
  readonly prefix: string;
  readonly parts: readonly number[];
}

/** Parses `2.1.0`, `v2.1` or `3`: up to three numbers, of which the first is not a year (1900 or later). */
function numbersOf(version: string): Numbers | undefined {
  const match = /^(v?)(\d{1,9})(?:[._](\d{1,9}))?(?:[._](\d{1,9}))?$/i.exec(version);
  if (match === null) return undefined;
  const parts = match
    .slice(2)
    .filter((part) => part !== undefined)
    .map(Number);
  return (parts[0] ?? 0) >= 1900 ? undefined : { prefix: match[1] ?? "", parts };
}

/** Returns the index of the part to increment. With fewer than three parts, smaller steps increment the last one. */
function partOf(step: VersionStep, count: number): number {
  return Math.min(step === "major" ? 0 : step === "minor" ? 1 : 2, count - 1);
}

function moved({ prefix, parts }: Numbers, step: VersionStep): string {
  const at = partOf(step, parts.length);
  return prefix + parts.map((part, index) => (index < at ? part : index === at ? part + 1 : 0)).join(".");
}

function isAtLeast(from: Numbers, to: Numbers, step: VersionStep): boolean {
  const at = partOf(step, from.parts.length);
  for (let index = 0; index <= at; index++) {
    const [old, now] = [from.parts[index] ?? 0, to.parts[index] ?? 0];
    if (old !== now) return now > old;
  }
  return false;
}

const DATED = /^(?<year>\d{4})(?:(?<separator>[-._/])(?<month>\d{1,2})\k<separator>(?<day>\d{1,2}))?$/;

/** Returns true if both versions are the same date, whatever their padding and separators. */
export function isSameDay(one: string, other: string): boolean {
  const dayOf = (version: string) => {
    const { year, month, day } = DATED.exec(version)?.groups ?? {};
    return day === undefined ? undefined : [year, Number(month), Number(day)].join("-");
  };
  return dayOf(one) !== undefined && dayOf(one) === dayOf(other);
}

/** Returns if a date version pads its numbers; undefined if both have two digits anyway. */
function isPadded(version: string): boolean | undefined {
  const { month = "10", day = "10" } = DATED.exec(version)?.groups ?? {};
  if (month.length < 2 || day.length < 2) return false;
  return month.startsWith("0") || day.startsWith("0") ? true : undefined;
}

/**
 * Formats `createdAt` like the old date version: number of parts, separator and padding. Where the old one shows no
 * padding, the new pricing's own version does.
 */
function dated(from: string, to: { readonly version: string; readonly createdAt: string }): string | null {
  const groups = DATED.exec(from)?.groups;
  if (groups === undefined) return null;
  const [year = "", month = "", day = ""] = to.createdAt.slice(0, 10).split("-");
  const separator = groups["separator"];
  if (separator === undefined) return year === from ? null : year;
  const pads = isPadded(from) ?? isPadded(to.version) ?? true;
  const pad = (text: string): string => (pads ? text : String(Number(text)));
  const version = [year, pad(month), pad(day)].join(separator);
  return version === from ? null : version;
}

/**
 * Suggests the version of the pricing that follows `from`. Numeric versions are incremented; dates and years become the
 * new pricing's date. Other versions (`latest`, a UUID) have no order, so none is suggested. Source:
 * services-pricings.md §2.2.
 */
export function suggestVersion(
  step: VersionStep,
  from: { readonly version: string },
  to: { readonly version: string; readonly createdAt: string },
): VersionSuggestion {
  if (step === "none") return { step, version: null, sufficient: true };
  const numbers = numbersOf(from.version);
  if (numbers === undefined) {
    const version = dated(from.version, to);
    return { step, version, sufficient: from.version === to.version ? false : null };
  }
  const given = numbersOf(to.version);
  return {
    step,
    version: moved(numbers, step),
    sufficient: given === undefined ? null : isAtLeast(numbers, given, step),
  };
}
