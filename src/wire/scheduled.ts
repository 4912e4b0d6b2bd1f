import { z } from "zod";
import { instantIn } from "../core/instant.ts";
import { SCHEDULED_KINDS, SCHEDULED_STATES } from "../core/scheduled.ts";
import { objectError, strictBody } from "./change-bodies.ts";
import {
  afterParameter,
  actor,
  amounts,
  EXAMPLE,
  id,
  limitParameter,
  moment,
  offsetParameter,
  pageParameter,
  reasonText,
  NO_CONTRACT,
  NO_SINGLE_CONTRACT,
  NO_SERVICE,
} from "./common.ts";
import type { Operation } from "./operation.ts";
import { requiredNotNull, subscriptionFields } from "./subscription.ts";
import { afterTrial } from "./trials.ts";

const AT = "The at field must be an ISO 8601 date or periodEnd";

export const newChange = strictBody({
  at: z
    .string(requiredNotNull("The at field is required", AT))
    .transform((text) => (text === "periodEnd" ? text : instantIn(text)))
    .refine((at) => at !== undefined, AT)
    .describe("ISO 8601, or `periodEnd` for the end of the billing period"),
  ...subscriptionFields(requiredNotNull),
  billingPeriod: z
    .strictObject(
      {
        autoRenew: z
          .boolean("billingPeriod.autoRenew must be a boolean")
          .nullish()
          .transform((value) => value ?? undefined),
      },
      objectError("The billingPeriod field must be an object", "billingPeriod."),
    )
    .nullish()
    .transform((value) => value ?? undefined),
  reason: reasonText()
    .nullish()
    .transform((value) => value ?? undefined)
    .describe("1 to 500 characters"),
}).meta({ id: "ChangeToSchedule" });

const common = {
  id,
  organizationId: id,
  state: z.enum(SCHEDULED_STATES),
  userId: z.string(),
  at: moment,
  atPeriodEnd: z.boolean().describe("True if `at` follows the end of the billing period"),
  reason: z.string().nullable(),
  effectiveAt: moment.nullable().describe("From when on the change holds; null until it is done"),
  why: z.string().nullable().describe("Why it was cancelled or blocked"),
  createdAt: moment,
  actor,
};

export const scheduledNovation = z
  .strictObject({
    ...common,
    kind: z.literal("novation"),
    contractedServices: z.record(z.string(), z.string()),
    subscriptionPlans: z.record(z.string(), z.string()),
    subscriptionAddOns: z.record(z.string(), amounts),
    autoRenew: z.boolean().nullable().describe("Null: as before"),
  })
  .meta({ id: "ScheduledNovation" });

export const scheduledAvailability = z
  .strictObject({
    id,
    organizationId: id,
    kind: z.literal("availability"),
    state: common.state,
    serviceName: z.string(),
    pricingVersion: z.string(),
    availability: z.enum(["active", "archived"]),
    fallback: z.looseObject({}).nullable().describe("Targets of contracts, as they were sent; null to activate"),
    overrideReason: z.string().nullable().describe("Why the gate is passed over"),
    at: moment,
    effectiveAt: common.effectiveAt,
    why: common.why,
    createdAt: moment,
    actor,
  })
  .meta({ id: "ScheduledAvailability" });

export const scheduledChange = z
  .discriminatedUnion("kind", [
    scheduledAvailability,
    scheduledNovation,
    z.strictObject({ ...common, kind: z.literal("trialEnd"), then: afterTrial }).meta({ id: "ScheduledTrialEnd" }),
  ])
  .meta({ id: "ScheduledChange" });

const CHANGE = {
  at: "periodEnd",
  contractedServices: { tasker: "1.0.0" },
  subscriptionPlans: { tasker: "FREE" },
  subscriptionAddOns: {},
  reason: "Asked for by mail",
};
const SCHEDULED = {
  id: EXAMPLE.scheduledId,
  organizationId: EXAMPLE.organizationId,
  kind: "novation",
  state: "pending",
  userId: "ada",
  ...CHANGE,
  at: "2026-04-09T09:00:00.000Z",
  atPeriodEnd: true,
  autoRenew: null,
  effectiveAt: null,
  why: null,
  createdAt: EXAMPLE.createdAt,
  actor: { kind: "key", id: EXAMPLE.apiKeyId, name: null },
};
const PATH = "/contracts/{userId}/scheduled";

