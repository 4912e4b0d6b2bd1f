import { sql, type SQL } from "drizzle-orm";
import type { OffReason } from "../../core/ofrep.ts";
import type { Override } from "../../core/pricing/overrides.ts";
import type { Database } from "../postgres/connect.ts";
import { isAnyOf } from "../postgres/lists.ts";
import { contracts, denials, pricings } from "../schema.ts";

/** Billing state of a contract: renews automatically, ends within a week, has ended, or none of these (`active`). */
export const CONTRACT_STATES = ["active", "renewing", "ending", "expired"] as const;
export type ContractState = (typeof CONTRACT_STATES)[number];

/** SQL condition: the row of `contracts` is in this state. */
export function isInState(state: ContractState, now: Date): SQL {
  const { autoRenew, endDate } = contracts;
  const moment = sql`${now.toISOString()}::timestamptz`;
  const soon = sql`${moment} + interval '7 days'`;
  return {
    renewing: sql`${autoRenew}`,
    expired: sql`(not ${autoRenew} and ${endDate} < ${moment})`,
    ending: sql`(not ${autoRenew} and ${endDate} >= ${moment} and ${endDate} < ${soon})`,
    active: sql`(not ${autoRenew} and ${endDate} >= ${soon})`,
  }[state];
}

/** Number of an organization's contracts per billing state. */
export type StateCounts = Record<"total" | ContractState, number>;

export async function countContracts(db: Database, organizationId: string, now: Date): Promise<StateCounts> {
  const counted = CONTRACT_STATES.map(
    (state) => sql`, count(*) filter (where ${isInState(state, now)})::integer as ${sql.identifier(state)}`,
  );
  const [row] = await db.execute<Record<keyof StateCounts, number>>(sql`
    select count(*)::integer as total${sql.join(counted)} from ${contracts} where organization_id = ${organizationId}
  `);
  return row ?? { total: 0, active: 0, renewing: 0, ending: 0, expired: 0 };
}

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

/** Effective value of an overridden limit of one contract; null if consumption cannot approach it. */
export interface LimitException {
  contractId: string;
  serviceId: string;
  limitName: string;
  cap: number | null;
}

