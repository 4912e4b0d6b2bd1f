import { and, asc, sql, type SQL } from "drizzle-orm";
import { alias } from "drizzle-orm/pg-core";
import { addPeriod, END_OF_TIME } from "../../core/period.ts";
import type { GrantedLimit } from "../../core/pricing/subscription.ts";
import type { Database } from "../postgres/connect.ts";
import { recordStates } from "./contract-states.ts";
import type { Addressed } from "./outbox.ts";
import {
  endLeavingOverrides,
  type OverrideJson,
  OVERRIDES_JSON,
  overridesIn,
  type OverrideView,
  type StoredOverride,
} from "./overrides.ts";
import { followLevels } from "./holds.ts";
import { type SubscriberFilter, subscribersOf } from "./subscribers.ts";
import { isAnyOf, textArray } from "../postgres/lists.ts";
import { contracts, contractServices } from "../schema.ts";
import { SERVICES_JSON, type SnapshotService } from "./contract-snapshots.ts";
import {
  followPeriodEnds,
  PENDING_JSON,
  type ReadScheduled,
  scheduledIn,
  type ScheduledJson,
  type ScheduledView,
  type TrialView,
} from "./scheduled.ts";

/** Contract in the form that every endpoint returns. Source: contract contracts §2. */
export interface ContractView {
  id: string;
  userContact: {
    userId: string;
    username: string;
    firstName?: string;
    lastName?: string;
    email?: string;
    phone?: string;
  };
  billingPeriod: { startDate: Date; endDate: Date; autoRenew: boolean; renewalDays: number };
  /** `held` only where open holds hold something. */
  usageLevels: Record<string, Record<string, { resetTimeStamp?: Date; consumed: number; held?: number }>>;
  organizationId: string;
  groupId?: string;
  contractedServices: Record<string, string>;
  subscriptionPlans: Record<string, string>;
  subscriptionAddOns: Record<string, Record<string, number>>;
  history: {
    startDate: Date;
    endDate: Date;
    contractedServices: Record<string, string>;
    subscriptionPlans: Record<string, string>;
    subscriptionAddOns: Record<string, Record<string, number>>;
  }[];
  /** Overrides that have not ended, if there are any. Added by operations/contract-views.ts. */
  overrides?: OverrideView[];
  /** The pending scheduled change, if there is one. Added by operations/contract-views.ts. */
  scheduled?: Extract<ScheduledView, { kind: "novation" }>;
  /** The trial, while it lasts. */
  trial?: TrialView;
}

type ContractRow = typeof contracts.$inferSelect;

function userContact(row: ContractRow): ContractView["userContact"] {
  const contact: ContractView["userContact"] = { userId: row.userId, username: row.username };
  if (row.firstName !== null) contact.firstName = row.firstName;
  if (row.lastName !== null) contact.lastName = row.lastName;
  if (row.email !== null) contact.email = row.email;
  if (row.phone !== null) contact.phone = row.phone;
  return contact;
}

/** The SQL expressions below refer to the contract's row by this alias. */
const c = alias(contracts, "c");

const LEVELS_JSON = sql.raw(`(select json_agg(json_build_object(
    'service', s.name_key, 'limit', u.limit_name, 'consumed', u.consumed, 'held', u.held,
    'resetAt', u.reset_at)
    order by cs.position, u.position)
  from usage_levels u
  join contract_services cs using (contract_id, service_id)
  join services s on s.id = u.service_id
  where u.contract_id = c.id)`);

const HISTORY_ENTRY = `json_build_object(
    'startDate', h.start_date, 'endDate', h.end_date, 'contractedServices', h.contracted_services,
    'subscriptionPlans', h.subscription_plans, 'subscriptionAddOns', h.subscription_add_ons)`;
const HISTORY_JSON = sql.raw(`(select json_agg(${HISTORY_ENTRY} order by h.id)
  from contract_history h where h.contract_id = c.id)`);
