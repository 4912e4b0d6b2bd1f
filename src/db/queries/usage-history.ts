import { sql, type SQL } from "drizzle-orm";
import type { Bucket } from "../../core/usage-range.ts";
import type { Database } from "../postgres/connect.ts";
import { IS_CARRIED, SUMS, USED_AT } from "./usage-rollup.ts";

/*
 * Histories of usage: the roll-up, together with the movements that it lacks. Each is one statement, so mark, sums and
 * movements are of one snapshot.
 */

/** The contract, or all contracts of the organization. */
export type UsageOwner = { contractId: string } | { organizationId: string };

/** Selects movements by moment of use, and by the names of service and limit. */
export interface UsageFilter {
  owner: UsageOwner;
  from: Date;
  to: Date;
  /** Service name in lower case. Default: all. */
  service: string | undefined;
  /** Name of a limit. Default: all. */
  limit: string | undefined;
  /** On a distributed database the movements of a contract are looked up on its worker. Default: false. */
  isDistributed?: boolean;
}

/** Sums of one limit. */
export interface UsageSums {
  service: string;
  limit: string;
  counted: number;
  cleared: number;
  late: number;
}

/** SQL expression: a moment. */
export const moment = (at: Date) => sql`${at.toISOString()}::timestamptz`;

/**
 * SQL condition: the roll-up lacks movement `l`. Above an unknown id the planner expects a third of the ledger, for which it
 * compiles the query (JIT). Between two ids it expects a two-hundredth.
 */
const IS_NEWER = sql.raw(
  "(l.id > (select up_to from usage_rollup) and l.id <= (select last_value from usage_ledger_id_seq))",
);

/**
 * SQL condition: movement `l` is in a partition that can have movements of the range. Usage is recorded when it happens or later, by any
 * clock of a sender that is accepted.
 */
export const inPartitions = ({ from }: Pick<UsageFilter, "from">): SQL => sql`l.created_at >= ${moment(from)}`;

/** Splits the sums of a limit. `total` does not. */
type Split = "bucket" | "feature_id" | "contract_id" | "total";

/**
 * SQL list: sums per service, limit and `part`, from the table of days or hours, and from newer movements. Summed by ids, which
 * is cheaper than by names.
 */
function movedIn({ owner, from, to, isDistributed = false }: UsageFilter, table: "hours" | "days", split: Split): SQL {
  const bucket = sql.raw(table === "hours" ? "hour" : "day");
  const isOwned = (contractId: SQL) =>
    "contractId" in owner
      ? sql`${contractId} = ${owner.contractId}`
      : sql`${contractId} in (select id from contracts where organization_id = ${owner.organizationId})`;
  const inRange = (at: SQL) => sql`${at} >= ${moment(from)} and ${at} < ${moment(to)}`;
  const stored = split === "total" ? sql`''` : split === "bucket" ? sql`r.${bucket}` : sql.raw(`r.${split}`);
  const newer = {
    bucket: sql`date_trunc(${sql.raw(table === "hours" ? "'hour'" : "'day'")}, ${USED_AT}, 'UTC')`,
    feature_id: sql`coalesce(l.feature_id, '')`,
    contract_id: sql`l.contract_id`,
    total: sql`''`,
  }[split];
  return sql`(
      select r.service_id, r.limit_name, ${stored} as part, sum(r.counted) as counted, sum(r.cleared) as cleared,
        sum(r.late) as late, sum(r.entries) as entries
      from ${sql.raw(`usage_${table}`)} r where ${isOwned(sql`r.contract_id`)} and ${inRange(sql`r.${bucket}`)}
      group by 1, 2, 3
      union all
      select l.service_id, l.limit_name, ${newer} as part, ${SUMS}
      from usage_ledger l
      where ${IS_NEWER} and ${inPartitions({ from })} and ${inRange(USED_AT)} and not ${IS_CARRIED}
        and ${isOwned(isDistributed && "contractId" in owner ? sql`l.contract_id` : sql`l.contract_id || ''`)}
      group by 1, 2, 3
    )`;
}

/** SQL condition: service `s` and limit of `m` have the names of the filter. */
export const isNamed = ({ service, limit }: UsageFilter): SQL => sql`
    (${service ?? null}::text is null or s.name_key = ${service ?? null})
    and (${limit ?? null}::text is null or m.limit_name = ${limit ?? null})`;