/** Finite limits that consumption can approach: per configuration, and of contracts with overrides. */
export interface NumericLimits {
  caps: readonly NumericLimit[];
  exceptions: readonly LimitException[];
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

/** Selects every limit of which a contract has consumed at least this share in its current period. */
function nearLimits({ organizationId, caps, exceptions, share, now }: Nearness): SQL {
  const rows = JSON.stringify(
    caps.map(({ pricingId, plan, addOnsText, limitName, cap }) => [pricingId, plan, addOnsText, limitName, cap]),
  );
  const used = (cap: SQL) => sql`case when ${cap} = 0 then 1 else u.consumed / ${cap} end as used`;
  const isNearTo = (cap: SQL) => sql`u.consumed > 0 and u.consumed >= ${cap} * ${share}::numeric
      and (u.reset_at is null or u.reset_at >= ${now.toISOString()}::timestamptz)`;
  const general = sql`
    with caps as materialized (
      select ${configurationKey(sql`c->>0`, sql`c->>1`, sql`c->>2`)} as configuration, c->>3 as limit_name, (c->>4)::numeric as cap
      from json_array_elements(${rows}::json) c
    )
    select c.id, c.user_id, c.username, cs.service_id, u.limit_name, u.consumed, caps.cap, u.reset_at,
      ${used(sql`caps.cap`)}
    from contracts c
    join contract_services cs on cs.contract_id = c.id
    join caps on caps.configuration = ${configurationKey(sql`cs.pricing_id`, sql`cs.plan`, sql`cs.add_ons::text`)}
    join usage_levels u
      on u.contract_id = cs.contract_id and u.service_id = cs.service_id and u.limit_name = caps.limit_name
    where c.organization_id = ${organizationId} and ${isNearTo(sql`caps.cap`)}`;
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
      where e.contract_id = general.id and e.service_id = general.service_id and e.limit_name = general.limit_name
    )
    union all
    select c.id, c.user_id, c.username, u.service_id, u.limit_name, u.consumed, e.cap, u.reset_at, ${used(sql`e.cap`)}
    from exceptions e
    join contracts c on c.id = e.contract_id
    join usage_levels u
      on u.contract_id = e.contract_id and u.service_id = e.service_id and u.limit_name = e.limit_name
    where ${isNearTo(sql`e.cap`)}`;
}

/** SQL condition: the row of `contracts` is near one of its limits. */
export function isNear(nearness: Nearness): SQL {
  return sql`${contracts.id} in (select id from (${nearLimits(nearness)}) near)`;
}

/**
 * Counts the contracts that are near a limit in its current period. Lists the nearest ones, each with its most consumed
 * limit.
 */
export async function findNear(
  db: Database,
  input: Nearness & { atMost: number },
): Promise<{ total: number; users: NearUser[] }> {
  if (input.caps.length === 0 && input.exceptions.length === 0) return { total: 0, users: [] };
  const rows = await db.execute<Record<string, string> & { total: number; reset_at: string | null }>(sql`
    with near as (select distinct on (id) * from (${nearLimits(input)}) limits order by id, used desc, limit_name)
    select near.*, (select name_key from services s where s.id = near.service_id), (select count(*) from near)::integer as total
    from near order by near.used desc, near.username, near.user_id limit ${input.atMost}::integer
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

/** Counts USAGE_LIMIT_REACHED events of the last `hours`, by the database clock, which dates events. */
export async function countLimitsReached(db: Database, organizationId: string, hours: number): Promise<number> {
  const [row] = await db.execute<{ total: number }>(sql`
    select count(*)::integer as total from outbox
    where organization_id = ${organizationId} and code = 'USAGE_LIMIT_REACHED'
      and created_at >= now() - ${hours}::integer * interval '1 hour'
  `);
  return row?.total ?? 0;
}

/** Denials of one feature: in total, and because a limit was reached. */
export interface DeniedFeature {
  featureId: string;
  total: number;
  limitReached: number;
}

/** Counts denials of the last `hours`, rounded to whole hours, and lists the most denied features. */
export async function countDenials(
  db: Database,
  input: { organizationId: string; now: Date; hours: number; atMost: number },
): Promise<{ total: number; features: DeniedFeature[] }> {
  const since = new Date(input.now.getTime() - input.hours * 3_600_000);
  const limitReached: OffReason = "LIMIT_REACHED";
  const rows = await db.execute<Record<"overall" | "total" | "limited", string> & { feature_id: string }>(sql`
    select feature_id, sum(count) as total, coalesce(sum(count) filter (where reason = ${limitReached}), 0) as limited,
      sum(sum(count)) over () as overall
    from ${denials} where organization_id = ${input.organizationId} and hour > ${since.toISOString()}::timestamptz
    group by feature_id order by total desc, feature_id limit ${input.atMost}::integer
  `);
  return {
    total: Number(rows[0]?.overall ?? 0),
    features: rows.map(({ feature_id, total, limited }) => ({
      featureId: feature_id,
      total: Number(total),
      limitReached: Number(limited),
    })),
  };
}

/** Counts new contracts and denials by UTC day (`YYYY-MM-DD`), from the moment `since`. Days without any are absent. */
export async function countPerDay(
  db: Database,
  organizationId: string,
  since: string,
): Promise<Record<"newContracts" | "denials", ReadonlyMap<string, number>>> {
  const dayOf = (column: SQL) => sql`to_char(${column} at time zone 'UTC', 'YYYY-MM-DD')`;
  const rows = await db.execute<{ what: "newContracts" | "denials"; day: string; total: string }>(sql`
    select 'newContracts' as what, ${dayOf(sql`created_at`)} as day, count(*) as total from ${contracts}
    where organization_id = ${organizationId} and created_at >= ${since}::timestamptz group by day
    union all
    select 'denials', ${dayOf(sql`hour`)} as day, sum(count) from ${denials}
    where organization_id = ${organizationId} and hour >= ${since}::timestamptz group by day
  `);
  const of = (wanted: string) =>
    new Map(rows.filter(({ what }) => what === wanted).map(({ day, total }) => [day, Number(total)]));
  return { newContracts: of("newContracts"), denials: of("denials") };
}

/** Counts enabled services and their active versions. */
export async function countVersions(
  db: Database,
  organizationId: string,
): Promise<{ services: number; activeVersions: number }> {
  const [row] = await db.execute<{ services: number; versions: number }>(sql`
    select count(distinct s.id)::integer as services, count(p.id)::integer as versions
    from services s left join pricings p on p.service_id = s.id and p.availability = 'active'
    where s.organization_id = ${organizationId} and not s.disabled
  `);
  return { services: row?.services ?? 0, activeVersions: row?.versions ?? 0 };
}
