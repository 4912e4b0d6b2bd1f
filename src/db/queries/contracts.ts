import { and, asc, sql, type SQL } from "drizzle-orm";
import { END_OF_TIME } from "../../core/period.ts";
import type { Database } from "../postgres/connect.ts";
import { isAnyOf } from "../postgres/lists.ts";
import { contracts, contractServices } from "../schema.ts";
import {
  dropLevels,
  numberedContracts,
  putLevels,
  recordServiceRemoval,
  type SubscribedService,
} from "./contract-levels.ts";
import { countSeats } from "./contract-members.ts";
import { recordStates } from "./contract-states.ts";
import { followLevels } from "./holds.ts";
import type { Addressed } from "./outbox.ts";
import { endLeavingTerms } from "./overrides.ts";
import { followPeriodEnds } from "./scheduled.ts";
import { type SubscriberFilter, subscribersOf } from "./subscribers.ts";

/** Locks matching contracts until the transaction ends, in id order so that two callers cannot deadlock. */
export async function lockContracts(tx: Database, where: SQL | undefined): Promise<(typeof contracts.$inferSelect)[]> {
  return tx.select().from(contracts).where(where).orderBy(asc(contracts.id)).for("update");
}

/**
 * Locks the contracts that have these services, as lockContracts does. Checks the services again afterwards: while this
 * blocked, another transaction may have removed them, and Postgres rechecks only the locked table's rows.
 */
export async function lockSubscribers(
  tx: Database,
  filter: SubscriberFilter,
): Promise<{ id: string; userId: string }[]> {
  const locked = await tx
    .select({ id: contracts.id, userId: contracts.userId })
    .from(contracts)
    .where(sql`${contracts.id} in (${subscribersOf(filter)})`)
    .orderBy(asc(contracts.id))
    .for("update");
  const rows = await tx.execute<{ contract_id: string }>(subscribersOf(filter));
  const holders = new Set(rows.map((row) => row.contract_id));
  return locked.filter((row) => holders.has(row.id));
}

/** Contracts with the same services, plans and add-ons. */
export interface SubscriptionGroup {
  contractIds: readonly string[];
  next: readonly SubscribedService[];
}

/**
 * Passes the services of subscriptions as one JSON parameter, so that the statement text does not depend on their number. Each has
 * its group's number.
 */
function servicesParameter(groups: readonly SubscriptionGroup[]): string {
  return JSON.stringify(
    groups.flatMap(({ next }, number) =>
      next.map(({ serviceId, pricingId, plan, addOns }, position) => ({
        number,
        service_id: serviceId,
        pricing_id: pricingId,
        position,
        plan,
        add_ons: addOns,
      })),
    ),
  );
}

/**
 * Sets the subscription of each contract to exactly `next`, in a fixed number of statements. Levels still tracked keep
 * balance and reset moment, new levels start at zero, others are deleted; each movement gets a ledger row. If the period of
 * a retained level changed, its reset moment becomes the new anchor.
 * Call it with the contracts locked. Returns the events of overrides that end with their service. Source: contract contracts
 * §6 step 4.
 */
export async function replaceSubscriptions(
  tx: Database,
  input: { contractIds: readonly string[]; next: readonly SubscribedService[]; now: Date; operationId: string },
): Promise<Addressed[]> {
  const { next } = input;
  const ofThese = isAnyOf(sql`contract_id`, input.contractIds);
  await dropLevels(tx, { ...input, of: ofThese });
  // Update rows of retained services instead of deleting them: the deletion would cascade to their levels.
  const staying = isAnyOf(
    sql`service_id`,
    next.map((service) => service.serviceId),
  );
  const ended = await endLeavingTerms(tx, { ...input, leaving: sql`not ${staying}` });
  await tx.execute(sql`delete from contract_services where ${ofThese} and not ${staying}`);
  await addSubscriptions(tx, [input], input.now);
  await countSeats(tx, input);
  await followLevels(tx, input);
  return ended;
}

