import { z } from "zod";
import { FEATURE_TYPES, LIMIT_TYPES, PERIOD_UNITS, VALUE_TYPES } from "../core/pricing/model.ts";
import { objectError } from "./change-bodies.ts";
import { NO_ORGANIZATION, NO_SERVICE } from "./common.ts";
import type { Operation } from "./operation.ts";
import { featureValue, limitValue } from "./pricings.ts";

const NOT_A_LIST = "The services field must be a list of service names";
const MAX_SERVICES = 1000;

/** The services whose offer everybody may read. */
export const publicOffer = z
  .strictObject(
    {
      services: z
        .array(z.string(NOT_A_LIST), {
          error: ({ input }) => (input === undefined ? "The services field is required" : NOT_A_LIST),
        })
        .max(MAX_SERVICES, `The services field must not have more than ${MAX_SERVICES} elements`),
    },
    objectError("The body must be an object"),
  )
  .meta({ id: "PublicOffer" });

export const configuration = z
  .strictObject({
    pricingVersion: z.string(),
    plan: z.string().nullable().describe("Null in a pricing without plans"),
    addOns: z.record(z.string(), z.number()).describe("Quantity by add-on"),
  })
  .meta({ id: "OfferedConfiguration" });

const change = z
  .strictObject({
    kind: z.enum(["feature", "limit"]),
    id: z.string().describe("`<service>-<name>`"),
    before: featureValue.nullable(),
    after: featureValue.nullable(),
  })
  .meta({ id: "OfferedChange" });

export const price = z
  .strictObject({
    now: z.number().nullable().describe("Null with a text as price, or in another currency"),
    // oxlint-disable-next-line unicorn/no-thenable -- a number, and the contract's name for it
    then: z.number().nullable().describe("Null with a text as price"),
    currency: z.string(),
    unit: z.string().nullable(),
  })
  .meta({ id: "PriceChange" });

export const changes = { gains: z.array(change), losses: z.array(change), differences: z.array(change) };
export const contact = z.boolean().describe("True if it has a text as price, which the user does not have yet");

const billedItems = z.array(z.strictObject({ price: z.string(), quantity: z.number() }));
/** Prices that a checkout has to buy, by provider. */
export const billing = z
  .strictObject({ stripe: billedItems.optional(), standard: billedItems.optional() })
  .meta({ id: "BilledPrices" })
  .optional()
  .describe("What a checkout of it has to buy, by payment provider; only where all of it has price ids");

const shown = <Value extends z.ZodType>(value: Value) => z.strictObject({ value, text: z.string() });
const item = {
  name: z.string(),
  description: z.string().nullable(),
  price: shown(z.union([z.number(), z.string()])),
  unit: z.string(),
  contact: z.boolean(),
};
const labelled = { name: z.string(), id: z.string(), label: z.string(), description: z.string().nullable() };
const period = z.strictObject({ value: z.number(), unit: z.enum(PERIOD_UNITS) });

export const offer = z
  .strictObject({
    service: z.string(),
    key: z.string(),
    pricingVersion: z.string(),
    createdAt: z.string(),
    versions: z.array(z.string()).optional().describe("Active versions, newest first; absent in a public offer"),
    currency: z.string(),
    billing: z.record(z.string(), z.number()).describe("Factor by period"),
    tags: z.array(z.string()),
    features: z.array(
      z.strictObject({
        ...labelled,
        valueType: z.enum(VALUE_TYPES),
        type: z.enum(FEATURE_TYPES),
        tag: z.string().nullable(),
      }),
    ),
    limits: z.array(
      z.strictObject({
        ...labelled,
        valueType: z.enum(["BOOLEAN", "NUMERIC"]),
        type: z.enum(LIMIT_TYPES),
        unit: z.string(),
        period: period.nullable(),
        rates: z
          .array(z.strictObject({ unit: z.string(), value: z.number(), text: z.string() }).meta({ id: "OfferedRate" }))
          .optional()
          .describe("Cost of each unit; absent for a limit without rates"),
        budgets: z
          .array(
            z
              .strictObject({ name: z.string(), value: z.union([z.number(), z.string()]), text: z.string() })
              .meta({ id: "OfferedBudget" }),
          )
          .optional()
          .describe(
            "Budgets of the pricing that deny; a text as `value` is the limit whose value it is. Absent without any",
          ),
      }),
    ),
    plans: z.array(
      z.strictObject({
        ...item,
        features: z.array(shown(featureValue)).describe("In the order of `features`"),
        limits: z.array(shown(limitValue)).describe("In the order of `limits`"),
        select: configuration.describe("What choosing the plan means"),
        billing,
        scenario: z.enum(["current", "contact", "upgrade", "downgrade", "switch"]).optional(),
      }),
    ),
    addOns: z.array(
      z.strictObject({
        ...item,
        availableFor: z.array(z.string()),
        dependsOn: z.array(z.string()),
        excludes: z.array(z.string()),
        quantity: z.strictObject({ min: z.number(), max: z.number().nullable(), step: z.number() }),
        features: z.record(z.string(), shown(featureValue)),
        limits: z.record(z.string(), shown(limitValue)),
        extensions: z.record(z.string(), shown(z.number())),
        select: configuration.nullable().describe("What choosing the add-on means; null if it cannot be chosen"),
        billing,
        held: z.number().optional().describe("Units that the user has"),
      }),
    ),
    current: configuration.extend({ expired: z.boolean() }).nullable().optional(),
  })
  .meta({ id: "Offer" });
