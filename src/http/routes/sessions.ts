import { Hono } from "hono";
import {
  endCurrentSession,
  endOtherSessions,
  endOwnSession,
  listSessions,
  signIn,
} from "../../operations/accounts/sessions.ts";
import { credentials } from "../../wire/users.ts";
import { bodyOf } from "../body.ts";
import { type AppEnv, context } from "../context.ts";
import { json, reply } from "../reply.ts";
import { endedSessionCookie, refuseAnotherPage, setSessionCookie, visitorOf } from "../session-cookie.ts";

/** Sessions of people. Source: contract sign-in §1. */
export const sessionRoutes = new Hono<AppEnv>()
  .post("/", async (c) => {
    // Another page must not sign a visitor in to somebody else's account.
    refuseAnotherPage(c, false);
    const { token, user } = await signIn(context(c), bodyOf(c, credentials), visitorOf(c));
    setSessionCookie(c, token);
    return json(c, { user }, 201);
  })
  .get("/", async (c) => json(c, await listSessions(context(c))))
  .delete("/", async (c) => {
    await endOtherSessions(context(c));
    return reply(c, null, 204);
  })
  .delete("/current", async (c) => {
    await endCurrentSession(context(c));
    return reply(c, null, 204, { "Set-Cookie": endedSessionCookie(c) });
  })
  .delete("/:sessionId", async (c) => {
    await endOwnSession(context(c), c.req.param("sessionId"));
    return reply(c, null, 204);
  });
