import { eq, sql, type SQL } from "drizzle-orm";
import { MAX_HOLD_MS } from "../../core/holds.ts";
import type { Database } from "../postgres/connect.ts";
import { textArray } from "../postgres/lists.ts";
import { deletedPricings, pricings } from "../schema.ts";
import { IS_CARRIED, USED_AT } from "./usage-rollup.ts";

/*
 * Reads what a replay needs: recorded terms, blocks, holds and movements of contracts that had a service in a range of time. The
 * contracts are always those of one organization. Each contract becomes a JSON text, which a thread parses, and more texts for the
 * movements that do not fit into it: neither the driver nor a thread has to read a long text in one go.
 */

/** Most movements in one text, which is about 100 bytes per movement. */
export const MOVEMENTS_PER_TEXT = 2_000;

/** The contracts of one organization that had a service within a range. */
export interface ReplayFilter {
  organizationId: string;
  serviceId: string;
  from: Date;
  to: Date;
}

/** Batches are recorded up to that long after their use. */
const RECORDED_WITHIN = sql.raw("interval '35 days'");

const moment = (at: Date) => sql`${at.toISOString()}::timestamptz`;
const milliseconds = (column: string) => sql.raw(`(extract(epoch from ${column}) * 1000)::bigint`);

/** SQL list: the states of contract `c` that overlap the range, with their ends. */
const statesIn = ({ from, to }: ReplayFilter): SQL => sql`(
    select s.* from (
      select st.*, lead(st.since) over (order by st.id) as until from contract_states st where st.contract_id = c.id
    ) s
    where s.since < ${moment(to)} and coalesce(s.until, 'infinity') > ${moment(from)}
  )`;

/** SQL condition: contract `c` is of the organization, and had the service in the range. */
const isReplayed = (filter: ReplayFilter): SQL => sql`
    c.organization_id = ${filter.organizationId} and exists (
      select 1 from ${statesIn(filter)} s where strpos(s.services::text, ${filter.serviceId}) > 0
    )`;

/** A configuration that contracts had of a service. */
export interface ReplayedConfiguration {
  serviceId: string;
  /** Name of the service at that time, in lower case. */
  key: string;
  pricingId: string;
  hash: string;
  plan: string | null;
  addOns: Record<string, number> | null;
}

/** Lists the configurations that the contracts had in the range, of all their services. */
export async function listReplayedConfigurations(db: Database, filter: ReplayFilter): Promise<ReplayedConfiguration[]> {
  const rows = await db.execute<ReplayedConfiguration & Record<string, unknown>>(sql`
    select distinct on (service_id, key, pricing_id, plan, add_ons::text) service_id as "serviceId", key,
      pricing_id as "pricingId", hash, plan, add_ons as "addOns"
    from (
      select e ->> 'serviceId' as service_id, e ->> 'key' as key, e ->> 'pricingId' as pricing_id, e ->> 'hash' as hash, e ->> 'plan' as plan,
        case when json_typeof(e -> 'addOns') = 'object' then e -> 'addOns' end as add_ons
      from contracts c cross join lateral ${statesIn(filter)} s cross join lateral json_array_elements(s.services) e
      where ${isReplayed(filter)}
    ) listed
    order by service_id, key, pricing_id, plan, add_ons::text`);
  return rows.map(({ serviceId, key, pricingId, hash, plan, addOns }) => ({
    serviceId,
    key,
    pricingId,
    hash,
    plan,
    addOns,
  }));
}

/** Counts the contracts of a replay. */
export async function countReplayed(db: Database, filter: ReplayFilter): Promise<number> {
  const [row] = await db.execute<{ count: string }>(sql`select count(*) from contracts c where ${isReplayed(filter)}`);
  return Number(row?.count ?? 0);
}

/** Lists ids of contracts after `after`, in their order. */
export async function listReplayed(
  db: Database,
  filter: ReplayFilter,
  { after, limit }: { after: string; limit: number },
): Promise<string[]> {
  const rows = await db.execute<{ id: string }>(sql`
    select c.id from contracts c where c.id > ${after} and ${isReplayed(filter)} order by c.id limit ${limit}::integer`);
  return rows.map(({ id }) => id);
}

/** A contract with the first of its movements. */
export interface ReplayRecord {
  contractId: string;
  /** See core/change/replay/record.ts. */
  text: string;
  /** Id of the last movement in the text. Null: there are no more. */
  lastMovement: string | null;
}

