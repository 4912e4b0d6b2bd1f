import { z } from "zod";
import { BILLING_PROVIDERS, SUBSCRIPTION_STATUSES } from "../core/billing/message.ts";
import { objectError } from "./change-bodies.ts";
import { EXAMPLE, id, moment, NO_ORGANIZATION, SEVERAL_CONTRACTS } from "./common.ts";
import type { Operation } from "./operation.ts";
import { requiredNotNull } from "./subscription.ts";

const SECRET = "The secret field must be a text of 7 to 255 characters that begins with whsec_";
const PREVIOUS = SECRET.replace("secret", "previousSecret");
const SECRET_TEXT = /^whsec_[\x21-\x7e]{1,249}$/;

const PRICE =
  "Each value in prices must be {service, plan}, {service, addOn, quantity} or {service, limit, amount, expiresInDays}";
const nameText = (sentence: string) => z.string(sentence).min(1, sentence).max(255, sentence);
const name = nameText(PRICE);
const mappedPrice = z.union(
  [
    z.strictObject({ service: name, plan: name }, PRICE),
    z.strictObject(
      {
        service: name,
        addOn: name,
        quantity: z
          .int(PRICE)
          .min(1, PRICE)
          .max(1_000_000, PRICE)
          .optional()
          .describe("Units of the add-on per unit. Default: 1"),
      },
      PRICE,
    ),
    z.strictObject(
      {
        service: name,
        limit: name,
        amount: z.number(PRICE).gt(0, PRICE).max(100_000_000, PRICE).describe("Amount of the block"),
        expiresInDays: z.int(PRICE).min(1, PRICE).max(3650, PRICE).optional().describe("Default: the block never ends"),
      },
      PRICE,
    ),
  ],
  PRICE,
);
const MAX_PRICES = 500;
const prices = z
  .record(
    z.string().min(1, PRICE).max(255, PRICE),
    mappedPrice,
    requiredNotNull("The prices field is required", "The prices field must be an object"),
  )
  .refine(
    (map) => Object.keys(map).length <= MAX_PRICES,
    `The prices field must not have more than ${MAX_PRICES} entries`,
  );

const USER_ID = "The userId field must be metadata.<key>, customer or client_reference_id";
const userId = z
  .string(USER_ID)
  .regex(/^(metadata\.[^\s]{1,100}|customer|client_reference_id)$/, USER_ID)
  .describe("Where the id of the end user stands");
const ENDED = "The ended field must be an object where keys are service names and values are plan names or null";
const ended = z
  .record(z.string().min(1, ENDED).max(255, ENDED), nameText(ENDED).nullable(), ENDED)
  .refine((map) => Object.keys(map).length <= MAX_PRICES, ENDED)
  .describe("Plan that an ended subscription leaves, by service; null, and the default: the contract ends");
const GRACE = "The graceDays field must be a whole number from 0 to 60";
const graceDays = z.int(GRACE).min(0, GRACE).max(60, GRACE).describe("Days for which `past_due` keeps everything");

/** Sets a connection. Absent fields get their defaults; an absent secret stays. */
export const billingConnectionToSet = z
  .strictObject(
    {
      secret: z
        .string(requiredNotNull("The secret field is required", SECRET))
        .regex(SECRET_TEXT, SECRET)
        .optional()
        .describe("Signing secret of the endpoint; required at creation"),
      previousSecret: z
        .string(PREVIOUS)
        .regex(SECRET_TEXT, PREVIOUS)
        .optional()
        .describe("Also accepted for 24 hours. Default: the secret that this call replaces"),
      prices: prices.describe("What each price id of the provider stands for"),
      userId: userId.optional(),
      ended: ended.optional(),
      graceDays: graceDays.optional(),
    },
    objectError("The body must be an object"),
  )
  .meta({ id: "BillingConnectionToSet" });

export const billingProvider = z.enum(BILLING_PROVIDERS);

const problem = z
  .strictObject({
    price: z.string().nullable().describe("Price id whose target is missing; null: the target has no price id"),
    service: z.string(),
    plan: z.string().nullable(),
    addOn: z.string().nullable(),
    limit: z.string().nullable(),
    message: z.string(),
  })
  .meta({ id: "BillingProblem" });

