import { and, desc, eq, sql } from "drizzle-orm";
import type { CancelReason, ScheduledAvailability } from "../../core/scheduled.ts";
import type { Database } from "../postgres/connect.ts";
import { isAnyOf } from "../postgres/lists.ts";
import { scheduledChanges, services } from "../schema.ts";
import type { Addressed } from "./outbox.ts";

/*
 * Scheduled changes of the availability of versions. Call the writes with the service locked.
 */

type ChangeRow = typeof scheduledChanges.$inferSelect;

/** A scheduled availability with everything that it needs to be carried out. */
export interface PendingAvailability extends Pick<ChangeRow, "id" | "organizationId" | "at" | "actorKind" | "actorId"> {
  serviceId: string;
  pricingId: string;
  change: ScheduledAvailability;
}

/** In the order of carrying out: activations before archivings of the same moment. */
const IN_ORDER = sql`${scheduledChanges.at}, (${scheduledChanges.availability} ->> 'availability') = 'archived', ${scheduledChanges.id}`;

const IS_PENDING = and(eq(scheduledChanges.kind, "availability"), eq(scheduledChanges.state, "pending"));

function pendingOf(row: ChangeRow): PendingAvailability[] {
  const { id, organizationId, at, actorKind, actorId, serviceId, pricingId, availability: change } = row;
  if (serviceId === null || pricingId === null || change === null) return [];
  return [{ id, organizationId, at, actorKind, actorId, serviceId, pricingId, change }];
}

/** Lists the pending availability changes of a service in the order of carrying out. */
export async function listPendingAvailability(db: Database, serviceId: string): Promise<PendingAvailability[]> {
  const rows = await db
    .select()
    .from(scheduledChanges)
    .where(and(IS_PENDING, eq(scheduledChanges.serviceId, serviceId)))
    .orderBy(IN_ORDER);
  return rows.flatMap(pendingOf);
}

/** Lists the first availability changes that are due, of all services. */
export async function listDueAvailability(db: Database, now: Date, limit: number): Promise<PendingAvailability[]> {
  const rows = await db
    .select()
    .from(scheduledChanges)
    .where(and(IS_PENDING, sql`${scheduledChanges.at} <= ${now.toISOString()}::timestamptz`))
    .orderBy(IN_ORDER)
    .limit(limit);
  return rows.flatMap(pendingOf);
}

/** Stores a pending availability change. */
export async function insertAvailability(
  tx: Database,
  change: Omit<typeof scheduledChanges.$inferInsert, "kind" | "state">,
): Promise<void> {
  await tx.insert(scheduledChanges).values({ ...change, kind: "availability", state: "pending" });
}

/** Gives a pending change its final state. Returns false if it has one already. */
export async function settleAvailability(
  tx: Database,
  id: string,
  settled: Pick<ChangeRow, "state"> & Partial<Pick<ChangeRow, "why" | "effectiveAt">>,
): Promise<boolean> {
  const rows = await tx
    .update(scheduledChanges)
    .set(settled)
    .where(and(IS_PENDING, eq(scheduledChanges.id, id)))
    .returning({ id: scheduledChanges.id });
  return rows.length > 0;
}

/** A change of a version with the names that its events tell. */
export interface NamedAvailability {
  id: string;
  organizationId: string;
  at: Date;
  serviceName: string;
  pricingVersion: string;
  availability: "active" | "archived";
}

/** Cancels the pending changes of services, or of one version. Returns them by moment. */
export async function cancelAvailability(
  tx: Database,
  { serviceIds, pricingId }: { serviceIds: readonly string[]; pricingId?: string },
  why: CancelReason,
): Promise<NamedAvailability[]> {
  const rows = await tx
    .update(scheduledChanges)
    .set({ state: "cancelled", why })
    .from(services)
    .where(
      and(
        IS_PENDING,
        eq(services.id, scheduledChanges.serviceId),
        isAnyOf(scheduledChanges.serviceId, serviceIds),
        pricingId === undefined ? undefined : eq(scheduledChanges.pricingId, pricingId),
      ),
    )
    .returning({
      id: scheduledChanges.id,
      organizationId: scheduledChanges.organizationId,
      at: scheduledChanges.at,
      serviceName: services.name,
      availability: scheduledChanges.availability,
    });
  return rows
    .flatMap(({ availability, ...row }) =>
      availability === null
        ? []
        : [{ ...row, availability: availability.availability, pricingVersion: availability.version }],
    )
    .toSorted((one, other) => one.at.getTime() - other.at.getTime());
}

/** Creates the event of a scheduled availability. */
export function availabilityEvent(
  code: "CHANGE_SCHEDULED" | "CHANGE_CANCELLED" | "CHANGE_BLOCKED",
  { id, organizationId, at, serviceName, pricingVersion, availability }: NamedAvailability,
  why?: string,
): Addressed {
  const details = {
    scheduledId: id,
    kind: "availability" as const,
    at: at.toISOString(),
    serviceName,
    pricingVersion,
    availability,
  };
  return { organizationId, event: { code, details: why === undefined ? details : { ...details, why } } };
}

/** Returns the ids of the newest changes of a service, newest first. */
export async function newestAvailability(db: Database, serviceId: string, limit: number): Promise<string[]> {
  const rows = await db
    .select({ id: scheduledChanges.id })
    .from(scheduledChanges)
    .where(eq(scheduledChanges.serviceId, serviceId))
    .orderBy(desc(scheduledChanges.id))
    .limit(limit);
  return rows.map(({ id }) => id);
}
