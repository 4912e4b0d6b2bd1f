import { z } from "zod";
import { strictBody } from "./change-bodies.ts";
import { EXAMPLE, moment, NO_SERVICE } from "./common.ts";
import type { Operation } from "./operation.ts";
import { EXPECTATIONS_EXAMPLE, PRICING_EXAMPLE } from "./pricing-example.ts";
import { uploadedExpectations } from "./services.ts";
import { requiredNotNull } from "./subscription.ts";

const TEXT = "The expectations field must be a text or null";
export const newExpectations = strictBody({
  expectations: z
    .string(requiredNotNull("The expectations field is required", TEXT))
    .nullable()
    .describe("YAML of at most 256 kB; null removes them"),
}).meta({ id: "ExpectationsToSet" });

const sha256 = z.string().regex(/^[0-9a-f]{64}$/);
export const versionFile = z
  .strictObject({
    pricingVersion: z.string(),
    state: z.enum(["active", "archived"]),
    saasName: z.string().describe("Service name in the file. It differs from the service's name after a rename"),
    createdAt: moment.describe("`createdAt` of the file"),
    uploadedAt: moment,
    url: z.string().nullable().describe("Address from which the pricing was fetched, or null"),
    sha256: sha256.describe("SHA-256 of the text, in hex"),
    expectations: sha256.nullable().describe("SHA-256 of the expectations, or null without any"),
  })
  .meta({ id: "VersionFile" });

const NO_VERSION = "Pricing version 1.0.0 not found for service tasker";
const EXPECTATIONS_PATH = "/services/{serviceName}/pricings/{pricingVersion}/expectations";

/** Texts of versions; each operation also exists inside an organization. Source: contract files-and-migration §3. */
export const versionFileOperations: readonly Operation[] = [
  {
    id: "listVersions",
    group: "Services",
    method: "GET",
    path: "/services/{serviceName}/versions",
    summary: "List the versions of a service",
    description: "Lists all versions in the order of upload, with the SHA-256 of each text, without content.",
    agent: { may: "read", page: "services/{serviceName}" },
    answers: {
      200: {
        schema: z.array(versionFile),
        example: [
          {
            pricingVersion: "1.0.0",
            state: "active",
            saasName: "Tasker",
            createdAt: "2025-03-01T00:00:00.000Z",
            uploadedAt: EXAMPLE.createdAt,
            url: null,
            sha256: "0123456789abcdef".repeat(4),
            expectations: null,
          },
        ],
      },
    },
    errors: { 404: NO_SERVICE },
  },
  {
    id: "showSource",
    group: "Services",
    method: "GET",
    path: "/services/{serviceName}/pricings/{pricingVersion}/source",
    summary: "Read the text of a version",
    description: "Returns the text of a version exactly as uploaded, or as fetched from its URL.",
    mediaType: "text/yaml",
    conditional: true,
    agent: { may: "read", page: "services/{serviceName}/versions/{pricingVersion}" },
    answers: { 200: { schema: z.string(), example: PRICING_EXAMPLE }, 304: null },
    errors: { 404: NO_VERSION },
  },
  {
    id: "showExpectations",
    group: "Services",
    method: "GET",
    path: EXPECTATIONS_PATH,
    summary: "Read the expectations of a version",
    description: "Returns the expectations of a version exactly as uploaded.",
    mediaType: "text/yaml",
    conditional: true,
    answers: { 200: { schema: z.string(), example: EXPECTATIONS_EXAMPLE }, 304: null },
    errors: { 404: "Pricing version 1.0.0 of service tasker has no expectations" },
  },
  {
    id: "setExpectations",
    group: "Services",
    method: "PUT",
    path: EXPECTATIONS_PATH,
    summary: "Replace the expectations of a version",
    description: "Replaces the expectations, which the version must meet, or removes them.",
    body: { schema: newExpectations, example: { expectations: EXPECTATIONS_EXAMPLE } },
    answers: { 200: { schema: uploadedExpectations, example: { met: 1, coverage: null } } },
    errors: { 404: NO_VERSION, 413: "File too large" },
  },
];
