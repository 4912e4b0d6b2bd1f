import { z } from "zod";
import { hasAllowedCharacters } from "../core/access/username.ts";
import {
  afterParameter,
  emailAddress,
  EXAMPLE,
  expiry,
  id,
  moment,
  offsetParameter,
  pagination,
  limitParameter,
} from "./common.ts";
import type { Operation } from "./operation.ts";

const MAX_PASSWORD_BYTES = 256;
const encoder = new TextEncoder();

/** `required` when the field is absent, `wrongType` when it is anything but a string, null included. */
const text = (required: string, wrongType: string) =>
  z.string({ error: (issue) => (issue.input === undefined ? required : wrongType) });

const username = text("Username is required", "Username must be a string")
  .trim()
  .refine(
    (name) => {
      const characters = name.length > 60 ? name.length : Array.from(name).length;
      return characters >= 3 && characters <= 30;
    },
    // The next check takes two seconds of the event loop for 1.9 MB.
    { error: "Username must be between 3 and 30 characters", abort: true },
  )
  .refine(hasAllowedCharacters, "The username contains characters that are not allowed")
  .describe("3 to 30 characters");

const fitsHashing = (password: string) =>
  password.length <= MAX_PASSWORD_BYTES && encoder.encode(password).length <= MAX_PASSWORD_BYTES;
const givenPassword = text("Password is required", "Password must be a string").refine(
  fitsHashing,
  `Password must have at most ${MAX_PASSWORD_BYTES} bytes`,
);
const password = text("Password is required", "Password must be a string")
  .refine((secret) => Array.from(secret.slice(0, 10)).length >= 5, "Password must have at least 5 characters")
  .refine((secret) => !/\s/.test(secret), "Password cannot contain whitespace")
  .refine(fitsHashing, `Password must have at most ${MAX_PASSWORD_BYTES} bytes`)
  .describe(`At least 5 characters, at most ${MAX_PASSWORD_BYTES} bytes, no whitespace`);

const roleField = (required: string) =>
  z.enum(["ADMIN", "USER"], {
    error: (issue) => (issue.input === undefined ? required : "Role must be one of: ADMIN, USER"),
  });

export const credentials = z
  .object({ username: text("Username is required", "Username must be a string"), password: givenPassword })
  .meta({ id: "Credentials" });
export const newUser = z.object({ username, password, role: roleField("").optional() }).meta({ id: "UserToCreate" });
export const userChange = z
  .object({
    username: username.optional(),
    password: password.optional(),
    role: roleField("").optional(),
    email: emailAddress.optional().describe("Receives links for a new password; null removes it"),
  })
  .meta({ id: "UserChange" });
const MAX_OVERLAP_SECONDS = 30 * 86_400;
const OVERLAP = `The overlapSeconds field must be a whole number from 0 to ${MAX_OVERLAP_SECONDS}`;
export const keyRotation = z
  .object({
    overlapSeconds: z
      .int(OVERLAP)
      .min(0, OVERLAP)
      .max(MAX_OVERLAP_SECONDS, OVERLAP)
      .optional()
      .describe("Seconds for which the old key keeps working. Default: 0"),
    expiresAt: expiry.optional().describe("End of the new key. Default: never"),
    endSessions: z
      .boolean("The endSessions field must be a boolean")
      .optional()
      .describe("Also ends every session of the user. The session of this request goes on under a new cookie"),
  })
  .meta({ id: "KeyRotation" });
export const newRole = z.object({ role: roleField("Role is required") }).meta({ id: "RoleToSet" });

const role = z.enum(["ADMIN", "USER"]).meta({ id: "PlatformRole" });
const userSafe = z
  .strictObject({ _id: id, id, username: z.string(), createdAt: moment, updatedAt: moment })
  .meta({ id: "UserWithoutKey" });
const userWithKey = userSafe.extend({ apiKey: z.string(), role }).meta({ id: "UserWithKey" });
/** The user itself and platform ADMINs see the key; others do not. */
export const user = z.union([userWithKey, userSafe]).meta({ id: "User" });
/** A user as its sessions see it. */
export const account = z
  .strictObject({
    id,
    username: z.string(),
    role,
    email: z.string().optional(),
    via: z.literal("oidc").optional().describe("`oidc` where a provider's sign-in created the account"),
  })
  .meta({ id: "Account" });
export const signedIn = z.strictObject({ username: z.string(), apiKey: z.string(), role }).meta({ id: "SignedIn" });
export const me = z.strictObject({ username: z.string(), role }).meta({ id: "Me" });
export const userUpdated = z
  .strictObject({ username: z.string(), role, createdAt: moment, updatedAt: moment })
  .meta({ id: "UpdatedUser" });
export const userKey = z.strictObject({ apiKey: z.string() }).meta({ id: "UserKey" });
export const userKeyDetails = z
  .strictObject({
    expiresAt: moment.nullable(),
    lastUsedAt: moment.nullable(),
    previousUntil: moment.nullable().describe("Until when the key before it keeps working; null when it does not"),
  })
  .meta({ id: "UserKeyDetails" });
export const userPage = z.strictObject({ data: z.array(user), pagination }).meta({ id: "UserPage" });

