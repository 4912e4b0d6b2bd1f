import { and, eq, ne, sql } from "drizzle-orm";
import { sessions, users } from "../../db/schema.ts";
import { audit } from "../audit.ts";
import { type Context, newId, transaction } from "../context.ts";
import { Failure } from "../errors.ts";
import { hashSessionToken, issueSessionToken } from "../session-token.ts";
import type { Client } from "./password-hashing.ts";
import { requireUser, type UserRow } from "./user-rows.ts";

/** Sessions that a user keeps: a sign-in ends the oldest ones beyond. Source: contract sign-in §5. */
const MAX_SESSIONS = 50;
const MAX_AGENT = 255;

/** Where a session begins. */
export interface Visitor extends Client {
  /** User-Agent of the request; empty if unknown. */
  agent: string;
  /** Token of the session that the new one replaces in this browser. */
  token?: string | undefined;
}

/** Identity at a provider behind a session, for its back-channel logout. */
export interface ProviderIdentity {
  issuer: string;
  subject: string;
  /** The provider's `sid`. */
  session: string | undefined;
}

/**
 * Begins a session of a user whose proof was just checked. Returns the token for the cookie.
 * @throws Failure unauthenticated if the password, the role or the account changed since.
 */
export function beginSession(
  ctx: Context,
  user: UserRow,
  { visitor, via, identity }: { visitor: Visitor; via: "password" | "oidc"; identity?: ProviderIdentity | undefined },
): Promise<string> {
  const token = issueSessionToken();
  return transaction(ctx, async (ctx) => {
    // Waits for a change of the password, which ends sessions and must not miss this one.
    const [current] = await ctx.db
      .select({ passwordHash: users.passwordHash, role: users.role })
      .from(users)
      .where(eq(users.id, user.id))
      .for("update");
    if (current?.passwordHash !== user.passwordHash || current.role !== user.role) {
      throw new Failure("unauthenticated", "INVALID DATA: Invalid credentials");
    }
    const replaced = visitor.token === undefined ? undefined : await hashSessionToken(visitor.token);
    if (replaced !== undefined) await ctx.db.delete(sessions).where(eq(sessions.tokenHash, replaced));
    const now = ctx.resources.now();
    await ctx.db.insert(sessions).values({
      id: newId(now),
      userId: user.id,
      tokenHash: (await hashSessionToken(token)) ?? "",
      via,
      createdAt: now,
      lastUsedAt: now,
      address: visitor.address,
      agent: Array.from(visitor.agent).slice(0, MAX_AGENT).join(""),
      issuer: identity?.issuer ?? null,
      subject: identity?.subject ?? null,
      providerSession: identity?.session ?? null,
    });
    await ctx.db.execute(sql`
      delete from sessions where id in (
        select id from sessions where user_id = ${user.id} order by created_at desc, id desc offset ${MAX_SESSIONS})`);
    return token;
  });
}

/**
 * Replaces the token of the request's session, after a change that ended all others. Returns the new one; undefined for a
 * request with a key.
 */
export async function renewSessionToken(ctx: Context): Promise<string | undefined> {
  const { sessionId } = requireUser(ctx);
  if (sessionId === undefined) return undefined;
  const token = issueSessionToken();
  const tokenHash = (await hashSessionToken(token)) ?? "";
  const renewed = await ctx.db
    .update(sessions)
    .set({ tokenHash })
    .where(eq(sessions.id, sessionId))
    .returning({ id: sessions.id });
  return renewed.length === 0 ? undefined : token;
}

/** Session of the request, which continues under a new token; undefined for a request with a key. */
export const sessionOfCaller = ({ caller }: Context): string | undefined =>
  caller.kind === "user" ? caller.sessionId : undefined;

/** Ends one session of a user. Returns false if the user has no such session. */
export function endSession(ctx: Context, id: string, userId: string): Promise<boolean> {
  return transaction(ctx, async (ctx) => {
    const ended = await ctx.db
      .delete(sessions)
      .where(and(eq(sessions.id, id), eq(sessions.userId, userId)))
      .returning({ id: sessions.id });
    if (ended.length > 0) await auditEnd(ctx, userId, ended.length);
    return ended.length > 0;
  });
}

/** Ends every session of a user, except one if named. Call it in the transaction of the change that ends them. */
export async function endSessionsOf(ctx: Context, userId: string, except = ""): Promise<void> {
  const ended = await ctx.db
    .delete(sessions)
    .where(and(eq(sessions.userId, userId), ne(sessions.id, except)))
    .returning({ id: sessions.id });
  if (ended.length > 0) await auditEnd(ctx, userId, ended.length);
}

async function auditEnd(ctx: Context, userId: string, count: number): Promise<void> {
  const [user] = await ctx.db.select({ username: users.username }).from(users).where(eq(users.id, userId));
  if (user === undefined) return;
  await audit(ctx, {
    action: "session.end",
    organizationId: null,
    target: user.username,
    before: { sessions: count },
  });
}
