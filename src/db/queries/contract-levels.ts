import { sql, type SQL } from "drizzle-orm";
import { addPeriod } from "../../core/period.ts";
import type { GrantedLimit } from "../../core/pricing/subscription.ts";
import type { Database } from "../postgres/connect.ts";
import { isAnyOf, textArray } from "../postgres/lists.ts";
import { closeBlocksOf } from "./blocks.ts";

/** One service of a subscription with its limits. */
export interface TrackedService {
  serviceId: string;
  /** Limits with a usage level. One with a period renews. */
  tracked: readonly GrantedLimit[];
}

/** One service of a subscription, resolved to database ids. */
export interface SubscribedService extends TrackedService {
  pricingId: string;
  /** As sent; null without an entry in `subscriptionPlans`. */
  plan: string | null;
  /** In the pricing's spelling; null without an entry in `subscriptionAddOns`. */
  addOns: Record<string, number> | null;
}

/** Contracts whose services track the same limits with the same values. */
export interface LevelGroup {
  contractIds: readonly string[];
  next: readonly TrackedService[];
}

/**
 * Passes the services' tracked limits as one JSON parameter. Each has its group's number, and the end of a period that starts
 * at `now`.
 */
function limitsParameter(groups: readonly Pick<LevelGroup, "next">[], now: Date): string {
  const services = groups.flatMap(({ next }, number) => next.map((service) => ({ ...service, number })));
  return JSON.stringify(
    services.flatMap(({ number, serviceId, tracked }) =>
      tracked.map(({ name, period, value, countsMembers = false }, position) => ({
        number,
        service_id: serviceId,
        limit_name: name,
        position,
        anchor: period === undefined ? null : now.toISOString(),
        reset_at: period === undefined ? null : addPeriod(now, period).toISOString(),
        period_value: period?.value ?? null,
        period_unit: period?.unit ?? null,
        limit_value: value ?? "Infinity",
        counts_members: countsMembers,
      })),
    ),
  );
}

const LIMIT_COLUMNS = sql.raw(
  "number integer, service_id text, limit_name text, position integer, anchor timestamptz, reset_at timestamptz, period_value numeric, period_unit text, limit_value numeric, counts_members boolean",
);

/** SQL table of contract ids with the numbers of their groups. */
export const numberedContracts = (groups: readonly Pick<LevelGroup, "contractIds">[]): SQL => {
  const ids = groups.flatMap(({ contractIds }) => contractIds);
  const [first] = ids;
  // Planned once, unlike lists: see isAnyOf.
  if (first !== undefined && ids.length === 1 && groups.length === 1) return sql`(values (${first}::text, 0))`;
  const numbers = groups.flatMap(({ contractIds }, number) => contractIds.map(() => String(number)));
  return sql`unnest(${textArray(ids)}, ${textArray(numbers)}::integer[])`;
};

/** Deletes the levels that match `of` and that `next` does not track, each with a ledger row. */
export async function dropLevels(
  tx: Database,
  input: { of: SQL; next: LevelGroup["next"]; now: Date; operationId: string },
): Promise<void> {
  const { of, next, now, operationId } = input;
  const leaving = sql`not exists (
    select 1 from json_to_recordset(${limitsParameter([{ next }], now)}::json) as wanted (${LIMIT_COLUMNS})
    where wanted.service_id = usage_levels.service_id and wanted.limit_name = usage_levels.limit_name
  )`;
  await closeBlocksOf(tx, sql`${of} and ${leaving}`, now);
  await tx.execute(sql`
    insert into usage_ledger (contract_id, organization_id, service_id, limit_name, kind, operation_id, delta, created_at)
    select contract_id, organization_id, service_id, limit_name, 'remove', ${operationId}, -consumed, ${now.toISOString()}::timestamptz
    from usage_levels
    where ${of} and ${leaving}
  `);
  await tx.execute(sql`delete from usage_levels where ${of} and ${leaving}`);
}

