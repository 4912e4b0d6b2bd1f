import { and, asc, eq, sql, type SQL } from "drizzle-orm";
import {
  afterTrial,
  type AfterTrial,
  type CancelReason,
  type ContractChange,
  chosenIn,
  type ScheduledAvailability,
  type ScheduledKind,
  type ScheduledService,
  type ScheduledState,
  type StoredTrial,
} from "../../core/scheduled.ts";
import type { ActorKind } from "../../core/access/caller.ts";
import type { Database } from "../postgres/connect.ts";
import { isAnyOf } from "../postgres/lists.ts";
import { contracts, scheduledChanges, scheduledSubscriptions } from "../schema.ts";
import type { Actor } from "./actors.ts";
import type { SubscribedService } from "./contracts.ts";
import type { TrialOutcome } from "../../core/event-messages.ts";
import type { Addressed } from "./outbox.ts";

/** Fields of every scheduled change. */
interface CommonView {
  readonly id: string;
  readonly organizationId: string;
  readonly state: ScheduledState;
  readonly userId: string;
  readonly at: Date;
  readonly atPeriodEnd: boolean;
  readonly reason: string | null;
  readonly effectiveAt: Date | null;
  readonly why: string | null;
  readonly createdAt: Date;
}

interface NovationView extends CommonView, Exclude<AfterTrial, "end"> {
  readonly kind: "novation";
  readonly contractedServices: Readonly<Record<string, string>>;
  readonly autoRenew: boolean | null;
}

interface TrialEndView extends CommonView {
  readonly kind: "trialEnd";
  readonly then: AfterTrial;
}

interface AvailabilityView extends Omit<CommonView, "userId" | "atPeriodEnd" | "reason"> {
  readonly kind: "availability";
  readonly serviceName: string;
  readonly pricingVersion: string;
  readonly availability: "active" | "archived";
  readonly fallback: object | null;
  readonly overrideReason: string | null;
}

/** A scheduled change in the form that every endpoint returns. Source: contract custom-terms §4, §5. */
export type ScheduledView = (NovationView | TrialEndView | AvailabilityView) & { readonly actor: Actor };

/** A trial in the form that contracts show it. Source: contract custom-terms §6. */
export interface TrialView {
  readonly until: Date;
  readonly then: AfterTrial;
}

/** A service of a scheduled subscription, with current names where it still exists. */
type VersionedService = ScheduledService & { readonly version: string };

/** A scheduled change as the database returns it in JSON. */
export type ScheduledJson = Omit<CommonView, "at" | "effectiveAt" | "createdAt"> & {
  kind: ScheduledKind;
  at: string;
  effectiveAt: string | null;
  createdAt: string;
  endsContract: boolean;
  autoRenew: boolean | null;
  availability: ScheduledAvailability | null;
  /** Current names of the service and the version of an availability. */
  serviceName: string | null;
  pricingVersion: string | null;
  services: readonly VersionedService[] | null;
  actorKind: Actor["kind"];
  actorId: string | null;
};

/** A scheduled change, still without the name of who scheduled it. */
export type ReadScheduled = (NovationView | TrialEndView | AvailabilityView) & {
  actorKind: Actor["kind"];
  actorId: string | null;
};

/** SQL expression: the services of the change `s` as a JSON list. */
const SUBSCRIPTIONS_JSON = `(
          select json_agg(json_build_object('serviceId', x.service_id, 'key', coalesce(v.name_key, x.service_name),
              'version', coalesce(p.version, x.version), 'plan', x.plan, 'addOns', x.add_ons) order by x.position)
          from scheduled_subscriptions x
          left join services v on v.id = x.service_id
          left join contract_services cs on s.kind = 'trialEnd' and cs.contract_id = s.contract_id
            and cs.service_id = x.service_id
          left join pricings p on p.id = coalesce(x.pricing_id, cs.pricing_id)
          where x.change_id = s.id)`;

