import { authorOf } from "../../core/access/caller.ts";
import { SCHEDULED_KINDS, SCHEDULED_STATES } from "../../core/scheduled.ts";
import { withActors } from "../../db/queries/actors.ts";
import type { SubscribedService } from "../../db/queries/contract-levels.ts";
import { recordEvents } from "../../db/queries/outbox.ts";
import { cancelPending, changeEvent, insertChange, type NamedService } from "../../db/queries/scheduled.ts";
import {
  listChangesOf,
  pageChanges,
  type ReadScheduled,
  readChange,
  type ScheduledView,
} from "../../db/queries/scheduled-view.ts";
import { serviceKey } from "../../db/queries/pricings.ts";
import { eq } from "drizzle-orm";
import { contracts } from "../../db/schema.ts";
import { audit } from "../audit.ts";
import { type Context, newId, snapshot, transaction } from "../context.ts";
import { type ContractAddress, findContract } from "../contract-address.ts";
import { commonVersions } from "../carried-out-changes.ts";
import { applyDueChanges, applyDueChangesOf } from "../due-changes.ts";
import { Failure } from "../errors.ts";
import { type LockedServices, lockServices, resolveSubscription, type Subscription } from "../subscriptions.ts";
import { renewContracts } from "./expiry.ts";
import type { Novation } from "./novation.ts";
import { type PageQuery, pageOf } from "./paging.ts";

/** Changes listed of one contract. */
const MAX_LISTED = 100;

/** A novation for later. */
export interface NewChange extends Novation {
  /** A moment, or the end of the contract's billing period. */
  at: Date | "periodEnd";
  reason?: string | undefined;
}

/**
 * Schedules a novation of a contract. Source: contract custom-terms §4.
 * @throws Failure notFound for an unknown contract; conflict while another change is pending; invalid for a moment that is
 * not in the future; and the failures of a novation now.
 */
export async function scheduleChange(
  ctx: Context,
  { change, ...address }: ContractAddress & { change: NewChange },
): Promise<ScheduledView> {
  const { id } = await findContract(ctx, address);
  await applyDueChanges(ctx, eq(contracts.id, id));
  return transaction(ctx, async (ctx) => {
    const { organizationId } = await findContract(ctx, address);
    const locked = (await lockServices(ctx, [organizationId], change)).get(organizationId) ?? new Map<string, string>();
    const row = await findContract(ctx, { ...address, organizationId }, "change");
    const now = ctx.resources.now();
    const isOver = row.autoRenew && row.endDate.getTime() < now.getTime();
    const renewals = isOver ? await renewContracts(ctx.db, [row], now) : { endDates: [], events: [] };
    const endDate = renewals.endDates[0] ?? row.endDate;
    await requireNonePending(ctx, row);
    if (change.at === "periodEnd" && endDate.getTime() <= now.getTime()) {
      throw new Failure("invalid", `INVALID DATA: The billing period of ${row.userId} has ended: at must be a date`);
    }
    const at = change.at === "periodEnd" ? endDate : change.at;
    if (at.getTime() <= now.getTime()) throw new Failure("invalid", "INVALID DATA: at must be in the future");
    const held = await commonVersions(ctx, [row.id]);
    const next = await resolveSubscription(ctx, locked, change, "novation", held);
    const scheduled = {
      id: newId(now),
      organizationId,
      kind: "novation" as const,
      state: "pending" as const,
      contractId: row.id,
      at,
      atPeriodEnd: change.at === "periodEnd",
      autoRenew: change.billingPeriod?.autoRenew ?? null,
      reason: change.reason ?? null,
      createdAt: now,
      ...authorOf(ctx.caller),
    };
    await insertChange(ctx.db, scheduled, named(locked, change, next));
    const view = await viewChange(ctx, row.id, scheduled.id);
    await audit(ctx, { action: "schedule.create", organizationId, target: row.userId, after: view });
    await recordEvents(ctx.db, [
      ...renewals.events,
      changeEvent("CHANGE_SCHEDULED", { ...scheduled, userId: row.userId }),
    ]);
    return view;
  });
}

async function requireNonePending(ctx: Context, row: typeof contracts.$inferSelect): Promise<void> {
  if (row.changeAt === null) return;
  const pending = (await listChangesOf(ctx.db, row.id, MAX_LISTED)).find(({ state }) => state === "pending");
  throw new Failure(
    "conflict",
    `CONFLICT: Contract of user ${row.userId} has a change scheduled for ${row.changeAt.toISOString()} already: ${pending?.id}`,
  );
}

