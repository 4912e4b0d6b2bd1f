import { authorOf } from "../../core/access/caller.ts";
import type { ScheduledAvailability } from "../../core/scheduled.ts";
import { withActors } from "../../db/queries/actors.ts";
import { recordEvents } from "../../db/queries/outbox.ts";
import { listVersions, type ServiceView, type VersionRow, versionKey } from "../../db/queries/pricings.ts";
import { listPendingConfigurations } from "../../db/queries/scheduled-services.ts";
import { readChangesById, type ScheduledView } from "../../db/queries/scheduled-view.ts";
import {
  availabilityEvent,
  insertAvailability,
  listPendingAvailability,
  newestAvailability,
  type PendingAvailability,
  settleAvailability,
} from "../../db/queries/scheduled-availability.ts";
import { countSubscribers } from "../../db/queries/subscribers.ts";
import { audit } from "../audit.ts";
import { type Context, newId, transaction } from "../context.ts";
import { applyDueChangesOf } from "../due-changes.ts";
import { Failure } from "../errors.ts";
import { assessed, needsApproval, settleApproval } from "../policy/approval.ts";
import { checkTarget, decideChange, type Decision, ruleKey } from "../policy/change-decision.ts";
import { proposeFirst } from "../policy/proposals.ts";
import { requireService, type ServiceAddress, versionNotFound, viewService } from "../service-address.ts";
import {
  type AvailabilityChange,
  type AvailabilityPlan,
  compiledVersion,
  planAvailability,
  requireAnother,
  requireTargets,
  summaryOf,
} from "./availability.ts";

/*
 * Archives and activates versions at a later moment. Only the sweep of an event server carries them out, because they may
 * move many contracts. Source: contract custom-terms §5.
 */

/** Pending changes of one service. */
const MAX_PENDING = 20;
/** Changes listed of one service. */
const MAX_LISTED = 100;

/** A change of availability for later. `body` is the fallback as it was sent. */
export interface LaterAvailability extends Omit<AvailabilityChange, "passedOver" | "fallbackFailure"> {
  at: Date;
  body: object | null;
}

/**
 * Schedules another availability of a version. Returns the service if the version will have it then anyway.
 * @throws Failure as for a change now, from the versions as they will be then; conflict for a second change at the moment;
 * invalid for a moment that is not in the future, and for too many changes.
 */
export async function scheduleAvailability(
  ctx: Context,
  input: LaterAvailability,
): Promise<{ scheduled: ScheduledView } | { service: ServiceView }> {
  const { at, availability } = input;
  if (at.getTime() <= ctx.resources.now().getTime()) {
    throw new Failure("invalid", "INVALID DATA: at must be in the future");
  }
  await applyDueChangesOf(ctx, { organizationId: input.organizationId });
  return proposeFirst(ctx, async (ctx) => {
    const service = await requireService(ctx, input, "update");
    const versions = await listVersions(ctx.db, service.id);
    const target = versions.find((row) => row.key === versionKey(input.version));
    if (target === undefined) throw versionNotFound(input);
    const pending = await listPendingAvailability(ctx.db, service.id);
    const same = pending.find((one) => one.pricingId === target.id && one.at.getTime() === at.getTime());
    if (same !== undefined) {
      throw new Failure(
        "conflict",
        `CONFLICT: Pricing version ${input.version} of service ${input.serviceName} has a change scheduled for ${at.toISOString()} already: ${same.id}`,
      );
    }
    const then = versionsAt(versions, pending, at);
    const targetThen = then.find(({ id }) => id === target.id) ?? target;
    if (targetThen.state === availability) return { service: await viewService(ctx, service) };
    if (pending.length >= MAX_PENDING) {
      throw new Failure(
        "invalid",
        `INVALID DATA: A service cannot have more than ${MAX_PENDING} availability changes scheduled`,
      );
    }
    if (availability === "archived") {
      requireTargets(input);
      requireAnother(input, then, targetThen);
    }
    const plan = planAvailability(service, then, input);
    if (plan === undefined) throw new Error("a change of availability changes nothing");
    const action = plan.isArchiving ? "archive" : "activate";
    const isHeld = await needsApproval(ctx, service.organizationId, action);
    const isAssessed = plan.isAssessed || isHeld;
    const { passedOver, decision } = await checkThen(ctx, { ...plan, isAssessed }, input, then);
    const now = ctx.resources.now();
    const id = newId(now);
    const change: ScheduledAvailability = {
      availability,
      serviceName: service.name,
      version: target.version,
      fallback: input.body,
      targets: input.fallback,
      overrideReason: input.overrideReason ?? null,
      passedOver,
    };
    const { organizationId } = service;
    await insertAvailability(ctx.db, {
      id,
      organizationId,
      serviceId: service.id,
      pricingId: target.id,
      availability: change,
      at,
      createdAt: now,
      ...authorOf(ctx.caller),
    });
    const view = await viewOne(ctx, id);
    await audit(ctx, {
      action: "schedule.create",
      organizationId,
      target: `${service.name} ${target.version}`,
      after: view,
    });
    await recordEvents(ctx.db, [availabilityEvent("CHANGE_SCHEDULED", namedOf({ ...change, id, organizationId, at }))]);
    if (isHeld) {
      const summary = `${summaryOf(plan)} on ${at.toISOString()}`;
      await settleApproval(ctx, {
        organizationId,
        action,
        summary,
        operation: "scheduleAvailability",
        input,
        until: at,
        ...assessed(decision),
      });
    }
    return { scheduled: view };
  });
}

