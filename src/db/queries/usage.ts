import { and, asc, eq, lt, sql } from "drizzle-orm";
import { nextBoundary } from "../../core/period.ts";
import type { Database } from "../postgres/connect.ts";
import { isAnyOf } from "../postgres/lists.ts";
import { usageLevels } from "../schema.ts";
import type { Level } from "./contract-snapshots.ts";

/*
 * Balances and their ledger. The contract's row lock protects all its balances: every writer acquires it first, so writers
 * cannot deadlock, and rows read under it stay unchanged until commit.
 */

/**
 * Locks the end user's contract until the transaction ends; returns false if there is none. Read its data after this call:
 * earlier reads may be stale.
 */
export async function lockContract(tx: Database, organizationId: string, userId: string): Promise<boolean> {
  const rows = await tx.execute(sql`
    select 1 from contracts where organization_id = ${organizationId} and user_id = ${userId} for no key update
  `);
  return rows.length > 0;
}

/** Reads the levels of a contract, ordered by service and limit name. */
export async function loadLevels(tx: Database, contractId: string): Promise<Level[]> {
  return tx
    .select()
    .from(usageLevels)
    .where(eq(usageLevels.contractId, contractId))
    .orderBy(asc(usageLevels.serviceId), asc(usageLevels.limitName));
}

/** True if both levels belong to one limit of one service. */
export function sameLevel(
  a: { serviceId: string; limitName: string },
  b: { serviceId: string; limitName: string },
): boolean {
  return a.serviceId === b.serviceId && a.limitName === b.limitName;
}

/** Change of one level's balance. */
export interface Movement<L extends Level = Level> {
  level: L;
  /**
   * Added to the balance, which is clamped to [0, Number.MAX_VALUE]; the ledger records the amount really added. A renewal
   * or reset sets the balance to exactly zero instead: a decimal sum can have more digits than a JavaScript number.
   */
  delta: number;
  /** Next reset moment, if this movement starts a new period. */
  resetAt?: Date | undefined;
}

/** Ledger columns shared by the movements of one call. After a renewal or reset, earlier consumption is not revertible. */
export interface LedgerEntry {
  kind: "consume" | "adjust" | "reset" | "renew";
  operationId: string;
  now: Date;
  featureId?: string | undefined;
}

/**
 * Applies movements to levels of a locked contract, each with a ledger row, in one statement. Adds up several movements of
 * one level. Postgres computes the sums in exact decimals. Returns the levels with their new balances.
 */
export async function moveLevels<L extends Level>(
  tx: Database,
  contractId: string,
  movements: readonly Movement<L>[],
  entry: LedgerEntry,
): Promise<L[]> {
  if (movements.length === 0) return [];
  const startsAtZero = entry.kind === "renew" || entry.kind === "reset";
  const values = JSON.stringify(
    movements.map(({ level, delta, resetAt }) => ({
      service_id: level.serviceId,
      limit_name: level.limitName,
      delta,
      reset_at: resetAt?.toISOString() ?? null,
    })),
  );
  const moved = await tx.execute<{ service_id: string; limit_name: string; consumed: string }>(sql`
    with movement as (
      select service_id, limit_name, sum(delta) as delta, max(reset_at) as reset_at
      from json_to_recordset(${values}::json)
        as given (service_id text, limit_name text, delta numeric, reset_at timestamptz)
      group by service_id, limit_name
    ), balance as (
      select u.service_id, u.limit_name, u.consumed as before, m.delta, m.reset_at
      from usage_levels u join movement m using (service_id, limit_name)
      where u.contract_id = ${contractId}
    ), changed as (
      update usage_levels u set
        consumed = case when ${startsAtZero}::boolean then 0
          else least(${String(Number.MAX_VALUE)}::numeric, greatest(0, b.before + b.delta)) end,
        reset_at = coalesce(b.reset_at, u.reset_at)
      from balance b
      where u.contract_id = ${contractId} and u.service_id = b.service_id and u.limit_name = b.limit_name
      returning u.service_id, u.limit_name, b.before, u.consumed, b.reset_at
    ), written as (
      insert into usage_ledger
        (contract_id, service_id, limit_name, kind, feature_id, operation_id, delta, reset_at, created_at)
      select ${contractId}, service_id, limit_name, ${entry.kind}, ${entry.featureId ?? null}, ${entry.operationId},
        consumed - before, reset_at, ${entry.now.toISOString()}::timestamptz
      from changed
    )
    select service_id, limit_name, consumed from changed
  `);
  return movements.map(({ level, resetAt }) => {
    const row = moved.find((one) => one.service_id === level.serviceId && one.limit_name === level.limitName);
    if (row === undefined) throw new Error("a level of a locked contract vanished");
    return { ...level, consumed: Number(row.consumed), resetAt: resetAt ?? level.resetAt };
  });
}

