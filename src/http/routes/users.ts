import { Hono } from "hono";
import { z } from "zod";
import { hasAllowedCharacters } from "../../core/access/username.ts";
import { authenticate } from "../../operations/accounts/sign-in.ts";
import { createUser, requireSignUpAllowed } from "../../operations/accounts/sign-up.ts";
import { regenerateApiKey, showUserKey } from "../../operations/accounts/user-keys.ts";
import {
  changeRole,
  currentUser,
  deleteUser,
  listUsers,
  showUser,
  updateUser,
} from "../../operations/accounts/users.ts";
import { addressOf, type AppEnv, context, logRequest, type AppContext } from "../context.ts";
import { bodyOf } from "../body.ts";
import { expiry, leadingInteger, momentOf, queryParameter } from "../params.ts";
import { json, reply } from "../reply.ts";

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
  .refine(hasAllowedCharacters, "The username contains characters that are not allowed");

const fitsHashing = (password: string) =>
  password.length <= MAX_PASSWORD_BYTES && encoder.encode(password).length <= MAX_PASSWORD_BYTES;
const givenPassword = text("Password is required", "Password must be a string").refine(
  fitsHashing,
  `Password must have at most ${MAX_PASSWORD_BYTES} bytes`,
);
const password = text("Password is required", "Password must be a string")
  .refine((secret) => Array.from(secret.slice(0, 10)).length >= 5, "Password must have at least 5 characters")
  .refine((secret) => !/\s/.test(secret), "Password cannot contain whitespace")
  .refine(fitsHashing, `Password must have at most ${MAX_PASSWORD_BYTES} bytes`);

const role = (required: string) =>
  z.enum(["ADMIN", "USER"], {
    error: (issue) => (issue.input === undefined ? required : "Role must be one of: ADMIN, USER"),
  });

export const credentials = z.object({
  username: text("Username is required", "Username must be a string"),
  password: givenPassword,
});
export const newUser = z.object({ username, password, role: role("").optional() });
export const userChange = z.object({
  username: username.optional(),
  password: password.optional(),
  role: role("").optional(),
});
const MAX_OVERLAP_SECONDS = 30 * 86_400;
const OVERLAP = `The overlapSeconds field must be a whole number from 0 to ${MAX_OVERLAP_SECONDS}`;
export const keyRotation = z.object({
  overlapSeconds: z.int(OVERLAP).min(0, OVERLAP).max(MAX_OVERLAP_SECONDS, OVERLAP).optional(),
  expiresAt: expiry.optional(),
});
export const newRole = z.object({ role: role("Role is required") });

/** Where a call that hashes a password comes from, so that it waits fairly and not after its client has left. */
const clientOf = (c: AppContext) => ({ address: addressOf(c), signal: c.req.raw.signal });

/** A paging parameter; absent and empty mean the default, an unreadable one is refused by the operation. */
function pageNumber(given: string | undefined, byDefault: number): number {
  return given === undefined || given === "" ? byDefault : (leadingInteger(given) ?? Number.NaN);
}

/** Accounts and sign-in. Source: contract users-organizations §3. */
export const userRoutes = new Hono<AppEnv>()
  .post("/authenticate", async (c) => {
    return json(c, await authenticate(context(c), bodyOf(c, credentials), clientOf(c)));
  })
  .post("/", async (c) => {
    requireSignUpAllowed(context(c));
    return json(c, await createUser(context(c), bodyOf(c, newUser), clientOf(c)), 201);
  })
  .get("/", async (c) => {
    const page = await listUsers(context(c), {
      q: queryParameter(c, "q") ?? "",
      limit: pageNumber(queryParameter(c, "limit"), 10),
      offset: pageNumber(queryParameter(c, "offset"), 0),
    });
    logKeysShown(c, page.data);
    return json(c, page);
  })
  .get("/me", (c) => json(c, currentUser(context(c))))
  .get("/:username", async (c) => {
    const user = await showUser(context(c), c.req.param("username"));
    logKeysShown(c, [user]);
    return json(c, user);
  })
  .put("/:username", async (c) => {
    const change = bodyOf(c, userChange);
    return json(c, await updateUser(context(c), { target: c.req.param("username"), ...change }, clientOf(c)));
  })
  .get("/:username/api-key", async (c) => json(c, await showUserKey(context(c), c.req.param("username"))))
  .put("/:username/api-key", async (c) => {
    // A body is an addition to the contract: its checks come after the contract's own.
    const rotation = () => {
      const { overlapSeconds, expiresAt = null } = bodyOf(c, keyRotation);
      return { overlapSeconds, expiresAt: momentOf(expiresAt) };
    };
    return json(c, await regenerateApiKey(context(c), c.req.param("username"), rotation));
  })
  .put("/:username/role", async (c) => {
    const { role } = bodyOf(c, newRole);
    return json(c, await changeRole(context(c), { target: c.req.param("username"), role }));
  })
  .delete("/:username", async (c) => {
    await deleteUser(context(c), c.req.param("username"));
    return reply(c, null, 204);
  });

/** Leaves a trace, without the keys, when somebody was shown keys of others. Source: users-organizations §9 D7. */
function logKeysShown(c: AppContext, shown: readonly { username: string; apiKey?: string }[]): void {
  const caller = c.get("caller");
  if (caller.kind !== "user") return;
  const reader = caller.username;
  const others = shown.filter((user) => user.apiKey !== undefined && user.username !== reader);
  if (others.length === 0) return;
  logRequest(c, "info", "an ADMIN was shown API keys of other users", {
    reader,
    users: others.map((user) => user.username),
  });
}
