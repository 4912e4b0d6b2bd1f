import { and, eq, sql, type SQL, type SQLWrapper } from "drizzle-orm";
import { type MaybePromise, chain } from "../core/maybe-promise.ts";
import type { Caller, Move, OrganizationRole } from "../core/access/caller.ts";
import { members, organizations } from "../db/schema.ts";
import type { Context, Resources } from "./context.ts";
import { cacheHash, hashApiKey, type Keyring, MAX_KEY_LENGTH } from "./credentials.ts";
import { Failure } from "./errors.ts";
import { sessionBounds } from "./session-bounds.ts";
import { hashSessionToken } from "./session-token.ts";
import type { Tenant } from "./state/analysis.ts";

/**
 * Resolves an `x-api-key` header to a caller. A missing or empty value is an anonymous caller.
 * @throws Failure unauthenticated for a wrong prefix or an unknown key. Source: contract users-organizations §2.
 */
export function identifyCaller(resources: Resources, apiKey: string | undefined): MaybePromise<Caller> {
  if (apiKey === undefined || apiKey === "") return { kind: "anonymous" };
  if (apiKey.startsWith("usr_")) {
    return chain(findKey(resources, apiKey, resources.snapshots.userByKey), (user): Caller => {
      if (user === null) throw new Failure("unauthenticated", "INVALID DATA: Invalid API Key");
      const { id, username, role } = user;
      resources.keyUses.note("user", id, resources.now());
      return { kind: "user", id, username, role };
    });
  }
  if (apiKey.startsWith("org_")) {
    return chain(findKey(resources, apiKey, resources.snapshots.organizationKey), (key): Caller => {
      if (key === null) throw new Failure("unauthenticated", "Invalid Organization API Key");
      const { keyId, organizationId, scope, movedTo } = key;
      resources.keyUses.note("key", keyId, resources.now());
      const caller = { kind: "key", keyId, organizationId, scope } as const;
      return movedTo === null ? caller : { ...caller, move: { to: movedTo === "" ? null : movedTo } };
    });
  }
  throw new Failure("unauthenticated", 'Invalid API Key format. API Keys must start with "usr_" or "org_"');
}

export const SESSION_ENDED = "The session has ended. Please sign in again";

/**
 * Resolves the token of a session's cookie to its user. Undefined for a session that ended or never was.
 * Source: contract sign-in §1.
 */
export async function identifySession(resources: Resources, token: string): Promise<Caller | undefined> {
  const hash = await hashSessionToken(token);
  if (hash === undefined) return undefined;
  const { createdAfter, usedAfter, notedAfter } = sessionBounds(resources);
  const found = await resources.snapshots.sessionByToken(hash, notedAfter.getTime());
  if (found === null) return undefined;
  const { sessionId, userId, username, role, createdAtMs, lastUsedAtMs } = found;
  if (createdAtMs <= createdAfter.getTime() || lastUsedAtMs <= usedAfter.getTime()) return undefined;
  resources.keyUses.note("session", sessionId, resources.now());
  if (lastUsedAtMs <= notedAfter.getTime()) await resources.keyUses.flush();
  return { kind: "user", id: userId, username, role, sessionId };
}

/** Returns the owner of an unexpired key. Also tries the server's previous secret, so keys survive a rotation. */
function findKey<Found extends { expiresAtMs: number | null }>(
  { keyring, now }: Resources,
  apiKey: string,
  lookUp: (hash: string) => MaybePromise<Found | null>,
): MaybePromise<Found | null> {
  if (apiKey.length > MAX_KEY_LENGTH) return null;
  const { previous } = keyring;
  const findUnder = (protection: NonNullable<Keyring["previous"]>) =>
    chain(hashApiKey(protection, apiKey), (hash) =>
      chain(lookUp(hash), (row) => {
        if (row !== null) cacheHash(protection, apiKey, hash);
        return row;
      }),
    );
  const current = findUnder(keyring);
  const found = previous === undefined ? current : chain(current, (known) => known ?? findUnder(previous));
  return chain(found, (known) => {
    const isOver = known?.expiresAtMs != null && known.expiresAtMs <= now().getTime();
    return isOver ? null : known;
  });
}

