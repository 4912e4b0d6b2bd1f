import { sql, type SQL } from "drizzle-orm";
import type { Override } from "../../core/pricing/overrides.ts";
import type { Database } from "../postgres/connect.ts";
import { contracts, pricings } from "../schema.ts";
import { isAnyOf } from "../postgres/lists.ts";

/** Distinct plan and add-ons of one version. There are few, even for many contracts. */
export interface Configuration {
  pricingId: string;
  hash: string;
  plan: string | null;
  addOns: Record<string, number> | null;
  /** Add-ons as the text that Postgres stores, for exact comparison in SQL. */
  addOnsText: string | null;
}

export async function readConfigurations(db: Database, organizationId: string): Promise<Configuration[]> {
  // A second query, because the planner overestimates the number of distinct configurations in a join.
  const rows = await db.execute<{ pricing_id: string; plan: string | null; add_ons: string | null }>(sql`
    select distinct cs.pricing_id, cs.plan, cs.add_ons::text as add_ons
    from contracts c join contract_services cs on cs.contract_id = c.id
    where c.organization_id = ${organizationId}
  `);
  const ids = [...new Set(rows.map((row) => row.pricing_id))];
  const versions = await db
    .select({ id: pricings.id, hash: pricings.modelHash })
    .from(pricings)
    .where(isAnyOf(pricings.id, ids));
  const hashes = new Map(versions.map(({ id, hash }) => [id, hash]));
  return rows.map(({ pricing_id, plan, add_ons }) => ({
    pricingId: pricing_id,
    hash: hashes.get(pricing_id) ?? "",
    plan,
    addOns: add_ons === null ? null : JSON.parse(add_ons),
    addOnsText: add_ons,
  }));
}

/** An override of a usage limit that holds now, with the configuration of its contract. */
export interface LimitOverride extends Omit<Configuration, "addOnsText"> {
  contractId: string;
  serviceId: string;
  override: Override;
}

export async function readLimitOverrides(db: Database, organizationId: string, now: Date): Promise<LimitOverride[]> {
  const moment = sql`${now.toISOString()}::timestamptz`;
  const rows = await db.execute<LimitOverride & Record<string, unknown>>(sql`
    select o.contract_id as "contractId", o.service_id as "serviceId", cs.pricing_id as "pricingId",
      p.model_hash as hash, cs.plan, cs.add_ons as "addOns",
      json_build_object('kind', o.kind, 'name', o.name, 'mode', o.mode, 'value', o.value) as override
    from services s
    join contract_overrides o on o.service_id = s.id
    join contract_services cs on cs.contract_id = o.contract_id and cs.service_id = o.service_id
    join pricings p on p.id = cs.pricing_id
    where s.organization_id = ${organizationId} and o.kind = 'usageLimits'
      and o.starts_at <= ${moment} and (o.ends_at is null or o.ends_at > ${moment})
  `);
  return [...rows];
}

/** Numeric value of one limit in one configuration. */
export type NumericLimit = Pick<Configuration, "pricingId" | "plan" | "addOnsText"> & {
  limitName: string;
  cap: number;
};

/** Effective value of a limit of one contract with overrides or blocks; null if consumption cannot approach it. */
export interface LimitException {
  contractId: string;
  serviceId: string;
  limitName: string;
  cap: number | null;
}

/** Limits that differ from what the balances' rows say. */
export interface NumericLimits {
  /** Per configuration, for balances without `limit_value`; empty if there are none. */
  caps: readonly NumericLimit[];
  /** Of contracts with overrides or blocks. */
  exceptions: readonly LimitException[];
}

/** Returns true if balances of the organization lack `limit_value`: `npm run migrate` has not come to them. */
export async function hasUnfilledLimits(db: Database, organizationId: string): Promise<boolean> {
  const [row] = await db.execute<{ unfilled: boolean }>(sql`
    select exists (
      select 1 from services s join usage_levels u on u.service_id = s.id and u.limit_value is null
      where s.organization_id = ${organizationId}
    ) as unfilled`);
  return row?.unfilled ?? false;
}

/** An end user who has consumed most of a limit. */
export interface NearUser {
  userId: string;
  username: string;
  serviceName: string;
  limitName: string;
  consumed: number;
  limit: number;
  resetTimeStamp: Date | null;
}

/** Query for contracts that have consumed at least `share` (0 to 1) of one of the organization's numeric limits. */
export interface Nearness extends NumericLimits {
  organizationId: string;
  share: number;
  now: Date;
}

/**
 * Single text key of a configuration. When compared field by field, the planner estimated five matches instead of 200,000
 * and looked up the levels of 100,000 contracts one by one.
 */
const configurationKey = (pricingId: SQL, plan: SQL, addOns: SQL): SQL =>
  sql`json_build_array(${pricingId}, ${plan}, ${addOns})::text`;

/** Columns of a balance that is near its limit. */
const nearColumns = (
  limit: SQL,
): SQL => sql`u.contract_id, u.service_id, u.limit_name, u.consumed, ${limit} as cap, u.reset_at,
      case when ${limit} = 0 then 1 else u.consumed / ${limit} end as used`;

/**
 * SQL condition: balance `u` has consumed at least this share of the limit in its current period. What is held does not
 * count, as in alerts: a hold may be released, and the list names people who have used up what they paid for.
 */