export const PRO = { pricingVersion: "1.0.0", plan: "PRO", addOns: {} };
const description = "Boards with tasks";
const OFFER = {
  service: "Tasker",
  key: "tasker",
  pricingVersion: "1.0.0",
  createdAt: "2025-03-01T00:00:00.000Z",
  currency: "EUR",
  billing: { monthly: 1 },
  tags: [],
  features: [
    {
      name: "board",
      id: "tasker-board",
      label: description,
      description,
      valueType: "BOOLEAN",
      type: "DOMAIN",
      tag: null,
    },
  ],
  limits: [
    {
      name: "maxTasks",
      id: "tasker-maxTasks",
      label: "maxTasks",
      description: null,
      valueType: "NUMERIC",
      type: "RENEWABLE",
      unit: "task",
      period: { value: 1, unit: "MONTH" },
    },
  ],
  plans: [
    {
      name: "PRO",
      description: null,
      price: { value: 6, text: "6 EUR / user/month" },
      unit: "user/month",
      contact: false,
      features: [{ value: true, text: "Included" }],
      limits: [{ value: 200, text: "200 task per month" }],
      select: PRO,
    },
  ],
  addOns: [],
};

export const VERSION = z.string().optional().describe("An active version. Default: the user's, otherwise the newest");

/** Offers of services. Also inside one organization. Source: contract offers §3. */
export const offerOperations: readonly Operation[] = [
  {
    id: "showOffer",
    group: "Offers",
    method: "GET",
    path: "/services/{serviceName}/offer",
    summary: "Show what a service sells",
    description:
      "Returns plans, add-ons, features and limits with their texts: everything that a price page shows. With a user, also what each item means for them.",
    query: z.object({
      userId: z.string().optional().describe("End user for whom the offer is made"),
      pricingVersion: VERSION,
    }),
    answers: { 200: { schema: offer, example: { ...OFFER, versions: ["1.0.0"] } }, 304: null },
    conditional: true,
    errors: { 404: NO_SERVICE },
  },
];

/** Offers that everybody may read. Source: contract offers §4, §5. */
export const publicOfferOperations: readonly Operation[] = [
  {
    id: "showPublicOffer",
    group: "Offers",
    method: "GET",
    path: "/public-offers/{organizationId}/{serviceName}",
    summary: "Show a published offer, without a key",
    description: "Returns what a service sells, if the organization has published it. Any web page may read it.",
    answers: { 200: { schema: offer, example: OFFER }, 304: null },
    conditional: true,
    errors: { 404: NO_SERVICE },
  },
  {
    id: "listPublishedServices",
    group: "Offers",
    method: "GET",
    path: "/organizations/{organizationId}/public-offer",
    summary: "List services with a published offer",
    description: "Returns the services whose offer everybody may read.",
    answers: { 200: { schema: publicOffer, example: { services: ["Tasker"] } } },
    errors: { 404: NO_ORGANIZATION },
  },
  {
    id: "publishOffers",
    group: "Offers",
    method: "PUT",
    path: "/organizations/{organizationId}/public-offer",
    summary: "Publish the offers of services",
    description: "Publishes exactly these services: everybody may read their offers without a key.",
    body: { schema: publicOffer, example: { services: ["Tasker"] } },
    answers: { 200: { schema: publicOffer, example: { services: ["Tasker"] } } },
    errors: { 404: NO_SERVICE },
  },
];
