import { z } from "zod";
import {
  afterParameter,
  EXAMPLE,
  expiry,
  id,
  limitParameter,
  moment,
  offsetParameter,
  pagination,
  NO_ORGANIZATION,
} from "./common.ts";
import type { Operation } from "./operation.ts";

/** `required` is the sentence for a missing field, `wrongType` for any other type, including null. */
const text = (required: string, wrongType: string) =>
  z.string({ error: (issue) => (issue.input === undefined ? required : wrongType) });

const name = text("Organization name is required", "Organization name must be a string")
  .min(1, "Organization name cannot be empty")
  .max(512, "Organization name must not be longer than 512 characters");
const owner = text("Owner username is required", "Owner username must be a string").min(
  1,
  "Owner username is required",
);

// A business rule checks the default flag later (400), so its type is not validated here.
export const newOrganization = z
  .object({
    name: name.refine(
      (given) => Array.from(given.slice(0, 6)).length >= 3,
      "Organization name must be at least 3 characters long",
    ),
    owner,
    default: z.unknown().optional().meta({ type: "boolean" }),
  })
  .meta({ id: "OrganizationToCreate" });
export const organizationChange = z
  .object({
    name: name.optional(),
    owner: owner.optional(),
    default: z.unknown().optional().meta({ type: "boolean" }),
  })
  .meta({ id: "OrganizationChange" });

const isEmpty = (value: unknown) => value === null || value === "";

const memberUsername = z.string({
  error: ({ input }) => {
    if (input === undefined) return "Member username is required";
    return isEmpty(input) ? "Member username cannot be empty" : "Member username must be a string";
  },
});
export const memberRole = z.enum(["ADMIN", "MANAGER", "EVALUATOR"], {
  error: ({ input }) => {
    if (input === undefined) return "Member role is required";
    return isEmpty(input) ? "Member role cannot be empty" : "Member role must be one of ADMIN, MANAGER, EVALUATOR";
  },
});
export const newMember = z
  .object({
    username: memberUsername.min(1, "Member username cannot be empty"),
    role: memberRole,
  })
  .meta({ id: "MemberToAdd" });
export const newMemberRole = z.object({ role: memberRole }).meta({ id: "MemberRoleToSet" });

const KEY_SCOPES = ["ALL", "MANAGEMENT", "EVALUATION"] as const;
const KEY_NAME = "The name field must be a text of 1 to 100 characters, or null";
const keyName = z.string(KEY_NAME).trim().min(1, KEY_NAME).max(100, KEY_NAME).nullable().optional();

export const keyRequest = z
  .object({
    scope: z
      .unknown()
      .optional()
      .meta({ type: "string", enum: [...KEY_SCOPES] }),
    expiresAt: expiry.optional(),
    name: keyName,
  })
  .meta({ id: "KeyToCreate" });
const NO_CHANGE = "The name field or the expiresAt field is required";
export const keyChange = z
  .object({ expiresAt: expiry.optional(), name: keyName })
  .refine(({ expiresAt, name }) => expiresAt !== undefined || name !== undefined, NO_CHANGE)
  .meta({ id: "KeyChange" });

export const organizationKey = z
  .strictObject({
    id,
    scope: z.enum(KEY_SCOPES),
    name: z.string().nullable(),
    createdAt: moment,
    expiresAt: moment.nullable(),
    lastUsedAt: moment.nullable(),
  })
  .meta({ id: "OrganizationKey" });
export const denialReport = z
  .strictObject({
    hours: z.number(),
    total: z.number().describe("Denials of a feature, without dry runs"),
    features: z
      .array(
        z.strictObject({
          featureId: z.string(),
          total: z.number(),
          limitReached: z.number().describe("Of these, because a limit was reached"),
        }),
      )
      .describe("The most denied features, at most 200"),
  })
  .meta({ id: "DenialReport" });
export const overview = z
  .strictObject({
    contracts: z.strictObject({
      total: z.number(),
      active: z.number(),
      renewing: z.number().describe("Renew automatically"),
      ending: z.number().describe("End within a week"),
      expired: z.number(),
    }),
    denials: z.strictObject({ hours: z.number(), total: z.number() }),
    near: z.strictObject({
      share: z.number().describe("Share of a limit from which a user counts as near it"),
      total: z.number(),
      users: z
        .array(
          z.strictObject({
            userId: z.string(),
            username: z.string(),
            serviceName: z.string(),
            limitName: z.string(),
            consumed: z.number(),
            limit: z.number(),
            resetTimeStamp: moment.nullable(),
          }),
        )
        .describe("The 20 nearest, each with its most consumed limit"),
    }),
    limitsReached: z.strictObject({ hours: z.number(), total: z.number() }),
    services: z.number(),
    activeVersions: z.number(),
    billing: z.strictObject({
      unapplied: z
        .number()
        .describe("Messages of payment providers, of the last 90 days, that are `unmapped` or that `failed`"),
    }),
  })
  .meta({ id: "Overview" });
