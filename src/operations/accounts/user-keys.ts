import { eq, sql } from "drizzle-orm";
import { users } from "../../db/schema.ts";
import { audit } from "../audit.ts";
import { type Context, transaction } from "../context.ts";
import { issueApiKey } from "../credentials.ts";
import { Failure } from "../errors.ts";
import { endSessionsOf, sessionOfCaller } from "./session-rows.ts";
import { findUser, requireUser } from "./user-rows.ts";

/** Options for replacing a key. */
export interface KeyRotation {
  /** Seconds that the previous key stays valid. Default: 0. */
  overlapSeconds?: number | undefined;
  /** When the new key expires; null for never. */
  expiresAt?: Date | null | undefined;
  /** Also ends every session of the user. */
  endSessions?: boolean | undefined;
}

/** A user's key without its value. */
export interface UserKeyView {
  expiresAt: Date | null;
  /** Last recorded use; recording lags by about a minute. */
  lastUsedAt: Date | null;
  /** When the previous key stops working; null if it already has. */
  previousUntil: Date | null;
}

function requireKeyOf(ctx: Context, username: string): void {
  const caller = requireUser(ctx);
  if (caller.role === "ADMIN" || username === caller.username) return;
  throw new Failure("forbidden", "PERMISSION ERROR: Only admins can regenerate API keys for other users.");
}

/**
 * Replaces the user's key. The old one stops working immediately, or after the requested overlap. `rotation` is called
 * only once the caller is authorized, because it may throw. Source: users-organizations §3.9.
 * @throws Failure forbidden for a USER replacing someone else's key; notFound; invalid for a past expiry.
 */
export async function regenerateApiKey(
  ctx: Context,
  username: string,
  rotation: () => KeyRotation,
): Promise<{ apiKey: string }> {
  requireKeyOf(ctx, username);
  const target = await findUser(ctx, username);
  const wanted = rotation();
  if (wanted.expiresAt != null && wanted.expiresAt.getTime() <= ctx.resources.now().getTime()) {
    throw new Failure("invalid", "INVALID DATA: expiresAt must be in the future");
  }
  return { apiKey: await renewApiKey(ctx, target.id, wanted) };
}

/**
 * Returns the expiry and last use of the user's key, and the end of the previous one.
 * @throws Failure forbidden, notFound.
 */
export async function showUserKey(ctx: Context, username: string): Promise<UserKeyView> {
  requireKeyOf(ctx, username);
  const row = await findUser(ctx, username);
  const until = row.previousApiKeyUntil;
  return {
    expiresAt: row.apiKeyExpiresAt,
    lastUsedAt: row.apiKeyLastUsedAt,
    previousUntil: until !== null && until.getTime() > ctx.resources.now().getTime() ? until : null,
  };
}

/** Replaces the key without a check of the caller. */
export async function renewApiKey(ctx: Context, userId: string, rotation: KeyRotation = {}): Promise<string> {
  const { apiKey, hash, sealed } = await issueApiKey(ctx.resources.keyring, "usr");
  const now = ctx.resources.now();
  const overlap = rotation.overlapSeconds ?? 0;
  const previousUntil = overlap === 0 ? null : new Date(now.getTime() + overlap * 1000);
  const expiresAt = rotation.expiresAt ?? null;
  return transaction(ctx, async (ctx) => {
    const [renewed] = await ctx.db
      .update(users)
      .set({
        apiKeyHash: hash,
        apiKeySealed: sealed,
        apiKeyExpiresAt: expiresAt,
        apiKeyLastUsedAt: null,
        previousApiKeyHash: previousUntil === null ? null : sql`${users.apiKeyHash}`,
        // An expired key must not become valid again.
        previousApiKeyUntil:
          previousUntil === null
            ? null
            : sql`least(${users.apiKeyExpiresAt}, ${previousUntil.toISOString()}::timestamptz)`,
        updatedAt: now,
      })
      .where(eq(users.id, userId))
      .returning({ username: users.username });
    if (renewed === undefined) throw new Failure("notFound", "INVALID DATA: User not found");
    if (rotation.endSessions === true) await endSessionsOf(ctx, userId, sessionOfCaller(ctx));
    await audit(ctx, {
      action: "user.key",
      organizationId: null,
      target: renewed.username,
      after: { expiresAt, previousUntil },
    });
    return apiKey;
  });
}