/** Next period boundary of the level after `after`; undefined if it never resets. */
export function boundaryAfter(level: Level, after: Date): Date | undefined {
  const { anchor, periodUnit, periodValue } = level;
  if (anchor === null || periodUnit === null || periodValue === null) return undefined;
  return nextBoundary(anchor, { unit: periodUnit, value: periodValue }, after);
}

/** True if the level's period ended before `now`. */
export function isDue(level: Level, now: Date): boolean {
  return level.resetAt !== null && level.resetAt.getTime() < now.getTime();
}

/**
 * Renews each expired level of a locked contract, once for any number of missed periods. Returns all levels. The lock guarantees one renewal per period: a second caller reads the renewed level.
 * Source: contract features-events §5.
 */
export async function renewDue<L extends Level>(
  tx: Database,
  contractId: string,
  levels: readonly L[],
  entry: { operationId: string; now: Date },
): Promise<L[]> {
  const due = levels.filter((level) => isDue(level, entry.now));
  const renewed = await moveLevels(
    tx,
    contractId,
    due.map((level) => ({ level, delta: -level.consumed, resetAt: boundaryAfter(level, entry.now) })),
    { ...entry, kind: "renew" },
  );
  return levels.map((level) => renewed.find((one) => sameLevel(one, level)) ?? level);
}

/** Reads the levels of locked contracts whose period ended before `now`, by contract. */
export async function loadDueLevels(
  tx: Database,
  contractIds: readonly string[],
  now: Date,
): Promise<Map<string, Level[]>> {
  const rows = await tx
    .select()
    .from(usageLevels)
    .where(and(isAnyOf(usageLevels.contractId, contractIds), lt(usageLevels.resetAt, now)))
    .orderBy(asc(usageLevels.contractId));
  const due = new Map<string, Level[]>();
  for (const row of rows) due.set(row.contractId, [...(due.get(row.contractId) ?? []), row]);
  return due;
}

/** Maximum age of a consumption that can be reverted. */
export const REVERT_WINDOW_MS = 120_000;

/** Renames feature ids in the ledger of these locked contracts since `since`, after their service was renamed. */
export async function relabelFeatures(
  tx: Database,
  input: { contractIds: readonly string[]; serviceId: string; from: string; to: string; since: Date },
): Promise<void> {
  const old = `${input.from}-`;
  // Gives each contract a new row version, so that optimistic consumption based on the old name is retried.
  await tx.execute(sql`update contracts set updated_at = updated_at where ${isAnyOf(sql`id`, input.contractIds)}`);
  await tx.execute(sql`
    update usage_ledger set feature_id = ${`${input.to}-`}::text || substr(feature_id, length(${old}::text) + 1)
    where ${isAnyOf(sql`contract_id`, input.contractIds)} and service_id = ${input.serviceId}
      and feature_id is not null and starts_with(feature_id, ${old})
      and created_at > ${input.since.toISOString()}::timestamptz
  `);
}

/**
 * Reverts a feature's consumption after `since` in a locked contract: all of it, or the latest operation. Skips rows that
 * are already reverted or precede the last reset of their level. Marks rows and adjusts balances in one statement, so each
 * amount is reverted once. Source: contract features-events §6.1.
 */
export async function revertFeature(
  tx: Database,
  input: { contractId: string; featureId: string; since: Date; latest: boolean; operationId: string; now: Date },
): Promise<void> {
  const now = sql`${input.now.toISOString()}::timestamptz`;
  await tx.execute(sql`
    with revertible as (
      select l.id, l.service_id, l.limit_name, l.operation_id, l.delta
      from usage_ledger l
      where l.contract_id = ${input.contractId} and l.feature_id = ${input.featureId} and l.kind = 'consume'
        and l.reverted_at is null and l.created_at > ${input.since.toISOString()}::timestamptz
        and not exists (
          select 1 from usage_ledger later
          where later.contract_id = l.contract_id and later.service_id = l.service_id
            and later.limit_name = l.limit_name and later.id > l.id and later.kind in ('reset', 'renew', 'remove')
        )
    ), marked as (
      update usage_ledger l set reverted_at = ${now}
      from revertible r
      where l.id = r.id
        and (not ${input.latest}::boolean
          or r.operation_id = (select operation_id from revertible order by id desc limit 1))
      returning l.service_id, l.limit_name, l.delta
    ), balance as (
      select u.service_id, u.limit_name, u.consumed as before, m.delta
      from usage_levels u
      join (select service_id, limit_name, sum(delta) as delta from marked group by service_id, limit_name) m
        using (service_id, limit_name)
      where u.contract_id = ${input.contractId}
    ), changed as (
      update usage_levels u set consumed = greatest(0, b.before - b.delta)
      from balance b
      where u.contract_id = ${input.contractId} and u.service_id = b.service_id and u.limit_name = b.limit_name
      returning u.service_id, u.limit_name, b.before, u.consumed
    )
    insert into usage_ledger (contract_id, service_id, limit_name, kind, operation_id, delta, created_at)
    select ${input.contractId}, service_id, limit_name, 'revert', ${input.operationId}, consumed - before, ${now}
    from changed
  `);
}