/** Every identifier is 24 hex digits, in either case. */
export function isIdentifier(text: string): boolean {
  return /^[0-9a-fA-F]{24}$/.test(text);
}

/**
 * Returns the caller's role in an organization, and its move to another instance. The role of others than owner and
 * members is undefined, even of a platform ADMIN: see isPlatformAdmin.
 * @throws Failure notFound when the organization does not exist.
 */
export async function standingIn(
  ctx: Context,
  organizationId: string,
): Promise<{ role: OrganizationRole | undefined; move: Move | undefined }> {
  const callerId = ctx.caller.kind === "user" ? ctx.caller.id : "";
  const [found] = await ctx.db
    .select({
      ownerId: organizations.ownerId,
      role: members.role,
      frozenAt: organizations.frozenAt,
      movedTo: organizations.movedTo,
    })
    .from(organizations)
    .leftJoin(members, and(eq(members.organizationId, organizations.id), eq(members.userId, callerId)))
    .where(eq(organizations.id, organizationId));
  if (found === undefined) throw new Failure("notFound", `Organization with ID ${organizationId} not found`);
  return { role: found.ownerId === callerId ? "OWNER" : (found.role ?? undefined), move: moveOf(found) };
}

/**
 * Locks an organization, so that its settings do not change after they are read, and returns its name.
 * @throws Failure notFound when the organization does not exist.
 */
export async function lockOrganization(ctx: Context, organizationId: string): Promise<{ name: string }> {
  const [found] = await ctx.db
    .select({ name: organizations.name })
    .from(organizations)
    .where(eq(organizations.id, organizationId))
    .for("no key update");
  if (found === undefined) throw new Failure("notFound", `Organization with ID ${organizationId} not found`);
  return found;
}

/**
 * Returns the caller's role in an organization, as standingIn does.
 * @throws Failure notFound when the organization does not exist.
 */
export async function organizationRole(ctx: Context, organizationId: string): Promise<OrganizationRole | undefined> {
  return (await standingIn(ctx, organizationId)).role;
}

/** Returns the move of an organization to another instance; undefined for one that stays. */
export function moveOf(row: { frozenAt: Date | null; movedTo: string | null }): Move | undefined {
  return row.frozenAt === null && row.movedTo === null ? undefined : { to: row.movedTo };
}

/** Seconds after which a client asks a frozen organization again. */
const RETRY_FROZEN_SECONDS = 10;

/**
 * Refuses what may change an organization that is frozen for its move, and everything once it has moved.
 * @throws Failure gone with the new address; unavailable.
 */
export function refuseMove(move: Move | undefined, isRead: boolean): void {
  if (move === undefined) return;
  if (move.to !== null) throw new Failure("gone", `The organization has moved to ${move.to}`, { details: move.to });
  if (isRead) return;
  throw new Failure("unavailable", "The organization is being moved. Please try again", {
    retryAfterSeconds: RETRY_FROZEN_SECONDS,
  });
}

/** Matches case-insensitively. Uses `strpos` instead of `like`, so that no character of the text is a wildcard. */
export function containsText(column: SQLWrapper, text: string): SQL {
  return sql`strpos(lower(${column}), lower(${text})) > 0`;
}

/** Resolves the organization that a request addresses. Source: contract users-organizations §7.3, README decision 2. */
export function scopeOf(
  caller: Caller,
  named: { path: string | undefined; query: string | undefined },
): string | undefined {
  if (named.path !== undefined) return named.path;
  if (caller.kind === "key") return caller.organizationId;
  return named.query === "" ? undefined : named.query;
}

/** Returns the organization as requester of analyses; see state/analysis.ts. */
export function tenantOf(ctx: Context, organizationId: string): Tenant {
  return {
    organizationId,
    ownerId: async () => {
      const [row] = await ctx.db
        .select({ ownerId: organizations.ownerId })
        .from(organizations)
        .where(eq(organizations.id, organizationId));
      return row?.ownerId ?? "";
    },
  };
}