/** Adds the names of services and versions that stay readable once they are deleted. */
function named(locked: LockedServices, wanted: Subscription, next: readonly SubscribedService[]): NamedService[] {
  const keys = new Map([...locked].map(([key, id]) => [id, key]));
  const versions = new Map(
    Object.entries(wanted.contractedServices).map(([name, version]) => [serviceKey(name), version]),
  );
  return next.map(({ serviceId, pricingId, plan, addOns }) => {
    const serviceName = keys.get(serviceId) ?? "";
    return { serviceId, pricingId, plan, addOns, serviceName, version: versions.get(serviceName) ?? "" };
  });
}

async function viewChange(ctx: Context, contractId: string, id: string): Promise<ScheduledView> {
  const change = await readChange(ctx.db, contractId, id);
  if (change === undefined) throw new Error(`scheduled change ${id} vanished inside its transaction`);
  return viewOf(ctx, change);
}

async function viewOf(ctx: Context, change: ReadScheduled): Promise<ScheduledView> {
  const [view] = await withActors(ctx.db, [change]);
  if (view === undefined) throw new Error("a list of one element became empty");
  return view;
}

/** Lists the newest changes of a contract, newest first. */
export async function listContractChanges(ctx: Context, address: ContractAddress): Promise<ScheduledView[]> {
  await applyDueChangesOf(ctx, address);
  return snapshot(ctx, async (ctx) => {
    const { id } = await findContract(ctx, address);
    return withActors(ctx.db, await listChangesOf(ctx.db, id, MAX_LISTED));
  });
}

/**
 * Cancels a pending change; its row stays. Source: contract custom-terms §4.
 * @throws Failure notFound for an unknown contract or change; conflict for one that is not pending any more.
 */
export async function cancelChange(ctx: Context, { id, ...address }: ContractAddress & { id: string }): Promise<void> {
  await applyDueChangesOf(ctx, address);
  await transaction(ctx, async (ctx) => {
    const row = await findContract(ctx, address, "change");
    const change = await readChange(ctx.db, row.id, id);
    if (change === undefined) throw new Failure("notFound", `Scheduled change ${id} not found`);
    if (change.state !== "pending")
      throw new Failure("conflict", `CONFLICT: Scheduled change ${id} is ${change.state}`);
    if (change.kind === "trialEnd") {
      throw new Failure(
        "conflict",
        `CONFLICT: Scheduled change ${id} is the end of a trial: novate the contract or move the end of its billing period`,
      );
    }
    const cancelled = await cancelPending(ctx.db, [row.id], "Cancelled");
    const { organizationId, userId } = row;
    await audit(ctx, { action: "schedule.cancel", organizationId, target: userId, before: await viewOf(ctx, change) });
    await recordEvents(
      ctx.db,
      cancelled.map((each) => changeEvent("CHANGE_CANCELLED", each, "Cancelled")),
    );
  });
}

/** Lists one page of changes by moment, and counts all matches. Source: contract custom-terms §4. */
export async function listChanges(
  ctx: Context,
  query: PageQuery & {
    organizationId: string | undefined;
    state: string | undefined;
    kind: string | undefined;
    dueBefore: Date | undefined;
  },
): Promise<{ changes: ScheduledView[]; total: number; next: string | undefined }> {
  const problems: string[] = [];
  const state = SCHEDULED_STATES.find((each) => each === (query.state || "pending"));
  if (state === undefined) {
    problems.push(`Invalid state. Please use one of the following: ${SCHEDULED_STATES.join(", ")}`);
  }
  const kind = SCHEDULED_KINDS.find((each) => each === query.kind);
  if (query.kind && kind === undefined) {
    problems.push(`Invalid kind. Please use one of the following: ${SCHEDULED_KINDS.join(", ")}`);
  }
  const page = pageOf(ctx, query, problems);
  const { organizationId, dueBefore } = query;
  await applyDueChangesOf(ctx, { organizationId });
  return snapshot(ctx, async (ctx) => {
    const filter = { organizationId, state: state ?? "pending", kind, dueBefore };
    const { changes, total, next } = await pageChanges(ctx.db, filter, page);
    return { changes: await withActors(ctx.db, changes), total, next };
  });
}
