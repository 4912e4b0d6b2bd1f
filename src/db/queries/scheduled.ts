import { and, asc, eq, sql, type SQL } from "drizzle-orm";
import type { CancelReason, ScheduledKind, ScheduledState } from "../../core/scheduled.ts";
import type { Database } from "../postgres/connect.ts";
import { isAnyOf } from "../postgres/lists.ts";
import { contracts, scheduledChanges, scheduledSubscriptions } from "../schema.ts";
import type { Actor } from "./actors.ts";
import type { SubscribedService } from "./contracts.ts";
import type { Addressed } from "./outbox.ts";

/** A scheduled change in the form that every endpoint returns. Source: contract custom-terms §4. */
export interface ScheduledView {
  readonly id: string;
  readonly organizationId: string;
  readonly kind: ScheduledKind;
  readonly state: ScheduledState;
  readonly userId: string;
  readonly at: Date;
  readonly atPeriodEnd: boolean;
  readonly contractedServices: Readonly<Record<string, string>>;
  readonly subscriptionPlans: Readonly<Record<string, string>>;
  readonly subscriptionAddOns: Readonly<Record<string, Readonly<Record<string, number>>>>;
  readonly autoRenew: boolean | null;
  readonly reason: string | null;
  readonly effectiveAt: Date | null;
  readonly why: string | null;
  readonly createdAt: Date;
  readonly actor: Actor;
}

/** A service of a scheduled subscription, with current names where it still exists. */
interface ScheduledService {
  key: string;
  version: string;
  plan: string | null;
  addOns: Record<string, number> | null;
}

type Times = "at" | "effectiveAt" | "createdAt";
type Maps = "contractedServices" | "subscriptionPlans" | "subscriptionAddOns";

/** A scheduled change as the database returns it in JSON. */
export type ScheduledJson = Omit<ScheduledView, Times | Maps | "actor"> & {
  at: string;
  effectiveAt: string | null;
  createdAt: string;
  services: readonly ScheduledService[] | null;
  actorKind: Actor["kind"];
  actorId: string | null;
};

/** A scheduled change, still without the name of who scheduled it. */
export type ReadScheduled = Omit<ScheduledView, "actor"> & { actorKind: Actor["kind"]; actorId: string | null };

/** SQL expression of a {@link ScheduledJson}: the change `s` of the contract `c`. */
const CHANGE_JSON = `json_build_object(
        'id', s.id, 'organizationId', s.organization_id, 'kind', s.kind, 'state', s.state, 'userId', c.user_id,
        'at', s.at, 'atPeriodEnd', s.at_period_end, 'autoRenew', s.auto_renew, 'reason', s.reason,
        'effectiveAt', s.effective_at, 'why', s.why, 'createdAt', s.created_at,
        'actorKind', s.actor_kind, 'actorId', s.actor_id, 'services', (
          select json_agg(json_build_object('key', coalesce(v.name_key, x.service_name),
              'version', coalesce(p.version, x.version), 'plan', x.plan, 'addOns', x.add_ons) order by x.position)
          from scheduled_subscriptions x
          left join services v on v.id = x.service_id
          left join pricings p on p.id = x.pricing_id
          where x.change_id = s.id))`;

/** SQL expression: the pending change of contract `c`; null without one. Read it with {@link scheduledIn}. */
export const PENDING_JSON = sql.raw(`(case when c.change_at is not null then (
      select ${CHANGE_JSON} from scheduled_changes s where s.contract_id = c.id and s.state = 'pending') end)`);

/** Reads a change that {@link PENDING_JSON} built. */
export function scheduledIn({ services, at, effectiveAt, createdAt, ...change }: ScheduledJson): ReadScheduled {
  const list = services ?? [];
  return {
    ...change,
    at: new Date(at),
    effectiveAt: effectiveAt === null ? null : new Date(effectiveAt),
    createdAt: new Date(createdAt),
    contractedServices: Object.fromEntries(list.map(({ key, version }) => [key, version])),
    subscriptionPlans: Object.fromEntries(list.flatMap(({ key, plan }) => (plan === null ? [] : [[key, plan]]))),
    subscriptionAddOns: Object.fromEntries(list.flatMap(({ key, addOns }) => (addOns === null ? [] : [[key, addOns]]))),
  };
}

