import { eq } from "drizzle-orm";
import { type MaybePromise, chain } from "../../core/maybe-promise.ts";
import { renewedEnd } from "../../core/period.ts";
import { findPlan } from "../../core/pricing/compile.ts";
import { type ContractedService, type Evaluation, prepareEvaluation, readsUsage } from "../../core/pricing/evaluate.ts";
import { holdsAt, withOverrides } from "../../core/pricing/overrides.ts";
import { grant } from "../../core/pricing/subscription.ts";
import { namedEvents, readFacts } from "../../db/queries/contract-facts.ts";
import { type Addressed, recordEvents } from "../../db/queries/outbox.ts";
import {
  type ContractSnapshot,
  type EndUserName,
  loadSnapshot,
  type SnapshotOverride,
} from "../../db/queries/contract-snapshots.ts";
import { recordStates } from "../../db/queries/contract-states.ts";
import { boundaryAfter, isDue, lockContract, renewDue } from "../../db/queries/usage.ts";
import { contracts } from "../../db/schema.ts";
import { type Context, newId, transaction } from "../context.ts";
import { contractNotFound } from "../contract-address.ts";
import { applyDueChangesOf } from "../due-changes.ts";
import { Failure } from "../errors.ts";
import { compiledPricings } from "../subscriptions.ts";
import type { Mode } from "./request.ts";

const EXPIRED =
  "Invalid subscription: Your susbcription has expired and it is not set to renew automatically. To continue accessing the features, please purchase any subscription.";

/** A contract ready for evaluation: its entitlements and its current balances. */
export interface Prepared {
  contract: ContractSnapshot;
  /** The moment of the evaluation, which decides which overrides hold. */
  at: Date;
  evaluation: Evaluation;
  /** `<service>-<limit>` -> consumed. */
  usage: Map<string, number>;
}

export function evaluatedOrganization(ctx: Context): string {
  if (ctx.caller.kind !== "key") throw new Error("features are evaluated with organization keys only");
  return ctx.caller.organizationId;
}

/**
 * Loads the end user's contract, renews due balances, and prepares the evaluation. Takes no lock unless something is
 * due. Source: contract features-events §2, contracts §12.
 * @throws Failure notFound without a contract; invalid when it has expired.
 */
export function prepareContract(ctx: Context, userId: string): MaybePromise<Prepared> {
  const name = { organizationId: evaluatedOrganization(ctx), userId };
  return chain(ctx.resources.snapshots.snapshot(name), (contract) => {
    if (contract === null) throw contractNotFound(userId);
    const now = ctx.resources.now();
    if (needsRenewal(contract, now)) return withLockedContract(ctx, name, async (_, prepared) => prepared);
    return prepare(ctx, contract, now);
  });
}

/**
 * Prepares one feature, or all of them, from the cached contract if possible. Avoids a database read when no expression
 * reads a balance and nothing is due.
 */
export function prepareFor(
  ctx: Context,
  { userId, featureId, mode }: { userId: string; featureId?: string; mode: Mode },
): MaybePromise<Prepared> {
  return chain(
    ctx.resources.snapshots.cachedSnapshot({ organizationId: evaluatedOrganization(ctx), userId }),
    (cached) => {
      if (cached === null) throw contractNotFound(userId);
      const now = ctx.resources.now();
      if (isChangeDue(cached, now) || isOver(cached, now) || hasDue(cached, now)) return prepareContract(ctx, userId);
      return chain(evaluationOf(ctx, cached, now), (evaluation) =>
        readsUsage(evaluation, mode, featureId) ? prepareContract(ctx, userId) : preparedOf(cached, now, evaluation),
      );
    },
  );
}

/**
 * True if a scheduled change is due, or the contract or a balance has reached the end of its period.
 * @throws Failure invalid for an expired contract that does not renew.
 */
export function needsRenewal(contract: ContractSnapshot, now: Date): boolean {
  return isChangeDue(contract, now) || isExpired(contract, now) || hasDue(contract, now);
}

/** True if the contract's scheduled change is to be applied before anything else. */
export function isChangeDue({ changeAt }: ContractSnapshot, now: Date): boolean {
  return changeAt !== null && changeAt.getTime() <= now.getTime();
}

function hasDue(contract: ContractSnapshot, now: Date): boolean {
  return contract.levels.some((level) => isDue(level, now));
}

/** Thrown under the lock of a contract with a due change, whose services must be locked before the contract. */
class ChangeDue extends Error {}

/**
 * Locks the contract until `work` and its transaction end. Balances, plan and versions are current under the lock, and
 * all writes of `work` are atomic.
 */
