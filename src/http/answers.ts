import { z } from "zod";
import { EVENT_CODES } from "../core/event-messages.ts";

/*
 * The shapes of answers, for the OpenAPI document; the tests hold every answer of the whole suite against them.
 * Strict: a field that is not here must not be on the wire.
 */

const id = z
  .string()
  .regex(/^[0-9a-f]{24}$/)
  .describe("24 lower-case hex digits");
const moment = z.iso.datetime({ precision: 3 }).describe("ISO 8601, UTC, milliseconds");
const amounts = z.record(z.string(), z.number());

/** Every failure. `problems` comes with a pricing that was refused: all that is wrong with it, with places in the file. */
export const failure = z.strictObject({
  error: z.string(),
  details: z.string().optional(),
  problems: z
    .array(z.strictObject({ message: z.string(), path: z.string(), line: z.number(), column: z.number() }))
    .optional(),
});

export const message = z.strictObject({ message: z.string() });

const role = z.enum(["ADMIN", "USER"]);
const userSafe = z.strictObject({ _id: id, id, username: z.string(), createdAt: moment, updatedAt: moment });
/** The full view for the user itself and platform ADMINs, the safe one for others. */
export const user = z.union([userSafe.extend({ apiKey: z.string(), role }), userSafe]);
export const signedIn = z.strictObject({ username: z.string(), apiKey: z.string(), role });
export const me = z.strictObject({ username: z.string(), role });
export const userUpdated = z.strictObject({ username: z.string(), role, createdAt: moment, updatedAt: moment });
export const userKey = z.strictObject({ apiKey: z.string() });

const pagination = z.strictObject({
  offset: z.number(),
  limit: z.number(),
  total: z.number(),
  page: z.number(),
  pages: z.number(),
});
export const userPage = z.strictObject({ data: z.array(user), pagination });

export const organizationListed = z.strictObject({
  id,
  name: z.string(),
  owner: z.string(),
  default: z.boolean(),
  apiKeys: z.array(z.strictObject({ id, key: z.string(), scope: z.enum(["ALL", "MANAGEMENT", "EVALUATION"]) })),
  members: z.array(z.strictObject({ username: z.string(), role: z.enum(["ADMIN", "MANAGER", "EVALUATOR"]) })),
});
export const organization = organizationListed.extend({
  ownerDetails: z
    .strictObject({ _id: id, username: z.string(), createdAt: moment, updatedAt: moment, __v: z.literal(0) })
    .nullable(),
});
export const organizationPage = z.strictObject({
  data: z.array(organizationListed),
  pagination: pagination.optional(),
});

const locators = z.record(z.string(), z.union([z.strictObject({ id }), z.strictObject({ url: z.string() })]));
export const service = z.strictObject({
  name: z.string(),
  organizationId: id,
  disabled: z.literal(false),
  activePricings: locators,
  archivedPricings: locators.optional(),
  id,
});

const valueType = z.enum(["BOOLEAN", "NUMERIC", "TEXT"]);
const featureValue = z.union([z.boolean(), z.number(), z.string(), z.array(z.string())]);
const limitValue = z.union([z.boolean(), z.number()]);
const values = z.record(z.string(), featureValue);
const limits = z.record(z.string(), limitValue);
const period = z.strictObject({ value: z.number(), unit: z.enum(["SEC", "MIN", "HOUR", "DAY", "MONTH", "YEAR"]) });

export const feature = z.strictObject({
  name: z.string(),
  description: z.string().optional(),
  valueType,
  defaultValue: featureValue,
  value: featureValue.optional(),
  type: z.string(),
  integrationType: z.string().optional(),
  pricingUrls: z.array(z.string()),
  automationType: z.string().optional(),
  docUrl: z.string().optional(),
  expression: z.string().optional(),
  serverExpression: z.string().optional(),
  render: z.enum(["AUTO", "ENABLED", "DISABLED"]),
  tag: z.string().optional(),
});

const usageLimit = z.strictObject({
  name: z.string(),
  description: z.string().optional(),
  valueType,
  defaultValue: limitValue,
  value: limitValue.optional(),
  type: z.enum(["RENEWABLE", "NON_RENEWABLE"]),
  trackable: z.boolean(),
  period: period.optional(),
  linkedFeatures: z.array(z.string()),
});

