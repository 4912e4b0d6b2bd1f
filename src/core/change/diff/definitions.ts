import type { AddOn, Feature, JsonValue, Plan, Pricing, UsageLimit } from "../../pricing/model.ts";
import { allowsQuantity, constraintsOf } from "../../pricing/subscription.ts";
import { classOf, equalJson } from "../change.ts";
import type { Change, ChangeClass, Subject } from "../change.ts";
import { priceEffect } from "../configuration.ts";
import { meaningEffect, mirrored, periodEffect, together } from "../effect.ts";
import type { Effect } from "../effect.ts";

/*
 * What changed in the definitions: everything that can be said without looking at a configuration. What subscribers are
 * granted is compared in grants.ts.
 */

/** Reports the differences of one subject. */
class Reporter {
  readonly changes: Change[] = [];
  readonly #subject: Subject;
  readonly #name: string;

  constructor(subject: Subject, name: string) {
    this.#subject = subject;
    this.#name = name;
  }

  add(aspect: string, effect: Effect | ChangeClass, before: JsonValue | undefined, after: JsonValue | undefined): void {
    const known = effect === "same" || effect === "more" || effect === "less" || effect === "different";
    this.changes.push({
      class: known ? classOf(effect) : effect,
      subject: this.#subject,
      name: this.#name,
      aspect,
      before: before ?? null,
      after: after ?? null,
    });
  }

  /** One entry for a field that differs; the effect is only asked for when it does. */
  compare(
    aspect: string,
    before: JsonValue | undefined,
    after: JsonValue | undefined,
    effect: () => Effect = () => "same",
  ): void {
    if (!equalJson(before, after)) this.add(aspect, effect(), before, after);
  }

  /** A set of names in which a further one means `grows` to who buys it. */
  compareNames(aspect: string, before: readonly string[], after: readonly string[], grows: Effect): void {
    const [old, now] = [before, after].map((names) => new Set(names.map((name) => name.toLowerCase())));
    const added = [...(now ?? [])].some((name) => old?.has(name) !== true);
    const removed = [...(old ?? [])].some((name) => now?.has(name) !== true);
    if (!added && !removed) return;
    const effect = together(added ? grows : "same", removed ? mirrored(grows) : "same");
    this.add(aspect, effect, before.toSorted(), after.toSorted());
  }

  /** Price, its unit, and who may buy. */
  compareOffer(before: Plan | AddOn, after: Plan | AddOn, currencyChanged: boolean): void {
    const priced = (price: number | string) =>
      typeof price === "number" ? { amount: price, unpriced: [] } : { amount: 0, unpriced: [price] };
    this.compare("description", before.description, after.description);
    this.compare("price", before.price, after.price, () =>
      currencyChanged ? "different" : priceEffect(priced(before.price), priced(after.price)),
    );
    this.compare("unit", before.unit, after.unit, () =>
      before.unit === "" || after.unit === "" || (before.price === 0 && after.price === 0) ? "same" : "different",
    );
    this.compare("private", before.private, after.private, () => (after.private ? "less" : "more"));
  }
}

const FEATURE_NOTES = [
  "description",
  "type",
  "integrationType",
  "pricingUrls",
  "automationType",
  "docUrl",
  "render",
  "tag",
] as const;

/** Definitions of a feature that exists in both. Its defaults and values show in what plans grant. */
export function compareFeatureDefinitions(before: Feature, after: Feature): Change[] {
  const report = new Reporter("feature", before.name);
  report.compare("valueType", before.valueType, after.valueType, () => "different");
  for (const field of FEATURE_NOTES) report.compare(field, before[field], after[field]);
  return report.changes;
}

function periodOf({ type, period }: UsageLimit): JsonValue {
  return type === "RENEWABLE" && period !== undefined ? { value: period.value, unit: period.unit } : null;
}

