import { asc, eq, sql } from "drizzle-orm";
import type { BudgetMovement } from "../../core/pricing/budgets.ts";
import type { CountedUnits } from "../../core/pricing/credits.ts";
import { NONE_RAISED, type RaisedThreshold } from "../../core/usage-alerts.ts";
import type { Database } from "../postgres/connect.ts";
import { usageLevels } from "../schema.ts";
import type { Level } from "./contract-snapshots.ts";

/*
 * Balances and their ledger. The contract's row lock protects all its balances: every writer acquires it first, so writers
 * cannot deadlock, and rows read under it stay unchanged until commit.
 */

/**
 * Locks the end user's contract until the transaction ends; returns false if there is none. Read its data after this call:
 * earlier reads may be stale.
 * @throws SQLSTATE 55P03 when the lock is not free within `waitMs`, which bounds every later lock of the transaction too.
 * Default: the setting of the connection.
 */
export async function lockContract(
  tx: Database,
  organizationId: string,
  userId: string,
  waitMs?: number,
): Promise<boolean> {
  // Postgres locks rows last, after the setting.
  const rows = await tx.execute(sql`
    with bounded as materialized (
      select set_config('lock_timeout', coalesce(${waitMs?.toString() ?? null}, current_setting('lock_timeout')), true)
    )
    select 1 from bounded, contracts
    where organization_id = ${organizationId} and user_id = ${userId} for no key update of contracts
  `);
  return rows.length > 0;
}

/** Reads the levels of a contract, ordered by service and limit name. */
export async function loadLevels(
  tx: Database,
  contractId: string,
): Promise<(Level & RaisedThreshold & { countsMembers: boolean })[]> {
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
  /** Start of the period that this movement starts, if it does. */
  runningSince?: Date | undefined;
  /** Balances of budgets that it moves. Default: none. */
  budgets?: readonly BudgetMovement[] | undefined;
  /** Units that the amount stands for. Default: none. */
  units?: CountedUnits | undefined;
}

/** Ledger columns shared by the movements of one call. After a renewal or reset, earlier consumption is not revertible. */
export interface LedgerEntry {
  kind: "consume" | "revert" | "adjust" | "reset" | "renew";
  operationId: string;
  now: Date;
  featureId?: string | undefined;
  /** Path of the spender. Default: none. */
  spender?: string | null | undefined;
  /** True for an amount that the caller estimated. Default: it is exact. */
  estimated?: true | undefined;
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
    movements.map(({ level, delta, resetAt, runningSince, budgets, units }) => ({
      service_id: level.serviceId,
      limit_name: level.limitName,
      delta,
      reset_at: resetAt?.toISOString() ?? null,
      running_since: runningSince?.toISOString() ?? null,
      budgets,
      units,
    })),
  );
  const moved = await tx.execute<{ service_id: string; limit_name: string; consumed: string }>(sql`
    with movement as (
      select service_id, limit_name, sum(delta) as delta, max(reset_at) as reset_at, max(running_since) as running_since,
        max(budgets::text) as budgets, max(units::text) as units
      from json_to_recordset(${values}::json)
        as given (service_id text, limit_name text, delta numeric, reset_at timestamptz, running_since timestamptz, budgets json,
          units json)
      group by service_id, limit_name
    ), balance as (
      select u.service_id, u.limit_name, u.consumed as before,
        case when ${startsAtZero}::boolean then 0
          else least(${String(Number.MAX_VALUE)}::numeric, greatest(0, u.consumed + m.delta)) end as after,
        m.reset_at, m.running_since, m.budgets, m.units
      from usage_levels u join movement m using (service_id, limit_name)
      where u.contract_id = ${contractId}
    ), changed as (
      update usage_levels u set
        consumed = b.after, used_tenths = faregate_used_tenths(b.after, u.limit_value),
        reset_at = coalesce(b.reset_at, u.reset_at),
        running_since = coalesce(b.running_since, u.running_since),
        alerted_threshold = case when ${startsAtZero}::boolean then null else u.alerted_threshold end,
        alerted_limit = case when ${startsAtZero}::boolean then null else u.alerted_limit end
      from balance b
      where u.contract_id = ${contractId} and u.service_id = b.service_id and u.limit_name = b.limit_name
      returning u.organization_id, u.service_id, u.limit_name, b.before, u.consumed, b.reset_at, b.budgets, b.units
    ), written as (
      insert into usage_ledger
        (contract_id, organization_id, service_id, limit_name, kind, feature_id, operation_id, delta, reset_at, created_at, spender,
          budgets, estimated, units)
      select ${contractId}, organization_id, service_id, limit_name, ${entry.kind}, ${entry.featureId ?? null},
        ${entry.operationId}, consumed - before, reset_at, ${entry.now.toISOString()}::timestamptz, ${entry.spender ?? null}::text,
        budgets::json, ${entry.estimated ?? null}::boolean, units::json
      from changed
    )
    select service_id, limit_name, consumed from changed
  `);
  return movements.map(({ level, resetAt, runningSince }) => {
    const row = moved.find((one) => one.service_id === level.serviceId && one.limit_name === level.limitName);
    if (row === undefined) throw new Error("a level of a locked contract vanished");
    const after = {
      ...level,
      consumed: Number(row.consumed),
      resetAt: resetAt ?? level.resetAt,
      runningSince: runningSince ?? level.runningSince,
    };
    return startsAtZero ? { ...after, ...NONE_RAISED } : after;
  });
}