/** SQL expression of a {@link ScheduledJson}: the change `s` of the contract `c`. */
const CHANGE_JSON = `json_build_object(
        'id', s.id, 'organizationId', s.organization_id, 'kind', s.kind, 'state', s.state, 'userId', c.user_id,
        'at', s.at, 'atPeriodEnd', s.at_period_end, 'endsContract', s.ends_contract, 'autoRenew', s.auto_renew,
        'reason', s.reason, 'effectiveAt', s.effective_at, 'why', s.why, 'createdAt', s.created_at,
        'actorKind', s.actor_kind, 'actorId', s.actor_id, 'availability', s.availability,
        'serviceName', (select v.name from services v where v.id = s.service_id),
        'pricingVersion', (select p.version from pricings p where p.id = s.pricing_id),
        'services', ${SUBSCRIPTIONS_JSON})`;

/** SQL expression: the pending change of contract `c`; null without one. Read it with {@link scheduledIn}. */
export const PENDING_JSON = sql.raw(`(case when c.change_at is not null then (
      select ${CHANGE_JSON} from scheduled_changes s where s.contract_id = c.id and s.state = 'pending') end)`);

/** SQL expression of a {@link StoredTrial}: the trial of contract `c`; null without one. */
export const TRIAL_JSON = sql.raw(`(case when c.change_at is not null then (
      select json_build_object('until', s.at, 'endsContract', s.ends_contract, 'services', ${SUBSCRIPTIONS_JSON})
      from scheduled_changes s where s.contract_id = c.id and s.state = 'pending' and s.kind = 'trialEnd') end)`);

/** Reads a trial that {@link TRIAL_JSON} built. */
export const trialIn = (trial: StoredTrial | null): TrialView | null =>
  trial === null ? null : { until: new Date(trial.until), then: afterTrial(trial) };

/** Reads a change that {@link PENDING_JSON} built. */
export function scheduledIn(json: ScheduledJson): ReadScheduled {
  const { services, at, effectiveAt, createdAt, kind, autoRenew, endsContract, actorKind, actorId, ...all } = json;
  const { availability, serviceName, pricingVersion, userId, atPeriodEnd, reason, ...rest } = all;
  const common = {
    ...rest,
    at: new Date(at),
    effectiveAt: effectiveAt === null ? null : new Date(effectiveAt),
    createdAt: new Date(createdAt),
    actorKind,
    actorId,
  };
  if (availability !== null) {
    return {
      ...common,
      kind: "availability",
      serviceName: serviceName ?? availability.serviceName,
      pricingVersion: pricingVersion ?? availability.version,
      availability: availability.availability,
      fallback: availability.fallback,
      overrideReason: availability.overrideReason,
    };
  }
  const change = { ...common, userId, atPeriodEnd, reason };
  if (kind === "trialEnd") return { ...change, kind, then: afterTrial({ endsContract, services }) };
  const list = services ?? [];
  return {
    ...change,
    kind: "novation",
    contractedServices: Object.fromEntries(list.map(({ key, version }) => [key, version])),
    ...chosenIn(list),
    autoRenew,
  };
}

/** All changes, those of contracts with theirs. */
const WITH_CONTRACTS = sql`${scheduledChanges} s left join ${contracts} c on c.id = s.contract_id`;
/** Changes of contracts only. */
const THEIR_CONTRACTS = sql`${scheduledChanges} s join ${contracts} c on c.id = s.contract_id`;

