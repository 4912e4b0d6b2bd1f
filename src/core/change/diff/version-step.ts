import type { ChangeClass } from "../change.ts";

/** How much a version has to move: `none` when nothing changed. */
export const STEPS = ["none", "patch", "minor", "major"] as const;
export type VersionStep = (typeof STEPS)[number];

export interface VersionSuggestion {
  readonly step: VersionStep;
  /** The version to give, in the spelling of the old one; null where that has no steps to take. */
  readonly version: string | null;
  /** Whether the version that the new pricing has moves at least so far; null where that cannot be told. */
  readonly sufficient: boolean | null;
}

const STEP_OF: Readonly<Record<ChangeClass, VersionStep>> = {
  incompatible: "major",
  narrowing: "major",
  widening: "minor",
  neutral: "patch",
};

/** The step that changes of these classes call for: the largest of theirs. */
export function stepOf(classes: readonly ChangeClass[]): VersionStep {
  const ranks = classes.map((each) => STEPS.indexOf(STEP_OF[each]));
  return STEPS[Math.max(0, ...ranks)] ?? "none";
}

interface Numbers {
  readonly prefix: string;
  readonly parts: readonly number[];
}

/** `2.1.0`, `v2.1` or `3`: at most three numbers, the first of which does not read as a year. */
function numbersOf(version: string): Numbers | undefined {
  const match = /^(v?)(\d{1,9})(?:[._](\d{1,9}))?(?:[._](\d{1,9}))?$/i.exec(version);
  if (match === null) return undefined;
  const parts = match
    .slice(2)
    .filter((part) => part !== undefined)
    .map(Number);
  return (parts[0] ?? 0) >= 1900 ? undefined : { prefix: match[1] ?? "", parts };
}

/** Which part of a version of so many parts a step moves: the fewer parts, the larger the smallest step. */
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

/** A date in the spelling of an old one: as many parts, same separator, padded or not. */
function dated(from: string, createdAt: string): string | null {
  const groups = DATED.exec(from)?.groups;
  if (groups === undefined) return null;
  const [year = "", month = "", day = ""] = createdAt.slice(0, 10).split("-");
  const separator = groups["separator"];
  if (separator === undefined) return year === from ? null : year;
  const pad = (text: string): string =>
    groups["month"]?.length === 2 && groups["day"]?.length === 2 ? text : String(Number(text));
  const version = [year, pad(month), pad(day)].join(separator);
  return version === from ? null : version;
}

/**
 * The version that a pricing which comes after `from` should have: numbers move by the step, dates and years become the
 * new pricing's own date, everything else (`latest`, a UUID) has no order. Source: services-pricings.md §2.2.
 */
export function suggestVersion(
  step: VersionStep,
  from: { readonly version: string },
  to: { readonly version: string; readonly createdAt: string },
): VersionSuggestion {
  if (step === "none") return { step, version: null, sufficient: true };
  const numbers = numbersOf(from.version);
  if (numbers === undefined) {
    const version = dated(from.version, to.createdAt);
    return { step, version, sufficient: from.version === to.version ? false : null };
  }
  const given = numbersOf(to.version);
  return {
    step,
    version: moved(numbers, step),
    sufficient: given === undefined ? null : isAtLeast(numbers, given, step),
  };
}