const NEWEST_HISTORY_JSON = sql.raw(`(select ${HISTORY_ENTRY}
  from contract_history h where h.contract_id = c.id order by h.id desc limit 1)`);

type LevelJson = Omit<Belongings["levels"][number], "resetAt"> & { resetAt: string | null };
type HistoryJson = Omit<Belongings["past"][number], "startDate" | "endDate"> & { startDate: string; endDate: string };

/** A contract's view, still without overrides and scheduled change, and what those depend on. */
export interface ReadContract {
  view: ContractView;
  services: readonly SnapshotService[];
  /** In display order. */
  overrides: readonly StoredOverride[];
  /** The pending novation and the trial; null without one. A contract has at most one of them. */
  scheduled: Extract<ReadScheduled, { kind: "novation" }> | null;
  trial: TrialView | null;
}

/**
 * Reads contracts with services, levels, history, overrides and scheduled change, in the given order. Uses one statement, so that each view
 * is consistent. Omits deleted contracts.
 */
export async function readContracts(db: Database, named: readonly { id: string }[]): Promise<ReadContract[]> {
  if (named.length === 0) return [];
  const ids = named.map(({ id }) => id);
  const found = await db
    .select({
      row: c,
      contracted: sql<SnapshotService[] | null>`${SERVICES_JSON}`,
      levels: sql<LevelJson[] | null>`${LEVELS_JSON}`,
      past: sql<HistoryJson[] | null>`${HISTORY_JSON}`,
      overrides: sql<OverrideJson[] | null>`${OVERRIDES_JSON}`,
      scheduled: sql<ScheduledJson | null>`${PENDING_JSON}`,
    })
    .from(c)
    .where(isAnyOf(c.id, ids));
  const contracts = new Map(
    found.map(({ row, contracted, levels, past, overrides, scheduled }): [string, ReadContract] => [
      row.id,
      {
        view: viewOf(row, {
          contracted: contracted ?? [],
          levels: (levels ?? []).map((level) => ({
            ...level,
            resetAt: level.resetAt === null ? null : new Date(level.resetAt),
          })),
          past: (past ?? []).map(pastOf),
        }),
        services: contracted ?? [],
        overrides: overridesIn(overrides),
        ...pendingIn(scheduled === null ? null : scheduledIn(scheduled)),
      },
    ]),
  );
  return ids.flatMap((id) => contracts.get(id) ?? []);
}

function pendingIn(change: ReadScheduled | null): Pick<ReadContract, "scheduled" | "trial"> {
  if (change?.kind === "novation") return { scheduled: change, trial: null };
  if (change?.kind !== "trialEnd") return { scheduled: null, trial: null };
  return { scheduled: null, trial: { until: change.at, then: change.then } };
}

/**
 * Reads contracts with services and their newest history entry, in the order of their ids. The views lack levels and older
 * history, which take most of the time of readContracts.
 */
export async function viewSubscriptions(db: Database, ids: readonly string[]): Promise<ContractView[]> {
  const found = await db
    .select({
      row: c,
      contracted: sql<SnapshotService[] | null>`${SERVICES_JSON}`,
      newest: sql<HistoryJson | null>`${NEWEST_HISTORY_JSON}`,
    })
    .from(c)
    .where(isAnyOf(c.id, ids))
    .orderBy(asc(c.id));
  return found.map(({ row, contracted, newest }) =>
    viewOf(row, { contracted: contracted ?? [], levels: [], past: newest === null ? [] : [pastOf(newest)] }),
  );
}

const pastOf = (entry: HistoryJson): Belongings["past"][number] => ({
  ...entry,
  startDate: new Date(entry.startDate),
  endDate: new Date(entry.endDate),
});

/** Services, levels and history of a contract, each list in display order. */
interface Belongings {
  contracted: readonly Pick<SnapshotService, "key" | "version" | "plan" | "addOns">[];
  levels: readonly { service: string; limit: string; consumed: number; held: number; resetAt: Date | null }[];
  past: readonly ContractView["history"][number][];
}

