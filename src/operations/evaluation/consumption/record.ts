import { recordEvents } from "../../../db/queries/outbox.ts";
import { rememberRaised } from "../../../db/queries/usage-alerts.ts";
import type { Context } from "../../context.ts";
import type { UsageEvents } from "../../usage-events.ts";

/** Remembers raised thresholds, and records the events. Must be the transaction's last statement. */
export async function recordUsage(
  ctx: Context,
  organizationId: string,
  { events, raised }: UsageEvents,
): Promise<void> {
  await rememberRaised(ctx.db, raised);
  await recordEvents(
    ctx.db,
    events.map((event) => ({ organizationId, event })),
  );
}