const THEIR_CONTRACTS = sql`${scheduledChanges} s join ${contracts} c on c.id = s.contract_id`;

async function readChanges(db: Database, rest: SQL): Promise<ReadScheduled[]> {
  const rows = await db.execute<{ change: ScheduledJson }>(
    sql`select ${sql.raw(CHANGE_JSON)} as change from ${THEIR_CONTRACTS} ${rest}`,
  );
  return rows.map(({ change }) => scheduledIn(change));
}

/** Lists the newest changes of a contract, newest first. */
export function listChangesOf(db: Database, contractId: string, limit: number): Promise<ReadScheduled[]> {
  return readChanges(db, sql`where s.contract_id = ${contractId} order by s.id desc limit ${limit}::integer`);
}

/** Reads one change of a contract; undefined if it has none of this id. */
export async function readChange(db: Database, contractId: string, id: string): Promise<ReadScheduled | undefined> {
  const [change] = await readChanges(db, sql`where s.contract_id = ${contractId} and s.id = ${id}`);
  return change;
}

/** Conditions on changes; undefined matches everything. */
export interface ScheduledFilter {
  organizationId: string | undefined;
  state: ScheduledState;
  kind: ScheduledKind | undefined;
  dueBefore: Date | undefined;
}

/** Lists one page of changes by moment and id, and counts all matches. */
export async function pageChanges(
  db: Database,
  { organizationId, state, kind, dueBefore }: ScheduledFilter,
  page: { skip: number; limit: number },
): Promise<{ changes: ReadScheduled[]; total: number }> {
  const where = and(
    sql`s.state = ${state}`,
    organizationId === undefined ? undefined : sql`s.organization_id = ${organizationId}`,
    kind === undefined ? undefined : sql`s.kind = ${kind}`,
    dueBefore === undefined ? undefined : sql`s.at < ${dueBefore.toISOString()}::timestamptz`,
  );
  const [counted] = await db.execute<{ total: number }>(
    sql`select count(*)::integer as total from ${THEIR_CONTRACTS} where ${where}`,
  );
  const changes = await readChanges(
    db,
    sql`where ${where} order by s.at, s.id limit ${page.limit}::bigint offset ${page.skip}::bigint`,
  );
  return { changes, total: counted?.total ?? 0 };
}

/** A service of a subscription to schedule, with the names that stay readable when it is deleted. */
export type NamedService = Pick<SubscribedService, "serviceId" | "pricingId" | "plan" | "addOns"> & {
  serviceName: string;
  version: string;
};

/** Stores a pending change of a locked contract. */
export async function insertChange(
  tx: Database,
  change: Omit<typeof scheduledChanges.$inferInsert, "contractId"> & { contractId: string },
  next: readonly NamedService[],
): Promise<void> {
  await tx.insert(scheduledChanges).values(change);
  if (next.length > 0) {
    const rows = next.map((service, position) => ({ ...service, changeId: change.id, position }));
    await tx.insert(scheduledSubscriptions).values(rows);
  }
  await tx.update(contracts).set({ changeAt: change.at }).where(eq(contracts.id, change.contractId));
}

/** A pending change with everything that it needs to be applied. */
export interface PendingChange {
  id: string;
  organizationId: string;
  contractId: string;
  userId: string;
  at: Date;
  autoRenew: boolean | null;
  actorKind: Actor["kind"];
  actorId: string | null;
  services: readonly (ScheduledService & { serviceId: string | null })[];
  /** When the contract entered its last recorded state. */
  recordedAt: Date;
}

