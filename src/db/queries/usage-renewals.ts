import { and, asc, eq, exists, lt, sql, type SQL } from "drizzle-orm";
import { lastBoundary, nextBoundary } from "../../core/period.ts";
import type { Database } from "../postgres/connect.ts";
import { isAnyOf } from "../postgres/lists.ts";
import { contracts, usageLevels } from "../schema.ts";
import type { EndUserName, Level } from "./contract-snapshots.ts";
import { sameLevel, moveLevels } from "./usage.ts";

/** True if the level's period ended before `now`. */
export function isDue(level: Level, now: Date): boolean {
  return level.resetAt !== null && level.resetAt.getTime() < now.getTime();
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
