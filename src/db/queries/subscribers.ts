import { sql, type SQL } from "drizzle-orm";
import type { Override } from "../../core/pricing/overrides.ts";
import type { Database } from "../postgres/connect.ts";
import { isAnyOf } from "../postgres/lists.ts";

/** One contract's version, plan, add-ons and usage of one service. */
export interface Subscriber {
  contractId: string;
  pricingId: string;
  plan: string | null;
  addOns: Record<string, number> | null;
  /** Overrides that hold now, by kind and name. */
  overrides: readonly Override[];
  /**
   * Consumption by limit name, less what blocks add to the limit: below the granted value exactly while it is below the
   * limit with blocks. 0 if the level's period is over.
   */
  usage: Record<string, number>;
  /** Rest of its open blocks of this service when the running periods began. Absent without any. */
  blocks?: number | undefined;
}

/** Selects contracts of any of these services, optionally only on these versions or among these contracts. */
export interface SubscriberFilter {
  serviceIds: readonly string[];
  pricingIds?: readonly string[] | undefined;
  contractIds?: readonly string[] | undefined;
}

const among = (column: string, values: readonly string[] | undefined) =>
  values === undefined ? sql`` : sql` and ${isAnyOf(sql.raw(column), values)}`;

const ofThese = ({ serviceIds, pricingIds, contractIds }: SubscriberFilter) =>
  sql`${isAnyOf(sql`cs.service_id`, serviceIds)}${among("cs.pricing_id", pricingIds)}${among("cs.contract_id", contractIds)}`;

/** SQL query of the contract ids that match the filter. */
export function subscribersOf(filter: SubscriberFilter): SQL {
  return sql`select cs.contract_id from contract_services cs where ${ofThese(filter)}`;
}

/** Counts the subscriptions that match the filter. */
export async function countSubscribers(db: Database, filter: SubscriberFilter): Promise<number> {
  const [row] = await db.execute<{ count: number }>(
    sql`select count(*)::integer as count from contract_services cs where ${ofThese(filter)}`,
  );
  return row?.count ?? 0;
}

/** Joins the overrides of contracts that hold now, as `held.overrides`: JSON text, null without any. Few contracts have some. */
const holding = (serviceIds: readonly string[], now: Date) => {
  const moment = sql`${now.toISOString()}::timestamptz`;
  return sql`left join (
      select contract_id, service_id,
        json_agg(json_build_object('kind', kind, 'name', name, 'mode', mode, 'value', value)
          order by kind, name collate "C")::text as overrides
      from contract_overrides
      where ${isAnyOf(sql`service_id`, serviceIds)} and starts_at <= ${moment} and (ends_at is null or ends_at > ${moment})
      group by contract_id, service_id
    ) held on held.contract_id = cs.contract_id and held.service_id = cs.service_id`;
};

const overridesIn = (text: string | null) => (text === null ? [] : (JSON.parse(text) as Override[]));

/**
 * Lists each distinct version, plan, add-ons and overrides once, without usage: the join with levels is slow.
 */
export async function listConfigurations(
  db: Database,
  filter: SubscriberFilter,
  now: Date,
): Promise<Omit<Subscriber, "usage">[]> {
  const rows = await db.execute<{
    contract_id: string;
    pricing_id: string;
    plan: string | null;
    add_ons: string | null;
    overrides: string | null;
  }>(sql`
    select min(cs.contract_id) as contract_id, cs.pricing_id, cs.plan, cs.add_ons::text as add_ons, held.overrides
    from contract_services cs ${holding(filter.serviceIds, now)}
    where ${ofThese(filter)} group by cs.pricing_id, cs.plan, cs.add_ons::text, held.overrides
  `);
  return rows.map((row) => ({
    contractId: row.contract_id,
    pricingId: row.pricing_id,
    plan: row.plan,
    addOns: row.add_ons === null ? null : (JSON.parse(row.add_ons) as Subscriber["addOns"]),
    overrides: overridesIn(row.overrides),
  }));
}

/**
 * Reads subscribers through a cursor, a thousand at a time, so that memory stays constant. Call it inside a transaction,
 * one generator at a time: the cursor's name is fixed.
 */
export async function* readSubscribers(
  tx: Database,
  filter: SubscriberFilter,
  now: Date,
): AsyncGenerator<Subscriber[]> {
  const moment = sql`${now.toISOString()}::timestamptz`;
  const [any] = await tx.execute<{ found: boolean }>(sql`
    select exists (select 1 from contract_blocks
      where ${isAnyOf(sql`service_id`, filter.serviceIds)} and settled_at is null) as found`);
  // Few services have contracts with blocks. The others take no look-up per balance.
  const hasBlocks = any?.found === true;
  const isOpen = sql`b.state = 'open' and b.starts_at <= ${moment} and (b.expires_at is null or b.expires_at > ${moment})`;
  const blocks = hasBlocks
    ? sql`(select sum(b.period_left)::float8 from contract_blocks b
        where b.contract_id = cs.contract_id and b.service_id = cs.service_id and b.settled_at is null and ${isOpen})`
    : sql`null::float8`;
  const added = hasBlocks
    ? sql`- coalesce((
          select sum(case when b.state <> 'open' then b.used + b.period_left - b.amount + b.kept
            when ${isOpen} then b.period_left end)
          from contract_blocks b where b.contract_id = u.contract_id and b.service_id = u.service_id
            and b.limit_name = u.limit_name and b.settled_at is null), 0)`
    : sql``;
  await tx.execute(sql`
    declare holders no scroll cursor for
    select cs.contract_id, cs.pricing_id, cs.plan, cs.add_ons, held.overrides, (
      select json_object_agg(u.limit_name,
        case when u.reset_at < ${moment} then 0 else u.consumed ${added} end)
      from usage_levels u
      where u.contract_id = cs.contract_id and u.service_id = cs.service_id
    ) as usage, ${blocks} as blocks
    from contract_services cs ${holding(filter.serviceIds, now)} where ${ofThese(filter)}
  `);
  for (;;) {
    const rows = await tx.execute<{
      contract_id: string;
      pricing_id: string;
      plan: string | null;
      add_ons: Subscriber["addOns"];
      overrides: string | null;
      usage: Subscriber["usage"] | null;
      blocks: number | null;
    }>(sql`fetch 200 from holders`);
    if (rows.length === 0) break;
    yield rows.map((row) => ({
      contractId: row.contract_id,
      pricingId: row.pricing_id,
      plan: row.plan,
      addOns: row.add_ons,
      overrides: overridesIn(row.overrides),
      usage: row.usage ?? {},
      blocks: row.blocks ?? undefined,
    }));
  }
  await tx.execute(sql`close holders`);
}
