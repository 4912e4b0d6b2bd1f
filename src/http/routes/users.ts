import { Hono } from "hono";
import { renewSessionToken } from "../../operations/accounts/session-rows.ts";
import { authenticate } from "../../operations/accounts/sign-in.ts";
import { createRecovery } from "../../operations/accounts/recovery.ts";
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
import { type AppEnv, clientOf, context, logRequest, type AppContext } from "../context.ts";
import { bodyOf } from "../body.ts";
import { credentials, keyRotation, newRole, newUser, userChange } from "../../wire/users.ts";
import { consoleUrl } from "../links.ts";
import { afterOf, leadingInteger, queryParameter, setNextAfter } from "../params.ts";
import { json, reply } from "../reply.ts";
import { setSessionCookie } from "../session-cookie.ts";

/** Reads a paging parameter. A missing or empty one yields the default; the operation rejects an unreadable one. */
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
    const listed = await listUsers(context(c), {
      q: queryParameter(c, "q") ?? "",
      limit: pageNumber(queryParameter(c, "limit"), 10),
      offset: pageNumber(queryParameter(c, "offset"), 0),
      after: afterOf(c),
    });
    const { next, ...page } = listed;
    logKeysShown(c, page.data);
    setNextAfter(c, next);
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
    const updated = await updateUser(context(c), { target: c.req.param("username"), ...change }, clientOf(c));
    if (change.password !== undefined) await renewCookie(c, c.req.param("username"));
    return json(c, updated);
  })
  .get("/:username/api-key", async (c) => json(c, await showUserKey(context(c), c.req.param("username"))))
  .put("/:username/api-key", async (c) => {
    // The body extends the contract, so its checks follow the contract's.
    const rotation = () => {
      const { expiresAt = null, ...rest } = bodyOf(c, keyRotation);
      return { ...rest, expiresAt };
    };
    const renewed = await regenerateApiKey(context(c), c.req.param("username"), rotation);
    if (rotation().endSessions === true) await renewCookie(c, c.req.param("username"));
    return json(c, renewed);
  })
  .post("/:username/recovery", async (c) => {
    const { token, expiresAt } = await createRecovery(context(c), c.req.param("username"));
    return json(c, { url: consoleUrl(c, `recovery/${token}`), expiresAt }, 201);
  })
  .put("/:username/role", async (c) => {
    const { role } = bodyOf(c, newRole);
    return json(c, await changeRole(context(c), { target: c.req.param("username"), role }));
  })
  .delete("/:username", async (c) => {
    await deleteUser(context(c), c.req.param("username"));
    return reply(c, null, 204);
  });

/** Replaces the cookie of a user who ended its own sessions: a copy of the old one admits nobody. */
async function renewCookie(c: AppContext, username: string): Promise<void> {
  const caller = c.get("caller");
  if (caller.kind !== "user" || caller.username !== username) return;
  const token = await renewSessionToken(context(c));
  if (token !== undefined) setSessionCookie(c, token);
}

/** Logs that an ADMIN was shown keys of other users, without the keys. Source: users-organizations §9 D7. */
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
