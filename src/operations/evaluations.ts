import type { MaybePromise } from "../core/maybe-promise.ts";
import { findPlan } from "../core/pricing/compile.ts";
import { type ContractedService, type Evaluation, prepareEvaluation } from "../core/pricing/evaluate.ts";
import { holdsAt, withOverrides } from "../core/pricing/overrides.ts";
import { grant } from "../core/pricing/subscription.ts";
import type { ContractSnapshot, SnapshotOverride } from "../db/queries/contract-snapshots.ts";
import type { Context } from "./context.ts";
import { Failure } from "./errors.ts";
import { compiledPricings } from "./subscriptions.ts";

/** Cache keys by the identity of the services list, which is immutable. */
const cacheKeys = new WeakMap<ContractSnapshot["services"], string>();

/** Returns the key under which a subscription's evaluation is cached. It contains all inputs, which are immutable. */
function cacheKeyOf({ services }: ContractSnapshot): string {
  let key = cacheKeys.get(services);
  if (key === undefined) {
    key = JSON.stringify(services.map((s) => [s.key, s.disabled, s.version, s.hash, s.plan, s.addOns]));
    cacheKeys.set(services, key);
  }
  return key;
}

/** The overrides of a contract that hold during a span of time. */
interface Holding {
  readonly services: ContractSnapshot["services"];
  readonly overrides: readonly SnapshotOverride[];
  /** They hold from here, in milliseconds, until just before `until`. */
  readonly from: number;
  readonly until: number;
  /** Key under which the evaluation is cached. */
  readonly key: string;
}

/** The last span of each list of overrides, which is immutable. */
const holdings = new WeakMap<readonly SnapshotOverride[], Holding>();

/** Returns the overrides of a contract with some that hold at that moment. */
function holdingAt(contract: ContractSnapshot, at: Date): Holding {
  const { services, overrides: all } = contract;
  const known = holdings.get(all);
  const moment = at.getTime();
  if (known?.services === services && known.from <= moment && moment < known.until) return known;
  const boundaries = all.flatMap(({ from, until }) => [from.getTime(), until?.getTime() ?? Infinity]);
  const overrides = all.filter((override) => holdsAt(override, at));
  const values = overrides.map(({ serviceId, kind, name, mode, value }) => [serviceId, kind, name, mode, value]);
  const holding = {
    services,
    overrides,
    from: Math.max(-Infinity, ...boundaries.filter((boundary) => boundary <= moment)),
    until: Math.min(Infinity, ...boundaries.filter((boundary) => boundary > moment)),
    key: overrides.length === 0 ? cacheKeyOf(contract) : `${cacheKeyOf(contract)} ${JSON.stringify(values)}`,
  };
  holdings.set(all, holding);
  return holding;
}

/**
 * Returns the evaluation of a contract at that moment, from the cache if possible.
 * @throws Failure with which every evaluation of this contract is refused.
 */
export function evaluationOf(
  ctx: Pick<Context, "db" | "resources">,
  contract: ContractSnapshot,
  at: Date,
): MaybePromise<Evaluation> {
  const { pricingCache } = ctx.resources;
  if (contract.overrides.length > 0) {
    const { key, overrides } = holdingAt(contract, at);
    return pricingCache.evaluation(key) ?? createEvaluation(ctx, contract, overrides, key);
  }
  const key = cacheKeyOf(contract);
  return pricingCache.evaluation(key) ?? createEvaluation(ctx, contract, [], key);
}

async function createEvaluation(
  ctx: Pick<Context, "db" | "resources">,
  contract: ContractSnapshot,
  overrides: readonly SnapshotOverride[],
  key: string,
): Promise<Evaluation> {
  const disabled = contract.services.find((service) => service.disabled);
  if (disabled !== undefined) throw new Failure("notFound", `NOT FOUND: Service with name ${disabled.key}`);
  const compiled = await compiledPricings(ctx, contract.services);
  const contracted = contract.services.map((service): ContractedService => {
    const pricing = compiled.get(service.hash);
    if (pricing === undefined) {
      throw new Failure("notFound", `Pricing version ${service.version} not found for service ${service.key}`);
    }
    if (service.plan === null && pricing.pricing.plans.length > 0) {
      throw new Failure(
        "invalid",
        `Invalid subscription: No plan found in user subscription for service ${service.key}, whose pricing do have plans`,
      );
    }
    if (service.plan !== null && findPlan(pricing, service.plan) === undefined) {
      throw new Failure(
        "notFound",
        `Plan ${service.plan} not found in pricing for service ${service.key}, whose pricing do have plans.`,
      );
    }
    return {
      serviceName: service.key,
      pricing,
      grant: withOverrides(
        pricing,
        grant(pricing, service.plan ?? undefined, service.addOns ?? {}),
        overrides.filter(({ serviceId }) => serviceId === service.serviceId),
      ),
    };
  });
  const modelHashes = contract.services.map(({ hash }) => hash);
  return ctx.resources.pricingCache.keepEvaluation(key, prepareEvaluation(contracted), modelHashes);
}
