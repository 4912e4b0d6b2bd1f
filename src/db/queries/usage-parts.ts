import { sql, type SQL } from "drizzle-orm";
import type { BlockOrigin } from "../../core/pricing/blocks.ts";
import type { Database } from "../postgres/connect.ts";
import { inPartitions, isNamed, moment, readSum, type UsageFilter, type UsageOwner } from "./usage-history.ts";
import { USED_AT } from "./usage-rollup.ts";

/*
 * Parts of usage: what units cost, and what blocks gave. Source: contract credits §4.
 */

/**
 * Returns the SQL query of the first `top` rows of `m` per limit. `m` has service_id and limit_name; `joined` adds tables of
 * further columns, and `kept` a condition.
 */
function firstPerLimit(
  filter: UsageFilter,
  top: number,
  { columns, order, joined = sql``, kept = sql`true` }: { columns: SQL; order: SQL; joined?: SQL; kept?: SQL },
): SQL {
  return sql`
    select * from (
      select s.name_key as service, m.limit_name, ${columns},
        row_number() over (partition by m.service_id, m.limit_name order by ${order}) as place
      from m join services s on s.id = m.service_id ${joined}
      where ${kept} and ${isNamed(filter)}
    ) placed
    where place <= ${top}::integer
    order by service collate "C", limit_name collate "C", place`;
}

/** Sums of one unit of a limit, by feature. */
export interface UnitSums {
  service: string;
  limit: string;
  unit: string;
  featureId: string | null;
  /** Number of units, those that were late included. */
  units: number;
  counted: number;
  late: number;
}

/** Returns the SQL condition: movement `l` is of the owner. */
const isMovementOf = (owner: UsageOwner): SQL =>
  "contractId" in owner
    ? sql`l.contract_id = ${owner.contractId}`
    : sql`l.contract_id in (select id from contracts where organization_id = ${owner.organizationId})`;

/**
 * Sums units per limit and feature, most expensive first, at most `top` per limit. Reads movements, which only those with units
 * cost; what was reverted does not count.
 */
export async function readUnits(db: Database, filter: UsageFilter, top: number): Promise<UnitSums[]> {
  interface Row extends Record<string, unknown> {
    service: string;
    limit_name: string;
    unit: string;
    feature_id: string | null;
    units: string;
    counted: string;
    late: string;
  }
  const rows = await db.execute<Row>(sql`
    with m as materialized (
      select l.service_id, l.limit_name, u.key as unit, l.feature_id, sum((u.value->>0)::numeric) as units,
        coalesce(sum((u.value->>1)::numeric) filter (where l.kind <> 'late'), 0) as counted,
        coalesce(sum((u.value->>1)::numeric) filter (where l.kind = 'late'), 0) as late
      from usage_ledger l cross join lateral json_each(l.units) u
      where l.units is not null and l.reverted_at is null and ${isMovementOf(filter.owner)} and ${inPartitions(filter)}
        and ${USED_AT} >= ${moment(filter.from)} and ${USED_AT} < ${moment(filter.to)}
      group by 1, 2, 3, 4
    )
    ${firstPerLimit(filter, top, {
      columns: sql`m.unit, m.feature_id, m.units, m.counted, m.late`,
      order: sql`m.counted desc, m.unit collate "C", m.feature_id collate "C"`,
    })}`);
  return rows.map((row) => ({
    service: row.service,
    limit: row.limit_name,
    unit: row.unit,
    featureId: row.feature_id,
    units: Number(row.units),
    counted: readSum(row.counted),
    late: readSum(row.late),
  }));
}

/** Sums of one spender of a limit. */
export interface SpenderSums {
  service: string;
  limit: string;
  /** User of the contract, in sums of all contracts. */
  userId?: string;
  /** Path, cut to the wanted number of ids. */
  spender: string;
  counted: number;
  late: number;
}

/**
 * Sums movements per limit and spender, of all contracts also per contract, most first, at most `top` per limit. Spenders count with
 * the first `depth` ids of their path; what was reverted does not count.
 */
