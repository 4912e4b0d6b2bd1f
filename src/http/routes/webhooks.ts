import { Hono } from "hono";
import { isIdentifier } from "../../operations/access.ts";
import { Failure } from "../../operations/errors.ts";
import * as deliveries from "../../operations/messaging/deliveries.ts";
import * as webhooks from "../../operations/messaging/webhooks.ts";
import { newWebhook, webhookChanges } from "../../wire/webhooks.ts";
import { type AppContext, type AppEnv, context } from "../context.ts";
import type { Context } from "../../operations/context.ts";
import { bodyOf } from "../body.ts";
import { answerOnce } from "../idempotency.ts";
import { json } from "../reply.ts";
import { leadingInteger, organizationOf, queryParameter } from "../params.ts";

/**
 * Reads the webhook's address.
 * @throws Failure notFound for a malformed id.
 */
function addressOf(c: AppContext): webhooks.WebhookAddress {
  const webhookId = c.req.param("webhookId") ?? "";
  if (!isIdentifier(webhookId)) throw new Failure("notFound", `Webhook ${webhookId} not found`);
  return { organizationId: organizationOf(c), webhookId };
}

function deliveryIdOf(text: string | undefined): number {
  if (text !== undefined && /^\d{1,15}$/.test(text)) return Number(text);
  throw new Failure("notFound", `Delivery ${text} not found`);
}

function pageOf(c: AppContext): Pick<Parameters<typeof deliveries.listDeliveries>[1], "status" | "before" | "limit"> {
  const status = queryParameter(c, "status");
  const before = queryParameter(c, "before");
  const number = leadingInteger(queryParameter(c, "limit") ?? "20") ?? 0;
  if (number < 1 || number > 100) throw new Failure("invalid", "INVALID DATA: Limit must be between 1 and 100");
  if (status !== undefined && status !== "pending" && status !== "delivered" && status !== "failed") {
    throw new Failure("invalid", "INVALID DATA: Status must be pending, delivered or failed");
  }
  return { status, before: before === undefined ? undefined : deliveryIdOf(before), limit: number };
}

/** Webhooks of an organization, for its keys, or for its members below /organizations. */
export const webhookRoutes = new Hono<AppEnv>()
  .get("/", async (c) => json(c, await webhooks.listWebhooks(context(c), organizationOf(c))))
  .post("/", async (c) => {
    const choice = bodyOf(c, newWebhook);
    const organizationId = organizationOf(c);
    const create = async (ctx: Context) => ({
      status: 201 as const,
      value: await webhooks.createWebhook(ctx, { organizationId, choice }),
    });
    return answerOnce(c, create, "secret");
  })
  .get("/:webhookId", async (c) => json(c, await webhooks.showWebhook(context(c), addressOf(c))))
  .put("/:webhookId", async (c) => {
    const changes = bodyOf(c, webhookChanges);
    return json(c, await webhooks.updateWebhook(context(c), { ...addressOf(c), changes }));
  })
  .delete("/:webhookId", async (c) => {
    await webhooks.deleteWebhook(context(c), addressOf(c));
    return c.body(null, 204);
  })
  .post("/:webhookId/secret", async (c) => json(c, await webhooks.rotateWebhookSecret(context(c), addressOf(c))))
  .get("/:webhookId/deliveries", async (c) =>
    json(c, await deliveries.listDeliveries(context(c), { ...addressOf(c), ...pageOf(c) })),
  )
  .post("/:webhookId/deliveries/:deliveryId/resend", async (c) => {
    const deliveryId = deliveryIdOf(c.req.param("deliveryId"));
    return json(c, await deliveries.resendDelivery(context(c), { ...addressOf(c), deliveryId }), 202);
  });