/** Reads contracts with up to `movementsPerText` movements each. */
export async function readReplayRecords(
  db: Database,
  filter: ReplayFilter,
  contractIds: readonly string[],
  movementsPerText = MOVEMENTS_PER_TEXT,
): Promise<ReplayRecord[]> {
  const { organizationId, from, to } = filter;
  // Balances as they stood just before the range: movements at its start belong to it.
  const before = new Date(from.getTime() - 1);
  const oldestHold = Math.max(0, from.getTime() - MAX_HOLD_MS)
    .toString(16)
    .padStart(12, "0");
  const rows = await db.execute<{ id: string; record: string; last_movement: string | null }>(sql`
    select c.id, case when m.number = ${movementsPerText}::integer then m.last_id end as last_movement,
      json_build_object('userId', c.user_id,
      'complete', coalesce((
        select f.cause = 'creation' or f.since <= ${moment(from)} from contract_states f where f.contract_id = c.id
        order by f.id limit 1), false),
      'terms', (
        select json_agg(json_build_object('since', ${milliseconds("s.since")}, 'startDate', ${milliseconds("s.start_date")},
          'endDate', ${milliseconds("s.end_date")}, 'autoRenew', s.auto_renew, 'renewalDays', s.renewal_days,
          'renewalValue', s.renewal_value, 'renewalUnit', s.renewal_unit, 'services', s.services, 'overrides', s.overrides,
          'budgets', s.budgets, 'levels', coalesce(case when s.since <= ${moment(from)}
            then faregate_levels_at(c.id, s.levels, s.since, ${moment(before)}, ${oldestHold}) else s.levels end, '[]'))
          order by s.id)
        from ${statesIn(filter)} s),
      'blocks', coalesce((
        select json_agg(json_build_object('id', b.id, 'serviceId', b.service_id, 'limitName', b.limit_name, 'origin', b.origin,
          'left', b.amount - ${drawsOf("period", before)},
          'drawn', case when b.ended_at <= ${moment(before)} then ${drawsOf("end", before)} end,
          'kept', ${drawsOf("kept", before)},
          'from', ${milliseconds("b.starts_at")}, 'expiresAt', ${milliseconds("b.expires_at")},
          'createdAt', ${milliseconds("b.created_at")},
          'revokedAt', case when b.state = 'revoked' and b.ended_at > ${moment(before)} then ${milliseconds("b.ended_at")} end)
          order by b.id)
        from contract_blocks b
        where b.contract_id = c.id and b.created_at < ${moment(to)}
          and (b.settled_at is null or b.settled_at > ${moment(before)})
          -- The replay carries over by itself.
          and not (b.origin = 'rollover' and b.created_at > ${moment(before)})), '[]'),
      'holds', coalesce((
        select json_agg(json_build_object('id', h.id, 'featureId', h.feature_id, 'amounts', h.amounts, 'spender', h.spender,
          'createdAt', ${milliseconds("h.created_at")}, 'endedAt', ${milliseconds("coalesce(h.ended_at, h.until)")}) order by h.id)
        from holds h
        where h.contract_id = c.id and h.id >= ${oldestHold} and h.kind = 'hold' and not h.kept and h.created_at < ${moment(to)}
          and coalesce(h.ended_at, h.until) >= ${moment(from)}), '[]'),
      'budgets', ${balancesBefore(before)},
      'movements', coalesce(m.listed, '[]')
    )::text as record
    from contracts c cross join lateral (
      with moved as materialized (${movementsIn(filter)})
      select ${LISTED} as listed, count(*) as number, max(l.id)::text as last_id
      from (select * from moved order by id limit ${movementsPerText}::integer) l
    ) m
    where c.organization_id = ${organizationId} and c.id = any(${textArray(contractIds)})
    order by c.id`);
  return rows.map(({ id, record, last_movement }) => ({ contractId: id, text: record, lastMovement: last_movement }));
}

/** Reads the movements of a contract after those of its record, in texts. Needs a transaction. */
export async function* readMoreMovements(
  tx: Database,
  filter: ReplayFilter,
  { contractId, lastMovement }: ReplayRecord,
  movementsPerText = MOVEMENTS_PER_TEXT,
): AsyncGenerator<string> {
  if (lastMovement === null) return;
  await tx.execute(sql`
    declare moved no scroll cursor for
    select ${LISTED}::text as movements
    from contracts c cross join lateral (
      with moved as materialized (${movementsIn(filter)})
      select *, (row_number() over (order by id) - 1) / ${movementsPerText}::integer as page
      from moved where id > ${lastMovement}::bigint
    ) l
    where c.organization_id = ${filter.organizationId} and c.id = ${contractId}
    group by l.page order by l.page`);
  for (;;) {
    const [row] = await tx.execute<{ movements: string }>(sql`fetch 1 from moved`);
    if (row === undefined) break;
    yield row.movements;
  }
  await tx.execute(sql`close moved`);
}

