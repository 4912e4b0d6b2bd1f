import { compilePricing, type CompiledPricing } from "../core/pricing/compile.ts";
import type { AddOn, Feature, FeatureValue, LimitValue, Plan, Pricing, UsageLimit } from "../core/pricing/model.ts";
import { checkSubscription, grant } from "../core/pricing/subscription.ts";
import type { Contract, WireAddOn, WireFeature, WireLimit, WirePlan, WirePricing } from "./answers.ts";

/*
 * What the server tells of a pricing, as the model that the engine works on, so that the console decides with the very code
 * that the server decides with.
 */

const known = new WeakMap<WirePricing, CompiledPricing>();

/** The pricing ready to be asked; made once for each answer. */
export function compiledFrom(serviceName: string, wire: WirePricing): CompiledPricing {
  let compiled = known.get(wire);
  if (compiled === undefined) {
    compiled = compilePricing(modelFrom(serviceName, wire));
    known.set(wire, compiled);
  }
  return compiled;
}

/** The model of a pricing; units, variables and texts for people are not on the wire and empty here. */
export function modelFrom(serviceName: string, wire: WirePricing): Pricing {
  return {
    saasName: serviceName,
    syntaxVersion: "3.0",
    version: wire.version,
    currency: wire.currency,
    createdAt: wire.createdAt,
    tags: [],
    billing: {},
    variables: {},
    custom: {},
    features: Object.values(wire.features).map(featureFrom),
    usageLimits: Object.values(wire.usageLimits).map(limitFrom),
    plans: Object.values(wire.plans).map(planFrom),
    addOns: Object.values(wire.addOns).map(addOnFrom),
  };
}

/** Fields that are absent stay absent, which exactOptionalPropertyTypes asks for. */
function given<Key extends string, Value>(key: Key, value: Value | undefined): { [name in Key]?: Value } {
  const field: { [name in Key]?: Value } = {};
  if (value !== undefined) field[key] = value;
  return field;
}

function featureFrom(wire: WireFeature): Feature {
  const { name, valueType, defaultValue, render } = wire;
  return {
    name,
    valueType,
    defaultValue,
    render,
    type: "DOMAIN",
    ...given("description", wire.description),
    ...given("expression", wire.expression),
    ...given("serverExpression", wire.serverExpression),
    ...given("tag", wire.tag),
  };
}

function limitFrom(wire: WireLimit): UsageLimit {
  const { name, defaultValue, type, trackable, linkedFeatures } = wire;
  return {
    name,
    defaultValue,
    type,
    trackable,
    linkedFeatures,
    valueType: wire.valueType === "BOOLEAN" ? "BOOLEAN" : "NUMERIC",
    unit: "",
    render: "AUTO",
    ...given("description", wire.description),
    ...given("period", wire.period),
  };
}

function planFrom(wire: WirePlan): Plan {
  const { name, price, features, usageLimits } = wire;
  return {
    name,
    price,
    features,
    usageLimits,
    unit: "",
    private: wire.private,
    ...given("description", wire.description),
  };
}

function addOnFrom(wire: WireAddOn): AddOn {
  const extensions = Object.entries(wire.usageLimitsExtensions).filter(
    (entry): entry is [string, number] => typeof entry[1] === "number",
  );
  return {
    ...planFrom(wire),
    availableFor: wire.availableFor,
    dependsOn: wire.dependsOn,
    excludes: wire.excludes,
    usageLimitsExtensions: Object.fromEntries(extensions),
    ...given("subscriptionConstraints", wire.subscriptionConstraints),
  };
}

/** What somebody chose of one service. */
export interface Choice {
  plan: string | undefined;
  addOns: Readonly<Record<string, number>>;
}

/** What a contract chose of a service, by the service's name in lower case. */
export function choiceOf(
  contract: Pick<Contract, "subscriptionPlans" | "subscriptionAddOns">,
  serviceKey: string,
): Choice {
  return { plan: contract.subscriptionPlans[serviceKey], addOns: contract.subscriptionAddOns[serviceKey] ?? {} };
}

/** Why a choice of one service cannot be contracted; undefined when it can. */
export function refusalOf(serviceKey: string, pricing: WirePricing, { plan, addOns }: Choice): string | undefined {
  const verdict = checkSubscription(compiledFrom(serviceKey, pricing), {
    serviceName: serviceKey,
    version: pricing.version,
    ...given("plan", plan),
    addOns,
  });
  return verdict.ok ? undefined : verdict.message.replace(/ in the request organization/, "");
}

/** One thing that a choice gives, and where it comes from. */
export interface Entitlement {
  name: string;
  kind: "feature" | "limit";
  value: FeatureValue | LimitValue;
  /** The plan, the pricing's default, or the add-ons that changed it. */
  from: { source: "plan" | "default" | "addOn"; names: string[] };
}

/** Everything that a choice gives, in the order of the pricing. */
export function entitlements(pricing: CompiledPricing, choice: Choice): Entitlement[] {
  const granted = grant(pricing, choice.plan, choice.addOns);
  const plan = choice.plan === undefined ? undefined : pricing.plans.get(choice.plan.toLowerCase());
  const chosen = new Set(
    Object.entries(choice.addOns)
      .filter(([, quantity]) => quantity > 0)
      .map(([name]) => name.toLowerCase()),
  );
  const addOns = pricing.pricing.addOns.filter((addOn) => chosen.has(addOn.name.toLowerCase()));
  const sourceOf = (
    kind: Entitlement["kind"],
    name: string,
    value: unknown,
    otherwise: unknown,
  ): Entitlement["from"] => {
    const changing = addOns.filter((addOn) =>
      kind === "feature"
        ? Object.hasOwn(addOn.features, name)
        : Object.hasOwn(addOn.usageLimits, name) || Object.hasOwn(addOn.usageLimitsExtensions, name),
    );
    if (changing.length > 0) return { source: "addOn", names: changing.map((addOn) => addOn.name) };
    if (plan === undefined || JSON.stringify(value) === JSON.stringify(otherwise))
      return { source: "default", names: [] };
    return { source: "plan", names: [plan.name] };
  };
  const features = [...granted.features].map(([name, value]): Entitlement => {
    const otherwise = pricing.features.get(name)?.feature.defaultValue;
    return { name, kind: "feature", value, from: sourceOf("feature", name, value, otherwise) };
  });
  const limits = [...granted.usageLimits].map(([name, value]): Entitlement => {
    const otherwise = pricing.usageLimits.get(name)?.defaultValue;
    return { name, kind: "limit", value, from: sourceOf("limit", name, value, otherwise) };
  });
  return [...features, ...limits];
}

/** One counted limit of a contract, against what it may reach. */
export interface Usage {
  service: string;
  limit: string;
  consumed: number;
  /** undefined while the pricing is not known, true or false for limits that are no number. */
  allowed: LimitValue | undefined;
  resetsAt: string | undefined;
}

/** The usage of a contract; `pricingOf` gives the pricing of a service's version where it is known. */
export function usageOf(
  contract: Contract,
  pricingOf: (service: string, version: string) => CompiledPricing | undefined,
): Usage[] {
  return Object.entries(contract.usageLevels).flatMap(([service, levels]) => {
    const pricing = pricingOf(service, contract.contractedServices[service] ?? "");
    const { plan, addOns } = choiceOf(contract, service);
    const granted = pricing === undefined ? undefined : grant(pricing, plan, addOns);
    return Object.entries(levels).map(([limit, { consumed, resetTimeStamp }]) => ({
      service,
      limit,
      consumed,
      allowed: granted?.usageLimits.get(limit),
      resetsAt: resetTimeStamp,
    }));
  });
}