/** Builds the view of a contract from its row and related rows. */
export function viewOf(row: ContractRow, { contracted, levels, past }: Belongings): ContractView {
  const view: ContractView = {
    id: row.id,
    userContact: userContact(row),
    billingPeriod: {
      startDate: row.startDate,
      endDate: row.endDate,
      autoRenew: row.autoRenew,
      renewalDays: row.renewalDays,
    },
    usageLevels: {},
    organizationId: row.organizationId,
    ...(row.groupId === null ? {} : { groupId: row.groupId }),
    contractedServices: {},
    subscriptionPlans: {},
    subscriptionAddOns: {},
    history: past.map((entry) => ({
      startDate: entry.startDate,
      endDate: entry.endDate,
      contractedServices: entry.contractedServices,
      subscriptionPlans: entry.subscriptionPlans,
      subscriptionAddOns: entry.subscriptionAddOns,
    })),
  };
  for (const { key, version, plan, addOns } of contracted) {
    define(view.contractedServices, key, version);
    if (plan !== null) define(view.subscriptionPlans, key, plan);
    if (addOns !== null) define(view.subscriptionAddOns, key, addOns);
  }
  for (const { service, limit, consumed, held, resetAt } of levels) {
    if (!Object.hasOwn(view.usageLevels, service)) define(view.usageLevels, service, {});
    const level = resetAt === null ? { consumed } : { resetTimeStamp: resetAt, consumed };
    define(view.usageLevels[service] ?? {}, limit, held > 0 ? { ...level, held } : level);
  }
  return view;
}

/** Sets an own property of any name: service names are user input and may be `__proto__`. */
function define<T>(target: Record<string, T>, key: string, value: T): void {
  Object.defineProperty(target, key, { value, enumerable: true, configurable: true, writable: true });
}

/** Locks matching contracts until the transaction ends, in id order so that two callers cannot deadlock. */
export async function lockContracts(tx: Database, where: SQL | undefined): Promise<ContractRow[]> {
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

/** One service of a subscription, resolved to database ids. */
export interface SubscribedService {
  serviceId: string;
  pricingId: string;
  /** As sent; null without an entry in `subscriptionPlans`. */
  plan: string | null;
  /** In the pricing's spelling; null without an entry in `subscriptionAddOns`. */
  addOns: Record<string, number> | null;
  /** Limits with a usage level. One with a period renews. */
  tracked: readonly GrantedLimit[];
}

/** Passes a subscription's services as one JSON parameter, so that the statement text does not depend on their number. */
function servicesParameter(next: readonly SubscribedService[]): string {
  return JSON.stringify(
    next.map(({ serviceId, pricingId, plan, addOns }, position) => ({
      service_id: serviceId,
      pricing_id: pricingId,
      position,
      plan,
      add_ons: addOns,
    })),
  );
}

/** Contracts whose services track the same limits with the same values. */
interface LevelGroup {
  contractIds: readonly string[];
  next: readonly Pick<SubscribedService, "serviceId" | "tracked">[];
}

/**
 * Passes the services' tracked limits as one JSON parameter. Each has its group's number, and the end of a period that starts
 * at `now`.
 */
function limitsParameter(groups: readonly Pick<LevelGroup, "next">[], now: Date): string {
  const services = groups.flatMap(({ next }, number) => next.map((service) => ({ ...service, number })));
  return JSON.stringify(
    services.flatMap(({ number, serviceId, tracked }) =>
      tracked.map(({ name, period, value }, position) => ({
        number,
        service_id: serviceId,
        limit_name: name,
        position,
        anchor: period === undefined ? null : now.toISOString(),
        reset_at: period === undefined ? null : addPeriod(now, period).toISOString(),
        period_value: period?.value ?? null,
        period_unit: period?.unit ?? null,
        limit_value: value ?? "Infinity",
      })),
    ),
  );
}

const LIMIT_COLUMNS = sql.raw(
  "number integer, service_id text, limit_name text, position integer, anchor timestamptz, reset_at timestamptz, period_value numeric, period_unit text, limit_value numeric",
);

/** SQL table of contract ids with the numbers of their groups. */
const numberedContracts = (groups: readonly Pick<LevelGroup, "contractIds">[]): SQL => {
  const ids = groups.flatMap(({ contractIds }) => contractIds);
  const numbers = groups.flatMap(({ contractIds }, number) => contractIds.map(() => String(number)));
  return sql`unnest(${textArray(ids)}, ${textArray(numbers)}::integer[])`;
};

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
  const ended = await endLeavingOverrides(tx, { ...input, leaving: sql`not ${staying}` });
  await tx.execute(sql`delete from contract_services where ${ofThese} and not ${staying}`);
  await addSubscriptions(tx, input);
  await followLevels(tx, input);
  return ended;
}