/** Reads the pending changes of these contracts, by contract. */
export async function readPending(tx: Database, contractIds: readonly string[]): Promise<PendingChange[]> {
  const rows = await tx.execute<
    Omit<PendingChange, "at" | "recordedAt" | "services"> & {
      at: string;
      recordedAt: string | null;
      services: PendingChange["services"] | null;
    }
  >(sql`
    select s.id, c.organization_id as "organizationId", s.contract_id as "contractId", c.user_id as "userId", s.at,
      s.auto_renew as "autoRenew", s.actor_kind as "actorKind", s.actor_id as "actorId",
      (select t.since from contract_states t where t.contract_id = s.contract_id order by t.id desc limit 1)
        as "recordedAt",
      (select json_agg(json_build_object('serviceId', x.service_id, 'key', coalesce(v.name_key, x.service_name),
          'version', coalesce(p.version, x.version), 'plan', x.plan, 'addOns', x.add_ons) order by x.position)
        from scheduled_subscriptions x
        left join services v on v.id = x.service_id
        left join pricings p on p.id = x.pricing_id
        where x.change_id = s.id) as services
    from ${THEIR_CONTRACTS}
    where ${isAnyOf(sql`s.contract_id`, contractIds)} and s.state = 'pending'
    order by s.contract_id
  `);
  return rows.map(({ at, recordedAt, services, ...row }) => ({
    ...row,
    at: new Date(at),
    recordedAt: new Date(recordedAt ?? at),
    services: services ?? [],
  }));
}

/** Gives pending changes of locked contracts their final state. */
export async function settleChanges(
  tx: Database,
  contractIds: readonly string[],
  { state, why = null, effectiveAt = null }: { state: ScheduledState; why?: string | null; effectiveAt?: Date | null },
): Promise<void> {
  if (contractIds.length === 0) return;
  await tx
    .update(scheduledChanges)
    .set({ state, why, effectiveAt })
    .where(and(isAnyOf(scheduledChanges.contractId, contractIds), eq(scheduledChanges.state, "pending")));
  await tx.update(contracts).set({ changeAt: null }).where(isAnyOf(contracts.id, contractIds));
}

type ChangeCode = "CHANGE_SCHEDULED" | "CHANGE_CANCELLED" | "CHANGE_BLOCKED";

/** Creates the event of a change. */
export function changeEvent(
  code: ChangeCode,
  change: Pick<PendingChange, "id" | "organizationId" | "contractId" | "userId" | "at">,
  why?: string,
): Addressed {
  const { id, organizationId, contractId, userId, at } = change;
  const details = { scheduledId: id, kind: "novation" as const, at: at.toISOString(), contractId, userId };
  return { organizationId, event: { code, details: why === undefined ? details : { ...details, why } } };
}

/** Cancels the pending changes of locked contracts. Returns them in the order of the contracts. */
export async function cancelPending(
  tx: Database,
  contractIds: readonly string[],
  why: CancelReason,
): Promise<PendingChange[]> {
  const pending = await readPending(tx, contractIds);
  await settleChanges(
    tx,
    pending.map(({ contractId }) => contractId),
    { state: "cancelled", why },
  );
  return pending;
}

/**
 * Moves pending changes at the end of the billing period to the end that these contracts have now. `condition` is on the
 * contract `c`.
 */
export async function followPeriodEnds(
  tx: Database,
  contractIds: readonly string[],
  condition: SQL = sql`true`,
): Promise<void> {
  await tx.execute(sql`
    with moved as (
      update scheduled_changes s set at = c.end_date from contracts c
      where ${isAnyOf(sql`c.id`, contractIds)} and c.change_at is not null and ${condition}
        and s.contract_id = c.id and s.state = 'pending' and s.at_period_end and s.at <> c.end_date
      returning s.contract_id, s.at
    )
    update contracts c set change_at = moved.at from moved where c.id = moved.contract_id
  `);
}

/**
 * Locks the contracts whose pending change matches, in id order, and returns their ids. `condition` is on the change `s` and
 * its subscriptions `x`.
 */
export async function lockContractsWithPending(tx: Database, condition: SQL): Promise<string[]> {
  const find = async () => {
    const rows = await tx.execute<{ contract_id: string }>(sql`
      select distinct s.contract_id from scheduled_subscriptions x join scheduled_changes s on s.id = x.change_id
      where s.state = 'pending' and ${condition} order by 1
    `);
    return rows.map(({ contract_id }) => contract_id);
  };
  const found = await find();
  if (found.length === 0) return [];
  await tx
    .select({ id: contracts.id })
    .from(contracts)
    .where(isAnyOf(contracts.id, found))
    .orderBy(asc(contracts.id))
    .for("update");
  // Another transaction may have changed some while this one waited.
  const locked = new Set(found);
  return (await find()).filter((id) => locked.has(id));
}

