import { Hono } from "hono";
import { recover, requestRecovery } from "../../operations/accounts/recovery.ts";
import { newPassword, recoveryRequest } from "../../wire/recovery.ts";
import { type AppEnv, clientOf, context } from "../context.ts";
import { bodyOf } from "../body.ts";
import { languageOf } from "../links.ts";
import { json, reply } from "../reply.ts";

/** Forgotten passwords. Source: contract sign-in §3. */
export const recoveryRoutes = new Hono<AppEnv>()
  .post("/", async (c) => {
    const { username } = bodyOf(c, recoveryRequest);
    await requestRecovery(context(c), { username, language: languageOf(c), client: clientOf(c) });
    return json(c, { message: "A link is on its way if the account has an email address" }, 202);
  })
  .post("/:linkToken", async (c) => {
    const { password } = bodyOf(c, newPassword);
    await recover(context(c), { token: c.req.param("linkToken"), password, client: clientOf(c) });
    return reply(c, null, 204);
  });