/** Inserts missing services and levels: the part of replaceSubscriptions that a contract without services needs. */
export async function addSubscriptions(
  tx: Database,
  input: { contractIds: readonly string[]; next: readonly SubscribedService[]; now: Date },
): Promise<void> {
  const { next } = input;
  if (next.length === 0) return;
  const these = textArray(input.contractIds);
  await tx.execute(sql`
    insert into contract_services (contract_id, service_id, pricing_id, position, plan, add_ons)
    select c.id, s.service_id, s.pricing_id, s.position, s.plan, s.add_ons
    from unnest(${these}) as c (id)
    cross join json_to_recordset(${servicesParameter(next)}::json)
      as s (service_id text, pricing_id text, position integer, plan text, add_ons json)
    on conflict (contract_id, service_id) do update set
      pricing_id = excluded.pricing_id, position = excluded.position, plan = excluded.plan, add_ons = excluded.add_ons
  `);
  await putLevels(tx, [input], input.now);
}

/** Deletes the levels that match `of` and that `next` does not track, each with a ledger row. */
async function dropLevels(
  tx: Database,
  input: { of: SQL; next: LevelGroup["next"]; now: Date; operationId: string },
): Promise<void> {
  const { of, next, now, operationId } = input;
  const leaving = sql`not exists (
    select 1 from json_to_recordset(${limitsParameter([{ next }], now)}::json) as wanted (${LIMIT_COLUMNS})
    where wanted.service_id = usage_levels.service_id and wanted.limit_name = usage_levels.limit_name
  )`;
  await tx.execute(sql`
    insert into usage_ledger (contract_id, service_id, limit_name, kind, operation_id, delta, created_at)
    select contract_id, service_id, limit_name, 'remove', ${operationId}, -consumed, ${now.toISOString()}::timestamptz
    from usage_levels
    where ${of} and ${leaving}
  `);
  await tx.execute(sql`delete from usage_levels where ${of} and ${leaving}`);
}

/** Inserts missing levels at zero, and updates limit and period of existing ones. */
async function putLevels(tx: Database, groups: readonly LevelGroup[], now: Date): Promise<void> {
  if (groups.every(({ contractIds }) => contractIds.length === 0)) return;
  await tx.execute(sql`
    insert into usage_levels
      (contract_id, service_id, limit_name, position, consumed, anchor, reset_at, period_value, period_unit, limit_value,
      used_tenths, running_since)
    select c.id, l.service_id, l.limit_name, l.position, 0, l.anchor, l.reset_at, l.period_value, l.period_unit,
      l.limit_value, 0, ${now.toISOString()}::timestamptz
    from ${numberedContracts(groups)} as c (id, number)
    join json_to_recordset(${limitsParameter(groups, now)}::json) as l (${LIMIT_COLUMNS}) using (number)
    on conflict (contract_id, service_id, limit_name) do update set
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
      limit_value = excluded.limit_value
  `);
}

