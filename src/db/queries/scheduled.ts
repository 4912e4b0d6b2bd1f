import { and, asc, eq, sql, type SQL } from "drizzle-orm";
import type { CancelReason, ContractChange, ScheduledState } from "../../core/scheduled.ts";
import type { ActorKind } from "../../core/access/caller.ts";
import type { Database } from "../postgres/connect.ts";
import { isAnyOf } from "../postgres/lists.ts";
import { contracts, scheduledChanges } from "../schema.ts";
import type { Actor } from "./actors.ts";
import type { SubscribedService } from "./contract-levels.ts";
import type { TrialOutcome } from "../../core/event-messages.ts";
import type { Addressed } from "./outbox.ts";
import { SUBSCRIPTIONS_JSON, type VersionedService } from "./scheduled-view.ts";

/** Changes of contracts only. */
const THEIR_CONTRACTS = sql`${scheduledChanges} s join ${contracts} c on c.id = s.contract_id`;

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
    const rows = JSON.stringify(next.map((service, position) => ({ ...service, position })));
    await tx.execute(sql`
      insert into scheduled_subscriptions
        (change_id, organization_id, contract_id, position, service_id, pricing_id, service_name, version, plan, add_ons)
      select ${change.id}, ${change.organizationId}, ${change.contractId}, position, "serviceId", "pricingId", "serviceName", version,
        plan, "addOns"
      from json_to_recordset(${rows}::json) as given (position integer, "serviceId" text, "pricingId" text,
        "serviceName" text, version text, plan text, "addOns" json)`);
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
      select distinct s.contract_id from scheduled_subscriptions x
      join scheduled_changes s on s.contract_id = x.contract_id and s.id = x.change_id
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