const PER_DAY = z.array(z.number());
export const trends = z
  .strictObject({
    days: z.array(z.iso.date()).describe("The last 30 days in UTC, today last"),
    newContracts: PER_DAY.describe("Contracts that were created and still exist, per day"),
    denials: PER_DAY.describe("Denials of a feature, without dry runs, per day"),
  })
  .meta({ id: "Trends" });
export const organizationListed = z
  .strictObject({
    id,
    name: z.string(),
    owner: z.string(),
    default: z.boolean(),
    apiKeys: z.array(z.strictObject({ id, key: z.string(), scope: z.enum(KEY_SCOPES) })),
    members: z.array(z.strictObject({ username: z.string(), role: z.enum(["ADMIN", "MANAGER", "EVALUATOR"]) })),
  })
  .meta({ id: "ListedOrganization" });
export const organization = organizationListed
  .extend({
    ownerDetails: z
      .strictObject({ _id: id, username: z.string(), createdAt: moment, updatedAt: moment, __v: z.literal(0) })
      .nullable(),
  })
  .meta({ id: "Organization" });
export const organizationPage = z
  .strictObject({
    data: z.array(organizationListed),
    pagination: pagination.optional(),
  })
  .meta({ id: "OrganizationPage" });

const LISTED = {
  id: EXAMPLE.organizationId,
  name: "Acme",
  owner: "margaret",
  default: false,
  apiKeys: [{ id: EXAMPLE.apiKeyId, key: EXAMPLE.organizationKey, scope: "ALL" }],
  members: [{ username: "grace", role: "MANAGER" }],
};
const SHOWN = {
  ...LISTED,
  ownerDetails: {
    _id: EXAMPLE.userObjectId,
    username: "margaret",
    createdAt: EXAMPLE.createdAt,
    updatedAt: EXAMPLE.updatedAt,
    __v: 0,
  },
};
const KEY = {
  id: EXAMPLE.apiKeyId,
  scope: "EVALUATION",
  name: "checkout server",
  createdAt: EXAMPLE.createdAt,
  expiresAt: null,
  lastUsedAt: EXAMPLE.updatedAt,
};
const hours = z.int().min(1).max(720).default(24).describe("Hours to look back");

export const keyOrganization = z.strictObject({ id, name: z.string() }).meta({ id: "KeyOrganization" });