interface SumRow extends Record<string, unknown> {
  service: string;
  limit_name: string;
  counted: string;
  cleared: string;
  late: string;
}

/** Reads a sum of amounts. Sums of contracts, or over resets, may lie beyond the largest number, as no amount does. */
export const readSum = (digits: string): number =>
  Math.min(Number.MAX_VALUE, Math.max(-Number.MAX_VALUE, Number(digits)));

const sumsOf = (row: SumRow): UsageSums => ({
  service: row.service,
  limit: row.limit_name,
  counted: readSum(row.counted),
  cleared: readSum(row.cleared),
  late: readSum(row.late),
});

const TOTALS = sql.raw("sum(m.counted) as counted, sum(m.cleared) as cleared, sum(m.late) as late");

/** Sums per bucket and limit that moved, and their totals per limit. */
export async function readBuckets(
  db: Database,
  filter: UsageFilter,
  bucket: Bucket,
): Promise<{ totals: UsageSums[]; rows: (UsageSums & { at: Date })[] }> {
  const rows = await db.execute<SumRow & { at: string | null }>(sql`
    with moved as materialized (
      select extract(epoch from date_trunc(${sql.raw(`'${bucket}'`)}, m.part, 'UTC')) * 1000 as at,
        s.name_key as service, m.limit_name, ${TOTALS}
      from ${movedIn(filter, bucket === "hour" ? "hours" : "days", "bucket")} m join services s on s.id = m.service_id
      where ${isNamed(filter)}
      group by 1, 2, 3
    )
    select * from moved
    union all
    select null, service, limit_name, ${TOTALS} from moved m group by 2, 3`);
  return {
    totals: rows.filter(({ at }) => at === null).map(sumsOf),
    rows: rows.filter(({ at }) => at !== null).map((row) => ({ ...sumsOf(row), at: new Date(Number(row.at)) })),
  };
}

/** Sums per limit that moved in a range of whole hours or days. */
export async function readTotals(db: Database, filter: UsageFilter, table: "hours" | "days"): Promise<UsageSums[]> {
  const rows = await db.execute<SumRow>(sql`
    select s.name_key as service, m.limit_name, ${TOTALS}
    from ${movedIn(filter, table, "total")} m join services s on s.id = m.service_id
    where ${isNamed(filter)}
    group by 1, 2`);
  return rows.map(sumsOf);
}

/** Sums of one feature or end user. */
export interface GroupSums extends UsageSums {
  /** Feature id, null for adjustments; or user id. */
  name: string | null;
}

/**
 * Sums per limit and feature, or per limit and end user, in whole days, in the order of the answer. `top` bounds the rows per limit: rows
 * past it are left out, and `totals` has all of them.
 */
export async function readGroups(
  db: Database,
  filter: UsageFilter,
  { by, top }: { by: "feature" | "user"; top: number },
): Promise<{ totals: UsageSums[]; rows: GroupSums[] }> {
  const name =
    by === "feature"
      ? sql.raw("nullif(m.part, '')")
      : sql.raw("(select c.user_id from contracts c where c.id = m.part)");
  const rows = await db.execute<SumRow & { name: string | null; place: string | null }>(sql`
    with grouped as materialized (
      select s.name_key as service, m.limit_name, ${name} as name, ${TOTALS}, sum(m.entries) as entries
      from ${movedIn(filter, "days", by === "feature" ? "feature_id" : "contract_id")} m join services s on s.id = m.service_id
      where ${isNamed(filter)}
      group by 1, 2, 3
    )
    select * from (
      select service, limit_name, null as name, sum(counted) as counted, sum(cleared) as cleared, sum(late) as late,
        null as place
      from grouped group by 1, 2
      union all
      select service, limit_name, name, counted, cleared, late, place from (
        select *, row_number() over (
          partition by service, limit_name order by counted desc, name collate "C" nulls last) as place
        from grouped where entries > 0
      ) placed where place <= ${top}::integer
    ) listed
    order by service collate "C", limit_name collate "C", place nulls first`);
  return {
    totals: rows.filter(({ place }) => place === null).map(sumsOf),
    rows: rows.filter(({ place }) => place !== null).map((row) => ({ ...sumsOf(row), name: row.name })),
  };
}