/**
 * Inserts missing services and levels: the part of replaceSubscriptions that a contract without services needs. Sends both
 * statements at once, so that further ones can follow them in the same round trip.
 */
export async function addSubscriptions(tx: Database, groups: readonly SubscriptionGroup[], now: Date): Promise<void> {
  if (groups.every(({ next }) => next.length === 0)) return;
  await Promise.all([putServices(tx, groups), putLevels(tx, groups, now)]);
}

async function putServices(tx: Database, groups: readonly SubscriptionGroup[]): Promise<void> {
  await tx.execute(sql`
    insert into contract_services (contract_id, organization_id, service_id, pricing_id, position, plan, add_ons)
    select c.id, contracts.organization_id, s.service_id, s.pricing_id, s.position, s.plan, s.add_ons
    from ${numberedContracts(groups)} as c (id, number)
    join json_to_recordset(${servicesParameter(groups)}::json)
      as s (number integer, service_id text, pricing_id text, position integer, plan text, add_ons json) using (number)
    join contracts on contracts.id = c.id
    on conflict (contract_id, service_id, organization_id) do update set
      pricing_id = excluded.pricing_id, position = excluded.position, plan = excluded.plan, add_ons = excluded.add_ons
  `);
}

type ContractRow = typeof contracts.$inferSelect;

/** The billing period of a contract. */
export type PeriodColumns = Pick<
  ContractRow,
  "startDate" | "endDate" | "autoRenew" | "renewalDays" | "renewalValue" | "renewalUnit"
>;

/** Inserts a contract without contact and services. The query builder would spend most of the time on the text. */
export async function insertContract(
  tx: Database,
  row: Pick<ContractRow, "id" | "organizationId" | "userId"> & PeriodColumns,
): Promise<void> {
  await tx.execute(sql`
    insert into contracts (id, organization_id, user_id, username, start_date, end_date, auto_renew, renewal_days,
      renewal_value, renewal_unit)
    values (${row.id}, ${row.organizationId}, ${row.userId}, ${row.userId}, ${row.startDate.toISOString()}::timestamptz,
      ${row.endDate.toISOString()}::timestamptz, ${row.autoRenew}, ${row.renewalDays}, ${row.renewalValue},
      ${row.renewalUnit})`);
}

/** Gives a locked contract another billing period. */
export async function setPeriod(tx: Database, id: string, columns: PeriodColumns, now: Date): Promise<void> {
  await tx.execute(sql`
    update contracts set start_date = ${columns.startDate.toISOString()}::timestamptz,
      end_date = ${columns.endDate.toISOString()}::timestamptz, auto_renew = ${columns.autoRenew},
      renewal_days = ${columns.renewalDays}, renewal_value = ${columns.renewalValue},
      renewal_unit = ${columns.renewalUnit}, updated_at = ${now.toISOString()}::timestamptz
    where id = ${id}`);
}

/** Default length of a billing period, in days. */
export const USUAL_RENEWAL_DAYS = 30;

/**
 * Restarts the billing period of each contract at `now`, for its own period or number of days. Default: 30, for a contract that had
 * lost all services and therefore has 0. With `exceptEnded`, ended contracts keep their period. A trial keeps it always.
 */
