import { z } from "zod";
import {
  afterParameter,
  EXAMPLE,
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
  .regex(/\S/, "Organization name cannot be empty")
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

export const KEY_SCOPES = ["ALL", "MANAGEMENT", "EVALUATION"] as const;
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
export const ORGANIZATION = {
  ...LISTED,
  ownerDetails: {
    _id: EXAMPLE.userObjectId,
    username: "margaret",
    createdAt: EXAMPLE.createdAt,
    updatedAt: EXAMPLE.updatedAt,
    __v: 0,
  },
};

/** Organizations and their members. Source: contract users-organizations §4, §5. */
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
    answers: { 200: { schema: organization, example: ORGANIZATION } },
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
    answers: { 200: { schema: organization, example: ORGANIZATION } },
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
    answers: { 200: { schema: organization, example: ORGANIZATION } },
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
    answers: { 200: { schema: organization, example: ORGANIZATION } },
    errors: { 404: NO_ORGANIZATION, 409: "CONFLICT: User with username grace already has the role ADMIN." },
  },
  {
    id: "removeMember",
    group: "Organizations",
    method: "DELETE",
    path: "/organizations/{organizationId}/members/{username}",
    summary: "Remove a member, or leave",
    description: "Ends a membership. Every member may leave.",
    answers: { 200: { schema: organization, example: ORGANIZATION } },
    errors: { 404: NO_ORGANIZATION },
  },
];
