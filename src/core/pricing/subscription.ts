import { findAddOn, findPlan } from "./compile.ts";
import type { CompiledPricing } from "./compile.ts";
import { emptyRecord } from "./model.ts";
import type { AddOn, FeatureValue, LimitValue, SubscriptionConstraints } from "./model.ts";

/** What a contract asks of one service. Names in any case. */
export interface SubscriptionChoice {
  readonly serviceName: string;
  readonly version: string;
  readonly plan?: string;
  readonly addOns?: Readonly<Record<string, number>>;
}

export type SubscriptionRule =
  | "planOrAddOnsRequired"
  | "planUnknown"
  | "addOnUnknown"
  | "addOnUnavailable"
  | "addOnDependency"
  | "addOnExclusion"
  | "addOnQuantity";

export type SubscriptionVerdict =
  | {
      readonly ok: true;
      /** As it was sent. */
      readonly plan?: string;
      /** Quantities by the pricing's own spelling of the names. */
      readonly addOns: Record<string, number>;
    }
  | { readonly ok: false; readonly rule: SubscriptionRule; readonly message: string };

/** What a configuration gives its holder: names without the prefix of the service. Source: features-events.md §2.1. */
export interface Grant {
  readonly features: ReadonlyMap<string, FeatureValue>;
  readonly usageLimits: ReadonlyMap<string, LimitValue>;
}

type Refusal = Extract<SubscriptionVerdict, { ok: false }>;

const PLACE = "in the request organization";

function refusal(rule: SubscriptionRule, message: string): Refusal {
  return { ok: false, rule, message };
}

function includesName(names: Iterable<string>, name: string): boolean {
  const wanted = name.toLowerCase();
  for (const each of names) if (each.toLowerCase() === wanted) return true;
  return false;
}

/** The quantities of an add-on, completed where the file has none. Source: pricing2yaml.md §7. */
export function constraintsOf(addOn: AddOn): SubscriptionConstraints {
  return addOn.subscriptionConstraints ?? { minQuantity: 1, maxQuantity: null, quantityStep: 1 };
}

/** Whether so many units of the add-on may be contracted. Source: contracts.md §4.3 rule 9. */
export function allowsQuantity(addOn: AddOn, quantity: number): boolean {
  const { minQuantity: min, maxQuantity, quantityStep: step } = constraintsOf(addOn);
  return quantity >= min && quantity <= (maxQuantity ?? Infinity) && (quantity - min) % step === 0;
}

/** Rules 6 to 9 for one add-on, `name` as it was sent. */
function checkAddOn(
  addOn: AddOn,
  name: string,
  quantity: number,
  plan: string | undefined,
  chosen: ReadonlySet<string>,
): Refusal | undefined {
  if (plan !== undefined && !includesName(addOn.availableFor, plan))
    return refusal("addOnUnavailable", `Add-on ${name} is not available for plan ${plan} ${PLACE}`);
  const isChosen = (other: string): boolean => chosen.has(other.toLowerCase());
  if (!addOn.dependsOn.every(isChosen))
    return refusal(
      "addOnDependency",
      `Add-on ${name} requires the following add-ons to be selected ${PLACE}: ${addOn.dependsOn.join(", ")}`,
    );
  if (addOn.excludes.some(isChosen))
    return refusal(
      "addOnExclusion",
      `Add-on ${name} cannot be selected with the following add-ons ${PLACE}: ${addOn.excludes.join(", ")}`,
    );
  const { minQuantity: min, maxQuantity, quantityStep: step } = constraintsOf(addOn);
  const max = maxQuantity ?? Infinity;
  if (!allowsQuantity(addOn, quantity))
    return refusal(
      "addOnQuantity",
      `Add-on ${name} quantity ${quantity} is not valid. It must be between ${min} and ${max}, and a multiple of ${step} ${PLACE}`,
    );
  return undefined;
}

/**
 * Whether the plan and add-ons chosen for one service may be subscribed to: rules 3 to 9, in that order, add-ons in the
 * order sent; the first broken rule with its message. Names match ignoring case. Source: contracts.md §4.3.
 */