/** Updates the limits of existing levels that differ. Most moves change few of them. */
async function putLimits(tx: Database, groups: readonly LevelGroup[], now: Date): Promise<void> {
  await tx.execute(sql`
    update usage_levels u set limit_value = l.limit_value
    from ${numberedContracts(groups)} as c (id, number)
    join json_to_recordset(${limitsParameter(groups, now)}::json) as l (${LIMIT_COLUMNS}) using (number)
    where u.contract_id = c.id and u.service_id = l.service_id and u.limit_name = l.limit_name
      and u.limit_value is distinct from l.limit_value
  `);
}

/** Contracts that move to the same plan and add-ons of a service. */
export interface Move {
  contractIds: readonly string[];
  plan: string | null;
  addOns: Record<string, number>;
}

/** Contracts per batch. With 20 limits each, the statements of a batch take half a second. */
const BATCH = 2_000;

/** Splits moves into batches, so that no statement reaches its timeout. */
export function batchesOf(moves: readonly Move[]): Move[][] {
  const batches: Move[][] = [];
  let room = 0;
  for (const { contractIds, ...target } of moves)
    for (let at = 0; at < contractIds.length;) {
      if (room === 0) {
        batches.push([]);
        room = BATCH;
      }
      const ids = contractIds.slice(at, at + room);
      batches.at(-1)?.push({ contractIds: ids, ...target });
      room -= ids.length;
      at += ids.length;
    }
  return batches;
}

/**
 * Finds the contracts whose levels of the service differ from `next`, or are due for renewal. Most moves change no level,
 * and rewriting every level of 100,000 contracts takes a minute.
 */
