import { type MaybePromise, chain } from "../core/maybe-promise.ts";
import { findPlan } from "../core/pricing/compile.ts";
import { type ContractedService, type Evaluation, prepareEvaluation } from "../core/pricing/evaluate.ts";
import { addedBy, withBlocks } from "../core/pricing/blocks.ts";
import { holdsAt, withOverrides } from "../core/pricing/overrides.ts";
import { grant } from "../core/pricing/subscription.ts";
import {
  type ContractSnapshot,
  NO_BLOCKS,
  type SnapshotBlock,
  type SnapshotOverride,
} from "../db/queries/contract-snapshots.ts";
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

/** Amounts that blocks add to the limits of a contract during a span of time. */
interface Extras {
  readonly from: number;
  readonly until: number;
  readonly added: readonly { readonly serviceId: string; readonly limitName: string; readonly amount: number }[];
  /** Cache key of an evaluation without them, and with them: a string made for each call would be hashed each time. */
  readonly keys: { without: string; with: string };
}

/** The last span of each list of blocks, which is immutable. */
const lastExtras = new WeakMap<readonly SnapshotBlock[], Extras>();

/** Returns what the blocks of a contract add at that moment. */
function extrasAt(blocks: readonly SnapshotBlock[], at: Date): Extras {
  const known = lastExtras.get(blocks);
  const moment = at.getTime();
  if (known !== undefined && known.from <= moment && moment < known.until) return known;
  const boundaries = blocks.flatMap(({ from, expiresAt }) => [from.getTime(), expiresAt?.getTime() ?? Infinity]);
  const levels = new Map<string, SnapshotBlock[]>();
  for (const block of blocks) {
    const key = JSON.stringify([block.serviceId, block.limitName]);
    levels.set(key, [...(levels.get(key) ?? []), block]);
  }
  const found = {
    from: Math.max(-Infinity, ...boundaries.filter((boundary) => boundary <= moment)),
    until: Math.min(Infinity, ...boundaries.filter((boundary) => boundary > moment)),
    added: [...levels.values()].flatMap(([first, ...others]) => {
      if (first === undefined) return [];
      const amount = addedBy([first, ...others], at);
      return amount === 0 ? [] : [{ serviceId: first.serviceId, limitName: first.limitName, amount }];
    }),
    keys: { without: "", with: "" },
  };
  lastExtras.set(blocks, found);
  return found;
}

/** Returns the cache key of an evaluation with what blocks add to it. */
function keyWith({ added, keys }: Extras, without: string): string {
  if (added.length === 0) return without;
  if (keys.without !== without) Object.assign(keys, { without, with: `${without} +${JSON.stringify(added)}` });
  return keys.with;
}

/** Returns what the blocks of a contract add to its limits at that moment. */
export const addedByBlocks = ({ blocks }: Pick<ContractSnapshot, "blocks">, at: Date): Extras["added"] =>
  blocks.length === 0 ? [] : extrasAt(blocks, at).added;

/** Returns the blocks of one level. */
export const blocksOf = <B extends SnapshotBlock>(
  blocks: readonly B[],
  { serviceId, limitName }: { serviceId: string; limitName: string },
): B[] => blocks.filter((block) => block.serviceId === serviceId && block.limitName === limitName);

/** Evaluations without blocks, by the immutable evaluation with them. */
const withoutTheirBlocks = new WeakMap<Evaluation, Evaluation>();

/** Returns the evaluation of a contract as if it had no blocks; see {@link evaluationOf}. `evaluation`: with blocks. */
export function evaluationWithoutBlocks(
  ctx: Pick<Context, "db" | "resources">,
  contract: ContractSnapshot,
  at: Date,
  evaluation: Evaluation,
): MaybePromise<Evaluation> {
  if (contract.blocks.length === 0) return evaluation;
  return (
    withoutTheirBlocks.get(evaluation) ??
    chain(evaluationOf(ctx, contract, at, NO_BLOCKS), (without) => {
      withoutTheirBlocks.set(evaluation, without);
      return without;
    })
  );
}

/** Returns what the contract grants of a limit in an evaluation; undefined for none. */
export function grantedLimit(
  { services }: Pick<ContractSnapshot, "services">,
  evaluation: Evaluation | undefined,
  { serviceId, limitName }: { serviceId: string; limitName: string },
): number | boolean | undefined {
  const key = services.find((service) => service.serviceId === serviceId)?.key;
  return evaluation?.services.find(({ serviceName }) => serviceName === key)?.grant.usageLimits.get(limitName);
}

/** Evaluation of a contract that may be one that cannot be evaluated; undefined then. */
export async function evaluationIfAny(
  ctx: Pick<Context, "db" | "resources">,
  contract: ContractSnapshot,
  now: Date,
): Promise<Evaluation | undefined> {
  try {
    return await evaluationOf(ctx, contract, now);
  } catch (error) {
    if (error instanceof Failure) return undefined;
    throw error;
  }
}

/**
 * Returns the evaluation of a contract at that moment, from the cache if possible. What is due of its blocks must have been
 * written.
 * @throws Failure with which every evaluation of this contract is refused.
 */
export function evaluationOf(
  ctx: Pick<Context, "db" | "resources">,
  contract: ContractSnapshot,
  at: Date,
  blocks = contract.blocks,
): MaybePromise<Evaluation> {
  const { pricingCache } = ctx.resources;
  const { key, overrides } =
    contract.overrides.length > 0 ? holdingAt(contract, at) : { key: cacheKeyOf(contract), overrides: [] };
  if (blocks.length === 0) {
    return pricingCache.evaluation(key) ?? createEvaluation(ctx, contract, overrides, { key, added: [] });
  }
  const extras = extrasAt(blocks, at);
  const extended = keyWith(extras, key);
  return (
    pricingCache.evaluation(extended) ??
    createEvaluation(ctx, contract, overrides, { key: extended, added: extras.added })
  );
}

async function createEvaluation(
  ctx: Pick<Context, "db" | "resources">,
  contract: ContractSnapshot,
  overrides: readonly SnapshotOverride[],
  { key, added }: Pick<Extras, "added"> & { key: string },
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
      grant: withBlocks(
        pricing,
        withOverrides(
          pricing,
          grant(pricing, service.plan ?? undefined, service.addOns ?? {}),
          overrides.filter(({ serviceId }) => serviceId === service.serviceId),
        ),
        added.filter(({ serviceId }) => serviceId === service.serviceId),
      ),
    };
  });
  const modelHashes = contract.services.map(({ hash }) => hash);
  return ctx.resources.pricingCache.keepEvaluation(key, prepareEvaluation(contracted), modelHashes);
}