export async function readSpenders(
  db: Database,
  filter: UsageFilter,
  { depth, top }: { depth: number; top: number },
): Promise<SpenderSums[]> {
  interface Row extends Record<string, unknown> {
    service: string;
    limit_name: string;
    user_id: string | null;
    spender: string;
    counted: string;
    late: string;
  }
  const contractId = "contractId" in filter.owner ? sql`null::text` : sql`l.contract_id`;
  const rows = await db.execute<Row>(sql`
    with m as materialized (
      select l.service_id, l.limit_name, ${contractId} as contract_id,
        array_to_string((string_to_array(l.spender, '/'))[1:${depth}::integer], '/') as spender, sum(l.delta) as counted,
        coalesce(sum(l.late_amount), 0) as late
      from usage_ledger l
      where l.spender is not null and l.reverted_at is null and ${isMovementOf(filter.owner)} and ${inPartitions(filter)}
        and ${USED_AT} >= ${moment(filter.from)} and ${USED_AT} < ${moment(filter.to)}
      group by 1, 2, 3, 4
    )
    ${firstPerLimit(filter, top, {
      columns: sql`c.user_id, m.spender, m.counted, m.late`,
      order: sql`m.counted desc, c.user_id collate "C", m.spender collate "C"`,
      joined: sql`left join contracts c on c.id = m.contract_id`,
    })}`);
  return rows.map((row) => ({
    service: row.service,
    limit: row.limit_name,
    ...(row.user_id === null ? {} : { userId: row.user_id }),
    spender: row.spender,
    counted: readSum(row.counted),
    late: readSum(row.late),
  }));
}

/** Draws of one block. */
export interface BlockSums {
  service: string;
  limit: string;
  blockId: string;
  userId: string;
  origin: BlockOrigin;
  drawn: number;
}

/**
 * Sums the fixed draws of blocks per limit, largest first, at most `top` per limit. `running` has what open blocks were drawn
 * that is not fixed yet, by id.
 */
export async function readDraws(
  db: Database,
  filter: UsageFilter,
  { running, top }: { running: ReadonlyMap<string, number>; top: number },
): Promise<BlockSums[]> {
  const { owner } = filter;
  const isOwned =
    "contractId" in owner ? sql`b.contract_id = ${owner.contractId}` : sql`b.organization_id = ${owner.organizationId}`;
  const given = JSON.stringify([...running].map(([id, amount]) => ({ id, amount })));
  interface Row extends Record<string, unknown> {
    service: string;
    limit_name: string;
    id: string;
    user_id: string;
    origin: BlockOrigin;
    drawn: string;
  }
  const rows = await db.execute<Row>(sql`
    with draw as materialized (
      select d.block_id as id, d.amount from block_draws d
      where d.kind <> 'kept' and d.at >= ${moment(filter.from)} and d.at < ${moment(filter.to)}
        and ${"contractId" in owner ? sql`d.contract_id = ${owner.contractId}` : sql`d.organization_id = ${owner.organizationId}`}
      union all
      select g.id, g.amount from json_to_recordset(${given}::json) as g (id text, amount numeric)
    ), m as (
      select b.service_id, b.limit_name, b.id, b.contract_id, b.origin, sum(draw.amount) as drawn
      from draw join contract_blocks b on b.id = draw.id and ${isOwned} group by 1, 2, 3, 4, 5
    )
    ${firstPerLimit(filter, top, {
      columns: sql`m.id, c.user_id, m.origin, m.drawn`,
      order: sql`m.drawn desc, m.id collate "C"`,
      joined: sql`join contracts c on c.id = m.contract_id`,
      kept: sql`m.drawn > 0`,
    })}`);
  return rows.map((row) => ({
    service: row.service,
    limit: row.limit_name,
    blockId: row.id,
    userId: row.user_id,
    origin: row.origin,
    drawn: Number(row.drawn),
  }));
}