async function findChangingLevels(
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
        on l.limit_name = u.limit_name and l.position = u.position and (l.reset_at is null) = (u.reset_at is null)
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
 * Moves contracts to another version of a service that they have, in a fixed number of statements. Levels still tracked
 * keep their balance, as in replaceSubscriptions; with `reset` all start at zero. Call it with the contracts locked.
 */
export async function moveToVersion(
  tx: Database,
  input: {
    serviceId: string;
    pricingId: string;
    /** Limits that the version grants a plan with add-ons. */
    limitsOf: (move: Move) => readonly GrantedLimit[];
    moves: readonly Move[];
    usage: "kept" | "reset";
    now: Date;
    operationId: string;
  },
): Promise<void> {
  const { serviceId, pricingId, moves, now, operationId } = input;
  const groups = moves.map((move) => ({
    contractIds: move.contractIds,
    next: [{ serviceId, tracked: input.limitsOf(move) }],
  }));
  const contractIds = moves.flatMap((move) => move.contractIds);
  // All configurations of a version track the same limits with the same periods.
  const next = groups[0]?.next ?? [];
  const levelsOf = (ids: readonly string[]) => sql`${isAnyOf(sql`contract_id`, ids)} and service_id = ${serviceId}`;
  let changing: readonly string[] = contractIds;
  if (input.usage === "reset") {
    await recordServiceRemoval(tx, { contractIds, serviceIds: [serviceId], now, operationId });
    await tx.execute(sql`delete from usage_levels where ${levelsOf(contractIds)}`);
  } else {
    const found = await findChangingLevels(tx, { contractIds, serviceId, next, now });
    changing = found.changing;
    // Renew levels whose period is over first: the new version may have no period, so no later renewal would.
    if (found.due.length > 0) {
      const due = sql`${levelsOf(found.due)} and reset_at < ${now.toISOString()}::timestamptz and consumed > 0`;
      await tx.execute(sql`
        insert into usage_ledger (contract_id, service_id, limit_name, kind, operation_id, delta, created_at)
        select contract_id, service_id, limit_name, 'renew', ${operationId}, -consumed, ${now.toISOString()}::timestamptz
        from usage_levels where ${due}
      `);
      await tx.execute(sql`
        update usage_levels set consumed = 0, running_since = reset_at + interval '1 millisecond',
          alerted_threshold = null, alerted_limit = null
        where ${due}
      `);
    }
    if (changing.length > 0) await dropLevels(tx, { of: levelsOf(changing), next, now, operationId });
  }
  const targets = moves.map(({ plan, addOns }, number) => ({ number, plan, add_ons: addOns }));
  await tx.execute(sql`
    update contract_services cs set pricing_id = ${pricingId}, plan = m.plan, add_ons = m.add_ons
    from ${numberedContracts(moves)} as c (id, number)
    join json_to_recordset(${JSON.stringify(targets)}::json) as m (number integer, plan text, add_ons json) using (number)
    where cs.contract_id = c.id and cs.service_id = ${serviceId}
  `);
  const isChanging = new Set(changing);
  const ofGroups = (wanted: (id: string) => boolean) =>
    groups.map((group) => ({ ...group, contractIds: group.contractIds.filter(wanted) }));
  await putLevels(
    tx,
    ofGroups((id) => isChanging.has(id)),
    now,
  );
  await putLimits(
    tx,
    ofGroups((id) => !isChanging.has(id)),
    now,
  );
  await followLevels(tx, { contractIds: changing, now });
}

/** Default length of a billing period, in days. */
export const USUAL_RENEWAL_DAYS = 30;

/**
 * Restarts the billing period of each contract at `now`, for its own number of days. Default: 30, for a contract that had
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
  const end = sql`least(${moment} + (${days}) * interval '24 hours', ${new Date(END_OF_TIME).toISOString()}::timestamptz)`;
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
      (contract_id, start_date, end_date, contracted_services, subscription_plans, subscription_add_ons)
    select c.id, c.start_date, ${endDate.toISOString()}::timestamptz,
      coalesce(json_object_agg(s.name_key, p.version order by cs.position) filter (where s.id is not null), '{}'),
      coalesce(json_object_agg(s.name_key, cs.plan order by cs.position) filter (where cs.plan is not null), '{}'),
      coalesce(json_object_agg(s.name_key, cs.add_ons order by cs.position) filter (where cs.add_ons is not null), '{}')
    from contracts c
    left join contract_services cs on cs.contract_id = c.id
    left join services s on s.id = cs.service_id
    left join pricings p on p.id = cs.pricing_id
    where ${isAnyOf(sql`c.id`, contractIds)}
    group by c.id
    order by c.id
  `);
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
  await tx.execute(sql`
    insert into usage_ledger (contract_id, service_id, limit_name, kind, operation_id, delta, created_at)
    select contract_id, service_id, limit_name, 'remove', ${input.operationId}, -consumed, ${input.now.toISOString()}::timestamptz
    from (
      select contract_id, service_id, limit_name, consumed from usage_levels
      where ${isAnyOf(sql`contract_id`, input.contractIds)} and ${isAnyOf(sql`service_id`, input.serviceIds)}
      order by contract_id, service_id, limit_name
      for update
    ) locked
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
  const ended = await endLeavingOverrides(tx, { contractIds, leaving: isAnyOf(sql`service_id`, serviceIds), now });
  await recordServiceRemoval(tx, input);
  await tx
    .delete(contractServices)
    .where(and(isAnyOf(contractServices.contractId, contractIds), isAnyOf(contractServices.serviceId, serviceIds)));
  await followLevels(tx, input);
  await restartBilling(tx, { contractIds, autoRenew: undefined, now });
  await tx.execute(sql`
    update contracts c set end_date = start_date, auto_renew = false, renewal_days = 0
    where ${isAnyOf(sql`id`, contractIds)} and not exists (select 1 from contract_services cs where cs.contract_id = c.id)
  `);
  await recordStates(tx, { contractIds, cause: "removal", now });
  return ended;
}