const SHOWN_USER = {
  _id: EXAMPLE.userObjectId,
  id: EXAMPLE.userObjectId,
  username: "margaret",
  createdAt: EXAMPLE.createdAt,
  updatedAt: EXAMPLE.updatedAt,
  apiKey: EXAMPLE.userKey,
  role: "USER",
};
const UPDATED_USER = {
  username: "margaret",
  role: "USER",
  createdAt: EXAMPLE.createdAt,
  updatedAt: EXAMPLE.updatedAt,
};

/** Accounts and sign-in. Source: contract users-organizations §3. */
export const userOperations: readonly Operation[] = [
  {
    id: "signIn",
    group: "Users",
    method: "POST",
    path: "/users/authenticate",
    summary: "Sign in",
    description:
      "Returns the user's key, which every other call sends as `x-api-key`. Ten wrong passwords per minute, name and address are answered with 429.",
    body: { schema: credentials, example: { username: "margaret", password: "correct-horse-battery" } },
    answers: { 200: { schema: signedIn, example: { username: "margaret", apiKey: EXAMPLE.userKey, role: "USER" } } },
    errors: { 401: "INVALID DATA: Invalid credentials" },
  },
  {
    id: "createUser",
    group: "Users",
    method: "POST",
    path: "/users",
    summary: "Create a user",
    description:
      "Creates a user with a default organization. Needs no key where the operator allows public sign-up; only a platform ADMIN creates another one.",
    body: { schema: newUser, example: { username: "margaret", password: "correct-horse-battery" } },
    answers: { 201: { schema: user, example: SHOWN_USER } },
    errors: {
      403: "PERMISSION ERROR: Only admins can create users.",
      404: "INVALID DATA: There is already a user with the username that you are trying to set",
      409: "CONFLICT: The username is too similar to an existing one",
    },
  },
  {
    id: "listUsers",
    group: "Users",
    method: "GET",
    path: "/users",
    summary: "Find users",
    description: "Finds users by a part of their name. Only platform ADMINs see keys.",
    query: z.object({
      q: z.string().default("").describe("Part of the name; at least 4 characters unless the caller is an ADMIN"),
      offset: offsetParameter,
      after: afterParameter,
      limit: limitParameter(10, 50),
    }),
    answers: {
      200: {
        schema: userPage,
        example: { data: [SHOWN_USER], pagination: { offset: 0, limit: 10, total: 1, page: 1, pages: 1 } },
      },
    },
  },
  {
    id: "showMe",
    group: "Users",
    method: "GET",
    path: "/users/me",
    summary: "Show the key's owner",
    description: "Returns the name and platform role of the user to whom the key belongs.",
    answers: { 200: { schema: me, example: { username: "margaret", role: "USER" } } },
  },
  {
    id: "showUser",
    group: "Users",
    method: "GET",
    path: "/users/{username}",
    summary: "Show a user",
    description: "Returns a user. The user itself and platform ADMINs see the key.",
    answers: { 200: { schema: user, example: SHOWN_USER } },
    errors: { 404: "INVALID DATA: User not found" },
  },
  {
    id: "updateUser",
    group: "Users",
    method: "PUT",
    path: "/users/{username}",
    summary: "Change name, password, role or address",
    description:
      "Changes the fields that the body names. Users change themselves; platform ADMINs change everybody. Another password or role ends the user's sessions; the session of this request goes on under a new cookie after another password.",
    body: { schema: userChange, example: { password: "another-horse-battery" } },
    answers: { 200: { schema: userUpdated, example: UPDATED_USER } },
    errors: {
      404: "INVALID DATA: User not found",
      409: "CONFLICT: The username is too similar to an existing one",
    },
  },
  {
    id: "rotateUserKey",
    group: "Users",
    method: "PUT",
    path: "/users/{username}/api-key",
    summary: "Replace a user's key",
    description: "Creates a new key. The old one stops working at once, or after `overlapSeconds`.",
    body: { schema: keyRotation, example: { overlapSeconds: 3600 }, required: false },
    answers: { 200: { schema: userKey, example: { apiKey: EXAMPLE.userKey } } },
    errors: { 404: "INVALID DATA: User not found" },
  },
  {
    id: "showUserKey",
    group: "Users",
    method: "GET",
    path: "/users/{username}/api-key",
    summary: "Show when a key ends",
    description: "Returns when the user's key expires and when it was last used, without its value.",
    answers: {
      200: { schema: userKeyDetails, example: { expiresAt: null, lastUsedAt: EXAMPLE.updatedAt, previousUntil: null } },
    },
    errors: { 404: "INVALID DATA: User not found" },
  },
  {
    id: "changeUserRole",
    group: "Users",
    method: "PUT",
    path: "/users/{username}/role",
    summary: "Change the platform role",
    description: "Makes a user a platform ADMIN, or a platform ADMIN a USER. Needs a platform ADMIN's key.",
    body: { schema: newRole, example: { role: "ADMIN" } },
    answers: { 200: { schema: userUpdated, example: { ...UPDATED_USER, role: "ADMIN" } } },
    errors: { 404: "INVALID DATA: User not found" },
  },
  {
    id: "deleteUser",
    group: "Users",
    method: "DELETE",
    path: "/users/{username}",
    summary: "Delete a user",
    description: "Deletes a user. Each organization of the user passes to a member, or is deleted where there is none.",
    answers: { 204: null },
    errors: { 404: "INVALID DATA: User not found" },
  },
];
