import { configurationOf, type Configuration } from "../core/change/configuration.ts";
import { createSide, entitlementsOf, type Side, withOverridesOf } from "../core/change/entitlements.ts";
import { type Changes, changesOf } from "../core/offers/changes.ts";
import { offerFor, type OfferedPlan } from "../core/offers/offer.ts";
import { type FoundPurchases, type NamedConfiguration, unlockSteps } from "../core/offers/unlock.ts";
import type { CompiledPricing } from "../core/pricing/compile.ts";
import { evaluateBoolean, prepareEvaluation } from "../core/pricing/evaluate.ts";
import { computingTime, finish } from "../core/steps.ts";
import type { Subscription } from "./answers.ts";
import type { Explained, PricingOf, UsageById } from "./explain.ts";
import { balancesOf, choiceOf, limitsOf, withBlocksOf } from "./pricing.ts";

/*
 * Computes unlocks in the browser with the server's own search: user keys cannot ask for an end user's features.
 */

/** Computing time of one search. A browser compiles the search while it runs it for the first time. */
const SEARCH_MS = 100;

const sides = new WeakMap<CompiledPricing, Side>();

function sideOf(pricing: CompiledPricing): Side {
  let side = sides.get(pricing);
  if (side === undefined) sides.set(pricing, (side = createSide(pricing)));
  return side;
}

/** Returns the pricing for this contract: with its overrides, which a change of plan keeps. */
function overridden(subscription: Subscription, service: string, pricing: CompiledPricing): Side {
  return withOverridesOf(sideOf(pricing), choiceOf(subscription, service).overrides ?? []);
}

function currentOf(subscription: Subscription, service: string): Configuration {
  const { plan, addOns } = choiceOf(subscription, service);
  return configurationOf(plan, addOns);
}

/** Finds the best purchases that turn a denied feature on. Undefined while the pricing is loading. */
export function findUnlock(
  { id, service, name }: Explained,
  given: { subscription: Subscription; pricingOf: PricingOf; usage: UsageById; isServer: boolean },
): FoundPurchases | undefined {
  const { subscription, pricingOf, usage, isServer } = given;
  const pricing = pricingOf(service, subscription.contractedServices[service] ?? "");
  if (pricing === undefined) return undefined;
  const others = Object.entries(subscription.contractedServices).flatMap(([other, version]) => {
    const compiled = pricingOf(other, version);
    if (compiled === undefined) return [];
    return [{ serviceName: other, pricing: compiled, grant: limitsOf(compiled, subscription, other) }];
  });
  const side = overridden(subscription, service, pricing);
  const time = computingTime(() => performance.now());
  return finish(
    unlockSteps(
      { before: side, after: side, current: currentOf(subscription, service) },
      {
        feature: name,
        mode: isServer ? "server" : "client",
        demanded: (limit) => [usage.get(`${service}-${limit}`) ?? 0],
        unlocks: (granted) => {
          const grant = withBlocksOf(pricing, granted, balancesOf(subscription, service));
          const services = others.map((other) => (other.serviceName === service ? { ...other, grant } : other));
          return evaluateBoolean(prepareEvaluation(services), id, usage, { server: isServer });
        },
      },
      () => time.read() > SEARCH_MS,
    ),
  );
}

/** A plan of a version, with what moving to it changes. */
export interface PlanMove extends Changes {
  plan: OfferedPlan;
}

/** Lists the plans that a contract could move to, each with what it would change. */
export function planMoves(subscription: Subscription, service: string, pricing: CompiledPricing): PlanMove[] {
  const side = overridden(subscription, service, pricing);
  const configuration = currentOf(subscription, service);
  const held = { side, configuration, isShown: true, expired: false };
  const { plans } = offerFor(side, { service, versions: undefined, user: { held } });
  const current = entitlementsOf(side, configuration);
  return plans.map((plan) => ({ plan, ...changesOf(current, entitlementsOf(side, configurationFrom(plan.select))) }));
}

const configurationFrom = ({ plan, addOns }: NamedConfiguration): Configuration =>
  configurationOf(plan ?? undefined, addOns);

/** Returns a contract's subscription with another configuration of one service. */
export function subscriptionFrom(
  before: Subscription,
  service: string,
  { plan, addOns }: NamedConfiguration,
): Subscription {
  const { [service]: _, ...plans } = before.subscriptionPlans;
  const { [service]: __, ...others } = before.subscriptionAddOns;
  return {
    contractedServices: before.contractedServices,
    subscriptionPlans: plan === null ? plans : { ...plans, [service]: plan },
    subscriptionAddOns: Object.keys(addOns).length === 0 ? others : { ...others, [service]: addOns },
  };
}

/** Formats a configuration: `PRO + 2 × extraTasks`. */
export function configurationText({ plan, addOns }: NamedConfiguration): string {
  return [plan, ...Object.entries(addOns).map(([name, quantity]) => `${quantity} × ${name}`)]
    .filter((part) => part !== null)
    .join(" + ");
}