/** Organizations, their members and their keys. Source: contract users-organizations §4-§6. */
export const organizationOperations: readonly Operation[] = [
  {
    id: "listOrganizations",
    group: "Organizations",
    method: "GET",
    path: "/organizations",
    summary: "List organizations",
    description: "Lists the organizations of the caller. A platform ADMIN sees all of them, in pages.",
    query: z.object({
      q: z.string().optional().describe("Part of the name"),
      offset: offsetParameter,
      after: afterParameter,
      limit: limitParameter(10, 50),
    }),
    answers: { 200: { schema: organizationPage, example: { data: [LISTED] } } },
  },
  {
    id: "showKeyOrganization",
    group: "Organizations",
    method: "GET",
    path: "/organization",
    summary: "Show the organization of a key",
    description: "Returns the organization that an organization key of any scope belongs to.",
    answers: { 200: { schema: keyOrganization, example: { id: EXAMPLE.organizationId, name: "Acme" } } },
    errors: { 404: NO_ORGANIZATION },
  },
  {
    id: "createOrganization",
    group: "Organizations",
    method: "POST",
    path: "/organizations",
    summary: "Create an organization",
    description:
      "Creates an organization with a key of scope ALL. The owner must be the caller, unless an ADMIN calls.",
    body: { schema: newOrganization, example: { name: "Acme", owner: "margaret" } },
    answers: { 201: { schema: organizationListed, example: LISTED } },
    errors: { 409: "CONFLICT: The proposed owner margaret already has a default organization." },
  },
  {
    id: "showOrganization",
    group: "Organizations",
    method: "GET",
    path: "/organizations/{organizationId}",
    summary: "Show an organization",
    description: "Returns an organization with its members and keys. Roles below ADMIN see masked keys.",
    answers: { 200: { schema: organization, example: SHOWN } },
    errors: { 404: NO_ORGANIZATION },
  },
  {
    id: "updateOrganization",
    group: "Organizations",
    method: "PUT",
    path: "/organizations/{organizationId}",
    summary: "Rename or transfer an organization",
    description: "Changes the name, the owner, or the owner's default organization.",
    body: { schema: organizationChange, example: { name: "Acme Labs" } },
    answers: { 200: { schema: organization, example: SHOWN } },
    errors: { 404: NO_ORGANIZATION, 409: "CONFLICT: The proposed owner margaret already has a default organization." },
  },
  {
    id: "deleteOrganization",
    group: "Organizations",
    method: "DELETE",
    path: "/organizations/{organizationId}",
    summary: "Delete an organization",
    description: "Deletes an organization with its services, contracts, keys and webhooks.",
    answers: { 204: null },
    errors: { 404: NO_ORGANIZATION, 409: "CONFLICT: The default organization for a user cannot be deleted." },
  },
  {
    id: "addMember",
    group: "Organizations",
    method: "POST",
    path: "/organizations/{organizationId}/members",
    summary: "Add a member",
    description: "Adds a user with a role: ADMIN, MANAGER or EVALUATOR.",
    body: { schema: newMember, example: { username: "grace", role: "MANAGER" } },
    answers: { 200: { schema: organization, example: SHOWN } },
    errors: {
      404: NO_ORGANIZATION,
      409: "CONFLICT: User with username grace is already a member of the organization.",
    },
  },
  {
    id: "changeMemberRole",
    group: "Organizations",
    method: "PUT",
    path: "/organizations/{organizationId}/members/{username}",
    summary: "Change a member's role",
    description: "Gives a member another role.",
    body: { schema: newMemberRole, example: { role: "ADMIN" } },
    answers: { 200: { schema: organization, example: SHOWN } },
    errors: { 404: NO_ORGANIZATION, 409: "CONFLICT: User with username grace already has the role ADMIN." },
  },
  {
    id: "removeMember",
    group: "Organizations",
    method: "DELETE",
    path: "/organizations/{organizationId}/members/{username}",
    summary: "Remove a member, or leave",
    description: "Ends a membership. Every member may leave.",
    answers: { 200: { schema: organization, example: SHOWN } },
    errors: { 404: NO_ORGANIZATION },
  },
  {
    id: "createKey",
    group: "Organizations",
    method: "POST",
    path: "/organizations/{organizationId}/api-keys",
    summary: "Create an organization key",
    description: "Creates a key for a server of yours. It is the last element of `apiKeys` in the answer.",
    query: z.object({
      scope: z.enum(KEY_SCOPES).optional().describe("Scope, if the body has none"),
    }),
    body: { schema: keyRequest, example: { scope: "EVALUATION", name: "checkout server" }, required: false },
    answers: { 200: { schema: organization, example: SHOWN } },
    errors: { 404: NO_ORGANIZATION },
  },
  {
    id: "listKeys",
    group: "Organizations",
    method: "GET",
    path: "/organizations/{organizationId}/api-keys",
    summary: "List organization keys",
    description: "Returns when each key expires and when it was last used, without its value.",
    answers: { 200: { schema: z.array(organizationKey), example: [KEY] } },
    errors: { 404: NO_ORGANIZATION },
  },
  {
    id: "changeKey",
    group: "Organizations",
    method: "PUT",
    path: "/organizations/{organizationId}/api-keys/{apiKeyId}",
    summary: "Name a key, or set its end",
    description: "Changes name or end of a key. To rotate a key, create the new one first.",
    body: { schema: keyChange, example: { name: "checkout server" } },
    answers: { 200: { schema: organizationKey, example: KEY } },
    errors: { 404: NO_ORGANIZATION },
  },
  {
    id: "showOverview",
    group: "Organizations",
    method: "GET",
    path: "/organizations/{organizationId}/overview",
    summary: "Show figures of an organization",
    description: "Counts contracts by state, users near a limit, reached limits, denials and active versions.",
    query: z.object({
      near: z.number().gt(0).max(1).default(0.8).describe("Share of a limit from which a user counts as near it"),
      hours,
    }),
    answers: {
      200: {
        schema: overview,
        example: {
          contracts: { total: 12, active: 1, renewing: 10, ending: 1, expired: 0 },
          denials: { hours: 24, total: 3 },
          near: { share: 0.8, total: 0, users: [] },
          limitsReached: { hours: 24, total: 1 },
          services: 1,
          activeVersions: 2,
          billing: { unapplied: 0 },
        },
      },
    },
    errors: { 404: NO_ORGANIZATION },
  },
  {
    id: "showTrends",
    group: "Organizations",
    method: "GET",
    path: "/organizations/{organizationId}/trends",
    summary: "Show trends over 30 days",
    description: "Counts new contracts and denials per day.",
    answers: {
      200: {
        schema: trends,
        example: { days: ["2026-01-30", "2026-01-31"], newContracts: [2, 0], denials: [0, 3] },
      },
    },
    errors: { 404: NO_ORGANIZATION },
  },
  {
    id: "showDenials",
    group: "Organizations",
    method: "GET",
    path: "/organizations/{organizationId}/denials",
    summary: "Count denied features",
    description: "Counts how often features were denied, per feature, in whole hours.",
    query: z.object({ hours }),
    answers: {
      200: {
        schema: denialReport,
        example: { hours: 24, total: 3, features: [{ featureId: "tasker-board", total: 3, limitReached: 3 }] },
      },
    },
    errors: { 404: NO_ORGANIZATION },
  },
  {
    id: "deleteKey",
    group: "Organizations",
    method: "DELETE",
    path: "/organizations/{organizationId}/api-keys/{apiKeyId}",
    summary: "Delete an organization key",
    description: "Deletes a key by its id or its value. It stops working at once.",
    answers: { 200: { schema: organization, example: SHOWN } },
    errors: { 404: NO_ORGANIZATION },
  },
];
