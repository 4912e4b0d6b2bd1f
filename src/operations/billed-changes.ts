import { targetAt, type Followed } from "../core/billing/target.ts";
import { type ContractPlan, type CurrentServices, planContract } from "../core/billing/plan.ts";
import type { SubscribedService } from "../db/queries/contract-levels.ts";
import type { Addressed } from "../db/queries/outbox.ts";
import {
  cancelPending,
  changeEvent,
  insertChange,
  type PendingChange,
  readPending,
  trialEvent,
} from "../db/queries/scheduled.ts";
import type { contracts } from "../db/schema.ts";
import { authorOf } from "../core/access/caller.ts";
import type { CancelReason } from "../core/scheduled.ts";
import type { Change } from "./audit.ts";
import { type Context, newId } from "./context.ts";
import type { Subscription } from "./subscriptions.ts";

/*
 * Changes that time alone makes to a contract with a subscription. They are the end of days of grace, and of a subscription
 * that is cancelled. Both are scheduled changes of the contract, which the next good message cancels.
 */

const WHY: CancelReason = "Its subscription changed";

/** The columns of a contract that decide what comes next. */
export type PlannedRow = Pick<
  typeof contracts.$inferSelect,
  "id" | "organizationId" | "userId" | "changeAt" | "endDate" | "autoRenew"
>;

/** Services of a contract, resolved, with names for those who read them later. */
export interface ResolvedTerms {
  wanted: Subscription;
  next: SubscribedService[];
}

/** The change that a contract of these subscriptions needs next; undefined if none, or if it just expires then. */
function neededAt(row: PlannedRow, plan: ContractPlan, followed: readonly Followed[], at: number | null) {
  if (at === null) return undefined;
  const then = planContract({ services: plan.services, isOver: false }, plan.applied, targetAt(followed, at));
  if (then === null) return undefined;
  const { ends } = then.applied;
  const expires = ends && !row.autoRenew && row.endDate.getTime() <= at;
  if (expires || !(ends || then.changesServices)) return undefined;
  return { at: new Date(at), ends, services: then.services, autoRenew: then.billing?.autoRenew ?? null };
}

/**
 * Schedules the next change of a locked contract, or cancels the one that is not due any more. Returns the events and the
 * changes to audit.
 */
export async function planNext(
  ctx: Context,
  input: {
    row: PlannedRow;
    plan: ContractPlan;
    followed: readonly Followed[];
    nextAt: number | null;
    resolve: (wanted: CurrentServices) => Promise<ResolvedTerms>;
  },
): Promise<{ isChanged: boolean; events: Addressed[]; audits: Change[] }> {
  const { row, plan, followed, nextAt } = input;
  const needed = neededAt(row, plan, followed, nextAt);
  const [pending] = row.changeAt === null && needed === undefined ? [] : await readPending(ctx.db, [row.id]);
  if (needed === undefined) {
    if (pending?.actorKind !== "billing") return UNCHANGED;
    return { isChanged: true, ...(await cancel(ctx, row, pending)) };
  }
  const resolved = await input.resolve(needed.services);
  if (pending?.actorKind === "billing" && isSame(pending, needed, resolved)) return UNCHANGED;
  const cancelled = pending === undefined ? UNCHANGED : await cancel(ctx, row, pending);
  const { id: contractId, organizationId, userId } = row;
  const now = ctx.resources.now();
  const change = {
    id: newId(now),
    organizationId,
    kind: "novation" as const,
    state: "pending" as const,
    contractId,
    at: needed.at,
    atPeriodEnd: false,
    endsContract: needed.ends,
    autoRenew: needed.autoRenew,
    reason: needed.ends ? "Its subscription ends" : "Its subscription ends, and leaves another plan",
    createdAt: now,
    ...(ctx.author ?? authorOf(ctx.caller)),
  };
  const keys = Object.keys(resolved.wanted.contractedServices);
  await insertChange(
    ctx.db,
    change,
    resolved.next.map(({ serviceId, pricingId, plan, addOns }, position) => {
      const serviceName = keys[position] ?? "";
      const version = resolved.wanted.contractedServices[serviceName] ?? "";
      return { serviceId, pricingId, plan, addOns, serviceName, version };
    }),
  );
  const { id, at, endsContract } = change;
  const created: Change = {
    action: "schedule.create",
    organizationId,
    target: userId,
    after: { scheduledId: id, at, endsContract, ...resolved.wanted },
  };
  const event = changeEvent("CHANGE_SCHEDULED", { id, organizationId, contractId, userId, at });
  return { isChanged: true, events: [...cancelled.events, event], audits: [...cancelled.audits, created] };
}

const UNCHANGED = { isChanged: false, events: [], audits: [] };

function isSame(
  pending: PendingChange,
  needed: NonNullable<ReturnType<typeof neededAt>>,
  { next }: ResolvedTerms,
): boolean {
  const textOf = (services: readonly { serviceId: string | null; plan: string | null; addOns: object | null }[]) =>
    JSON.stringify(services.map(({ serviceId, plan, addOns }) => [serviceId, plan, addOns]));
  return (
    pending.at.getTime() === needed.at.getTime() &&
    pending.endsContract === needed.ends &&
    pending.autoRenew === needed.autoRenew &&
    textOf(pending.services) === textOf(next)
  );
}

async function cancel(
  ctx: Context,
  row: PlannedRow,
  pending: PendingChange,
): Promise<{ events: Addressed[]; audits: Change[] }> {
  await cancelPending(ctx.db, [row.id], WHY);
  if (pending.kind === "trialEnd") return { events: [trialEvent(pending, "novated")], audits: [] };
  const cancelled: Change = {
    action: "schedule.cancel",
    organizationId: row.organizationId,
    target: row.userId,
    before: { scheduledId: pending.id, at: pending.at },
    after: { why: WHY },
  };
  return { events: [changeEvent("CHANGE_CANCELLED", pending, WHY)], audits: [cancelled] };
}