/** Limits that the contract tracks now. */
export async function readTracked(
  db: Database,
  contractId: string,
  { service, limit }: Pick<UsageFilter, "service" | "limit">,
): Promise<{ service: string; limit: string }[]> {
  const rows = await db.execute<{ service: string; limit_name: string }>(sql`
    select s.name_key as service, m.limit_name from usage_levels m join services s on s.id = m.service_id
    where m.contract_id = ${contractId} and ${isNamed({ service, limit } as UsageFilter)}`);
  return rows.map((row) => ({ service: row.service, limit: row.limit_name }));
}

/** One movement, as in the answer. */
export interface MovementRow {
  id: number;
  at: Date;
  recordedAt: Date;
  service: string;
  limit: string;
  kind: string;
  amount: number;
  featureId: string | null;
  operation: string;
  /** Only where the caller estimated the amount. */
  estimated?: true;
}

/** SQL list: the levels that the contract has movements of in the range, found by one index lookup per partition each. */
const movedLevels = (contractId: string, filter: UsageFilter): SQL => sql`
    with recursive level as (
      (select service_id, limit_name from usage_ledger l where contract_id = ${contractId} and ${inPartitions(filter)}
        order by service_id, limit_name limit 1)
      union all
      select next.* from level cross join lateral (
        select service_id, limit_name from usage_ledger l
        where contract_id = ${contractId} and (service_id, limit_name) > (level.service_id, level.limit_name)
          and ${inPartitions(filter)}
        order by service_id, limit_name limit 1
      ) next
    )`;

const milliseconds = (column: SQL) => sql`extract(epoch from ${column}) * 1000`;

/** Reads movements of a contract, newest first, from below the id `before`. */
export async function readMovements(
  db: Database,
  filter: UsageFilter & { owner: { contractId: string } },
  { before, limit }: { before: number | undefined; limit: number },
): Promise<MovementRow[]> {
  const { contractId } = filter.owner;
  interface Row extends Record<string, unknown> {
    id: string;
    used: string;
    recorded: string;
    service: string;
    limit_name: string;
    kind: string;
    amount: string;
    feature_id: string | null;
    operation_id: string;
    estimated: boolean | null;
  }
  const rows = await db.execute<Row>(sql`
    ${movedLevels(contractId, filter)}
    select moved.*, s.name_key as service
    from level m
    join services s on s.id = m.service_id
    cross join lateral (
      select l.id, ${milliseconds(USED_AT)} as used, ${milliseconds(sql.raw("l.created_at"))} as recorded, l.limit_name,
        l.kind, coalesce(l.late_amount, l.delta) as amount, l.feature_id, l.operation_id,
        l.estimated
      from usage_ledger l
      where l.contract_id = ${contractId} and l.service_id = m.service_id and l.limit_name = m.limit_name
        and l.id < ${before ?? Number.MAX_SAFE_INTEGER}::bigint and ${inPartitions(filter)}
        and ${USED_AT} >= ${moment(filter.from)} and ${USED_AT} < ${moment(filter.to)} and not ${IS_CARRIED}
      order by l.id desc limit ${limit}::integer
    ) moved
    where ${isNamed(filter)}
    order by moved.id desc limit ${limit}::integer`);
  return rows.map((row) => ({
    id: Number(row.id),
    at: new Date(Number(row.used)),
    recordedAt: new Date(Number(row.recorded)),
    service: row.service,
    limit: row.limit_name,
    kind: row.kind,
    amount: Number(row.amount),
    featureId: row.feature_id,
    operation: row.operation_id,
    ...(row.estimated === true ? { estimated: true } : {}),
  }));
}

/** Sums per limit of a contract's movements in a range that need not be whole buckets. */
export async function readExactTotals(
  db: Database,
  filter: UsageFilter & { owner: { contractId: string } },
): Promise<UsageSums[]> {
  const rows = await db.execute<SumRow>(sql`
    select s.name_key as service, m.limit_name, ${TOTALS}
    from (
      select l.service_id, l.limit_name, ${SUMS} from usage_ledger l
      where l.contract_id = ${filter.owner.contractId} and ${inPartitions(filter)} and not ${IS_CARRIED}
        and ${USED_AT} >= ${moment(filter.from)} and ${USED_AT} < ${moment(filter.to)}
      group by 1, 2
    ) m join services s on s.id = m.service_id
    where ${isNamed(filter)}
    group by 1, 2`);
  return rows.map(sumsOf);
}