/** Inserts missing levels at zero, and updates limit and period of existing ones. */
export async function putLevels(tx: Database, groups: readonly LevelGroup[], now: Date): Promise<void> {
  if (groups.every(({ contractIds }) => contractIds.length === 0)) return;
  await tx.execute(sql`
    insert into usage_levels
      (contract_id, organization_id, service_id, limit_name, position, consumed, anchor, reset_at, period_value, period_unit,
      limit_value, counts_members, used_tenths, running_since)
    select c.id, contracts.organization_id, l.service_id, l.limit_name, l.position, 0, l.anchor, l.reset_at, l.period_value, l.period_unit,
      l.limit_value, l.counts_members, 0, ${now.toISOString()}::timestamptz
    from ${numberedContracts(groups)} as c (id, number)
    join json_to_recordset(${limitsParameter(groups, now)}::json) as l (${LIMIT_COLUMNS}) using (number)
    join contracts on contracts.id = c.id
    on conflict (contract_id, service_id, limit_name, organization_id) do update set
      position = excluded.position,
      anchor = case
        when excluded.reset_at is null or usage_levels.reset_at is null then excluded.anchor
        when usage_levels.period_value = excluded.period_value and usage_levels.period_unit = excluded.period_unit
          then usage_levels.anchor
        else usage_levels.reset_at
      end,
      reset_at = case when excluded.reset_at is null then null else coalesce(usage_levels.reset_at, excluded.reset_at) end,
      period_value = excluded.period_value,
      period_unit = excluded.period_unit,
      limit_value = excluded.limit_value,
      used_tenths = faregate_used_tenths(usage_levels.consumed, excluded.limit_value),
      counts_members = excluded.counts_members
  `);
}

/**
 * Updates the limits of existing levels that differ. Most moves change few of them. Without the list of ids, Postgres reads the
 * levels of all contracts.
 */
export async function putLimits(tx: Database, groups: readonly LevelGroup[], now: Date): Promise<void> {
  const ids = groups.flatMap(({ contractIds }) => contractIds);
  if (ids.length === 0) return;
  await tx.execute(sql`
    update usage_levels u set limit_value = l.limit_value,
      used_tenths = faregate_used_tenths(u.consumed, l.limit_value)
    from ${numberedContracts(groups)} as c (id, number)
    join json_to_recordset(${limitsParameter(groups, now)}::json) as l (${LIMIT_COLUMNS}) using (number)
    where ${isAnyOf(sql`u.contract_id`, ids)} and u.contract_id = c.id and u.service_id = l.service_id
      and u.limit_name = l.limit_name and u.limit_value is distinct from l.limit_value
  `);
}

/**
 * Finds the contracts whose levels of the service differ from `next`, or are due for renewal. Most moves change no level,
 * and rewriting every level of 100,000 contracts takes a minute.
 */
export async function findChangingLevels(
  tx: Database,
  input: LevelGroup & { serviceId: string; now: Date },
): Promise<{ changing: string[]; due: string[] }> {
  const { next, now, serviceId } = input;
  const tracked = next.reduce((sum, service) => sum + service.tracked.length, 0);
  const rows = await tx.execute<{ id: string; is_due: boolean; is_changing: boolean }>(sql`
    select * from (
      select c.id,
        coalesce(bool_or(u.reset_at < ${now.toISOString()}::timestamptz and u.consumed > 0), false) as is_due,
        count(u.limit_name) <> ${tracked}::integer or count(l.limit_name) <> ${tracked}::integer as is_changing
      from unnest(${textArray(input.contractIds)}) as c (id)
      left join usage_levels u on u.contract_id = c.id and u.service_id = ${serviceId}
      left join json_to_recordset(${limitsParameter([{ next }], now)}::json) as l (${LIMIT_COLUMNS})
        on l.limit_name = u.limit_name and l.position = u.position and l.counts_members = u.counts_members
          and (l.reset_at is null) = (u.reset_at is null)
          and l.period_value is not distinct from u.period_value and l.period_unit is not distinct from u.period_unit
      group by c.id
    ) compared where is_due or is_changing
  `);
  return {
    changing: rows.filter((row) => row.is_changing).map((row) => row.id),
    due: rows.filter((row) => row.is_due).map((row) => row.id),
  };
}

/**
 * Writes the ledger rows that return every level of these services to zero before the levels are deleted. Locks the levels:
 * the ledger would miss consumption between this statement and the deletion. Includes levels at zero, because this row
 * prevents a later level of the same name from being reverted by earlier consumption.
 */
export async function recordServiceRemoval(
  tx: Database,
  input: { contractIds: readonly string[]; serviceIds: readonly string[]; now: Date; operationId: string },
): Promise<void> {
  const { contractIds, serviceIds } = input;
  const levels = sql`${isAnyOf(sql`contract_id`, contractIds)} and ${isAnyOf(sql`service_id`, serviceIds)}`;
  await closeBlocksOf(tx, levels, input.now);
  await tx.execute(sql`
    insert into usage_ledger (contract_id, organization_id, service_id, limit_name, kind, operation_id, delta, created_at)
    select contract_id, organization_id, service_id, limit_name, 'remove', ${input.operationId}, -consumed, ${input.now.toISOString()}::timestamptz
    from (
      select contract_id, organization_id, service_id, limit_name, consumed from usage_levels
      where ${levels}
      order by contract_id, service_id, limit_name
      for update
    ) locked
  `);
}
