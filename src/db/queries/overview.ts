import { sql, type SQL } from "drizzle-orm";
import type { OffReason } from "../../core/ofrep.ts";
import type { Database } from "../postgres/connect.ts";
import { contracts, denials } from "../schema.ts";

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
  const counts = { total: 0, active: 0, renewing: 0, ending: 0, expired: 0 };
  // The states exclude each other, so that most rows need one comparison.
  const cases = CONTRACT_STATES.map((state) => sql`when ${isInState(state, now)} then ${state}`);
  const rows = await db.execute<{ state: ContractState; count: number }>(sql`
    select case ${sql.join(cases, sql` `)} end as state, count(*)::integer as count
    from ${contracts} where organization_id = ${organizationId} group by 1
  `);
  for (const { state, count } of rows) {
    counts[state] = count;
    counts.total += count;
  }
  return counts;
}

/** Counts USAGE_LIMIT_REACHED events of the last `hours`, by the database clock, which dates events. */
export async function countLimitsReached(db: Database, organizationId: string, hours: number): Promise<number> {
  const [row] = await db.execute<{ total: number }>(sql`
    select count(*)::integer as total
    from (
      select organization_id, code, created_at from outbox
      union all select organization_id, code, created_at from outbox_staged
    ) recorded
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
  const count = async (statement: SQL) => {
    const rows = await db.execute<{ day: string; total: string }>(statement);
    return new Map(rows.map(({ day, total }) => [day, Number(total)]));
  };
  const [newContracts, denied] = await Promise.all([
    count(sql`
      select ${dayOf(sql`created_at`)} as day, count(*) as total from ${contracts}
      where organization_id = ${organizationId} and created_at >= ${since}::timestamptz group by day`),
    count(sql`
      select ${dayOf(sql`hour`)} as day, sum(count) as total from ${denials}
      where organization_id = ${organizationId} and hour >= ${since}::timestamptz group by day`),
  ]);
  return { newContracts, denials: denied };
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
