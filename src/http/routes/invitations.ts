import { Hono } from "hono";
import {
  acceptInvitation,
  createInvitation,
  listInvitations,
  revokeInvitation,
  showInvitation,
} from "../../operations/accounts/invitations.ts";
import { invitationAcceptance, newInvitation } from "../../wire/invitations.ts";
import { type AppEnv, clientOf, context } from "../context.ts";
import { bodyOf } from "../body.ts";
import { consoleUrl, languageOf } from "../links.ts";
import { organizationOf } from "../params.ts";
import { json, reply } from "../reply.ts";

/** Invitations of one organization. Source: contract sign-in §3. */
export const organizationInvitationRoutes = new Hono<AppEnv>()
  .post("/", async (c) => {
    const input = { organizationId: organizationOf(c), language: languageOf(c), ...bodyOf(c, newInvitation) };
    const { invitation, token } = await createInvitation(context(c), input);
    return json(c, { ...invitation, url: consoleUrl(c, `invitations/${token}`) }, 201);
  })
  .get("/", async (c) => json(c, await listInvitations(context(c), organizationOf(c))))
  .delete("/:invitationId", async (c) => {
    const id = c.req.param("invitationId");
    await revokeInvitation(context(c), { organizationId: organizationOf(c), id });
    return reply(c, null, 204);
  });

/** Links of invitations, which anybody may open. */
export const invitationRoutes = new Hono<AppEnv>()
  .get("/:linkToken", async (c) =>
    json(c, await showInvitation(context(c), { token: c.req.param("linkToken"), client: clientOf(c) })),
  )
  .post("/:linkToken/accept", async (c) => {
    const link = { token: c.req.param("linkToken"), client: clientOf(c) };
    const newUser = () => bodyOf(c, invitationAcceptance);
    return json(c, await acceptInvitation(context(c), { ...link, newUser }));
  });