export async function restartBilling(
  tx: Database,
  input: { contractIds: readonly string[]; autoRenew: boolean | undefined; now: Date; exceptEnded?: boolean },
): Promise<void> {
  const moment = sql`${input.now.toISOString()}::timestamptz`;
  const isKept = sql`(${input.exceptEnded ?? false}::boolean and end_date < ${moment} and not auto_renew
    or change_at is not null and exists (
      select 1 from scheduled_changes s
      where s.contract_id = contracts.id and s.state = 'pending' and s.kind = 'trialEnd'))`;
  const days = sql`case when renewal_days < 1 then ${USUAL_RENEWAL_DAYS}::integer else renewal_days end`;
  // In UTC, whatever the time zone of the session: months are clamped to their last day, as addPeriod does.
  const months = sql`renewal_value * case renewal_unit when 'YEAR' then 12 else 1 end`;
  const calendarEnd = sql`case when renewal_unit = 'DAY' then ${moment} + renewal_value * interval '24 hours'
    else (${moment} at time zone 'UTC' + make_interval(months => ${months})) at time zone 'UTC' end`;
  const end = sql`least(case when renewal_unit is null then ${moment} + (${days}) * interval '24 hours'
    else ${calendarEnd} end, ${new Date(END_OF_TIME).toISOString()}::timestamptz)`;
  await tx.execute(sql`
    update contracts set
      start_date = case when ${isKept} then start_date else ${moment} end,
      end_date = case when ${isKept} then end_date else ${end} end,
      auto_renew = coalesce(${input.autoRenew ?? null}::boolean, auto_renew),
      renewal_days = case when ${isKept} then renewal_days else ${days} end,
      updated_at = ${moment}
    where ${isAnyOf(sql`id`, input.contractIds)}
  `);
  // A contract that lost its last service keeps the moment of its pending change.
  await followPeriodEnds(
    tx,
    input.contractIds,
    sql`exists (select 1 from contract_services cs where cs.contract_id = c.id)`,
  );
}

/** Appends each contract's current subscription to its history, from its billing start to `endDate`. */
export async function appendHistory(tx: Database, contractIds: readonly string[], endDate: Date): Promise<void> {
  if (contractIds.length === 0) return;
  await tx.execute(sql`
    insert into contract_history
      (contract_id, organization_id, start_date, end_date, contracted_services, subscription_plans, subscription_add_ons)
    select c.id, c.organization_id, c.start_date, ${endDate.toISOString()}::timestamptz,
      coalesce(json_object_agg(s.name_key, p.version order by cs.position) filter (where s.id is not null), '{}'),
      coalesce(json_object_agg(s.name_key, cs.plan order by cs.position) filter (where cs.plan is not null), '{}'),
      coalesce(json_object_agg(s.name_key, cs.add_ons order by cs.position) filter (where cs.add_ons is not null), '{}')
    from contracts c
    left join contract_services cs on cs.contract_id = c.id
    left join services s on s.id = cs.service_id
    left join pricings p on p.id = cs.pricing_id
    where ${isAnyOf(sql`c.id`, contractIds)}
    group by c.id, c.organization_id
    order by c.id
  `);
}

/**
 * Removes services from contracts as a novation: appends history and restarts the billing period, or ends it if no service
 * remains. Call it with the contracts locked. Returns the events of overrides that end with their service. Source: contract
 * services-pricings §6.3.
 */
export async function removeServicesFromContracts(
  tx: Database,
  input: { contractIds: readonly string[]; serviceIds: readonly string[]; now: Date; operationId: string },
): Promise<Addressed[]> {
  const { contractIds, serviceIds, now } = input;
  if (contractIds.length === 0) return [];
  await appendHistory(tx, contractIds, now);
  const ended = await endLeavingTerms(tx, { contractIds, leaving: isAnyOf(sql`service_id`, serviceIds), now });
  await recordServiceRemoval(tx, input);
  await tx
    .delete(contractServices)
    .where(and(isAnyOf(contractServices.contractId, contractIds), isAnyOf(contractServices.serviceId, serviceIds)));
  await followLevels(tx, input);
  await restartBilling(tx, { contractIds, autoRenew: undefined, now });
  await tx.execute(sql`
    update contracts c
    set end_date = start_date, auto_renew = false, renewal_days = 0, renewal_value = null, renewal_unit = null
    where ${isAnyOf(sql`id`, contractIds)} and not exists (select 1 from contract_services cs where cs.contract_id = c.id)
  `);
  await recordStates(tx, { contractIds, cause: "removal", now });
  return ended;
}
