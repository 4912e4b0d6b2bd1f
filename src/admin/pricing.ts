import { compilePricing, type CompiledPricing, findPlan } from "../core/pricing/compile.ts";
import { withBlocks } from "../core/pricing/blocks.ts";
import { sum, total } from "../core/exact.ts";
import { isBound } from "../core/pricing/model.ts";
import type { AddOn, Feature, FeatureValue, LimitValue, Plan, Pricing, UsageLimit } from "../core/pricing/model.ts";
import { withOverrides } from "../core/pricing/overrides.ts";
import { checkSubscription, grant, type Grant } from "../core/pricing/subscription.ts";
import type {
  Balance,
  Contract,
  Override,
  Subscription,
  WireAddOn,
  WireFeature,
  WireLimit,
  WirePlan,
  WirePricing,
} from "./answers.ts";

/*
 * Converts the server's pricings into the engine's model, so that the console evaluates with the server's own code.
 */

const known = new WeakMap<WirePricing, CompiledPricing>();

/** Returns the compiled pricing, cached per response object. */
export function compiledFrom(serviceName: string, wire: WirePricing): CompiledPricing {
  let compiled = known.get(wire);
  if (compiled === undefined) {
    compiled = compilePricing(modelFrom(serviceName, wire));
    known.set(wire, compiled);
  }
  return compiled;
}

/** Builds the engine's model of a pricing. Units and variables are not on the wire, so they stay empty. */
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

/** Omits undefined fields, as exactOptionalPropertyTypes requires. */
export function given<Key extends string, Value>(key: Key, value: Value | undefined): { [name in Key]?: Value } {
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

/** A contract's choice for one service, and its exceptions there. */
export interface Choice {
  plan: string | undefined;
  addOns: Readonly<Record<string, number>>;
  /** Overrides that hold, if any. */
  overrides?: readonly Override[];
}

/** Returns a contract's choice for a service, looked up by the service's lower-case name. */
export function choiceOf(
  contract: Pick<Contract, "subscriptionPlans" | "subscriptionAddOns" | "overrides">,
  serviceKey: string,
): Choice {
  const overrides = contract.overrides?.filter(({ service, state }) => service === serviceKey && state === "active");
  return {
    plan: contract.subscriptionPlans[serviceKey],
    addOns: contract.subscriptionAddOns[serviceKey] ?? {},
    ...given("overrides", overrides),
  };
}

/** Computes what a choice grants, overrides included. */
export function grantOf(pricing: CompiledPricing, { plan, addOns, overrides = [] }: Choice): Grant {
  return withOverrides(pricing, grant(pricing, plan, addOns), overrides);
}

/**
 * Returns a grant with what the subscriber's blocks add to it. Blocks of a limit that had no bound were not drawn: all that
 * they have left adds to a limit with one.
 */
export function withBlocksOf(pricing: CompiledPricing, granted: Grant, balances: readonly Balance[]): Grant {
  const added = balances.map(({ limit: limitName, granted: before, limitNow, blocks }) => ({
    limitName,
    amount:
      isBound(before) && isBound(limitNow) ? sum(limitNow, -before) : total(blocks.map(({ remaining }) => remaining)),
  }));
  return withBlocks(pricing, granted, added);
}

/** Returns the balances of one service that were read with a subscription. */
export const balancesOf = ({ balances = [] }: Pick<Subscription, "balances">, service: string): readonly Balance[] =>
  balances.filter((each) => each.service === service);

/** Computes what a subscriber may use of one service: the grant, with blocks. */
export function limitsOf(pricing: CompiledPricing, subscription: Subscription, service: string): Grant {
  return withBlocksOf(pricing, grantOf(pricing, choiceOf(subscription, service)), balancesOf(subscription, service));
}

/** Returns why a choice cannot be contracted; undefined if it can. */
export function refusalOf(serviceKey: string, pricing: WirePricing, { plan, addOns }: Choice): string | undefined {
  const verdict = checkSubscription(compiledFrom(serviceKey, pricing), {
    serviceName: serviceKey,
    version: pricing.version,
    ...given("plan", plan),
    addOns,
  });
  return verdict.ok ? undefined : verdict.message.replace(/ in the request organization/, "");
}

/** One feature or limit that a choice grants, with its origin. */
export interface Entitlement {
  name: string;
  kind: "feature" | "limit";
  value: FeatureValue | LimitValue;
  /** The plan, the pricing's default, the add-ons that changed it, or an override. */
  from: { source: "plan" | "default" | "addOn" | "override"; names: string[] };
}

/** Lists everything that a choice grants, in the pricing's order. */
export function entitlements(pricing: CompiledPricing, choice: Choice): Entitlement[] {
  const granted = grantOf(pricing, choice);
  const plan = choice.plan === undefined ? undefined : findPlan(pricing, choice.plan);
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
    const isOverridden = choice.overrides?.some(
      (each) => each.name === name && each.kind === (kind === "feature" ? "features" : "usageLimits"),
    );
    if (isOverridden === true) return { source: "override", names: [] };
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

/** One counted limit of a contract with its maximum. */
export interface Usage {
  service: string;
  limit: string;
  consumed: number;
  /** Amount that open holds set aside. */
  held: number;
  /** Undefined while the pricing is loading; boolean for limits that are no number. */
  allowed: LimitValue | undefined;
  resetsAt: string | undefined;
  /** With the blocks that add to the limit. Undefined if it was not read. */
  balance?: Balance;
}

/** Lists a contract's usage. `pricingOf` may return undefined while a pricing is loading. */
export function usageOf(
  contract: Contract,
  pricingOf: (service: string, version: string) => CompiledPricing | undefined,
): Usage[] {
  return Object.entries(contract.usageLevels).flatMap(([service, levels]) => {
    const pricing = pricingOf(service, contract.contractedServices[service] ?? "");
    const granted = pricing === undefined ? undefined : limitsOf(pricing, contract, service);
    const balances = balancesOf(contract, service);
    return Object.entries(levels).map(([limit, { consumed, held = 0, resetTimeStamp }]) => ({
      service,
      limit,
      consumed,
      held,
      allowed: granted?.usageLimits.get(limit),
      resetsAt: resetTimeStamp,
      ...given(
        "balance",
        balances.find((each) => each.limit === limit),
      ),
    }));
  });
}
