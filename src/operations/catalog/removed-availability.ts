import type { CancelReason } from "../../core/scheduled.ts";
import type { Addressed } from "../../db/queries/outbox.ts";
import { availabilityEvent, cancelAvailability } from "../../db/queries/scheduled-availability.ts";
import { auditAll } from "../audit.ts";
import type { Context } from "../context.ts";

/**
 * Cancels pending availability changes of services, or of one version, that are removed. Returns the events. Call it before
 * the rows are deleted.
 */
export async function cancelRemoved(
  ctx: Context,
  where: { serviceIds: readonly string[]; pricingId?: string },
  why: CancelReason,
): Promise<Addressed[]> {
  const cancelled = await cancelAvailability(ctx.db, where, why);
  await auditAll(
    ctx,
    cancelled.map(({ id, at, organizationId, serviceName, pricingVersion }) => ({
      action: "schedule.cancel",
      organizationId,
      target: `${serviceName} ${pricingVersion}`,
      before: { scheduledId: id, at },
      after: { why },
    })),
  );
  return cancelled.map((change) => availabilityEvent("CHANGE_CANCELLED", change, why));
}