const LATER = {
  id: EXAMPLE.scheduledId,
  organizationId: EXAMPLE.organizationId,
  kind: "availability",
  state: "pending",
  serviceName: "Tasker",
  pricingVersion: "1.0.0",
  availability: "archived",
  fallback: { subscriptionPlan: "PRO" },
  overrideReason: null,
  at: "2026-04-09T09:00:00.000Z",
  effectiveAt: null,
  why: null,
  createdAt: EXAMPLE.createdAt,
  actor: SCHEDULED.actor,
};

/** Answer of a call that schedules another availability. */
export const scheduledLater = { schema: scheduledAvailability, example: LATER };

/** Changes of versions for later. Source: contract custom-terms §5. */
export const serviceScheduledOperations: readonly Operation[] = [
  {
    id: "listServiceScheduled",
    group: "Services",
    method: "GET",
    path: "/services/{serviceName}/scheduled",
    summary: "List a service's scheduled changes",
    description: "Lists the newest 100 scheduled archivings and activations of versions in all states, newest first.",
    answers: { 200: { schema: z.array(scheduledAvailability), example: [LATER] } },
    errors: { 404: NO_SERVICE },
  },
  {
    id: "cancelServiceScheduled",
    group: "Services",
    method: "DELETE",
    path: "/services/{serviceName}/scheduled/{scheduledId}",
    summary: "Cancel a scheduled archiving or activation",
    description: "Cancels a pending change of a version. It stays in the lists as cancelled.",
    answers: { 204: null },
    errors: {
      404: `Scheduled change ${EXAMPLE.scheduledId} not found`,
      409: `CONFLICT: Scheduled change ${EXAMPLE.scheduledId} is done`,
    },
  },
];

/** Novations of contracts for later. Source: contract custom-terms §4. */
export const scheduledOperations: readonly Operation[] = [
  {
    id: "listContractScheduled",
    group: "Contracts",
    method: "GET",
    path: PATH,
    summary: "List a contract's scheduled changes",
    description: "Lists the newest 100 scheduled changes of a contract in all states, newest first.",
    answers: { 200: { schema: z.array(scheduledChange), example: [SCHEDULED] } },
    errors: NO_SINGLE_CONTRACT,
  },
  {
    id: "scheduleChange",
    group: "Contracts",
    method: "POST",
    path: PATH,
    summary: "Schedule a change of a subscription",
    description:
      "Replaces what an end user is subscribed to at a later moment, or at the end of the billing period. A contract has at most one pending change.",
    idempotent: true,
    body: { schema: newChange, example: CHANGE },
    answers: { 201: { schema: scheduledNovation, example: SCHEDULED } },
    errors: {
      400: "INVALID DATA: at must be in the future",
      404: NO_CONTRACT,
      409: `CONFLICT: Contract of user ada has a change scheduled for 2026-04-09T09:00:00.000Z already: ${EXAMPLE.scheduledId}`,
      422: "The at field is required",
    },
  },
  {
    id: "cancelScheduled",
    group: "Contracts",
    method: "DELETE",
    path: `${PATH}/{scheduledId}`,
    summary: "Cancel a scheduled change",
    description: "Cancels a pending change. It stays in the lists as cancelled.",
    answers: { 204: null },
    errors: {
      404: `Scheduled change ${EXAMPLE.scheduledId} not found`,
      409: `CONFLICT: Scheduled change ${EXAMPLE.scheduledId} is done`,
    },
  },
  {
    id: "listScheduled",
    group: "Contracts",
    method: "GET",
    path: "/scheduled",
    summary: "List scheduled changes",
    description:
      "Lists scheduled changes by their moment, the pending ones by default. The header X-Total-Count has the number of matches. A platform ADMIN without an organization sees all of them.",
    query: z.object({
      state: z.enum(SCHEDULED_STATES).default("pending").describe("State of the change"),
      kind: z.enum(SCHEDULED_KINDS).optional().describe("Kind of the change"),
      dueBefore: z.iso
        .datetime({ offset: true, local: true })
        .or(z.iso.date())
        .optional()
        .describe("Only changes for moments before this one"),
      page: pageParameter,
      offset: offsetParameter,
      after: afterParameter,
      limit: limitParameter(20),
    }),
    agent: { may: "read", page: "upcoming" },
    answers: { 200: { schema: z.array(scheduledChange), example: [SCHEDULED] } },
    errors: { 400: "INVALID DATA: dueBefore must be an ISO 8601 date" },
  },
];
