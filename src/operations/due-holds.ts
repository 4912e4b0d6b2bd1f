import type { SQL } from "drizzle-orm";
import type { Evaluation } from "../core/pricing/evaluate.ts";
import {
  type ContractSnapshot,
  type EndUserName,
  type Level,
  loadSnapshot,
  type SeenLevel,
} from "../db/queries/contract-snapshots.ts";
import { applyDue, findDueHolders } from "../db/queries/holds.ts";
import { type Addressed, recordEvents } from "../db/queries/outbox.ts";
import { isAnyOf } from "../db/postgres/lists.ts";
import { contracts } from "../db/schema.ts";
import { findDueLevels, lockContract, sameLevel } from "../db/queries/usage.ts";
import { rememberRaised } from "../db/queries/usage-alerts.ts";
import { type Context, newId, transaction } from "./context.ts";
import { Failure } from "./errors.ts";
import { evaluationOf } from "./evaluations.ts";
import { usageEvents, withRaised } from "./usage-events.ts";

/*
 * Writes the ends of holds that nobody ended. Whoever relies on an expiry writes it first; the sweep of an event server
 * writes the others. Source: contract usage-records §3.4.
 */

/** Contracts that one query of the sweep finds. */
const BATCH = 200;

/** Returns what the contract grants of a limit now; undefined for none. */
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
  ctx: Context,
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
 * Writes what is due of a locked contract: expiries of holds and renewals of balances. Records the events of what expiries
 * counted, and returns the levels.
 */
export async function applyDueOf(
  ctx: Context,
  contract: ContractSnapshot,
  name: EndUserName,
  now: Date,
): Promise<SeenLevel[]> {
  const { levels, events } = await writeDue(ctx, contract, name, now);
  await recordEvents(ctx.db, events);
  return levels;
}

/** Writes what is due of a locked contract. Returns its levels and the events to record. */
async function writeDue(
  ctx: Context,
  contract: ContractSnapshot,
  { organizationId, userId }: EndUserName,
  now: Date,
): Promise<{ levels: SeenLevel[]; events: Addressed[] }> {
  const { contractId } = contract;
  const { levels, counted } = await applyDue(ctx.db, contractId, contract.levels, { operationId: newId(now), now });
  if (counted.length === 0) return { levels, events: [] };
  const evaluation = await evaluationIfAny(ctx, contract, now);
  const changes = counted.map(({ level, after }) => ({
    level,
    before: level.consumed,
    after,
    limit: grantedLimit(contract, evaluation, level),
  }));
  const { events, raised } = usageEvents(contract, userId, changes);
  // A renewal that came after an expiry has taken away what that raised.
  const current = raised.filter(({ level }) => levels.some((one) => sameLevel(one, level) && isSamePeriod(one, level)));
  await rememberRaised(ctx.db, current);
  return {
    levels: levels.map((level) => withRaised(level, current)),
    events: events.map((event) => ({ organizationId, event })),
  };
}

const isSamePeriod = (one: Level, other: Level): boolean => one.resetAt?.getTime() === other.resetAt?.getTime();

/**
 * Writes what is due of those of these locked contracts that have a hold that is due. Call it before a change of levels,
 * while the contracts still have the limits that their holds counted against. Returns the events, which must be recorded
 * last in the transaction.
 */
export async function expireHoldsOf(ctx: Context, contractIds: readonly string[], now: Date): Promise<Addressed[]> {
  if (contractIds.length === 0) return [];
  const where = isAnyOf(contracts.id, contractIds);
  const events: Addressed[] = [];
  for (const name of await findDueHolders(ctx.db, now, { where, limit: contractIds.length })) {
    const contract = await loadSnapshot(ctx.db, name.organizationId, name.userId);
    if (contract !== undefined) events.push(...(await writeDue(ctx, contract, name, now)).events);
  }
  return events;
}

/**
 * Writes the ends of holds that are due, of the matching contracts; of all without a condition. Each contract has its own
 * transaction. Returns their number. Safe to run in several processes at once. Costs one query on a partial index if
 * nothing is due.
 */
export function expireDueHolds(ctx: Context, where?: SQL): Promise<number> {
  return applyDueOfFound(ctx, (now) => findDueHolders(ctx.db, now, { where, limit: BATCH }));
}

/** Renews the balances that are due, of the matching contracts, as expireDueHolds ends holds. */
export function renewDueLevels(ctx: Context, where: SQL | undefined): Promise<number> {
  return applyDueOfFound(ctx, (now) => findDueLevels(ctx.db, now, { where, limit: BATCH }));
}

async function applyDueOfFound(ctx: Context, find: (now: Date) => Promise<EndUserName[]>): Promise<number> {
  for (let applied = 0; ;) {
    const found = await find(ctx.resources.now());
    for (const name of found) {
      await transaction(ctx, async (ctx) => {
        if (!(await lockContract(ctx.db, name.organizationId, name.userId))) return;
        const contract = await loadSnapshot(ctx.db, name.organizationId, name.userId);
        if (contract !== undefined) await applyDueOf(ctx, contract, name, ctx.resources.now());
      });
    }
    applied += found.length;
    if (found.length < BATCH) return applied;
  }
}
