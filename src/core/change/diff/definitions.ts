import type {
  AddOn,
  Feature,
  JsonValue,
  Plan,
  Pricing,
  SubscriptionConstraints,
  UsageLimit,
} from "../../pricing/model.ts";
import { allowsQuantity, constraintsOf } from "../../pricing/subscription.ts";
import { creditTermsOf } from "../../pricing/credits.ts";
import { classOf, equalJson } from "../change.ts";
import type { Change, ChangeClass, Subject } from "../change.ts";
import { priceEffect } from "../configuration.ts";
import { budgetEffect, budgetJson, budgetsOfBoth } from "../budgets.ts";
import { rateEffect, rolloverEffect, unitsOf } from "../credits.ts";
import { isUnlimited, meaningEffect, mirrored, periodEffect, together } from "../effect.ts";
import type { Effect } from "../effect.ts";

/*
 * Compares definitions, independent of configurations. For the values granted to subscribers, see grants.ts.
 */

/** Collects the changes of one subject. */
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

  /** Adds a change if the field differs. Calls `effect` only then. */
  compare(
    aspect: string,
    before: JsonValue | undefined,
    after: JsonValue | undefined,
    effect: () => Effect = () => "same",
  ): void {
    if (!equalJson(before, after)) this.add(aspect, effect(), before, after);
  }

  /** Compares sets of names. `grows` is the effect of an additional name on the buyer. */
  compareNames(aspect: string, before: readonly string[], after: readonly string[], grows: Effect): void {
    const [old, now] = [before, after].map((names) => new Set(names.map((name) => name.toLowerCase())));
    const added = [...(now ?? [])].some((name) => old?.has(name) !== true);
    const removed = [...(old ?? [])].some((name) => now?.has(name) !== true);
    if (!added && !removed) return;
    const effect = together(added ? grows : "same", removed ? mirrored(grows) : "same");
    this.add(aspect, effect, before.toSorted(), after.toSorted());
  }

  /** Compares description, price, price unit and visibility. */
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

/** Compares the definitions of a feature that both pricings have. Defaults and values are compared through grants. */
export function compareFeatureDefinitions(before: Feature, after: Feature): Change[] {
  const report = new Reporter("feature", before.name);
  report.compare("valueType", before.valueType, after.valueType, () => "different");
  for (const field of FEATURE_NOTES) report.compare(field, before[field], after[field]);
  return report.changes;
}

function periodOf({ type, period }: UsageLimit): JsonValue {
  return type === "RENEWABLE" && period !== undefined ? { value: period.value, unit: period.unit } : null;
}

/** Compares the definitions of a usage limit that both pricings have. */
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

/** Compares the definitions of a plan that both pricings have. */
export function comparePlanDefinitions(before: Plan, after: Plan, currencyChanged: boolean): Change[] {
  const report = new Reporter("plan", nameOf(before, after));
  report.compareOffer(before, after, currencyChanged);
  return report.changes;
}

/** Returns the quantities with null as the only spelling of "unlimited", because the defaults of add-ons differ. */
function quantitiesOf(addOn: AddOn): SubscriptionConstraints {
  const constraints = constraintsOf(addOn);
  const { maxQuantity } = constraints;
  return maxQuantity !== null && isUnlimited(maxQuantity) ? { ...constraints, maxQuantity: null } : constraints;
}

/** Returns true if `after` allows every quantity that `before` allows. */
function allowsAll(before: AddOn, after: AddOn): boolean {
  const [old, now] = [quantitiesOf(before), quantitiesOf(after)];
  if ((now.maxQuantity ?? Infinity) < (old.maxQuantity ?? Infinity)) {
    // A lower maximum is harmless if the highest reachable quantity stays below it.
    const beyond =
      old.minQuantity +
      Math.floor(((old.maxQuantity ?? Infinity) - old.minQuantity) / old.quantityStep) * old.quantityStep;
    if (!(beyond <= (now.maxQuantity ?? Infinity))) return false;
  }
  const [first, second] = [old.minQuantity, old.minQuantity + old.quantityStep];
  return allowsQuantity(after, first) && (second > (old.maxQuantity ?? Infinity) || allowsQuantity(after, second));
}

/** Compares the definitions of an add-on that both pricings have. Its values are compared through grants. */
export function compareAddOnDefinitions(before: AddOn, after: AddOn, currencyChanged: boolean): Change[] {
  const report = new Reporter("addOn", nameOf(before, after));
  report.compareOffer(before, after, currencyChanged);
  report.compareNames("availableFor", before.availableFor, after.availableFor, "more");
  report.compareNames("dependsOn", before.dependsOn, after.dependsOn, "less");
  report.compareNames("excludes", before.excludes, after.excludes, "less");
  const [old, now] = [quantitiesOf(before), quantitiesOf(after)];
  report.compare("quantities", { ...old }, { ...now }, () =>
    together(allowsAll(after, before) ? "same" : "more", allowsAll(before, after) ? "same" : "less"),
  );
  return report.changes;
}

/**
 * Compares fields of the pricing as a whole. Version, date and syntax version identify a pricing, so they are not
 * changes.
 */
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
  report.compare("custom", withoutCredits(before.custom), withoutCredits(after.custom));
  report.compare("variables", before.variables, after.variables);
  return report.changes;
}

/** Returns the custom data without what {@link compareCredits} compares. */
function withoutCredits(custom: Pricing["custom"]): JsonValue {
  const { faregate, ...others } = custom;
  if (typeof faregate !== "object" || faregate === null || Array.isArray(faregate)) return { ...custom };
  const { rates: _, rollover: __, budgets: ___, ...rest } = faregate as Readonly<Record<string, JsonValue>>;
  return Object.keys(rest).length === 0 ? others : { ...others, faregate: rest };
}

/** Compares what resets carry over and what units cost, of limits that both pricings have. */
export function compareCredits(before: Pricing, after: Pricing): Change[] {
  const [old, now] = [creditTermsOf(before), creditTermsOf(after)];
  const names = new Set(after.usageLimits.map(({ name }) => name));
  return before.usageLimits
    .filter(({ name }) => names.has(name))
    .flatMap(({ name }) => {
      const report = new Reporter("usageLimit", name);
      const [had, has] = [old.rates.get(name), now.rates.get(name)];
      for (const unit of unitsOf(had, has)) {
        const [was, is] = [had?.get(unit), has?.get(unit)];
        report.compare(`rate ${unit}`, was, is, () => rateEffect(was, is));
      }
      const [kept, keeps] = [old.rollover.get(name), now.rollover.get(name)];
      report.compare("rollover", kept && { ...kept }, keeps && { ...keeps }, () => rolloverEffect(kept, keeps));
      for (const [budget, was, is] of budgetsOfBoth(before, after, name)) {
        report.compare(`budget ${budget}`, was && budgetJson(was), is && budgetJson(is), () => budgetEffect(was, is));
      }
      return report.changes;
    });
}

/** Creates the change for a subject that only one pricing has. */
export function presence(subject: Subject, name: string, present: "before" | "after", effect: Effect): Change {
  const [before, after] = [present === "before", present === "after"];
  return { class: classOf(effect), subject, name, aspect: "presence", before, after };
}

/** Picks one of two spellings of the same name, independent of the direction of the diff. */
function nameOf(before: { readonly name: string }, after: { readonly name: string }): string {
  return before.name < after.name ? before.name : after.name;
}
