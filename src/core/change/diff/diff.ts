import { compileSteps } from "../../pricing/compile.ts";
import type { CompiledPricing } from "../../pricing/compile.ts";
import type { Pricing } from "../../pricing/model.ts";
import { canonical, CHANGE_CLASSES, SUBJECTS } from "../change.ts";
import type { Change, ChangeClass } from "../change.ts";
import {
  compareAddOnDefinitions,
  compareCredits,
  compareFeatureDefinitions,
  compareLimitDefinitions,
  comparePlanDefinitions,
  comparePricingHeaders,
  presence,
} from "./definitions.ts";
import { compareGrants } from "./grants.ts";
import type { SpaceReport } from "./grants.ts";
import { sideSteps } from "../entitlements.ts";
import { type Renames, renamePlans, type SuggestedRename, suggestRenames } from "../renames.ts";
import { finish } from "../../steps.ts";
import type { IsOver, Steps } from "../../steps.ts";
import { stepOf, suggestVersion } from "./version-step.ts";
import type { VersionSuggestion } from "./version-step.ts";

/** Differences between two pricings. */
export interface PricingDiff {
  readonly from: { readonly saasName: string; readonly version: string };
  readonly to: { readonly saasName: string; readonly version: string };
  /** Overall class: the first of CHANGE_CLASSES that occurs, or null when nothing changed. */
  readonly class: ChangeClass | null;
  readonly counts: Readonly<Record<ChangeClass, number>>;
  /** Sorted by subject (pricing, plans, add-ons, features, limits), then by name. */
  readonly changes: readonly Change[];
  /** Plans that were probably renamed. Absent if there are none. */
  readonly suggestedRenames?: readonly SuggestedRename[];
  readonly suggestion: VersionSuggestion;
  readonly space: SpaceReport;
}

function inOrder(one: Change, other: Change): number {
  const rank = SUBJECTS.indexOf(one.subject) - SUBJECTS.indexOf(other.subject);
  if (rank !== 0) return rank;
  const key = ({ name, aspect, mode, plans, addOns }: Change): string => canonical([name, aspect, mode, plans, addOns]);
  return key(one) < key(other) ? -1 : 1;
}

interface Named {
  readonly name: string;
}

/** Compares the items that both sides have, and passes the others to `onlyOne`. */
function pair<Item extends Named>(
  before: ReadonlyMap<string, Item>,
  after: ReadonlyMap<string, Item>,
  compare: (before: Item, after: Item) => Change[],
  onlyOne?: (item: Item, present: "before" | "after") => Change[],
): Change[] {
  const changes: Change[] = [];
  for (const [key, item] of before) {
    const other = after.get(key);
    if (other !== undefined) changes.push(...compare(item, other));
    else changes.push(...(onlyOne?.(item, "before") ?? []));
  }
  for (const [key, item] of after) if (!before.has(key)) changes.push(...(onlyOne?.(item, "after") ?? []));
  return changes;
}

const renaming = ({ from, to }: SuggestedRename): Change => ({
  class: "neutral",
  subject: "plan",
  name: to,
  aspect: "name",
  before: from,
  after: to,
});

function compareDefinitions(before: CompiledPricing, after: CompiledPricing): Change[] {
  const [old, now] = [before.pricing, after.pricing];
  const headers = comparePricingHeaders(old, now);
  const currencyChanged = headers.some((change) => change.aspect === "currency");
  const offered = (subject: "plan" | "addOn") => (item: Named, present: "before" | "after") => [
    presence(subject, item.name, present, present === "after" ? "more" : "less"),
  ];
  const byName = <Item extends Named>(items: readonly Item[]) => new Map(items.map((item) => [item.name, item]));
  return [
    ...headers,
    ...pair(
      before.plans,
      after.plans,
      (one, other) => comparePlanDefinitions(one, other, currencyChanged),
      offered("plan"),
    ),
    ...pair(
      before.addOns,
      after.addOns,
      (one, other) => compareAddOnDefinitions(one, other, currencyChanged),
      offered("addOn"),
    ),
    ...pair(byName(old.features), byName(now.features), compareFeatureDefinitions),
    ...pair(before.usageLimits, after.usageLimits, compareLimitDefinitions),
    ...compareCredits(old, now),
  ];
}

/**
 * Computes what subscribers gain and lose when the pricing `before` becomes `after`.
 *
 * Compares meaning, not text: grants of configurations, and results of expressions over all consumption. The reverse
 * diff has the same changes with `before` and `after` swapped and widening turned into narrowing. Equal pricings, and
 * those that differ only in order, have no changes. Exception: if several add-ons replace the same value, the order of
 * the file matters.
 *
 * `renames` maps previous names of plans to new ones. Default: the `renames` of `after`.
 *
 * Stops at 4,096 selections per subject and plan; `space` lists the subjects that were cut off.
 */
export function diffPricings(before: Pricing, after: Pricing, renames?: Renames): PricingDiff {
  return finish(diffSteps(before, after, { renames }));
}

/**
 * Runs {@link diffPricings} in steps. Stops when `isOver` returns true; `space` then lists the subjects not compared.
 */
export function* diffSteps(
  before: Pricing,
  after: Pricing,
  { isOver, renames = after.renames ?? {} }: { isOver?: IsOver | undefined; renames?: Renames | undefined } = {},
): Steps<PricingDiff> {
  const { pricing: renamed, applied } = renamePlans(before, after, renames);
  const [old, now] = [yield* compileSteps(renamed), yield* compileSteps(after)];
  const grants = yield* compareGrants(yield* sideSteps(old), yield* sideSteps(now), isOver);
  const changes = [...applied.map(renaming), ...compareDefinitions(old, now), ...grants.changes].sort(inOrder);
  const suggested = suggestRenames(renamed, after);
  const classes = changes.map((change) => change.class);
  const count = (wanted: ChangeClass): number => classes.filter((each) => each === wanted).length;
  return {
    from: { saasName: before.saasName, version: before.version },
    to: { saasName: after.saasName, version: after.version },
    class: CHANGE_CLASSES.find((each) => classes.includes(each)) ?? null,
    counts: {
      incompatible: count("incompatible"),
      narrowing: count("narrowing"),
      widening: count("widening"),
      neutral: count("neutral"),
    },
    changes,
    ...(suggested.length === 0 ? {} : { suggestedRenames: suggested }),
    suggestion: suggestVersion(stepOf(classes), before, after),
    space: grants.space,
  };
}
