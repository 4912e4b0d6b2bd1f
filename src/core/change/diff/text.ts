import type { JsonValue } from "../../pricing/model.ts";
import { CHANGE_CLASSES, isCapped } from "../change.ts";
import type { Change, ChangeClass, Subject } from "../change.ts";
import { configurationOf, describeConfiguration } from "../configuration.ts";
import type { PricingDiff } from "./diff.ts";
import { excerpt } from "../../pricing/excerpt.ts";
import { isUnlimited } from "../effect.ts";
import { isSameDay } from "./version-step.ts";
import type { VersionSuggestion } from "./version-step.ts";

const SUBJECT_WORDS: Readonly<Record<Subject, string>> = {
  pricing: "pricing",
  plan: "plan",
  addOn: "add-on",
  feature: "feature",
  usageLimit: "limit",
};

const CLASS_TITLES: Readonly<Record<ChangeClass, string>> = {
  incompatible: "Incompatible: needs a human decision",
  narrowing: "Narrowing: subscribers get less",
  widening: "Widening: subscribers get more",
  neutral: "Neutral: nothing changes for subscribers",
};

function shown(value: JsonValue, capped = false): string {
  if (value === null) return "nothing";
  if (typeof value === "string") return value;
  if (capped && typeof value === "number" && isUnlimited(value)) return "unlimited";
  if (Array.isArray(value))
    return value.length === 0 ? "none" : value.map((each) => shown(each as JsonValue, capped)).join(", ");
  if (typeof value === "object")
    return Object.entries(value)
      .map(([key, each]) => `${key} ${each === null ? "unlimited" : shown(each as JsonValue, capped)}`)
      .join(", ");
  return String(value);
}

/** Formats where a change shows: its plans and the required add-ons. */
function whereOf({ plans, addOns }: Change): string {
  const withAddOns = addOns === undefined ? "" : `with ${describeConfiguration(configurationOf(undefined, addOns))}`;
  const inPlans = plans === undefined ? "" : `in ${plans.join(", ")}`;
  return [inPlans, withAddOns].filter((part) => part !== "").join(" ");
}

/** Formats one change as one line: subject, place, old and new value. */
export function describeChange(change: Change): string {
  const { subject, name, aspect, before, after, mode, unknown } = change;
  const what = `${SUBJECT_WORDS[subject]} ${name}`;
  if (aspect === "presence") return `${what} ${after === true ? "added" : "removed"}`;
  if (aspect === "name") return `${SUBJECT_WORDS[subject]} ${shown(before)} renamed to ${shown(after)}`;
  const where = whereOf(change);
  const side = mode === undefined ? "" : ` (${mode})`;
  const field = aspect === "value" || aspect === "access" ? "" : ` ${aspect}`;
  const isRate = aspect.startsWith("rate ");
  const text = isRate ? `${aspect} of ${name}: ` : `${what}${field}${side}${where === "" ? "" : ` ${where}`}: `;
  if (unknown === true) return `${text}changed; its effect cannot be determined`;
  if (aspect !== "value" && isList(before) && isList(after)) return `${text}${listDifference(before, after)}`;
  const [was, is] = [before, after].map((value) => excerpt(shown(value, isCapped(change)), MAX_QUOTED_LENGTH));
  return `${text}${was} → ${is}`;
}

/** Maximum characters quoted from one value: expressions have up to 4,096. */
const MAX_QUOTED_LENGTH = 500;

function isList(value: JsonValue): value is readonly JsonValue[] {
  return Array.isArray(value);
}

/** Names what was added to a list and what was removed from it. */
function listDifference(before: readonly JsonValue[], after: readonly JsonValue[]): string {
  const [old, now] = [before, after].map((values) => values.map((each) => shown(each)));
  const parts = [
    ["added", now?.filter((each) => old?.includes(each) !== true)],
    ["removed", old?.filter((each) => now?.includes(each) !== true)],
  ] as const;
  return parts
    .flatMap(([verb, names = []]) =>
      names.length === 0 ? [] : [`${verb} ${excerpt(names.join(", "), MAX_QUOTED_LENGTH)}`],
    )
    .join("; ");
}

/** Formats the version suggestion as a sentence. */
export function describeSuggestion({ step, version, sufficient }: VersionSuggestion, given: string): string {
  if (step === "none") return "Nothing changed.";
  // Two spellings of one date differ in nothing that matters.
  const isGiven = version === null || isSameDay(version, given);
  const wanted = `a ${step} step${isGiven ? "" : `, such as ${version}`}`;
  if (sufficient === true) return `The version ${given} is enough: the changes call for a ${step} step.`;
  if (sufficient === false) return `The version ${given} is not enough: the changes call for ${wanted}.`;
  return `The changes call for ${wanted}.`;
}

function headOf({ from, to }: PricingDiff): string {
  return `${from.saasName} ${from.version} → ${to.saasName === from.saasName ? "" : `${to.saasName} `}${to.version}`;
}

function spaceOf({ space }: PricingDiff): string {
  const count = (number: number, noun: string) => `${number} ${noun}${number === 1 ? "" : "s"}`;
  const compared = `Compared ${count(space.configurations, "configuration")} of ${count(space.plans, "plan")}`;
  if (space.complete) return `${compared}; all others follow from these.`;
  return `${compared}. Not every combination and quantity of add-ons was compared for ${space.capped.join(", ")}.`;
}

/** Formats the probable renames, one sentence each. */
function renamesOf({ suggestedRenames = [] }: PricingDiff): string[] {
  return suggestedRenames.map(
    ({ from, to }) =>
      `The plans ${from} and ${to} have the same content. If ${from} was renamed, add this line to the new pricing: renames: { ${from}: ${to} }`,
  );
}

function ofClass({ changes }: PricingDiff, wanted: ChangeClass): readonly Change[] {
  return changes.filter((change) => change.class === wanted);
}

/** Renders a diff for a terminal. */
export function diffAsText(diff: PricingDiff): string {
  const sections = CHANGE_CLASSES.filter((each) => diff.counts[each] > 0).map((each) => {
    const lines = ofClass(diff, each).map((change) => `  ${describeChange(change)}`);
    return [`${CLASS_TITLES[each]} (${diff.counts[each]})`, ...lines].join("\n");
  });
  const end = [...renamesOf(diff), describeSuggestion(diff.suggestion, diff.to.version), spaceOf(diff)].join("\n");
  return `${[headOf(diff), ...sections, end].join("\n\n")}\n`;
}

function escaped(text: string): string {
  return text.replaceAll(/[\\`*_{}[\]<>|#]/g, String.raw`\$&`).replaceAll("\n", " ");
}

/** Renders a diff as Markdown, for the description of a pull request. */
export function diffAsMarkdown(diff: PricingDiff): string {
  const sections = CHANGE_CLASSES.filter((each) => diff.counts[each] > 0).map((each) => {
    const lines = ofClass(diff, each).map((change) => `- ${escaped(describeChange(change))}`);
    return `### ${CLASS_TITLES[each]} (${diff.counts[each]})\n\n${lines.join("\n")}`;
  });
  const end = `${escaped(describeSuggestion(diff.suggestion, diff.to.version))} ${escaped(spaceOf(diff))}`;
  return `${[`## ${escaped(headOf(diff))}`, ...sections, ...renamesOf(diff).map(escaped), end].join("\n\n")}\n`;
}