/**
 * Removes services from the pending changes of locked contracts. `leaving` is a condition on the change `s` and its
 * subscriptions `x`. Returns the contracts whose change has no service left.
 */
export async function removePendingServices(
  tx: Database,
  contractIds: readonly string[],
  leaving: SQL,
): Promise<string[]> {
  const rows = await tx.execute<{ contract_id: string }>(sql`
    with gone as (
      delete from scheduled_subscriptions x using scheduled_changes s
      where x.change_id = s.id and ${isAnyOf(sql`s.contract_id`, contractIds)} and s.state = 'pending' and ${leaving}
      returning x.change_id, x.position
    )
    select distinct s.contract_id from gone join scheduled_changes s on s.id = gone.change_id
    where not exists (
      select 1 from scheduled_subscriptions x where x.change_id = gone.change_id
        and not exists (select 1 from gone other where other.change_id = x.change_id and other.position = x.position)
    )
    order by 1
  `);
  return rows.map(({ contract_id }) => contract_id);
}

/** A configuration of a version that pending changes name, with their contracts. */
export interface PendingConfiguration {
  plan: string | null;
  addOns: Record<string, number> | null;
  contractIds: string[];
}

/** Lists the configurations that pending changes give a version, each once. */
export async function listPendingConfigurations(tx: Database, pricingId: string): Promise<PendingConfiguration[]> {
  const rows = await tx.execute<{ plan: string | null; add_ons: string | null; contract_ids: string[] }>(sql`
    select x.plan, x.add_ons::text as add_ons, array_agg(s.contract_id order by s.contract_id) as contract_ids
    from scheduled_subscriptions x join scheduled_changes s on s.id = x.change_id
    where x.pricing_id = ${pricingId} and s.state = 'pending'
    group by x.plan, x.add_ons::text
    order by 1, 2
  `);
  return rows.map(({ plan, add_ons, contract_ids }) => ({
    plan,
    addOns: add_ons === null ? null : (JSON.parse(add_ons) as Record<string, number>),
    contractIds: contract_ids,
  }));
}

/** Counts the pending changes that name a service. */
export async function countPendingOf(db: Database, serviceId: string): Promise<number> {
  const [row] = await db.execute<{ count: number }>(sql`
    select count(distinct s.id)::integer as count from scheduled_subscriptions x
    join scheduled_changes s on s.id = x.change_id
    where x.service_id = ${serviceId} and s.state = 'pending'
  `);
  return row?.count ?? 0;
}

/** Points the pending changes of locked contracts that name a version at another one. */
export async function rewritePending(
  tx: Database,
  input: {
    contractIds: readonly string[];
    from: string;
    to: { id: string; version: string };
    plan: string | null;
    addOns: Record<string, number>;
  },
): Promise<void> {
  const { contractIds, from, to, plan, addOns } = input;
  const theirs = sql`${scheduledSubscriptions.changeId} in (
    select id from scheduled_changes where state = 'pending' and ${isAnyOf(sql`contract_id`, contractIds)})`;
  await tx
    .update(scheduledSubscriptions)
    .set({ pricingId: to.id, version: to.version, plan, addOns })
    .where(and(eq(scheduledSubscriptions.pricingId, from), theirs));
}

/** Ids of the services that pending changes of these contracts name, in the order of locking. */
export async function servicesOfPending(tx: Database, contractIds: readonly string[]): Promise<string[]> {
  const rows = await tx
    .selectDistinct({ id: scheduledSubscriptions.serviceId })
    .from(scheduledSubscriptions)
    .innerJoin(scheduledChanges, eq(scheduledChanges.id, scheduledSubscriptions.changeId))
    .where(and(isAnyOf(scheduledChanges.contractId, contractIds), eq(scheduledChanges.state, "pending")))
    .orderBy(asc(scheduledSubscriptions.serviceId));
  return rows.flatMap(({ id }) => (id === null ? [] : [id]));
}