/** Returns the versions in the states that pending changes up to a moment will give them. */
function versionsAt(versions: readonly VersionRow[], pending: readonly PendingAvailability[], at: Date): VersionRow[] {
  const states = new Map<string, VersionRow["state"]>();
  for (const { pricingId, at: moment, change } of pending) {
    if (moment.getTime() <= at.getTime()) states.set(pricingId, change.availability);
  }
  return versions.map((row) => ({ ...row, state: states.get(row.id) ?? row.state }));
}

/** Checks targets and gate over the contracts of now. Returns the rules that the reason passes over. */
async function checkThen(
  ctx: Context,
  plan: AvailabilityPlan,
  input: LaterAvailability,
  versions: readonly VersionRow[],
): Promise<{ passedOver: string[]; decision: Decision | undefined }> {
  const { service, target, isArchiving, targets, newest, fallback } = plan;
  const pricingVersion = target.version;
  const decision = await decideChange(ctx, {
    service,
    change: isArchiving ? { action: "archive", pricingVersion, targets } : { action: "activate", pricingVersion },
    overrideReason: input.overrideReason,
    isAssessed: plan.isAssessed,
    versions,
  });
  if (decision !== undefined) {
    const broken = decision.gate.rules.filter(({ passed }) => !passed);
    return { passedOver: broken.map(({ rule }) => ruleKey(rule)), decision };
  }
  const unassessed = { passedOver: [], decision: undefined };
  if (!isArchiving || newest === undefined) return unassessed;
  const holders = { serviceIds: [service.id], pricingIds: [target.id] };
  const where = { serviceId: service.id, pricingIds: [target.id] };
  const moves =
    (await countSubscribers(ctx.db, holders)) > 0 ||
    (await listPendingConfigurations(ctx.db, where, ["novation"])).length > 0;
  if (moves) checkTarget(service, newest, await compiledVersion(ctx, newest), fallback);
  return unassessed;
}

export const namedOf = ({
  id,
  organizationId,
  at,
  serviceName,
  version,
  availability,
}: ScheduledAvailability & Pick<PendingAvailability, "id" | "organizationId" | "at">) => ({
  id,
  organizationId,
  at,
  serviceName,
  pricingVersion: version,
  availability,
});

async function viewOne(ctx: Context, id: string): Promise<ScheduledView> {
  const [view] = await withActors(ctx.db, await readChangesById(ctx.db, [id]));
  if (view === undefined) throw new Error(`scheduled change ${id} vanished inside its transaction`);
  return view;
}

/** Lists the newest changes of a service, newest first. */
export async function listServiceChanges(ctx: Context, address: ServiceAddress): Promise<ScheduledView[]> {
  const service = await requireService(ctx, address);
  const ids = await newestAvailability(ctx.db, service.id, MAX_LISTED);
  return withActors(ctx.db, await readChangesById(ctx.db, ids));
}

/**
 * Cancels a pending change of a service; its row stays.
 * @throws Failure notFound for an unknown service or change; conflict for one that is not pending any more.
 */
export async function cancelServiceChange(
  ctx: Context,
  { id, ...address }: ServiceAddress & { id: string },
): Promise<void> {
  await transaction(ctx, async (ctx) => {
    const service = await requireService(ctx, address, "update");
    const [before] = (await listServiceChanges(ctx, address)).filter((change) => change.id === id);
    if (before === undefined) throw new Failure("notFound", `Scheduled change ${id} not found`);
    const pending = (await listPendingAvailability(ctx.db, service.id)).find((change) => change.id === id);
    if (pending === undefined) throw new Failure("conflict", `CONFLICT: Scheduled change ${id} is ${before.state}`);
    const why = "Cancelled";
    await settleAvailability(ctx.db, id, { state: "cancelled", why });
    const { change, organizationId, at } = pending;
    await audit(ctx, {
      action: "schedule.cancel",
      organizationId,
      target: `${service.name} ${change.version}`,
      before,
    });
    await recordEvents(ctx.db, [
      availabilityEvent("CHANGE_CANCELLED", namedOf({ ...change, id, organizationId, at }), why),
    ]);
  });
}