/**
 * SQL query: the movements of contract `c` in the range. Materialize it: to read the first ones, Postgres may otherwise search the
 * movements of all contracts in the order of their ids.
 */
const movementsIn = ({ from, to }: ReplayFilter): SQL => sql`
    select l.* from usage_ledger l where l.contract_id = c.id and l.created_at >= ${moment(from)} and l.created_at < ${moment(to)} + ${RECORDED_WITHIN}
    and ${USED_AT} < ${moment(to)} and l.kind <> 'late' and not ${IS_CARRIED}`;

/** SQL aggregate: movements `l` in their order, as tuples. */
const LISTED = sql`json_agg(json_build_array(l.kind, l.service_id, l.limit_name, l.feature_id, l.operation_id, l.delta,
      ${milliseconds("l.created_at")}, ${milliseconds("l.used_at")}, ${milliseconds("l.reverted_at")}, l.units, l.spender) order by l.id)`;

/**
 * SQL expression: the balances of budgets of contract `c` at a moment, in the newest window that each spender had used by then. Counts back
 * from the balance of now where that is of the same window, because compaction may have summed up its first movements. Null without any.
 */
const balancesBefore = (
  at: Date,
): SQL => sql`case when exists (select 1 from budget_balances b where b.contract_id = c.id) then (
        with moved as (
          select p.value ->> 0 as budget, p.value ->> 1 as spender, (p.value ->> 3)::numeric as since, l.service_id, l.limit_name,
            sum((p.value ->> 2)::numeric) filter (where l.created_at <= ${moment(at)}) as earlier,
            sum((p.value ->> 2)::numeric) filter (where l.created_at > ${moment(at)}) as later,
            max(l.id) filter (where l.created_at <= ${moment(at)}) as last_id
          from usage_ledger l cross join lateral json_array_elements(l.budgets) p
          where l.contract_id = c.id and l.budgets is not null group by 1, 2, 3, 4, 5
        ), used as (
          select coalesce(b.budget, m.budget) as budget, coalesce(b.spender, m.spender) as spender,
            coalesce(extract(epoch from b.since) * 1000, m.since) as since,
            case when b.budget is null then m.earlier else b.used - coalesce(m.later, 0) end as used,
            m.last_id, m.service_id, m.limit_name
          from moved m full join (select * from budget_balances where contract_id = c.id and since <= ${moment(at)}) b
            on b.budget = m.budget and b.spender = m.spender and m.since = extract(epoch from b.since) * 1000
          where b.budget is not null or m.earlier is not null
        )
        select json_agg(json_build_array(u.budget, u.spender, u.used::float8, u.since::float8, exists (
            select 1 from usage_ledger z where z.contract_id = c.id and z.service_id = u.service_id and z.limit_name = u.limit_name
              and z.kind in ('reset', 'renew', 'remove') and z.id > u.last_id and z.created_at <= ${moment(at)})))
        from (select distinct on (budget, spender) * from used order by budget, spender, since desc) u
      ) end`;

const drawsOf = (kind: "period" | "end" | "kept", until: Date): SQL => sql`coalesce((
          select sum(d.amount) from block_draws d where d.block_id = b.id and d.kind = ${sql.raw(`'${kind}'`)}
            and d.at <= ${moment(until)}), 0)`;

/** Reads the text of a model, also of a deleted version. Undefined if there is none. */
export async function readModelText(db: Database, pricingId: string): Promise<string | undefined> {
  const [row] = await db
    .select({ text: sql<string>`${pricings.model}::text` })
    .from(pricings)
    .where(eq(pricings.id, pricingId));
  if (row !== undefined) return row.text;
  const [gone] = await db
    .select({ text: sql<string>`${deletedPricings.model}::text` })
    .from(deletedPricings)
    .where(eq(deletedPricings.id, pricingId));
  return gone?.text;
}

/** Counts denied calls by feature, in whole hours of the range. `serviceKeys`: names that the service had. */
export async function countDeniedThen(
  db: Database,
  { organizationId, serviceKeys, from, to }: Omit<ReplayFilter, "serviceId"> & { serviceKeys: readonly string[] },
): Promise<Record<string, number>> {
  const rows = await db.execute<{ feature_id: string; total: string }>(sql`
    select feature_id, sum(count) as total from denials
    where organization_id = ${organizationId} and hour >= date_trunc('hour', ${moment(from)}, 'UTC') and hour < ${moment(to)}
      and exists (select 1 from unnest(${textArray(serviceKeys)}) as k (key) where starts_with(feature_id, k.key || '-'))
    group by feature_id order by feature_id collate "C"`);
  return Object.fromEntries(rows.map(({ feature_id, total }) => [feature_id, Number(total)]));
}
