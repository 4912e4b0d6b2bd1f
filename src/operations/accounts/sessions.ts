import { and, desc, eq, gt } from "drizzle-orm";
import { sessions } from "../../db/schema.ts";
import { type Context, transaction } from "../context.ts";
import { Failure } from "../errors.ts";
import { sessionBounds } from "../session-bounds.ts";
import { beginSession, endSession, endSessionsOf, type Visitor } from "./session-rows.ts";
import { verifyCredentials } from "./sign-in.ts";
import { type AccountView, requireUser, viewAccount } from "./user-rows.ts";

/** A session in its wire format. */
export interface SessionView {
  id: string;
  /** True for the session of the request. */
  current: boolean;
  createdAt: Date;
  lastUsedAt: Date;
  address: string;
  agent: string;
  via: "password" | "oidc";
}

/**
 * Signs in with a password, and begins a session. The token is new, whatever the request brought along.
 * @throws Failure unauthenticated, tooManyRequests; see authenticate.
 */
export async function signIn(
  ctx: Context,
  input: { username: string; password: string },
  visitor: Visitor,
): Promise<{ token: string; user: AccountView }> {
  const user = await verifyCredentials(ctx, input, visitor);
  const token = await beginSession(ctx, user, { visitor, via: "password" });
  return { token, user: viewAccount(user) };
}

/** Lists the caller's sessions that still admit, the newest first. */
export async function listSessions(ctx: Context): Promise<SessionView[]> {
  const caller = requireUser(ctx);
  const { createdAfter, usedAfter } = sessionBounds(ctx.resources);
  const rows = await ctx.db
    .select()
    .from(sessions)
    .where(
      and(eq(sessions.userId, caller.id), gt(sessions.createdAt, createdAfter), gt(sessions.lastUsedAt, usedAfter)),
    )
    .orderBy(desc(sessions.createdAt), desc(sessions.id));
  return rows.map(({ id, createdAt, lastUsedAt, address, agent, via }) => {
    return { id, current: id === caller.sessionId, createdAt, lastUsedAt, address, agent, via };
  });
}

/** Ends the session of the request. A request with a key has none, and ends nothing. */
export async function endCurrentSession(ctx: Context): Promise<void> {
  const { id, sessionId } = requireUser(ctx);
  if (sessionId !== undefined) await endSession(ctx, sessionId, id);
}

/**
 * Ends one session of the caller.
 * @throws Failure notFound for an unknown one, and for one of somebody else.
 */
export async function endOwnSession(ctx: Context, id: string): Promise<void> {
  if (!(await endSession(ctx, id, requireUser(ctx).id))) throw new Failure("notFound", `Session ${id} not found`);
}

/** Ends all sessions of the caller but the one of the request. */
export async function endOtherSessions(ctx: Context): Promise<void> {
  const { id, sessionId } = requireUser(ctx);
  await transaction(ctx, (ctx) => endSessionsOf(ctx, id, sessionId));
}
