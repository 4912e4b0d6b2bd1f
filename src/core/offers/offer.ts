import { type BilledPrices, type ConnectedPrices, pricesOf } from "../billing/prices-of.ts";
import type { Side } from "../change/entitlements.ts";
import type { CompiledPricing } from "../pricing/compile.ts";
import type {
  AddOn,
  Feature,
  FeatureType,
  FeatureValue,
  LimitType,
  LimitValue,
  Period,
  Plan,
  RenderMode,
  UsageLimit,
  ValueType,
} from "../pricing/model.ts";
import { type BudgetTerms, budgetTermsOf } from "../pricing/budget-terms.ts";
import { creditTermsOf, type Rates } from "../pricing/credits.ts";
import { constraintsOf } from "../pricing/subscription.ts";
import { chooseAddOn, choosePlan, heldUnits, scenarioOf } from "./choices.ts";
import type { Held, Scenario } from "./choices.ts";
import { budgetText, extensionText, featureText, limitText, priceText, rateText } from "./texts.ts";
import type { Shown } from "./texts.ts";
import { named } from "./unlock.ts";
import type { NamedConfiguration } from "./unlock.ts";

export interface OfferedFeature {
  readonly name: string;
  readonly id: string;
  readonly label: string;
  readonly description: string | null;
  readonly valueType: ValueType;
  readonly type: FeatureType;
  readonly tag: string | null;
}

export interface OfferedLimit {
  readonly name: string;
  readonly id: string;
  readonly label: string;
  readonly description: string | null;
  readonly valueType: "BOOLEAN" | "NUMERIC";
  readonly type: LimitType;
  readonly unit: string;
  readonly period: Period | null;
  /** Cost of each unit. Absent for a limit without rates. */
  readonly rates?: readonly OfferedRate[];
  /** Budgets of the pricing that deny. Absent without any. */
  readonly budgets?: readonly OfferedBudget[];
}

/** How much of a limit each spender may take. A text as value is the limit whose value it is. */
export interface OfferedBudget extends Shown<number | string> {
  readonly name: string;
}

/** Cost of one unit of a limit. */
export interface OfferedRate extends Shown<number> {
  readonly unit: string;
}

interface OfferedItem {
  readonly name: string;
  readonly description: string | null;
  readonly price: Shown<number | string>;
  readonly unit: string;
  /** True for a text as price, such as "Contact sales". */
  readonly contact: boolean;
}

export interface OfferedPlan extends OfferedItem {
  /** Values in the order of the offer's features and limits. */
  readonly features: readonly Shown<FeatureValue>[];
  readonly limits: readonly Shown<LimitValue>[];
  readonly select: NamedConfiguration;
  /** With a key: what a checkout of `select` has to buy, where all of it has price ids. */
  readonly billing?: BilledPrices;
  /** With a user: what choosing the plan is for them. */
  readonly scenario?: Scenario;
}

export interface OfferedAddOn extends OfferedItem {
  readonly availableFor: readonly string[];
  readonly dependsOn: readonly string[];
  readonly excludes: readonly string[];
  /** `max` is null without a bound. */
  readonly quantity: { readonly min: number; readonly max: number | null; readonly step: number };
  readonly features: Readonly<Record<string, Shown<FeatureValue>>>;
  readonly limits: Readonly<Record<string, Shown<LimitValue>>>;
  readonly extensions: Readonly<Record<string, Shown<number>>>;
  readonly select: NamedConfiguration | null;
  readonly billing?: BilledPrices;
  /** With a user: units that the contract has. */
  readonly held?: number;
}

/** One version of a service as a price page shows it. Source: contract offers §3. */
export interface Offer {
  readonly service: string;
  readonly key: string;
  readonly pricingVersion: string;
  readonly createdAt: string;
  /** Active versions, newest first. Absent in a public offer. */
  readonly versions?: readonly string[];
  readonly currency: string;
  readonly billing: Readonly<Record<string, number>>;
  readonly tags: readonly string[];
  readonly features: readonly OfferedFeature[];
  readonly limits: readonly OfferedLimit[];
  readonly plans: readonly OfferedPlan[];
  readonly addOns: readonly OfferedAddOn[];
  /** With a user: their subscription; null without one. */
  readonly current?: (NamedConfiguration & { readonly expired: boolean }) | null;
}

/** The user for whom an offer is made. `held` is undefined without a subscription to the service. */
export interface OfferUser {
  readonly held: (Held & { readonly expired: boolean }) | undefined;
}

const isVisible = ({ render }: { readonly render: RenderMode }): boolean => render !== "DISABLED";
const labelOf = (description: string | undefined, name: string): string => description?.trim() || name;

function offeredFeature(key: string, feature: Feature): OfferedFeature {
  const { name, description, valueType, type, tag } = feature;
  const label = labelOf(description, name);
  return { name, id: `${key}-${name}`, label, description: description ?? null, valueType, type, tag: tag ?? null };
}

function offeredLimit(
  key: string,
  limit: UsageLimit,
  { rates, budgets }: { rates: Rates | undefined; budgets: readonly BudgetTerms[] },
): OfferedLimit {
  const { name, description, valueType, type, unit, period } = limit;
  const label = labelOf(description, name);
  const id = `${key}-${name}`;
  const offered = { name, id, label, description: description ?? null, valueType, type, unit, period: period ?? null };
  const denying = budgets.filter(({ limitName, mode }) => limitName === name && mode === "stop");
  return {
    ...offered,
    ...(rates && { rates: [...rates].map(([of, value]) => ({ unit: of, value, text: rateText(value, limit, of) })) }),
    ...(denying.length > 0 && {
      budgets: denying.map((budget) => ({ name: budget.name, value: budget.amount, text: budgetText(budget, limit) })),
    }),
  };
}

