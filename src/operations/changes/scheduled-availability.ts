import { eq } from "drizzle-orm";
import { authorOf } from "../../core/access/caller.ts";
import type { ScheduledAvailability } from "../../core/scheduled.ts";
import { withActors } from "../../db/queries/actors.ts";
import { recordEvents } from "../../db/queries/outbox.ts";
import {
  listVersions,
  type ServiceRow,
  type ServiceView,
  type VersionRow,
  versionKey,
} from "../../db/queries/pricings.ts";
import { listPendingConfigurations } from "../../db/queries/scheduled-services.ts";
import { readChangesById, type ScheduledView } from "../../db/queries/scheduled-view.ts";
import {
  availabilityEvent,
  insertAvailability,
  listDueAvailability,
  listPendingAvailability,
  newestAvailability,
  type PendingAvailability,
  settleAvailability,
} from "../../db/queries/scheduled-availability.ts";
import { countSubscribers } from "../../db/queries/subscribers.ts";
import { services } from "../../db/schema.ts";
import { audit } from "../audit.ts";
import { type Context, newId, transaction } from "../context.ts";
import { applyDueChangesOf } from "../due-changes.ts";
import { Failure } from "../errors.ts";
import { assessed, needsApproval, settleApproval } from "../policy/approval.ts";
import { checkTarget, decideChange, type Decision, ruleKey } from "../policy/change-decision.ts";
import { CONTRACTS_CHANGING, proposeFirst } from "../policy/proposals.ts";
import { requireService, type ServiceAddress, versionNotFound, viewService } from "../service-address.ts";
import {
  applyAvailability,
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
/** Changes read at once by the sweep. */
const BATCH = 50;

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

const namedOf = ({
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

/**
 * Carries out the changes of availability that are due, after the changes of contracts. Returns their number. Safe in
 * several processes at once: the service's lock makes each happen once. A change that is not possible is blocked.
 */
export async function sweepAvailability(ctx: Context): Promise<number> {
  const tried = new Set<string>();
  for (;;) {
    const due = await listDueAvailability(ctx.db, ctx.resources.now(), BATCH);
    const next = due.filter(({ id }) => !tried.has(id));
    if (next.length === 0) return tried.size;
    for (const change of next) {
      tried.add(change.id);
      await carryOut(ctx, change);
    }
  }
}

async function carryOut(ctx: Context, pending: PendingAvailability): Promise<void> {
  const { id, organizationId, actorKind, actorId } = pending;
  await applyDueChangesOf(ctx, { organizationId });
  // One moment for the change and the contracts that it moves.
  const moment = ctx.resources.now();
  const resources = { ...ctx.resources, now: () => moment };
  const named = { ...ctx, resources, author: { actorKind, actorId } };
  try {
    await proposeFirst(named, async (ctx) => {
      const service = await lockService(ctx, pending.serviceId);
      if (service === undefined) return;
      await makeNow(ctx, service, pending);
    });
  } catch (error) {
    const isFinal = error instanceof Failure && error.code !== "unavailable" && error.message !== CONTRACTS_CHANGING;
    if (!isFinal) throw error;
    await transaction(named, async (ctx) => {
      const service = await lockService(ctx, pending.serviceId);
      const why = error.message;
      if (!(await settleAvailability(ctx.db, id, { state: "blocked", why }))) return;
      const change = { ...pending.change, serviceName: service?.name ?? pending.change.serviceName };
      await audit(ctx, {
        action: "schedule.block",
        organizationId,
        target: `${change.serviceName} ${change.version}`,
        after: { scheduledId: id, why },
      });
      await recordEvents(ctx.db, [availabilityEvent("CHANGE_BLOCKED", namedOf({ ...change, ...pending }), why)]);
    });
  }
}

async function lockService(ctx: Context, serviceId: string): Promise<ServiceRow | undefined> {
  const [service] = await ctx.db.select().from(services).where(eq(services.id, serviceId)).for("update");
  return service;
}

/** Makes a pending change inside a transaction of proposeFirst, with the service locked. */
async function makeNow(ctx: Context, service: ServiceRow, pending: PendingAvailability): Promise<void> {
  const { availability, targets, fallback, overrideReason, passedOver } = pending.change;
  const versions = await listVersions(ctx.db, service.id);
  const target = versions.find(({ id }) => id === pending.pricingId);
  const effectiveAt = ctx.resources.now();
  const isSo = target?.state === availability;
  const why = isSo ? `The version was ${availability} already` : null;
  if (!(await settleAvailability(ctx.db, pending.id, { state: "done", effectiveAt, why }))) return;
  if (target === undefined || isSo) return;
  const input = {
    organizationId: service.organizationId,
    serviceName: service.name,
    version: target.version,
    availability,
    fallback: targets,
    fallbackGiven: fallback !== null,
    overrideReason: overrideReason ?? undefined,
    passedOver,
  };
  const plan = planAvailability(service, versions, input);
  if (plan !== undefined) await applyAvailability(ctx, plan, input);
}