export function withLockedContract<T>(
  ctx: Context,
  name: EndUserName,
  work: (ctx: Context, prepared: Prepared) => Promise<T>,
): Promise<T> {
  return withRenewedContract(ctx, name, async (ctx, contract, now) => {
    const { contractId, levels } = contract;
    const renewed = await renewDue(ctx.db, contractId, levels, { operationId: newId(now), now });
    return work(ctx, await prepare(ctx, { ...contract, levels: renewed }, now));
  });
}

/** Applies the scheduled change and renews the billing period, if due. Resets no balance. */
export function renewBillingPeriod(ctx: Context, name: EndUserName): Promise<void> {
  return withRenewedContract(ctx, name, async () => {});
}

async function withRenewedContract<T>(
  ctx: Context,
  name: EndUserName,
  work: (ctx: Context, contract: ContractSnapshot, now: Date) => Promise<T>,
): Promise<T> {
  for (;;) {
    try {
      return await lockAndWork(ctx, name, work);
    } catch (error) {
      if (!(error instanceof ChangeDue)) throw error;
      // The rollback, if only to a savepoint, has released the lock.
      await applyDueChangesOf(ctx, name);
    }
  }
}

function lockAndWork<T>(
  ctx: Context,
  { organizationId, userId }: EndUserName,
  work: (ctx: Context, contract: ContractSnapshot, now: Date) => Promise<T>,
): Promise<T> {
  return transaction(ctx, async (ctx) => {
    // Lock and read in two statements: a single one would read its snapshot from before the lock wait.
    const found = await lockContract(ctx.db, organizationId, userId);
    const now = ctx.resources.now();
    const contract = found ? await loadSnapshot(ctx.db, organizationId, userId) : undefined;
    if (contract === undefined) throw contractNotFound(userId);
    if (isChangeDue(contract, now)) throw new ChangeDue();
    const { renewed, events } = isExpired(contract, now)
      ? await renewContract(ctx, contract, now)
      : { renewed: contract, events: [] };
    const result = await work(ctx, renewed, now);
    await recordEvents(ctx.db, events);
    return result;
  });
}

/** Prepares the contract for an evaluation at that moment. Renewals that are due must have been applied. */
export function prepare(
  ctx: Pick<Context, "db" | "resources">,
  contract: ContractSnapshot,
  at: Date,
): MaybePromise<Prepared> {
  return chain(evaluationOf(ctx, contract, at), (evaluation) => preparedOf(contract, at, evaluation));
}

function preparedOf(contract: ContractSnapshot, at: Date, evaluation: Evaluation): Prepared {
  return { contract, at, evaluation, usage: usageOf(contract) };
}

/** True after the end of the billing period. */
export function isOver(contract: Pick<ContractSnapshot, "endDate">, now: Date): boolean {
  return now.getTime() > contract.endDate.getTime();
}

/**
 * True if the contract is to be renewed before anything else.
 * @throws Failure invalid for an expired contract that does not renew.
 */
export function isExpired(contract: ContractSnapshot, now: Date): boolean {
  if (!isOver(contract, now)) return false;
  if (!contract.autoRenew) throw new Failure("invalid", EXPIRED);
  return true;
}

async function renewContract(
  ctx: Context,
  contract: ContractSnapshot,
  now: Date,
): Promise<{ renewed: ContractSnapshot; events: Addressed[] }> {
  const { contractId } = contract;
  const endDate = renewedEnd(contract.endDate, contract.renewalDays, now);
  const before = await readFacts(ctx.db, [contractId]);
  await ctx.db.update(contracts).set({ endDate, updatedAt: now }).where(eq(contracts.id, contractId));
  await recordStates(ctx.db, { contractIds: [contractId], cause: "renewal", now });
  const change = { code: "CONTRACT_RENEWED", contractId, fields: { endDate: endDate.toISOString() } } as const;
  const events = namedEvents([change], before, await readFacts(ctx.db, [contractId]));
  return { renewed: { ...contract, endDate }, events };
}

/**
 * Computes the contract as renewed at that moment, without writing.
 * @throws Failure invalid when it had expired.
 */
export function asRenewed(contract: ContractSnapshot, at: Date): ContractSnapshot {
  return {
    ...contract,
    endDate: isExpired(contract, at) ? renewedEnd(contract.endDate, contract.renewalDays, at) : contract.endDate,
    levels: contract.levels.map((level) =>
      isDue(level, at) ? { ...level, consumed: 0, resetAt: boundaryAfter(level, at) ?? null } : level,
    ),
  };
}

function usageOf(contract: ContractSnapshot): Map<string, number> {
  const usage = new Map<string, number>();
  for (const service of contract.services) {
    for (const level of contract.levels) {
      if (level.serviceId === service.serviceId) usage.set(`${service.key}-${level.limitName}`, level.consumed);
    }
  }
  return usage;
}

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