async function readChanges(db: Database, rest: SQL): Promise<ReadScheduled[]> {
  const rows = await db.execute<{ change: ScheduledJson }>(
    sql`select ${sql.raw(CHANGE_JSON)} as change from ${WITH_CONTRACTS} ${rest}`,
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

/** Reads changes by their ids, newest first. */
export function readChangesById(db: Database, ids: readonly string[]): Promise<ReadScheduled[]> {
  return readChanges(db, sql`where ${isAnyOf(sql`s.id`, ids)} order by s.id desc`);
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
  page: { skip: number; limit: number; after: string | undefined },
): Promise<{ changes: ReadScheduled[]; total: number; next: string | undefined }> {
  const where = and(
    sql`s.state = ${state}`,
    organizationId === undefined ? undefined : sql`s.organization_id = ${organizationId}`,
    kind === undefined ? undefined : sql`s.kind = ${kind}`,
    dueBefore === undefined ? undefined : sql`s.at < ${dueBefore.toISOString()}::timestamptz`,
  );
  const [counted] = await db.execute<{ total: number }>(
    sql`select count(*)::integer as total from ${scheduledChanges} s where ${where}`,
  );
  const { after, limit, skip } = page;
  const changes = await readChanges(
    db,
    after === undefined
      ? sql`where ${where} order by s.at, s.id limit ${limit}::bigint offset ${skip}::bigint`
      : sql`where ${where} and s.id > ${after} order by s.id limit ${limit}::bigint`,
  );
  const next = after !== undefined && changes.length === limit ? changes.at(-1)?.id : undefined;
  return { changes, total: counted?.total ?? 0, next };
}

/** A service of a subscription to schedule, with the names that stay readable when it is deleted. */
export type NamedService = Pick<SubscribedService, "serviceId" | "plan" | "addOns"> & {
  /** Null for a trial. */
  pricingId: string | null;
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
    const { id: changeId, organizationId } = change;
    const rows = next.map((service, position) => ({ ...service, changeId, organizationId, position }));
    await tx.insert(scheduledSubscriptions).values(rows);
  }
  await tx
    .update(contracts)
    .set({ changeAt: change.at })
    // A contract that is created with a trial has it already: an update would announce the contract as a changed one.
    .where(
      and(eq(contracts.id, change.contractId), sql`${contracts.changeAt} is distinct from ${change.at.toISOString()}`),
    );
}

/** A pending change with everything that it needs to be applied. */
export interface PendingChange {
  id: string;
  kind: ContractChange;
  organizationId: string;
  contractId: string;
  userId: string;
  at: Date;
  endsContract: boolean;
  autoRenew: boolean | null;
  actorKind: Actor["kind"];
  actorId: string | null;
  services: readonly (VersionedService & { serviceId: string | null })[];
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
    select s.id, s.kind, c.organization_id as "organizationId", s.contract_id as "contractId", c.user_id as "userId",
      s.at, s.ends_contract as "endsContract", s.auto_renew as "autoRenew", s.actor_kind as "actorKind",
      s.actor_id as "actorId", ${sql.raw(SUBSCRIPTIONS_JSON)} as services,
      (select t.since from contract_states t where t.contract_id = s.contract_id order by t.id desc limit 1)
        as "recordedAt"
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

/** The facts of a change that its events tell. */
export type ToldChange = Pick<PendingChange, "id" | "organizationId" | "contractId" | "userId" | "at">;

/** Creates the event of a scheduled novation. */
export function changeEvent(
  code: "CHANGE_SCHEDULED" | "CHANGE_CANCELLED" | "CHANGE_BLOCKED",
  { id, organizationId, contractId, userId, at }: ToldChange,
  why?: string,
): Addressed {
  const details = { scheduledId: id, kind: "novation" as const, at: at.toISOString(), contractId, userId };
  return { organizationId, event: { code, details: why === undefined ? details : { ...details, why } } };
}

/** Creates the event of a trial's end. */
export function trialEvent(
  { organizationId, contractId, userId, at }: ToldChange,
  outcome: TrialOutcome,
  why?: string,
): Addressed {
  const details = { contractId, userId, until: at.toISOString(), outcome };
  const event = { code: "TRIAL_ENDED" as const, details: why === undefined ? details : { ...details, why } };
  return { organizationId, event };
}

/**
 * Cancels the pending changes of locked contracts, all or of one kind and kind of author. Returns them in the order of the
 * contracts.
 */
export async function cancelPending(
  tx: Database,
  contractIds: readonly string[],
  why: CancelReason,
  kind?: ContractChange,
  author?: ActorKind,
): Promise<PendingChange[]> {
  const all = await readPending(tx, contractIds);
  const pending = all
    .filter((change) => kind === undefined || change.kind === kind)
    .filter((change) => author === undefined || change.actorKind === author);
  await settleChanges(
    tx,
    pending.map(({ contractId }) => contractId),
    { state: "cancelled", why },
  );
  return pending;
}

/** Marks up to {@link REMINDED_AT_ONCE} reminders that are due, and returns their events. */
export async function takeReminders(tx: Database, now: Date): Promise<Addressed[]> {
  const moment = sql`${now.toISOString()}::timestamptz`;
  const rows = await tx.execute<{ organization_id: string; contract_id: string; user_id: string; at: string }>(sql`
    with due as (
      select id from scheduled_changes
      where state = 'pending' and remind_at is not null and remind_at <= ${moment} and at > ${moment}
      order by remind_at limit ${REMINDED_AT_ONCE}::integer for update skip locked
    ), reminded as (
      update scheduled_changes s set remind_at = null from due where s.id = due.id returning s.contract_id, s.at
    )
    select c.organization_id, r.contract_id, c.user_id, r.at from reminded r join contracts c on c.id = r.contract_id
    order by r.at, r.contract_id
  `);
  return rows.map(({ organization_id, contract_id, user_id, at }) => ({
    organizationId: organization_id,
    event: {
      code: "TRIAL_ENDING",
      details: { contractId: contract_id, userId: user_id, until: new Date(at).toISOString() },
    },
  }));
}

/** Reminders recorded in one transaction. */
export const REMINDED_AT_ONCE = 500;

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
      update scheduled_changes s set at = c.end_date,
        remind_at = case when s.remind_days > 0 then c.end_date - s.remind_days * interval '24 hours' end
      from contracts c
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

/** A configuration that pending changes of one kind give a service, with the version that it is of. */
export interface PendingConfiguration {
  kind: ContractChange;
  pricingId: string;
  plan: string | null;
  addOns: Record<string, number> | null;
  contractIds: string[];
}

/**
 * Lists the configurations that pending changes give these versions of a service, each once: novations that name them, and
 * trials of contracts on them.
 */
export async function listPendingConfigurations(
  tx: Database,
  { serviceId, pricingIds }: { serviceId: string; pricingIds: readonly string[] },
  kinds: readonly ContractChange[],
): Promise<PendingConfiguration[]> {
  const rows = await tx.execute<
    Omit<PendingConfiguration, "addOns"> & { addOns: string | null } & Record<string, unknown>
  >(sql`
    select s.kind, coalesce(x.pricing_id, cs.pricing_id) as "pricingId", x.plan, x.add_ons::text as "addOns",
      array_agg(s.contract_id order by s.contract_id) as "contractIds"
    from scheduled_subscriptions x
    join scheduled_changes s on s.id = x.change_id
    left join contract_services cs on s.kind = 'trialEnd' and cs.contract_id = s.contract_id
      and cs.service_id = x.service_id
    where x.service_id = ${serviceId} and s.state = 'pending' and not s.ends_contract
      and ${isAnyOf(sql`s.kind`, kinds)} and ${isAnyOf(sql`coalesce(x.pricing_id, cs.pricing_id)`, pricingIds)}
    group by 1, 2, 3, 4
    order by 1, 2, 3, 4
  `);
  return rows.map(({ addOns, ...row }) => ({
    ...row,
    addOns: addOns === null ? null : (JSON.parse(addOns) as Record<string, number>),
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

/** Gives a service of pending changes of locked contracts another configuration; a novation also another version. */
export async function rewritePending(
  tx: Database,
  input: {
    kind: ContractChange;
    contractIds: readonly string[];
    serviceId: string;
    to: { id: string; version: string };
    plan: string | null;
    addOns: Record<string, number>;
  },
): Promise<void> {
  const { kind, contractIds, serviceId, to, plan, addOns } = input;
  const theirs = sql`${scheduledSubscriptions.changeId} in (select id from scheduled_changes
    where state = 'pending' and kind = ${kind} and ${isAnyOf(sql`contract_id`, contractIds)})`;
  const version = kind === "novation" ? { pricingId: to.id, version: to.version } : {};
  await tx
    .update(scheduledSubscriptions)
    .set({ ...version, plan, addOns })
    .where(and(eq(scheduledSubscriptions.serviceId, serviceId), theirs));
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
