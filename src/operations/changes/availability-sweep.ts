import { eq } from "drizzle-orm";
import { recordEvents } from "../../db/queries/outbox.ts";
import { listVersions, type ServiceRow } from "../../db/queries/pricings.ts";
import {
  availabilityEvent,
  listDueAvailability,
  type PendingAvailability,
  settleAvailability,
} from "../../db/queries/scheduled-availability.ts";
import { services } from "../../db/schema.ts";
import { audit } from "../audit.ts";
import { type Context, transaction } from "../context.ts";
import { applyDueChangesOf } from "../due-changes.ts";
import { Failure } from "../errors.ts";
import { CONTRACTS_CHANGING, proposeFirst } from "../policy/proposals.ts";
import { applyAvailability, planAvailability } from "./availability.ts";
import { namedOf } from "./scheduled-availability.ts";

/** Changes read at once by the sweep. */
const BATCH = 50;

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