const isNearTo = (limit: SQL, { share, now }: Nearness): SQL =>
  sql`u.consumed > 0 and u.consumed >= ${limit} * ${share}::numeric
      and (u.reset_at is null or u.reset_at >= ${now.toISOString()}::timestamptz)`;

/** Selects every limit of which a contract has consumed at least this share in its current period. */
function nearLimits(nearness: Nearness): SQL {
  const { organizationId, caps, exceptions, share } = nearness;
  // Below a tenth every balance may qualify, and the index has none that are at zero.
  const tenths = share < 0.1 ? sql`true` : sql`u.used_tenths >= trunc(${share}::numeric * 10)::smallint`;
  const filled = sql`
    select ${nearColumns(sql`u.limit_value`)}
    from services s
    join usage_levels u on u.service_id = s.id and ${tenths}
    where s.organization_id = ${organizationId} and ${isNearTo(sql`u.limit_value`, nearness)}`;
  const general = caps.length === 0 ? filled : sql`${filled} union all (${nearUnfilled(nearness)})`;
  if (exceptions.length === 0) return general;
  const excepted = JSON.stringify(
    exceptions.map(({ contractId, serviceId, limitName, cap }) => [contractId, serviceId, limitName, cap]),
  );
  return sql`
    with exceptions as materialized (
      select e->>0 as contract_id, e->>1 as service_id, e->>2 as limit_name, (e->>3)::numeric as cap
      from json_array_elements(${excepted}::json) e
    )
    select general.* from (${general}) general where not exists (
      select from exceptions e
      where e.contract_id = general.contract_id and e.service_id = general.service_id
        and e.limit_name = general.limit_name
    )
    union all
    select ${nearColumns(sql`e.cap`)}
    from exceptions e
    join usage_levels u
      on u.contract_id = e.contract_id and u.service_id = e.service_id and u.limit_name = e.limit_name
    where ${isNearTo(sql`e.cap`, nearness)}`;
}

/** Selects near limits among the balances without `limit_value`, from the limits of each configuration. */
function nearUnfilled(nearness: Nearness): SQL {
  const rows = JSON.stringify(
    nearness.caps.map(({ pricingId, plan, addOnsText, limitName, cap }) => [
      pricingId,
      plan,
      addOnsText,
      limitName,
      cap,
    ]),
  );
  return sql`
    with caps as materialized (
      select ${configurationKey(sql`c->>0`, sql`c->>1`, sql`c->>2`)} as configuration, c->>3 as limit_name, (c->>4)::numeric as cap
      from json_array_elements(${rows}::json) c
    )
    select ${nearColumns(sql`caps.cap`)}
    from contracts c
    join contract_services cs on cs.contract_id = c.id
    join caps on caps.configuration = ${configurationKey(sql`cs.pricing_id`, sql`cs.plan`, sql`cs.add_ons::text`)}
    join usage_levels u
      on u.contract_id = cs.contract_id and u.service_id = cs.service_id and u.limit_name = caps.limit_name
    where c.organization_id = ${nearness.organizationId} and u.limit_value is null
      and ${isNearTo(sql`caps.cap`, nearness)}`;
}

/** SQL condition: the row of `contracts` is near one of its limits. */
export function isNear(nearness: Nearness): SQL {
  return sql`${contracts.id} in (select contract_id from (${nearLimits(nearness)}) near)`;
}

/** Counts the contracts that are near a limit in its current period. */
export async function countNear(db: Database, nearness: Nearness): Promise<number> {
  const [row] = await db.execute<{ total: number }>(
    sql`select count(*)::integer as total from (select distinct contract_id from (${nearLimits(nearness)}) limits) near`,
  );
  return row?.total ?? 0;
}

/**
 * Counts the contracts that are near a limit in its current period. Lists the nearest ones, each with its most consumed
 * limit.
 */
export async function findNear(
  db: Database,
  input: Nearness & { atMost: number },
): Promise<{ total: number; users: NearUser[] }> {
  const rows = await db.execute<Record<string, string> & { total: number; reset_at: string | null }>(sql`
    with near as materialized (
      -- Byte order is the fastest to sort by.
      select distinct on (contract_id collate "C") * from (${nearLimits(input)}) limits
      order by contract_id collate "C", used desc, limit_name
    ), nearest as (
      -- The limits that are as near as the last one stay until the names decide.
      select * from near order by used desc fetch first (${input.atMost}::integer) rows with ties
    )
    select nearest.*, c.user_id, c.username, s.name_key, (select count(*) from near)::integer as total
    from nearest join contracts c on c.id = nearest.contract_id join services s on s.id = nearest.service_id
    order by nearest.used desc, c.username, c.user_id limit ${input.atMost}::integer
  `);
  return {
    total: rows[0]?.total ?? 0,
    users: rows.map((row) => ({
      userId: row["user_id"] ?? "",
      username: row["username"] ?? "",
      serviceName: row["name_key"] ?? "",
      limitName: row["limit_name"] ?? "",
      consumed: Number(row["consumed"]),
      limit: Number(row["cap"]),
      resetTimeStamp: row.reset_at === null ? null : new Date(row.reset_at),
    })),
  };
}