function itemOf(item: Plan | AddOn, currency: string): OfferedItem {
  const { name, description, price, unit } = item;
  const text = priceText(price, currency, unit);
  return {
    name,
    description: description ?? null,
    price: { value: price, text },
    unit,
    contact: typeof price === "string",
  };
}

/** Selects the plans and add-ons of a page: private ones only if held, and no add-on that needs a hidden part. */
function shownItems({ pricing, addOns }: CompiledPricing, held: Held | undefined) {
  const heldPlan = held?.configuration.plan?.toLowerCase();
  const plans = pricing.plans.filter((plan) => !plan.private || plan.name.toLowerCase() === heldPlan);
  const planKeys = new Set(plans.map(({ name }) => name.toLowerCase()));
  const isForSomePlan = (addOn: AddOn): boolean =>
    pricing.plans.length === 0 || addOn.availableFor.some((name) => planKeys.has(name.toLowerCase()));
  const shown = new Set(
    pricing.addOns.filter((addOn) => (!addOn.private || heldUnits(addOn, held) > 0) && isForSomePlan(addOn)),
  );
  const isShownName = (name: string): boolean => {
    const addOn = addOns.get(name.toLowerCase());
    return addOn !== undefined && shown.has(addOn);
  };
  for (let size = -1; size !== shown.size;) {
    size = shown.size;
    for (const addOn of shown) if (!addOn.dependsOn.every(isShownName)) shown.delete(addOn);
  }
  return { plans, planKeys, addOns: shown, isShownName };
}

/** Copies the entries of a record that `list` has, each with its text. */
function shownValues<Value, Item extends { readonly name: string }>(
  list: readonly Item[],
  values: Readonly<Record<string, Value>>,
  textOf: (value: Value, item: Item) => string,
): Record<string, Shown<Value>> {
  const entries = list.flatMap((item) => {
    const value = Object.hasOwn(values, item.name) ? values[item.name] : undefined;
    return value === undefined ? [] : [[item.name, { value, text: textOf(value, item) }] as const];
  });
  return Object.fromEntries(entries);
}

/**
 * Builds the offer of one version, for a user or for everybody. `versions` are the active versions, or undefined for a
 * public offer. `service` is the stored name.
 */
export function offerFor(
  side: Side,
  {
    service,
    versions,
    user,
    connected = [],
  }: {
    service: string;
    versions: readonly string[] | undefined;
    user: OfferUser | undefined;
    /** Maps of connections to payment providers. Default: none. */
    connected?: readonly ConnectedPrices[];
  },
): Offer {
  const { pricing: compiled, serviceName: key } = side;
  const { pricing } = compiled;
  const held = user?.held;
  const { currency, billing, tags } = pricing;
  const features = pricing.features.filter(isVisible);
  const limits = pricing.usageLimits.filter(isVisible);
  const shown = shownItems(compiled, held);
  const isShownAddOn = (addOn: AddOn): boolean => shown.addOns.has(addOn);

  const selected = <Select extends NamedConfiguration | null>(select: Select) => {
    const prices = pricesOf(connected, key, select);
    return { select, ...(prices === undefined ? {} : { billing: prices }) };
  };
  const planOf = (plan: Plan): OfferedPlan => {
    const select = choosePlan(compiled, plan, held, isShownAddOn);
    return {
      ...itemOf(plan, currency),
      features: features.map(({ name, defaultValue }) => {
        const value = (Object.hasOwn(plan.features, name) ? plan.features[name] : undefined) ?? defaultValue;
        return { value, text: featureText(value) };
      }),
      limits: limits.map((limit) => {
        const own = Object.hasOwn(plan.usageLimits, limit.name) ? plan.usageLimits[limit.name] : undefined;
        const value = own ?? limit.defaultValue;
        return { value, text: limitText(value, limit) };
      }),
      ...selected(named(compiled, select)),
      ...(user === undefined ? {} : { scenario: scenarioOf(side, plan, select, held) }),
    };
  };
  const addOnOf = (addOn: AddOn): OfferedAddOn => {
    const { minQuantity: min, maxQuantity: max, quantityStep: step } = constraintsOf(addOn);
    const select = chooseAddOn(side, addOn, held);
    return {
      ...itemOf(addOn, currency),
      availableFor: addOn.availableFor.filter((name) => shown.planKeys.has(name.toLowerCase())),
      dependsOn: addOn.dependsOn.filter(shown.isShownName),
      excludes: addOn.excludes.filter(shown.isShownName),
      quantity: { min, max, step },
      features: shownValues(features, addOn.features, featureText),
      limits: shownValues(limits, addOn.usageLimits, limitText),
      extensions: shownValues(limits, addOn.usageLimitsExtensions, extensionText),
      ...selected(select === undefined ? null : named(compiled, select)),
      ...(user === undefined ? {} : { held: heldUnits(addOn, held) }),
    };
  };
  const { rates } = creditTermsOf(pricing);
  const budgets = budgetTermsOf(pricing);
  const current =
    held === undefined ? null : { ...named(held.side.pricing, held.configuration), expired: held.expired };
  return {
    service,
    key,
    pricingVersion: pricing.version,
    createdAt: pricing.createdAt,
    ...(versions === undefined ? {} : { versions }),
    currency,
    billing,
    tags,
    features: features.map((feature) => offeredFeature(key, feature)),
    limits: limits.map((limit) => offeredLimit(key, limit, { rates: rates.get(limit.name), budgets })),
    plans: shown.plans.map(planOf),
    addOns: pricing.addOns.filter(isShownAddOn).map(addOnOf),
    ...(user === undefined ? {} : { current }),
  };
}
