import { z } from "zod";
import { GATE_CLOSED, OVERRIDE } from "./change-bodies.ts";
import {
  afterParameter,
  EXAMPLE,
  id,
  limitParameter,
  message,
  offsetParameter,
  pageParameter,
  NO_ORGANIZATION,
  NO_SERVICE,
} from "./common.ts";
import type { Operation } from "./operation.ts";
import { HELD, TOO_MANY_PENDING } from "./approvals.ts";

export const serviceChanges = z
  .object({
    name: z
      .string({ error: "The name field must be a string" })
      .min(1, "The name must be between 1 and 255 characters long")
      .max(255, "The name must be between 1 and 255 characters long")
      .optional(),
    organizationId: z
      .string({ error: "The organizationId field must be a string" })
      .length(24, "The organizationId must be 24 characters long")
      .optional(),
  })
  .meta({ id: "ServiceChange" });

const locators = z.record(z.string(), z.union([z.strictObject({ id }), z.strictObject({ url: z.string() })]));
export const service = z
  .strictObject({
    name: z.string(),
    organizationId: id,
    disabled: z.boolean().describe("True only in the list of disabled services"),
    activePricings: locators,
    archivedPricings: locators.optional(),
    id,
  })
  .meta({ id: "Service" });

/** Number of expectations that a pricing meets, and how much of it they cover. */
export const uploadedExpectations = z
  .strictObject({
    met: z.number(),
    coverage: z
      .strictObject({
        points: z.number(),
        covered: z.number(),
        percent: z.number(),
        missing: z.array(z.string()).describe("The first points without an expectation"),
      })
      .nullable()
      .describe("Points are plans × features × edges of limits; null for too many"),
  })
  .meta({ id: "MetExpectations" });

const review = {
  warnings: z
    .array(
      z.strictObject({
        code: z.string(),
        severity: z.enum(["error", "warning", "info"]),
        path: z.string(),
        line: z.number(),
        column: z.number(),
        message: z.string(),
      }),
    )
    .describe("Valid but useless parts of the pricing"),
  warningsComplete: z.literal(false).optional().describe("False: time ran out, so warnings may be missing"),
  expectations: uploadedExpectations.optional(),
};
/** A service after an upload, with warnings about its pricing. */
export const serviceUploaded = service.extend(review).meta({ id: "UploadedService" });
/** A draft that an upload would accept. */
const draftChecked = z
  .strictObject({ saasName: z.string(), version: z.string(), ...review })
  .meta({ id: "CheckedDraft" });

export const SERVICE = {
  name: "Tasker",
  organizationId: EXAMPLE.organizationId,
  disabled: false,
  activePricings: { "1.0.0": { id: EXAMPLE.pricingId } },
  id: EXAMPLE.serviceId,
};

/** Services; each operation also exists inside an organization. Source: contract services-pricings. */
export const serviceOperations: readonly Operation[] = [
  {
    id: "listServices",
    group: "Services",
    method: "GET",
    path: "/services",
    summary: "List services",
    description: "Lists enabled services with the versions of their pricings, or the disabled ones.",
    query: z.object({
      disabled: z.boolean().default(false).describe("Lists the services that were disabled instead"),
      name: z.string().optional().describe("Part of the name"),
      page: pageParameter,
      offset: offsetParameter,
      after: afterParameter,
      limit: limitParameter(20),
      order: z.enum(["asc", "desc"]).default("asc").describe("Direction, by name"),
    }),
    agent: { may: "read", page: "services" },
    answers: { 200: { schema: z.array(service), example: [SERVICE] } },
  },
  {
    id: "createService",
    group: "Services",
    method: "POST",
    path: "/services",
    summary: "Create a service",
    description:
      "Creates a service from its first pricing. A pricing that breaks its expectations is rejected. The answer has warnings about valid but useless parts.",
    body: "upload",
    answers: { 201: { schema: serviceUploaded, example: { ...SERVICE, warnings: [] } } },
    errors: { 404: NO_ORGANIZATION, 413: "File too large" },
  },
  {
    id: "lintDraft",
    group: "Services",
    method: "POST",
    path: "/services/lint",
    summary: "Check a draft",
    description:
      "Checks a pricing as an upload does, with its expectations, and returns warnings about valid but useless parts. Stores nothing, and the service need not exist.",
    body: "upload",
    agent: { may: "propose", page: "upload" },
    answers: { 200: { schema: draftChecked, example: { saasName: "Tasker", version: "1.1.0", warnings: [] } } },
    errors: { 404: NO_ORGANIZATION, 413: "File too large" },
  },
  {
    id: "deleteServices",
    group: "Services",
    method: "DELETE",
    path: "/services",
    summary: "Delete every service",
    description: "Deletes all services permanently, and removes them from all contracts.",
    answers: { 200: { schema: message, example: { message: "Pruned 1 services" } }, 202: HELD },
    errors: { 409: TOO_MANY_PENDING },
  },
  {
    id: "showService",
    group: "Services",
    method: "GET",
    path: "/services/{serviceName}",
    summary: "Show a service",
    description: "Returns a service with the versions of its pricings.",
    answers: { 200: { schema: service, example: SERVICE } },
    errors: { 404: NO_SERVICE },
  },
  {
    id: "updateService",
    group: "Services",
    method: "PUT",
    path: "/services/{serviceName}",
    summary: "Rename or move a service",
    description:
      "Renames a service, or moves it with its contracts to another organization. Moving needs scope ALL, or OWNER or ADMIN in the source. The gate decides as on disabling.",
    query: z.object(OVERRIDE),
    body: { schema: serviceChanges, example: { name: "Tasker" } },
    answers: { 200: { schema: service, example: SERVICE }, 202: HELD },
    errors: { 404: NO_SERVICE, 409: GATE_CLOSED },
  },
  {
    id: "disableService",
    group: "Services",
    method: "DELETE",
    path: "/services/{serviceName}",
    summary: "Disable a service",
    description: "Disables a service and removes it from all contracts. The gate decides.",
    query: z.object(OVERRIDE),
    answers: { 202: HELD, 204: null },
    errors: { 404: NO_SERVICE, 409: GATE_CLOSED },
  },
];
