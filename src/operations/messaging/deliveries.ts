import { and, desc, eq, lt, sql } from "drizzle-orm";
import { webhookDeliveries } from "../../db/schema.ts";
import { audit } from "../audit.ts";
import { clampPageSize, type Context, transaction } from "../context.ts";
import { Failure } from "../errors.ts";
import { showWebhook, type WebhookAddress } from "./webhooks.ts";

/** One delivery with the result of its last attempt. */
export interface DeliveryView {
  id: string;
  /** The webhook-id header, by which receivers deduplicate. */
  webhookId: string;
  eventId: number;
  code: string;
  status: "pending" | "delivered" | "failed";
  attempts: number;
  /** Null if no attempt is scheduled. */
  nextAttemptAt: Date | null;
  lastAttemptAt: Date | null;
  responseStatus: number | null;
  durationMs: number | null;
  error: string | null;
  /** Body of every attempt, as signed. */
  payload: string;
  createdAt: Date;
}

type DeliveryRow = typeof webhookDeliveries.$inferSelect;

const deliveryOf = (row: DeliveryRow): DeliveryView => ({
  id: String(row.id),
  webhookId: `msg_${row.endpointId}_${row.eventId}`,
  eventId: row.eventId,
  code: row.code,
  status: row.status,
  attempts: row.attempts,
  nextAttemptAt: row.status === "pending" ? row.nextAttemptAt : null,
  lastAttemptAt: row.lastAttemptAt,
  responseStatus: row.responseStatus,
  durationMs: row.durationMs,
  error: row.error,
  payload: row.payload,
  createdAt: row.createdAt,
});

/**
 * Lists deliveries, newest first. `before` is the cursor: the last delivery id of the previous page.
 * @throws Failure notFound.
 */
export async function listDeliveries(
  ctx: Context,
  input: WebhookAddress & { status?: DeliveryView["status"] | undefined; before?: number | undefined; limit: number },
): Promise<DeliveryView[]> {
  await showWebhook(ctx, input);
  const rows = await ctx.db
    .select()
    .from(webhookDeliveries)
    .where(
      and(
        eq(webhookDeliveries.endpointId, input.webhookId),
        input.status === undefined ? undefined : eq(webhookDeliveries.status, input.status),
        input.before === undefined ? undefined : lt(webhookDeliveries.id, input.before),
      ),
    )
    .orderBy(desc(webhookDeliveries.id))
    .limit(clampPageSize(ctx, input.limit));
  return rows.map(deliveryOf);
}

/**
 * Sends a delivery again, with the same webhook-id and body; earlier attempts stay in its record.
 * @throws Failure notFound; conflict when the endpoint is not enabled.
 */
export async function resendDelivery(
  ctx: Context,
  input: WebhookAddress & { deliveryId: number },
): Promise<DeliveryView> {
  const endpoint = await showWebhook(ctx, input);
  if (endpoint.state !== "enabled") {
    throw new Failure("conflict", `CONFLICT: The webhook is ${endpoint.state}: enable it first`);
  }
  return transaction(ctx, async (ctx) => {
    const [row] = await ctx.db
      .update(webhookDeliveries)
      .set({ status: "pending", attempts: 0, nextAttemptAt: sql`now()` })
      .where(and(eq(webhookDeliveries.id, input.deliveryId), eq(webhookDeliveries.endpointId, input.webhookId)))
      .returning();
    if (row === undefined) throw new Failure("notFound", `Delivery ${input.deliveryId} not found`);
    const { organizationId, webhookId } = input;
    const after = { deliveryId: String(input.deliveryId) };
    await audit(ctx, { action: "webhook.resend", organizationId, target: webhookId, after });
    return deliveryOf(row);
  });
}
