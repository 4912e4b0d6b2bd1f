import { z } from "zod";
import { instantIn } from "../core/instant.ts";
import { requiredNotNull } from "./subscription.ts";

/** Shapes that several resources share. Answers are strict: a field that is not here must not be on the wire. */

export const id = z
  .string()
  .regex(/^[0-9a-f]{24}$/)
  .describe("24 lower-case hex digits");
export const moment = z.iso.datetime({ precision: 3 }).describe("ISO 8601, UTC, milliseconds");
export const amounts = z.record(z.string(), z.number());
export const message = z.strictObject({ message: z.string() }).meta({ id: "Message" });
export const pagination = z
  .strictObject({
    offset: z.number(),
    limit: z.number(),
    total: z.number(),
    page: z.number(),
    pages: z.number(),
  })
  .meta({ id: "Pagination" });

/** Example values that belong together: one organization, its service Tasker, and its end user ada. */
export const EXAMPLE = {
  organizationId: "65f0c0ffee00000000000001",
  userObjectId: "65f0c0ffee00000000000002",
  apiKeyId: "65f0c0ffee00000000000003",
  serviceId: "65f0c0ffee00000000000004",
  pricingId: "65f0c0ffee00000000000005",
  contractId: "65f0c0ffee00000000000006",
  webhookId: "65f0c0ffee00000000000007",
  scheduledId: "65f0c0ffee00000000000008",
  holdId: "65f0c0ffee00000000000009",
  leaseId: "65f0c0ffee00000000000010",
  connectionId: "65f0c0ffee00000000000011",
  blockId: "65f0c0ffee00000000000012",
  invitationId: "65f0c0ffee00000000000013",
  changeRequestId: "65f0c0ffee00000000000014",
  linkToken: "0123456789abcdef".repeat(4),
  sessionId: "65f0c0ffee00000000000014",
  createdAt: "2025-06-15T10:00:00.000Z",
  updatedAt: "2025-06-15T10:00:00.000Z",
  userKey: `usr_${"0123456789abcdef".repeat(4)}`,
  organizationKey: `org_${"0123456789abcdef".repeat(4)}`,
} as const;

/** Examples of sentences with status 404. */
export const NO_ORGANIZATION = `Organization with ID ${EXAMPLE.organizationId} not found`;
export const NO_SERVICE = "NOT FOUND: Service with name tasker";
export const NO_CONTRACT = "Contract with userId ada not found";
export const SEVERAL_CONTRACTS =
  "CONFLICT: Several contracts found for userId ada. Please specify the organizationId query parameter";
/** Errors of finding one contract. Only a platform ADMIN can match several. */
export const NO_SINGLE_CONTRACT = { 404: NO_CONTRACT, 409: SEVERAL_CONTRACTS };

/** Every parameter that occurs in a path, by name. */
export const PATH_PARAMETERS: Readonly<Record<string, { description: string; example: string }>> = {
  organizationId: { description: "Id of the organization", example: EXAMPLE.organizationId },
  username: { description: "Name of the user", example: "margaret" },
  apiKeyId: { description: "Id of the organization key, or the key itself", example: EXAMPLE.apiKeyId },
  serviceName: { description: "Name of the service, in any case", example: "tasker" },
  pricingVersion: { description: "Version of the pricing", example: "1.0.0" },
  userId: { description: "Your own id of the end user", example: "ada" },
  featureId: { description: "`<service>-<feature>`, the service in lower case", example: "tasker-board" },
  webhookId: { description: "Id of the webhook", example: EXAMPLE.webhookId },
  deliveryId: { description: "Id of the delivery", example: "42" },
  key: { description: "`<service>-<feature>`, the service in lower case", example: "tasker-board" },
  kind: { description: "`features` or `usageLimits`", example: "usageLimits" },
  name: { description: "Name of the feature or usage limit", example: "maxTasks" },
  scheduledId: { description: "Id of the scheduled change", example: EXAMPLE.scheduledId },
  holdId: { description: "Id of the hold", example: EXAMPLE.holdId },
  leaseId: { description: "Id of the lease", example: EXAMPLE.leaseId },
  budgetName: { description: "Name of the budget, of 1 to 100 characters", example: "daily" },
  provider: { description: "`stripe` or `standard`", example: "stripe" },
  connectionId: { description: "Id of the connection to a payment provider", example: EXAMPLE.connectionId },
  messageId: { description: "The provider's id of the message", example: "evt_1" },
  memberId: { description: "Your own id of the person who uses the contract", example: "grace" },
  blockId: { description: "Id of the block", example: EXAMPLE.blockId },
  changeRequestId: { description: "Id of the change request", example: EXAMPLE.changeRequestId },
  invitationId: { description: "Id of the invitation", example: EXAMPLE.invitationId },
  linkToken: { description: "The last part of the link", example: EXAMPLE.linkToken },
  sessionId: { description: "Id of the session", example: EXAMPLE.sessionId },
};

export const pageParameter = z.int().min(1).default(1).describe("Page number, from 1");
export const offsetParameter = z.int().min(0).default(0).describe("Rows to skip; replaces page when greater than 0");
/** Lists by id, from the entry behind `after`; the header Next-After names the next one. */
export const afterParameter = z
  .string()
  .regex(/^([0-9a-f]{24}(\.[\w-]+)*)?$/)
  .optional()
  .describe(
    "Lists in the stable order of ids instead, from the entry behind this one; empty for the first page. The header Next-After has the value for the next page, and is absent on the last. Entries that are created or deleted meanwhile shift no page. Not with `page`, `offset`, `sort` or `order`",
  );
/** Rows per page, up to the listing's own maximum. */
export const limitParameter = (byDefault: number, max?: number) =>
  (max === undefined ? z.int().min(1) : z.int().min(1).max(max)).default(byDefault).describe("Rows per page");

const REASON = "The reason field must be a text of 1 to 500 characters";
/** Field reason of a body; `missing` is the sentence where it is required. */
export const reasonText = (missing = REASON) =>
  z
    .string(requiredNotNull(missing, REASON))
    .max(500, REASON)
    .refine((text) => text.trim() !== "", REASON);

/** Reads the text of an ISO 8601 date. `sentence` is the error of anything else. */
export const instant = (sentence: string) =>
  z
    .string(sentence)
    .transform(instantIn)
    .refine((instant) => instant !== undefined, sentence);

/** Optional date of a body; null counts as absent. */
export const optionalInstant = (field: string) =>
  instant(`The ${field} field must be an ISO 8601 date or null`)
    .nullish()
    .transform((instant) => instant ?? undefined);

/** Field expiresAt of a body: ISO 8601, or null for never. */
export const expiry = instant("The expiresAt field must be an ISO 8601 date or null")
  .nullable()
  .transform((instant) => instant ?? null);

const EMAIL = "The email field must be an address such as ada@example.com, or null";
/** Field email of a body: 254 characters are the longest address that mail servers accept. */
export const emailAddress = z.email(EMAIL).max(254, EMAIL).nullable();

/** Actor of an entry or decision. */
export const actor = z
  .strictObject({
    kind: z
      .enum(["user", "key", "anonymous", "billing"])
      .describe("`billing`: a connection to a payment provider, whose name is the provider"),
    id: id.nullable(),
    name: z
      .string()
      .nullable()
      .describe("Current name of the user or key; null for an unnamed key and for deleted actors"),
  })
  .meta({ id: "Actor" });