export const billingConnection = z
  .strictObject({
    id,
    provider: billingProvider,
    url: z.string().describe("Address to which the provider sends its messages"),
    secret: z.string().describe("The last four characters, behind `whsec_…`"),
    previousSecretUntil: moment.nullable().describe("The previous secret is accepted until then; null without one"),
    prices: z.record(z.string(), mappedPrice),
    userId: z.string(),
    ended: z.record(z.string(), z.string().nullable()),
    graceDays: z.number(),
    problems: z
      .array(problem)
      .describe("What the map names and the newest active version lacks; and what has a price but no price id"),
    createdAt: moment,
    updatedAt: moment,
  })
  .meta({ id: "BillingConnection" });

/** The subscription that a contract follows. */
export const contractBilling = z
  .strictObject({
    provider: billingProvider,
    subscription: z.string(),
    customer: z.string().nullable(),
    status: z.enum(SUBSCRIPTION_STATUSES),
    since: moment.describe("Start of the subscription"),
  })
  .meta({ id: "ContractBilling" });

const CONNECTION = {
  id: EXAMPLE.connectionId,
  provider: "stripe",
  url: `https://faregate.example.com/api/v1/billing/${EXAMPLE.connectionId}`,
  secret: "whsec_…abcd",
  previousSecretUntil: null,
  prices: { price_pro: { service: "tasker", plan: "PRO" }, price_tasks: { service: "tasker", addOn: "extraTasks" } },
  userId: "metadata.userId",
  ended: { tasker: "FREE" },
  graceDays: 7,
  problems: [
    {
      price: null,
      service: "tasker",
      plan: "BUSINESS",
      addOn: null,
      limit: null,
      message: "Plan BUSINESS of tasker has a price and no price id",
    },
  ],
  createdAt: EXAMPLE.createdAt,
  updatedAt: EXAMPLE.updatedAt,
};
export const NOT_CONNECTED = { 404: "The organization has no connection to stripe" };

/** Connections to payment providers, for members with their user keys. */
export const billingOperations: readonly Operation[] = [
  {
    id: "listBillingConnections",
    group: "Billing",
    method: "GET",
    path: "/organizations/{organizationId}/billing",
    summary: "List connections",
    description: "Lists the organization's connections to payment providers, and what their maps lack.",
    answers: { 200: { schema: z.array(billingConnection), example: [CONNECTION] } },
    errors: { 404: NO_ORGANIZATION },
  },
  {
    id: "setBillingConnection",
    group: "Billing",
    method: "PUT",
    path: "/organizations/{organizationId}/billing/{provider}",
    summary: "Connect a payment provider",
    description:
      "Creates or replaces the connection whose messages move contracts. The secret is stored encrypted and never returned; a replaced one is accepted for 24 hours more.",
    body: {
      schema: billingConnectionToSet,
      example: {
        secret: "whsec_0123456789abcd",
        prices: CONNECTION.prices,
        ended: CONNECTION.ended,
        graceDays: 7,
      },
    },
    answers: {
      200: { schema: billingConnection, example: CONNECTION },
      201: { schema: billingConnection, example: CONNECTION, description: "Created" },
    },
    errors: { 404: NO_ORGANIZATION },
  },
  {
    id: "showBillingConnection",
    group: "Billing",
    method: "GET",
    path: "/organizations/{organizationId}/billing/{provider}",
    summary: "Show a connection",
    description: "Returns the connection, and what its map lacks.",
    answers: { 200: { schema: billingConnection, example: CONNECTION } },
    errors: NOT_CONNECTED,
  },
  {
    id: "deleteBillingConnection",
    group: "Billing",
    method: "DELETE",
    path: "/organizations/{organizationId}/billing/{provider}",
    summary: "Disconnect a payment provider",
    description:
      "Deletes the connection with its messages. Contracts stay as they are, and follow no subscription of it.",
    answers: { 204: null },
    errors: NOT_CONNECTED,
  },
];

/** Ends that a contract follows a subscription. */
export const contractBillingOperations: readonly Operation[] = [
  {
    id: "stopFollowingSubscription",
    group: "Billing",
    method: "DELETE",
    path: "/contracts/{userId}/billing",
    summary: "Stop following a subscription",
    description:
      "Detaches a contract from the subscriptions that it follows. The contract stays as it is; only a subscription with another id moves it again.",
    answers: { 204: null },
    errors: { 404: "Contract of user ada follows no subscription", 409: SEVERAL_CONTRACTS },
  },
];