/** Definitions of a usage limit that exists in both. */
export function compareLimitDefinitions(before: UsageLimit, after: UsageLimit): Change[] {
  const report = new Reporter("usageLimit", before.name);
  report.compare("description", before.description, after.description);
  report.compare("valueType", before.valueType, after.valueType, () => "different");
  report.compare("unit", before.unit, after.unit, () =>
    meaningEffect({ ...before, valueType: after.valueType }, after),
  );
  report.compare("period", periodOf(before), periodOf(after), () => periodEffect(before, after));
  const isTracked = (limit: UsageLimit): boolean => limit.period !== undefined || limit.trackable;
  report.compare("tracked", isTracked(before), isTracked(after));
  report.compareNames("linkedFeatures", before.linkedFeatures ?? [], after.linkedFeatures ?? [], "same");
  report.compare("render", before.render, after.render);
  return report.changes;
}

/** Definitions of a plan that exists in both. */
export function comparePlanDefinitions(before: Plan, after: Plan, currencyChanged: boolean): Change[] {
  const report = new Reporter("plan", nameOf(before, after));
  report.compareOffer(before, after, currencyChanged);
  return report.changes;
}

/** Whether every quantity that `before` allows is one that `after` allows too. */
function allowsAll(before: AddOn, after: AddOn): boolean {
  const [old, now] = [constraintsOf(before), constraintsOf(after)];
  if ((now.maxQuantity ?? Infinity) < (old.maxQuantity ?? Infinity)) {
    // A lower maximum does no harm when no quantity reaches beyond it.
    const beyond =
      old.minQuantity +
      Math.floor(((old.maxQuantity ?? Infinity) - old.minQuantity) / old.quantityStep) * old.quantityStep;
    if (!(beyond <= (now.maxQuantity ?? Infinity))) return false;
  }
  const [first, second] = [old.minQuantity, old.minQuantity + old.quantityStep];
  return allowsQuantity(after, first) && (second > (old.maxQuantity ?? Infinity) || allowsQuantity(after, second));
}

/** Definitions of an add-on that exists in both. What it brings shows in what configurations grant. */
export function compareAddOnDefinitions(before: AddOn, after: AddOn, currencyChanged: boolean): Change[] {
  const report = new Reporter("addOn", nameOf(before, after));
  report.compareOffer(before, after, currencyChanged);
  report.compareNames("availableFor", before.availableFor, after.availableFor, "more");
  report.compareNames("dependsOn", before.dependsOn, after.dependsOn, "less");
  report.compareNames("excludes", before.excludes, after.excludes, "less");
  const [old, now] = [constraintsOf(before), constraintsOf(after)];
  report.compare("quantities", { ...old }, { ...now }, () =>
    together(allowsAll(after, before) ? "same" : "more", allowsAll(before, after) ? "same" : "less"),
  );
  return report.changes;
}

/** What concerns the pricing as a whole. Its version, date and syntax are what tells two pricings apart, no changes. */
export function comparePricingHeaders(before: Pricing, after: Pricing): Change[] {
  const report = new Reporter("pricing", before.saasName < after.saasName ? before.saasName : after.saasName);
  report.compare("saasName", before.saasName, after.saasName, () =>
    before.saasName.toLowerCase() === after.saasName.toLowerCase() ? "same" : "different",
  );
  report.compare(
    "currency",
    before.currency.trim().toUpperCase(),
    after.currency.trim().toUpperCase(),
    () => "different",
  );
  for (const period of new Set([...Object.keys(before.billing), ...Object.keys(after.billing)])) {
    const [old, now] = [before, after].map(({ billing }) =>
      Object.hasOwn(billing, period) ? billing[period] : undefined,
    );
    report.compare(`billing.${period}`, old, now, () => {
      if (old === undefined || now === undefined) return now === undefined ? "less" : "more";
      return now < old ? "more" : "less";
    });
  }
  report.compare("url", before.url, after.url);
  report.compareNames("tags", before.tags, after.tags, "same");
  report.compare("custom", before.custom, after.custom);
  report.compare("variables", before.variables, after.variables);
  return report.changes;
}

/** A subject that only one of the pricings has. */
export function presence(subject: Subject, name: string, present: "before" | "after", effect: Effect): Change {
  const [before, after] = [present === "before", present === "after"];
  return { class: classOf(effect), subject, name, aspect: "presence", before, after };
}

/** Of two spellings that mean the same plan or add-on, the one that does not depend on which is asked first. */
function nameOf(before: { readonly name: string }, after: { readonly name: string }): string {
  return before.name < after.name ? before.name : after.name;
}
