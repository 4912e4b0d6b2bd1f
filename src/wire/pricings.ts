import { z } from "zod";
import { GATE_CLOSED, OVERRIDE, targets } from "./change-bodies.ts";
import { EXAMPLE, id, moment, NO_SERVICE } from "./common.ts";
import type { Operation } from "./operation.ts";
import { HELD, heldChange } from "./approvals.ts";
import { scheduledLater } from "./scheduled.ts";
import { SERVICE, service, serviceUploaded } from "./services.ts";

export const fallbackSubscription = z
  .object(targets, { error: "The body must be an object" })
  .meta({ id: "FallbackSubscription" });

const valueType = z.enum(["BOOLEAN", "NUMERIC", "TEXT"]);
export const featureValue = z.union([z.boolean(), z.number(), z.string(), z.array(z.string())]);
export const limitValue = z.union([z.boolean(), z.number()]);
const values = z.record(z.string(), featureValue);
const limits = z.record(z.string(), limitValue);
const period = z
  .strictObject({ value: z.number(), unit: z.enum(["SEC", "MIN", "HOUR", "DAY", "MONTH", "YEAR"]) })
  .meta({ id: "Period" });

export const feature = z
  .strictObject({
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
  })
  .meta({ id: "Feature" });

const usageLimit = z
  .strictObject({
    name: z.string(),
    description: z.string().optional(),
    valueType,
    defaultValue: limitValue,
    value: limitValue.optional(),
    type: z.enum(["RENEWABLE", "NON_RENEWABLE"]),
    trackable: z.boolean(),
    period: period.optional(),
    linkedFeatures: z.array(z.string()),
    countsMembers: z.literal(true).optional().describe("Only of the limit that members of a contract take"),
  })
  .meta({ id: "UsageLimit" });

const price = z.union([z.number(), z.string()]);
const plan = z
  .strictObject({
    name: z.string(),
    description: z.string().optional(),
    price,
    private: z.boolean(),
    features: values,
    usageLimits: limits,
  })
  .meta({ id: "Plan" });
const addOn = z
  .strictObject({
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
  })
  .meta({ id: "AddOn" });
export const pricing = z
  .strictObject({
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
  })
  .meta({ id: "Pricing" });
export const publicUrl = z.strictObject({ path: z.string(), url: z.string() }).meta({ id: "PublicUrl" });
const PRICING = {
  _organizationId: EXAMPLE.organizationId,
  yamlPath: "/static/pricings/Tasker_1.0.0.yaml",
  version: "1.0.0",
  currency: "EUR",
  createdAt: "2025-03-01T00:00:00.000Z",
  features: {
    board: {
      name: "board",
      description: "Boards with tasks",
      valueType: "BOOLEAN",
      defaultValue: true,
      type: "DOMAIN",
      pricingUrls: [],
      render: "AUTO",
    },
  },
  usageLimits: {
    maxTasks: {
      name: "maxTasks",
      valueType: "NUMERIC",
      defaultValue: 20,
      type: "RENEWABLE",
      trackable: false,
      period: { value: 1, unit: "MONTH" },
      linkedFeatures: ["board"],
    },
  },
  plans: {
    FREE: { name: "FREE", price: 0, private: false, features: { board: true }, usageLimits: { maxTasks: 20 } },
    PRO: { name: "PRO", price: 6, private: false, features: { board: true }, usageLimits: { maxTasks: 200 } },
  },
  addOns: {},
};

/** Versions of pricings; each operation also exists inside an organization. Source: contract services-pricings. */
export const pricingOperations: readonly Operation[] = [
  {
    id: "listPricings",
    group: "Services",
    method: "GET",
    path: "/services/{serviceName}/pricings",
    summary: "List the versions of a pricing",
    description: "Lists the active or archived versions with their content, oldest upload first.",
    query: z.object({
      pricingStatus: z.enum(["active", "archived"]).default("active").describe("Availability of the versions"),
    }),
    answers: { 200: { schema: z.array(pricing), example: [PRICING] } },
    errors: { 404: NO_SERVICE },
  },
  {
    id: "addPricing",
    group: "Services",
    method: "POST",
    path: "/services/{serviceName}/pricings",
    summary: "Add a version",
    description:
      "Adds a version of the pricing, which becomes active. Existing contracts keep their version. A pricing that breaks its expectations is rejected.",
    body: "upload",
    answers: { 201: { schema: serviceUploaded, example: { ...SERVICE, warnings: [] } } },
    errors: { 404: NO_SERVICE, 413: "File too large" },
  },
  {
    id: "showPricing",
    group: "Services",
    method: "GET",
    path: "/services/{serviceName}/pricings/{pricingVersion}",
    summary: "Show a version",
    description: "Returns one version with all plans, features, limits and add-ons.",
    agent: { may: "read", page: "services/{serviceName}/versions/{pricingVersion}" },
    answers: { 200: { schema: pricing, example: PRICING } },
    errors: { 404: "Pricing version 1.0.0 not found for service tasker" },
  },
  {
    id: "showPublicUrl",
    group: "Services",
    method: "GET",
    path: "/services/{serviceName}/pricings/{pricingVersion}/public-url",
    summary: "Show the public URL of a file",
    description: "Returns the URL under which the uploaded file is public, without a key.",
    answers: {
      200: {
        schema: publicUrl,
        example: {
          path: "/static/pricings/Tasker_1.0.0.yaml",
          url: "http://localhost:3000/static/pricings/Tasker_1.0.0.yaml",
        },
      },
    },
    errors: { 404: "Pricing version 1.0.0 not found for service tasker" },
  },
  {
    id: "changeAvailability",
    group: "Services",
    method: "PUT",
    path: "/services/{serviceName}/pricings/{pricingVersion}",
    summary: "Archive or activate a version",
    description:
      "Archives a version and moves its contracts to the newest active one: to the fallback in the body, or to the best fit. Or activates it again. The gate decides.",
    query: z.object({
      availability: z.enum(["active", "archived"]).default("archived").describe("New availability"),
      at: z.iso
        .datetime({ offset: true, local: true })
        .or(z.iso.date())
        .optional()
        .describe("Moment of the change. Default: now. An event server carries it out within 2 s"),
      ...OVERRIDE,
    }),
    body: { schema: fallbackSubscription, example: { subscriptionPlan: "PRO" }, required: false },
    answers: {
      200: { schema: service, example: SERVICE },
      202: {
        description: "Scheduled, or waiting for a second person",
        schema: z.union([scheduledLater.schema, heldChange]),
        example: scheduledLater.example,
      },
    },
    errors: { 404: "Pricing version 1.0.0 not found for service tasker", 409: GATE_CLOSED },
  },
  {
    id: "deletePricing",
    group: "Services",
    method: "DELETE",
    path: "/services/{serviceName}/pricings/{pricingVersion}",
    summary: "Delete an archived version",
    description: "Deletes an archived version permanently. Its name can be uploaded again.",
    answers: { 202: HELD, 204: null },
    errors: {
      404: "Invalid request: No archived version 1.0.0 found for service tasker. Remember that a pricing must be archived before it can be deleted.",
      409: "CONFLICT: Pricing version 1.0.0 of service tasker is still contracted",
    },
  },
];