const price = z.union([z.number(), z.string()]);
const plan = z.strictObject({
  name: z.string(),
  description: z.string().optional(),
  price,
  private: z.boolean(),
  features: values,
  usageLimits: limits,
});
const addOn = z.strictObject({
  name: z.string(),
  description: z.string().optional(),
  private: z.boolean(),
  price,
  availableFor: z.array(z.string()),
  dependsOn: z.array(z.string()),
  excludes: z.array(z.string()),
  features: values,
  usageLimits: limits,
  usageLimitsExtensions: limits,
  subscriptionConstraints: z
    .strictObject({ minQuantity: z.number(), maxQuantity: z.number().nullable(), quantityStep: z.number() })
    .optional(),
});
export const pricing = z.strictObject({
  _organizationId: id,
  yamlPath: z.string().optional(),
  version: z.string(),
  currency: z.string(),
  createdAt: moment,
  features: z.record(z.string(), feature),
  usageLimits: z.record(z.string(), usageLimit),
  plans: z.record(z.string(), plan),
  addOns: z.record(z.string(), addOn),
  url: z.string().optional(),
});
export const publicUrl = z.strictObject({ path: z.string(), url: z.string() });

const chosen = {
  contractedServices: z.record(z.string(), z.string()),
  subscriptionPlans: z.record(z.string(), z.string()),
  subscriptionAddOns: z.record(z.string(), amounts),
};
export const contract = z.strictObject({
  id,
  userContact: z.strictObject({
    userId: z.string(),
    username: z.string(),
    firstName: z.string().optional(),
    lastName: z.string().optional(),
    email: z.string().optional(),
    phone: z.string().optional(),
  }),
  billingPeriod: z.strictObject({
    startDate: moment,
    endDate: moment,
    autoRenew: z.boolean(),
    renewalDays: z.number(),
  }),
  usageLevels: z.record(
    z.string(),
    z.record(z.string(), z.strictObject({ resetTimeStamp: moment.optional(), consumed: z.number() })),
  ),
  organizationId: id,
  groupId: z.string().optional(),
  ...chosen,
  history: z.array(z.strictObject({ startDate: moment, endDate: moment, ...chosen })),
});

export const booleans = z.record(z.string(), z.boolean());
const evaluationError = z.strictObject({
  code: z.enum(["FLAG_NOT_FOUND", "PARSE_ERROR", "EVALUATION_ERROR", "TYPE_MISMATCH", "INVALID_EXPECTED_CONSUMPTION"]),
  message: z.string(),
});
export const featureResult = z.strictObject({
  eval: z.boolean(),
  limit: z.record(z.string(), z.union([z.number(), z.boolean(), z.null()])).nullable(),
  used: amounts.nullable(),
  error: evaluationError.nullable(),
});
/** One feature's result; the last two only where the caller asked for more (strict, dryRun, explain). */
export const featureAnswer = z.strictObject({
  ...featureResult.shape,
  remaining: z.record(z.string(), z.number().nullable()).nullable().optional(),
  resetAt: z.record(z.string(), moment.nullable()).nullable().optional(),
});
export const featureResults = z.record(z.string(), featureResult);
export const pricingToken = z.strictObject({ pricingToken: z.string() });
export const listedFeature = z.strictObject({ info: feature, service: z.string(), pricingVersion: z.string() });

export const week = z.strictObject({ labels: z.array(z.string()).length(7), data: z.array(z.number()).length(7) });
export const eventStatus = z.strictObject({ status: z.string() });
export const eventSent = z.strictObject({ success: z.literal(true), message: z.string() });

export const webhook = z.strictObject({
  id,
  url: z.string(),
  description: z.string().nullable(),
  codes: z.array(z.enum(EVENT_CODES)).nullable().describe("null: all of them"),
  state: z.enum(["enabled", "disabled", "suspended"]).describe("suspended: nothing arrived for long"),
  suspendedAt: moment.nullable(),
  suspendedReason: z.string().nullable(),
  failures: z.number().describe("Attempts that failed since the last one that did not"),
  failingSince: moment.nullable(),
  createdAt: moment,
  updatedAt: moment,
});
/** The only answers in which the secret is. */
export const webhookWithSecret = webhook.extend({ secret: z.string().startsWith("whsec_") });
export const delivery = z.strictObject({
  id: z.string(),
  webhookId: z.string().describe("The header webhook-id of every attempt"),
  eventId: z.number(),
  code: z.enum(EVENT_CODES),
  status: z.enum(["pending", "delivered", "failed"]),
  attempts: z.number(),
  nextAttemptAt: moment.nullable(),
  lastAttemptAt: moment.nullable(),
  responseStatus: z.number().nullable(),
  durationMs: z.number().nullable(),
  error: z.string().nullable(),
  createdAt: moment,
});
