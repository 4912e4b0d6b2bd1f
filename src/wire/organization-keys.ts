import { z } from "zod";
import { EXAMPLE, expiry, id, moment, NO_ORGANIZATION } from "./common.ts";
import type { Operation } from "./operation.ts";
import { KEY_SCOPES, organization, ORGANIZATION } from "./organizations.ts";

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

export const keyOrganization = z.strictObject({ id, name: z.string() }).meta({ id: "KeyOrganization" });
const KEY = {
  id: EXAMPLE.apiKeyId,
  scope: "EVALUATION",
  name: "checkout server",
  createdAt: EXAMPLE.createdAt,
  expiresAt: null,
  lastUsedAt: EXAMPLE.updatedAt,
};

/** Keys of organizations. Source: contract users-organizations §6. */
export const organizationKeyOperations: readonly Operation[] = [
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
    answers: { 200: { schema: organization, example: ORGANIZATION } },
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
    id: "deleteKey",
    group: "Organizations",
    method: "DELETE",
    path: "/organizations/{organizationId}/api-keys/{apiKeyId}",
    summary: "Delete an organization key",
    description: "Deletes a key by its id or its value. It stops working at once.",
    answers: { 200: { schema: organization, example: ORGANIZATION } },
    errors: { 404: NO_ORGANIZATION },
  },
];
