import { isMultipleOf, wholeStepOf } from "../exact.ts";
import { findAddOn, findPlan, trackedLimits } from "./compile.ts";
import type { CompiledPricing } from "./compile.ts";
import { emptyRecord, UNLIMITED } from "./model.ts";
import { seatsOf } from "./seats.ts";
import type { AddOn, FeatureValue, LimitValue, Period, SubscriptionConstraints } from "./model.ts";

/** Requested subscription to one service. Names are case-insensitive. */
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
  | "addOnQuantity"
  | "addOnRepeated";

export type SubscriptionVerdict =
  | {
      readonly ok: true;
      /** Name of the plan in the caller's spelling. */
      readonly plan?: string;
      /** Quantities by add-on name, in the pricing's spelling. */
      readonly addOns: Record<string, number>;
    }
  | { readonly ok: false; readonly rule: SubscriptionRule; readonly message: string };

/**
 * Granted values of a configuration, keyed by names without the prefix of the service. Source: features-events.md §2.1.
 */
export interface Grant {
  readonly features: ReadonlyMap<string, FeatureValue>;
  readonly usageLimits: ReadonlyMap<string, LimitValue>;
}

type InvalidSubscription = Extract<SubscriptionVerdict, { ok: false }>;

const PLACE = "in the request organization";

function refusal(rule: SubscriptionRule, message: string): InvalidSubscription {
  return { ok: false, rule, message };
}

function includesName(names: Iterable<string>, name: string): boolean {
  const wanted = name.toLowerCase();
  for (const each of names) if (each.toLowerCase() === wanted) return true;
  return false;
}

/** Returns the add-on's quantity rules, with defaults if the file has none. Source: pricing2yaml.md §7. */
export function constraintsOf(addOn: AddOn): SubscriptionConstraints {
  return addOn.subscriptionConstraints ?? { minQuantity: 1, maxQuantity: null, quantityStep: 1 };
}

/**
 * Returns the quantity rules for whole numbers, the only quantities that a contract can have. From 0.5 in steps of 0.5 these
 * are 1, 2, 3. The smallest quantity of a pricing is a multiple of its step, so all others are.
 */
export function wholeConstraintsOf(addOn: AddOn): SubscriptionConstraints {
  const constraints = constraintsOf(addOn);
  const { minQuantity, quantityStep } = constraints;
  if (Number.isInteger(minQuantity) && Number.isInteger(quantityStep)) return constraints;
  const step = wholeStepOf(quantityStep);
  return { ...constraints, minQuantity: Math.ceil(minQuantity / step) * step, quantityStep: step };
}

/** Returns true if the quantity is valid for the add-on. Source: contracts.md §4.3 rule 9. */
export function allowsQuantity(addOn: AddOn, quantity: number): boolean {
  const { minQuantity: min, maxQuantity, quantityStep: step } = constraintsOf(addOn);
  const isInRange = quantity >= min && quantity <= (maxQuantity ?? Infinity);
  return isInRange && Number.isInteger(quantity) && isMultipleOf(quantity - min, step);
}

/** Checks rules 6 to 9 for one add-on. `name` is in the caller's spelling. */
function checkAddOn(
  addOn: AddOn,
  name: string,
  quantity: number,
  plan: string | undefined,
  chosen: ReadonlySet<string>,
): InvalidSubscription | undefined {
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
 * Checks if the plan and add-ons are a valid subscription to one service. Applies rules 3 to 9 in order, to add-ons in
 * the order sent, and returns the first violation with its message. Names are case-insensitive. Source: contracts.md
 * §4.3.
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
    if (Object.hasOwn(addOns, addOn.name))
      return refusal("addOnRepeated", `Add-on ${addOn.name} is selected more than once ${PLACE}`);
    const broken = checkAddOn(addOn, name, quantity, plan, chosen);
    if (broken !== undefined) return broken;
    addOns[addOn.name] = quantity;
  }
  return { ok: true, ...(plan === undefined ? {} : { plan }), addOns };
}

/**
 * Returns the plan's value of every item, or its default, in the order of the file. A record would move names like
 * `2024` to the front.
 */
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

/** Returns the add-ons with a quantity above 0, in the order of the pricing. Unknown names count as none. */
export function activeAddOns(
  pricing: CompiledPricing,
  addOns: Readonly<Record<string, number>>,
): { readonly addOn: AddOn; readonly quantity: number }[] {
  const quantities = new Map<AddOn | undefined, number>();
  for (const [name, quantity] of Object.entries(addOns)) quantities.set(findAddOn(pricing, name), quantity);
  if (quantities.size === 0) return [];
  return pricing.pricing.addOns
    .map((addOn) => ({ addOn, quantity: quantities.get(addOn) ?? 0 }))
    .filter(({ quantity }) => quantity > 0);
}

/**
 * Computes the values that a plan and add-ons grant. Starts with the plan's values, then applies replacements and
 * extensions by add-ons, each in the order of the pricing. An extension adds value × quantity, on top of the pricing's
 * default if the plan has no value. Only numbers extend. Without a plan, only values from add-ons exist.
 *
 * Never fails: an unknown plan counts as none. Source: features-events.md §2.1.
 */
export function grant(
  pricing: CompiledPricing,
  plan: string | undefined,
  addOns: Readonly<Record<string, number>>,
): Grant {
  const base = plan === undefined ? undefined : findPlan(pricing, plan);
  const features = startValues<FeatureValue>(pricing.pricing.features, base?.features);
  const usageLimits = startValues<LimitValue>(pricing.pricing.usageLimits, base?.usageLimits);
  const active = activeAddOns(pricing, addOns);
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

/** A limit whose consumption contracts count, with its value in one configuration. */
export interface GrantedLimit {
  readonly name: string;
  readonly period?: Period;
  /** Null if consumption cannot approach the limit: it is unlimited, a boolean, or not granted. */
  readonly value: number | null;
  /** The limit's balance is the number of the contract's members. */
  readonly countsMembers?: true;
}

/** Returns the tracked limits, in the order of the file, with the values that a plan and add-ons grant. */
export function grantedLimits(
  pricing: CompiledPricing,
  { plan, addOns }: { plan: string | null; addOns: Readonly<Record<string, number>> | null },
): GrantedLimit[] {
  const { usageLimits } = grant(pricing, plan ?? undefined, addOns ?? {});
  const seats = seatsOf(pricing.pricing);
  return trackedLimits(pricing).map((limit) => ({
    ...limit,
    value: finiteLimit(usageLimits.get(limit.name)),
    ...(limit.name === seats ? { countsMembers: true } : {}),
  }));
}

/** Returns a limit that consumption can approach; null for any other value. */
export function finiteLimit(value: LimitValue | undefined): number | null {
  return typeof value === "number" && value >= 0 && value < UNLIMITED ? value : null;
}

/** Reorders the values to the order of the file. */
export function inOrderOf<Value>(items: readonly { readonly name: string }[], values: ReadonlyMap<string, Value>) {
  const ordered = new Map<string, Value>();
  for (const { name } of items) {
    const value = values.get(name);
    if (value !== undefined) ordered.set(name, value);
  }
  return ordered;
}
