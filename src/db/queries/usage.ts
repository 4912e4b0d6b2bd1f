import { and, asc, eq, exists, lt, sql, type SQL } from "drizzle-orm";
import { lastBoundary, nextBoundary } from "../../core/period.ts";
import type { BudgetMovement } from "../../core/pricing/budgets.ts";
import type { CountedUnits } from "../../core/pricing/credits.ts";
import { NONE_RAISED, type RaisedThreshold } from "../../core/usage-alerts.ts";
import type { Database } from "../postgres/connect.ts";
import { isAnyOf } from "../postgres/lists.ts";
import { contracts, usageLevels } from "../schema.ts";
import type { EndUserName, Level } from "./contract-snapshots.ts";

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

/**
 * Sets the start of the running period of levels that are older than its column: their newest reset or boundary on record,
 * else the contract's creation. Call it with the contracts locked.
 */
export async function fillRunningSince(tx: Database, contractIds: readonly string[]): Promise<void> {
  interface Row extends Record<string, unknown> {
    contract_id: string;
    service_id: string;
    limit_name: string;
    anchor: string | null;
    period_value: string | null;
    period_unit: Level["periodUnit"];
    renewed_until: string | null;
    since: string;
  }
  const rows = await tx.execute<Row>(sql`
    select u.contract_id, u.service_id, u.limit_name, u.anchor, u.period_value, u.period_unit,
      case when zero.kind = 'renew' then zero.reset_at end as renewed_until,
      coalesce(zero.created_at, gone.at, c.created_at) as since
    from usage_levels u
    join contracts c on c.id = u.contract_id
    left join lateral (
      select l.kind, l.created_at, l.reset_at from usage_ledger l
      where l.contract_id = u.contract_id and l.service_id = u.service_id and l.limit_name = u.limit_name
        and l.kind in ('reset', 'renew', 'remove')
      order by l.created_at desc, l.id desc limit 1
    ) zero on true
    left join usage_resets gone on zero.kind is null and gone.contract_id = u.contract_id
      and gone.service_id = u.service_id and gone.limit_name = u.limit_name
    where ${isAnyOf(sql`u.contract_id`, contractIds)} and u.running_since is null
  `);
  const filled = rows.map((row) => {
    const { anchor, period_value: value, period_unit: unit, renewed_until: until } = row;
    const boundary =
      anchor === null || value === null || unit === null || until === null
        ? undefined
        : lastBoundary(new Date(anchor), { value: Number(value), unit }, new Date(until));
    const since = boundary === undefined ? new Date(row.since) : new Date(boundary.getTime() + 1);
    const { contract_id, service_id, limit_name } = row;
    return { contract_id, service_id, limit_name, running_since: since.toISOString() };
  });
  await tx.execute(sql`
    update usage_levels u set running_since = given.running_since
    from json_to_recordset(${JSON.stringify(filled)}::json)
      as given (contract_id text, service_id text, limit_name text, running_since timestamptz)
    where u.contract_id = given.contract_id and u.service_id = given.service_id and u.limit_name = given.limit_name
  `);
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
      select u.service_id, u.limit_name, u.consumed as before, m.delta, m.reset_at, m.running_since, m.budgets,
        m.units
      from usage_levels u join movement m using (service_id, limit_name)
      where u.contract_id = ${contractId}
    ), changed as (
      update usage_levels u set
        consumed = case when ${startsAtZero}::boolean then 0
          else least(${String(Number.MAX_VALUE)}::numeric, greatest(0, b.before + b.delta)) end,
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

/** Next period boundary of the level after `after`; undefined if it never resets. */
export function boundaryAfter(level: Level, after: Date): Date | undefined {
  const { anchor, periodUnit, periodValue } = level;
  if (anchor === null || periodUnit === null || periodValue === null) return undefined;
  return nextBoundary(anchor, { unit: periodUnit, value: periodValue }, after);
}

/** Start of the level's period that runs at `now`: 1 ms after the last boundary that it has passed. Undefined if none. */
function runningSinceAt(level: Level, now: Date): Date | undefined {
  const { anchor, periodUnit, periodValue, resetAt } = level;
  if (anchor === null || periodUnit === null || periodValue === null || resetAt === null) return undefined;
  const last = lastBoundary(anchor, { unit: periodUnit, value: periodValue }, now);
  // A reset skips a boundary, so an earlier one than the level's own is none that it passes.
  return new Date(Math.max(last.getTime(), resetAt.getTime()) + 1);
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
    due.map((level) => ({
      level,
      delta: -level.consumed,
      resetAt: boundaryAfter(level, entry.now),
      runningSince: runningSinceAt(level, entry.now),
    })),
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

/** Finds end users with a level whose period ended before `now`. */
export function findDueLevels(
  db: Database,
  now: Date,
  options: { where: SQL | undefined; limit: number },
): Promise<EndUserName[]> {
  const { id, organizationId, userId } = contracts;
  const isDueNow = and(eq(usageLevels.contractId, id), lt(usageLevels.resetAt, now));
  return db
    .select({ organizationId, userId })
    .from(contracts)
    .where(
      and(
        exists(
          db
            .select({ one: sql`1` })
            .from(usageLevels)
            .where(isDueNow),
        ),
        options.where,
      ),
    )
    .orderBy(asc(id))
    .limit(options.limit);
}

/** Maximum age of a consumption that can be reverted. */
export const REVERT_WINDOW_MS = 120_000;

/**
 * SQL list item: movements `l` since `since` of the level `u` of usage_levels, read from the newest backwards. Moments of a level's
 * movements ascend with their ids, but for the clocks of different processes. Searches the last older movement in the partitions of
 * that week: without one, all movements of the level in the partition are newer, or are read. `is_settled` is true where a later
 * reset, renewal or removal returned the level to zero.
 *
 * OFFSET 0 and the addition keep the order of look-ups. A plan made while the ledger was empty would otherwise read all movements
 * of the contract for each of them.
 */
export function recentMovements(since: Date): SQL {
  const moment = sql`${since.toISOString()}::timestamptz`;
  const ofLevel = (table: string) =>
    sql.raw(["contract_id", "service_id", "limit_name"].map((name) => `${table}.${name} = u.${name}`).join(" and "));
  return sql`
    lateral (
      select coalesce((
        select o.id from usage_ledger o
        where ${ofLevel("o")} and o.created_at <= ${moment} and o.created_at >= date_trunc('week', ${moment}, 'UTC')
        order by o.id desc limit 1
      ), 0) as id
    ) older
    cross join lateral (
      select max(z.id + 0) as id from usage_ledger z
      where ${ofLevel("z")} and z.kind in ('reset', 'renew', 'remove') and z.created_at > ${moment} - interval '1 day'
    ) zero
    cross join lateral (
      select m.*, coalesce(m.id < zero.id, false) as is_settled from usage_ledger m
      where ${ofLevel("m")} and m.id > older.id and m.created_at > ${moment} offset 0
    ) l`;
}

/**
 * Lets reverts find consumption of these locked contracts since `since` by the new feature ids, after their service was
 * renamed. History keeps the ids as they were counted.
 */
export async function relabelFeatures(
  tx: Database,
  input: { contractIds: readonly string[]; serviceId: string; from: string; to: string; since: Date },
): Promise<void> {
  const old = `${input.from}-`;
  // Gives each contract a new row version, so that optimistic consumption based on the old name is retried.
  await tx.execute(sql`update contracts set updated_at = updated_at where ${isAnyOf(sql`id`, input.contractIds)}`);
  await tx.execute(sql`
    with counted as materialized (
      select l.contract_id, l.service_id, l.limit_name, l.id
      from usage_levels u cross join ${recentMovements(input.since)}
      where ${isAnyOf(sql`u.contract_id`, input.contractIds)} and u.service_id = ${input.serviceId}
        and l.kind = 'consume' and l.feature_id is not null and starts_with(coalesce(l.renamed_feature_id, l.feature_id), ${old})
    )
    update usage_ledger l set renamed_feature_id =
      ${`${input.to}-`}::text || substr(coalesce(l.renamed_feature_id, l.feature_id), length(${old}::text) + 1)
    from counted c
    where l.contract_id = c.contract_id and l.service_id = c.service_id and l.limit_name = c.limit_name and l.id = c.id
      and l.created_at > ${input.since.toISOString()}::timestamptz
  `);
}

/**
 * Reverts a feature's consumption after `since` in a locked contract: all of it, or the latest operation. Skips rows that
 * are already reverted or precede the last reset of their level. Marks rows and adjusts balances in one statement, so each
 * amount is reverted once. Source: contract features-events §6.1.
 */
export async function revertFeature(
  tx: Database,
  input: {
    contractId: string;
    featureId: string;
    since: Date;
    latest: boolean;
    operationId: string;
    now: Date;
    /** Path of the spender, with all below it. Null: everybody. */
    spender: string | null;
  },
): Promise<void> {
  const { spender } = input;
  const now = sql`${input.now.toISOString()}::timestamptz`;
  await tx.execute(sql`
    with recent as materialized (
      select l.* from usage_levels u cross join ${recentMovements(input.since)}
      where u.contract_id = ${input.contractId} and not u.counts_members
    ), revertible as (
      select l.id, l.service_id, l.limit_name, l.feature_id, l.operation_id, l.delta, l.budgets
      from recent l
      where l.kind = 'consume' and l.reverted_at is null and coalesce(l.renamed_feature_id, l.feature_id) = ${input.featureId}
        and not l.is_settled
        and (${spender}::text is null or l.spender = ${spender} or starts_with(l.spender, ${spender} || '/'))
    ), returned as (
      -- The end of a lease gives back part of what its expiry counted, in the same operation.
      select service_id, limit_name, operation_id, sum(delta) as delta from recent
      where feature_id in (select feature_id from revertible) and kind = 'revert'
      group by service_id, limit_name, operation_id
    ), marked as (
      update usage_ledger l set reverted_at = ${now}
      from revertible r left join returned using (service_id, limit_name, operation_id)
      where l.contract_id = ${input.contractId} and l.service_id = r.service_id and l.limit_name = r.limit_name and l.id = r.id
        and l.created_at > ${input.since.toISOString()}::timestamptz
        and (not ${input.latest}::boolean
          or r.operation_id = (select operation_id from revertible order by id desc limit 1))
      returning l.service_id, l.limit_name, l.feature_id, r.operation_id, r.budgets,
        r.delta + coalesce(returned.delta, 0) as delta
    ), part as (
      -- Consumption before and after a rename has two ids.
      select service_id, limit_name, feature_id, sum(delta) as delta,
        sum(sum(delta)) over (partition by service_id, limit_name order by feature_id) - sum(delta) as earlier
      from marked group by service_id, limit_name, feature_id
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
      returning u.organization_id, u.service_id, u.limit_name, b.before, u.consumed
    ), budgeted as (
      -- Of a window that is over, nothing is given back.
      select m.service_id, m.limit_name, m.feature_id, b.budget, b.spender, b.organization_id, sum((p.value ->> 2)::numeric) as amount,
        (p.value ->> 3)::numeric as since
      from (
        select service_id, limit_name, feature_id, budgets from marked
        union all
        select r.service_id, r.limit_name, r.feature_id, r.budgets from recent r
        where r.kind = 'revert' and (r.service_id, r.limit_name, r.operation_id) in (
          select service_id, limit_name, operation_id from marked where budgets is not null)
      ) m
      cross join lateral json_array_elements(m.budgets) p
      join budget_balances b on b.contract_id = ${input.contractId} and b.budget = p.value ->> 0 and b.spender = p.value ->> 1
        and extract(epoch from b.since) * 1000 = (p.value ->> 3)::numeric
      group by 1, 2, 3, 4, 5, 6, 8
    ), given_back as (
      update budget_balances b set used = b.used - g.amount
      from (select budget, spender, organization_id, sum(amount) as amount from budgeted group by 1, 2, 3) g
      where b.contract_id = ${input.contractId} and b.budget = g.budget and b.spender = g.spender
        and b.organization_id = g.organization_id
    )
    insert into usage_ledger
      (contract_id, organization_id, service_id, limit_name, kind, feature_id, operation_id, delta, created_at, budgets)
    select ${input.contractId}, organization_id, service_id, limit_name, 'revert', feature_id, ${input.operationId},
      -least(part.delta, greatest(0, changed.before - changed.consumed - part.earlier)), ${now},
      (select json_agg(json_build_array(g.budget, g.spender, -g.amount, g.since)) from budgeted g
        where g.service_id = changed.service_id and g.limit_name = changed.limit_name and g.feature_id = part.feature_id)
    from changed join part using (service_id, limit_name)
  `);
}