export function checkSubscription(pricing: CompiledPricing, choice: SubscriptionChoice): SubscriptionVerdict {
  const { serviceName, version, plan } = choice;
  if (plan === undefined && choice.addOns === undefined)
    return refusal("planOrAddOnsRequired", `Service ${serviceName} must have either a plan or add-ons selected`);
  if (plan !== undefined && findPlan(pricing, plan) === undefined)
    return refusal("planUnknown", `Plan ${plan} for service ${serviceName} not found ${PLACE}`);
  const sent = Object.entries(choice.addOns ?? {});
  const chosen = new Set(sent.map(([name]) => name.toLowerCase()));
  const addOns = emptyRecord<number>();
  for (const [name, quantity] of sent) {
    const addOn = findAddOn(pricing, name);
    if (addOn === undefined)
      return refusal(
        "addOnUnknown",
        `Add-on ${name} declared in the subscription not found in pricing version ${version} ${PLACE}`,
      );
    const broken = checkAddOn(addOn, name, quantity, plan, chosen);
    if (broken !== undefined) return broken;
    addOns[addOn.name] = quantity;
  }
  return { ok: true, ...(plan === undefined ? {} : { plan }), addOns };
}

/** The plan's value of every item, else its default, in the order of the file (a record would sort names like `2024`). */
function startValues<Value>(
  items: readonly { readonly name: string; readonly defaultValue: Value }[],
  plan: Readonly<Record<string, Value>> | undefined,
): Map<string, Value> {
  const values = new Map<string, Value>();
  if (plan === undefined) return values;
  for (const { name, defaultValue } of items) {
    const own = Object.hasOwn(plan, name) ? plan[name] : undefined;
    values.set(name, own ?? defaultValue);
  }
  return values;
}

/**
 * What a plan and add-ons grant together: the plan's values, then what add-ons replace, then what they add, each in the
 * order of the pricing. An extension is value × quantity, on top of the pricing's default where the plan brings none;
 * only numbers extend. Without a plan, only what add-ons bring exists. Never fails: an unknown plan counts as none.
 * Source: features-events.md §2.1.
 */
export function grant(
  pricing: CompiledPricing,
  plan: string | undefined,
  addOns: Readonly<Record<string, number>>,
): Grant {
  const base = plan === undefined ? undefined : findPlan(pricing, plan);
  const features = startValues<FeatureValue>(pricing.pricing.features, base?.features);
  const usageLimits = startValues<LimitValue>(pricing.pricing.usageLimits, base?.usageLimits);
  const quantities = new Map(Object.entries(addOns).map(([name, quantity]) => [name.toLowerCase(), quantity]));
  const active =
    quantities.size === 0
      ? []
      : pricing.pricing.addOns
          .map((addOn) => ({ addOn, quantity: quantities.get(addOn.name.toLowerCase()) ?? 0 }))
          .filter(({ quantity }) => quantity > 0);
  for (const { addOn } of active) {
    for (const [name, value] of Object.entries(addOn.features)) features.set(name, value);
    for (const [name, value] of Object.entries(addOn.usageLimits)) usageLimits.set(name, value);
  }
  for (const { addOn, quantity } of active) {
    for (const [name, value] of Object.entries(addOn.usageLimitsExtensions)) {
      const current = usageLimits.get(name) ?? pricing.usageLimits.get(name)?.defaultValue ?? 0;
      if (typeof current === "number") usageLimits.set(name, current + value * quantity);
    }
  }
  if (base !== undefined) return { features, usageLimits };
  return {
    features: inOrderOf(pricing.pricing.features, features),
    usageLimits: inOrderOf(pricing.pricing.usageLimits, usageLimits),
  };
}

/** The same values in the order of the file. */
function inOrderOf<Value>(items: readonly { readonly name: string }[], values: ReadonlyMap<string, Value>) {
  const ordered = new Map<string, Value>();
  for (const { name } of items) {
    const value = values.get(name);
    if (value !== undefined) ordered.set(name, value);
  }
  return ordered;
}
