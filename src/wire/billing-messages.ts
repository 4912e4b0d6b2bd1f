import { z } from "zod";
import { BILLING_OUTCOMES } from "../core/billing/message.ts";
import { EXAMPLE, moment } from "./common.ts";
import type { Operation } from "./operation.ts";
import { NOT_CONNECTED } from "./billing.ts";

/** Outcomes that can be repeated together. */
export const REPEATED_OUTCOMES = ["unmapped", "failed", "waiting"] as const;
export const billingOutcome = z.enum(BILLING_OUTCOMES);

export const billingMessage = z
  .strictObject({
    id: z.string().describe("The provider's id of the message"),
    type: z.string(),
    subscription: z.string().nullable(),
    userId: z.string().nullable(),
    createdAt: moment.describe("Moment that the message states"),
    receivedAt: moment,
    outcome: billingOutcome,
    reason: z.string().nullable(),
  })
  .meta({ id: "BillingMessage" });

export const billingMessagePage = z
  .strictObject({
    data: z.array(billingMessage),
    next: z.string().nullable().describe("`before` of the next page; null on the last"),
  })
  .meta({ id: "BillingMessagePage" });

export const billingReplay = z
  .strictObject({
    replayed: z.number(),
    outcomes: z.partialRecord(billingOutcome, z.number()).describe("Messages by new outcome"),
    remaining: z.number().describe("Messages that still have the outcome and were not repeated by this call"),
  })
  .meta({ id: "BillingReplay" });

export const billingAnswer = z
  .strictObject({ outcome: billingOutcome, reason: z.string().nullable() })
  .meta({ id: "BillingAnswer" });
const MESSAGE = {
  id: "evt_1",
  type: "customer.subscription.updated",
  subscription: "sub_1",
  userId: "ada",
  createdAt: EXAMPLE.createdAt,
  receivedAt: EXAMPLE.createdAt,
  outcome: "applied",
  reason: null,
};

/** Messages of payment providers: the provider sends them, and members list and repeat them. */
export const billingMessageOperations: readonly Operation[] = [
  {
    id: "listBillingMessages",
    group: "Billing",
    method: "GET",
    path: "/organizations/{organizationId}/billing/{provider}/messages",
    summary: "List messages",
    description: "Lists received messages of the last 90 days with their outcome, newest first.",
    query: z.object({
      outcome: billingOutcome.optional().describe("Messages with this outcome"),
      user: z.string().optional().describe("Messages about this end user"),
      limit: z.int().min(1).max(100).default(20).describe("Rows per page"),
      before: z.string().optional().describe("`next` of the previous page"),
    }),
    answers: { 200: { schema: billingMessagePage, example: { data: [MESSAGE], next: null } } },
    errors: NOT_CONNECTED,
  },
  {
    id: "replayBillingMessage",
    group: "Billing",
    method: "POST",
    path: "/organizations/{organizationId}/billing/{provider}/messages/{messageId}/replay",
    summary: "Repeat a message",
    description:
      "Handles a stored message again, such as after its price was mapped, and returns it with the new outcome.",
    answers: { 200: { schema: billingMessage, example: MESSAGE } },
    errors: { 404: "Message evt_1 not found" },
  },
  {
    id: "replayBillingMessages",
    group: "Billing",
    method: "POST",
    path: "/organizations/{organizationId}/billing/{provider}/replay",
    summary: "Repeat messages of an outcome",
    description: "Handles all stored messages of one outcome again, oldest first, up to 1,000 per call.",
    query: z.object({ outcome: z.enum(REPEATED_OUTCOMES).describe("Outcome of the messages to repeat") }),
    answers: {
      200: { schema: billingReplay, example: { replayed: 2, outcomes: { applied: 1, stale: 1 }, remaining: 0 } },
    },
    errors: NOT_CONNECTED,
  },
  {
    id: "receiveBillingMessage",
    group: "Billing",
    method: "POST",
    path: "/billing/{connectionId}",
    summary: "Receive a message",
    description:
      "For the payment provider: verifies the signature of the raw body, at most 512 kB, and moves the contract. A repeated message answers what it answered.",
    body: {
      schema: z.looseObject({}).meta({ id: "BillingMessageBody" }),
      example: {
        id: "msg_1",
        type: "subscription",
        createdAt: EXAMPLE.createdAt,
        data: {
          subscription: "sub_1",
          userId: "ada",
          status: "active",
          items: [{ price: "price_pro", quantity: 1 }],
          periodStart: EXAMPLE.createdAt,
          periodEnd: "2025-07-15T10:00:00.000Z",
          endsAt: null,
        },
      },
    },
    answers: { 200: { schema: billingAnswer, example: { outcome: "applied", reason: null } } },
    errors: { 400: "The signature is not valid", 404: `Billing connection ${EXAMPLE.connectionId} not found` },
  },
];
