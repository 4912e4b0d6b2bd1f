import { Hono } from "hono";
import { z } from "zod";
import {
  authenticate,
  changeRole,
  createUser,
  currentUser,
  deleteUser,
  listUsers,
  regenerateApiKey,
  requireSignUpAllowed,
  showUser,
  updateUser,
} from "../../operations/users.ts";
import { bodyOf, context, json, leadingInteger, type AppEnv, reply } from "../route.ts";

const MAX_PASSWORD_BYTES = 256;
const encoder = new TextEncoder();

/** `required` when the field is absent, `wrongType` when it is anything but a string, null included. */
const text = (required: string, wrongType: string) =>
  z.string({ error: (issue) => (issue.input === undefined ? required : wrongType) });

const username = text("Username is required", "Username must be a string")
  .trim()
  .refine((name) => {
    const characters = name.length > 60 ? name.length : Array.from(name).length;
    return characters >= 3 && characters <= 30;
  }, "Username must be between 3 and 30 characters");

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

// A body that is a list has no fields: it is told about the first one that it lacks.
export const credentials = z.object(
  { username: text("Username is required", "Username must be a string"), password: givenPassword },
  "Username is required",
);
export const newUser = z.object({ username, password, role: role("").optional() }, "Username is required");
export const userChange = z.object({
  username: username.optional(),
  password: password.optional(),
  role: role("").optional(),
});
export const newRole = z.object({ role: role("Role is required") }, "Role is required");

/** A paging parameter; absent and empty mean the default, an unreadable one is refused by the operation. */
function pageNumber(given: string | undefined, byDefault: number): number {
  return given === undefined || given === "" ? byDefault : (leadingInteger(given) ?? Number.NaN);
}

/** Accounts and sign-in. Source: contract users-organizations §3. */
export const userRoutes = new Hono<AppEnv>()
  .post("/authenticate", async (c) => json(c, await authenticate(context(c), bodyOf(c, credentials))))
  .post("/", async (c) => {
    requireSignUpAllowed(context(c));
    return json(c, await createUser(context(c), bodyOf(c, newUser)), 201);
  })
  .get("/", async (c) => {
    const page = await listUsers(context(c), {
      q: c.req.query("q") ?? "",
      limit: pageNumber(c.req.query("limit"), 10),
      offset: pageNumber(c.req.query("offset"), 0),
    });
    logKeysShown(c.var, page.data);
    return json(c, page);
  })
  .get("/me", (c) => json(c, currentUser(context(c))))
  .get("/:username", async (c) => {
    const user = await showUser(context(c), c.req.param("username"));
    logKeysShown(c.var, [user]);
    return json(c, user);
  })
  .put("/:username", async (c) => {
    const change = bodyOf(c, userChange);
    return json(c, await updateUser(context(c), { target: c.req.param("username"), ...change }));
  })
  .put("/:username/api-key", async (c) => json(c, await regenerateApiKey(context(c), c.req.param("username"))))
  .put("/:username/role", async (c) => {
    const { role } = bodyOf(c, newRole);
    return json(c, await changeRole(context(c), { target: c.req.param("username"), role }));
  })
  .delete("/:username", async (c) => {
    await deleteUser(context(c), c.req.param("username"));
    return reply(c, null, 204);
  });

/** Leaves a trace, without the keys, when somebody was shown keys of others. Source: users-organizations §9 D7. */
function logKeysShown(vars: AppEnv["Variables"], shown: readonly { username: string; apiKey?: string }[]): void {
  if (vars.caller.kind !== "user") return;
  const reader = vars.caller.username;
  const others = shown.filter((user) => user.apiKey !== undefined && user.username !== reader);
  if (others.length === 0) return;
  vars.log?.("info", "an ADMIN was shown API keys of other users", {
    reader,
    users: others.map((user) => user.username),
  });
}
