import { z } from "zod";
import { EVENT_CODES } from "../core/event-messages.ts";
import { MAX_WEBHOOK_DESCRIPTION } from "../core/webhooks.ts";
import { EXAMPLE, id, moment, NO_ORGANIZATION } from "./common.ts";
import type { Operation } from "./operation.ts";

const url = z.string({
  error: ({ input }) => (input === undefined ? "The url field is required" : "The url field must be a string"),
});
const description = z
  .string("The description field must be a string or null")
  .max(MAX_WEBHOOK_DESCRIPTION, `The description field must not be longer than ${MAX_WEBHOOK_DESCRIPTION} characters`)
  .nullable();
const KNOWN_CODES = `The codes field must be null or a non-empty list of ${EVENT_CODES.join(", ")}`;
const codes = z
  .array(z.enum(EVENT_CODES, KNOWN_CODES), KNOWN_CODES)
  .min(1, KNOWN_CODES)
  .max(EVENT_CODES.length, `The codes field must not have more than ${EVENT_CODES.length} elements`)
  .nullable();

const enabled = z.boolean("The enabled field must be true or false");
const choice = { description: description.optional(), codes: codes.optional(), enabled: enabled.optional() };

export const newWebhook = z.object({ url, ...choice }).meta({ id: "WebhookToCreate" });
export const webhookChanges = z.object({ url: url.optional(), ...choice }).meta({ id: "WebhookChanges" });

export const webhook = z
  .strictObject({
    id,
    url: z.string(),
    description: z.string().nullable(),
    codes: z.array(z.enum(EVENT_CODES)).nullable().describe("Null: all codes"),
    state: z.enum(["enabled", "disabled", "suspended"]).describe("`suspended`: every attempt failed for a long time"),
    suspendedAt: moment.nullable(),
    suspendedReason: z.string().nullable(),
    failures: z.number().describe("Consecutive failed attempts"),
    failingSince: moment.nullable(),
    createdAt: moment,
    updatedAt: moment,
  })
  .meta({ id: "Webhook" });
/** Only these answers contain the secret. */
export const webhookWithSecret = webhook
  .extend({ secret: z.string().startsWith("whsec_") })
  .meta({ id: "WebhookWithSecret" });
export const delivery = z
  .strictObject({
    id: z.string(),
    webhookId: z.string().describe("Header `webhook-id` of every attempt"),
    eventId: z.number(),
    code: z.enum(EVENT_CODES),
    status: z.enum(["pending", "delivered", "failed"]),
    attempts: z.number(),
    nextAttemptAt: moment.nullable(),
    lastAttemptAt: moment.nullable(),
    responseStatus: z.number().nullable(),
    durationMs: z.number().nullable(),
    error: z.string().nullable(),
    payload: z.string().describe("Body of every attempt, as signed"),
    createdAt: moment,
  })
  .meta({ id: "Delivery" });

const WEBHOOK = {
  id: EXAMPLE.webhookId,
  url: "https://example.com/hooks/faregate",
  description: "billing",
  codes: null,
  state: "enabled",
  suspendedAt: null,
  suspendedReason: null,
  failures: 0,
  failingSince: null,
  createdAt: EXAMPLE.createdAt,
  updatedAt: EXAMPLE.updatedAt,
};
const WITH_SECRET = { ...WEBHOOK, secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" };
const DELIVERY = {
  id: "42",
  webhookId: `${EXAMPLE.webhookId}-7`,
  eventId: 7,
  code: "PRICING_CREATED",
  status: "delivered",
  attempts: 1,
  nextAttemptAt: null,
  lastAttemptAt: EXAMPLE.createdAt,
  responseStatus: 204,
  durationMs: 31,
  error: null,
  payload: '{"type":"PRICING_CREATED","timestamp":"2026-01-31T12:00:00.000Z","data":{"serviceName":"tasker"}}',
  createdAt: EXAMPLE.createdAt,
};
const NOT_FOUND = `Webhook ${EXAMPLE.webhookId} not found`;

/** Webhooks of an organization. */
export const webhookOperations: readonly Operation[] = [
  {
    id: "listWebhooks",
    group: "Webhooks",
    method: "GET",
    path: "/webhooks",
    summary: "List webhooks",
    description: "Lists the addresses to which the organization's events are sent.",
    answers: { 200: { schema: z.array(webhook), example: [WEBHOOK] } },
    errors: { 404: NO_ORGANIZATION },
  },
  {
    id: "createWebhook",
    group: "Webhooks",
    method: "POST",
    path: "/webhooks",
    summary: "Create a webhook",
    description:
      "Sends events to an https address from now on, signed as Standard Webhooks defines it. With `enabled: false` it waits until it is enabled. Only this answer contains the secret.",
    idempotent: true,
    body: { schema: newWebhook, example: { url: "https://example.com/hooks/faregate", description: "billing" } },
    answers: { 201: { schema: webhookWithSecret, example: WITH_SECRET } },
    errors: {
      404: NO_ORGANIZATION,
      409: "CONFLICT: An organization can have at most 20 webhooks",
    },
  },
  {
    id: "showWebhook",
    group: "Webhooks",
    method: "GET",
    path: "/webhooks/{webhookId}",
    summary: "Show a webhook",
    description: "Returns a webhook and its state.",
    answers: { 200: { schema: webhook, example: WEBHOOK } },
    errors: { 404: NOT_FOUND },
  },
  {
    id: "updateWebhook",
    group: "Webhooks",
    method: "PUT",
    path: "/webhooks/{webhookId}",
    summary: "Change a webhook",
    description: "Changes the fields that the body names. `enabled: true` ends a suspension.",
    body: { schema: webhookChanges, example: { enabled: true } },
    answers: { 200: { schema: webhook, example: WEBHOOK } },
    errors: { 404: NOT_FOUND },
  },
  {
    id: "deleteWebhook",
    group: "Webhooks",
    method: "DELETE",
    path: "/webhooks/{webhookId}",
    summary: "Delete a webhook",
    description: "Deletes a webhook with its deliveries.",
    answers: { 204: null },
    errors: { 404: NOT_FOUND },
  },
  {
    id: "rotateWebhookSecret",
    group: "Webhooks",
    method: "POST",
    path: "/webhooks/{webhookId}/secret",
    summary: "Replace the secret",
    description: "Creates a new secret. The old one also signs for a day.",
    answers: { 200: { schema: webhookWithSecret, example: WITH_SECRET } },
    errors: { 404: NOT_FOUND },
  },
  {
    id: "listDeliveries",
    group: "Webhooks",
    method: "GET",
    path: "/webhooks/{webhookId}/deliveries",
    summary: "List deliveries",
    description: "Lists deliveries, newest first, with the result of the last attempt.",
    query: z.object({
      status: z.enum(["pending", "delivered", "failed"]).optional().describe("State of the delivery"),
      before: z.int().optional().describe("Id of the last delivery of the previous page"),
      limit: z.int().min(1).max(100).default(20).describe("Rows per page"),
    }),
    answers: { 200: { schema: z.array(delivery), example: [DELIVERY] } },
    errors: { 404: NOT_FOUND },
  },
  {
    id: "resendDelivery",
    group: "Webhooks",
    method: "POST",
    path: "/webhooks/{webhookId}/deliveries/{deliveryId}/resend",
    summary: "Send a delivery again",
    description: "Sends a delivery again with the same `webhook-id`.",
    answers: { 202: { schema: delivery, example: { ...DELIVERY, status: "pending" } } },
    errors: { 404: NOT_FOUND, 409: "CONFLICT: The webhook is suspended: enable it first" },
  },
];
