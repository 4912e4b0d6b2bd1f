import { and, asc, eq, isNull, or, sql } from "drizzle-orm";
import { type ClaimedRoles, claimedRoles, emailOf, suggestedNames } from "../../core/access/claims.ts";
import type { MemberRole } from "../../core/access/caller.ts";
import { hasAllowedCharacters } from "../../core/access/username.ts";
import { members, organizations, userIdentities, users } from "../../db/schema.ts";
import { audit } from "../audit.ts";
import { type Context, transaction } from "../context.ts";
import { Failure } from "../errors.ts";
import type { ProvenIdentity, SignOnSettings } from "../state/sign-on-provider.ts";
import { lockOrganization } from "./organization-view.ts";
import { endSessionsOf } from "./session-rows.ts";
import { SignOnFailure } from "./sign-on-failure.ts";
import { insertUser } from "./sign-up.ts";
import { factsOf, lockAdmins, requireAnotherAdmin, type UserRow } from "./user-rows.ts";
import { refuseLookAlike, refusingTakenName } from "./username-skeletons.ts";

/** Stored in place of a hash: no password matches it. */
const NO_PASSWORD = "none";
const MIN_NAME = 3;
const MAX_NAME = 30;
/** Names that are tried for an account: `ada`, then `ada-2` up to this number. */
const MAX_SUFFIX = 99;

/**
 * Returns the account of an identity, with the roles of its claims, and creates it where there is none. An account of the
 * same name is somebody else's, and stays so. Source: contract sign-in §2.
 * @throws SignOnFailure signup, name.
 */
export async function accountOfIdentity(
  ctx: Context,
  identity: ProvenIdentity,
  settings: SignOnSettings,
): Promise<UserRow> {
  const roles = claimedRoles(identity.claims, settings.roles);
  return transaction(ctx, async (ctx) => {
    await lockIdentity(ctx, identity);
    const found = await findByIdentity(ctx, identity);
    if (found === undefined && !settings.allowsSignUp) {
      throw new SignOnFailure("signup", "the identity has no account, and sign-up is closed");
    }
    const account = found ?? (await createAccount(ctx, identity, settings));
    // The provider's word changes the account in its own name.
    const own = { ...ctx, author: { actorKind: "user", actorId: account.id } as const };
    const current = await followPlatformRole(own, await followEmail(own, account, identity), roles);
    await followMemberships(own, current, roles);
    return current;
  });
}

/**
 * Adds an identity to an account.
 * @throws SignOnFailure name for one of another account.
 */
export async function linkIdentity(ctx: Context, identity: ProvenIdentity, userId: string): Promise<void> {
  await transaction(ctx, async (ctx) => {
    await lockIdentity(ctx, identity);
    const found = await findByIdentity(ctx, identity);
    if (found?.id === userId) return;
    if (found !== undefined) throw new SignOnFailure("name", "the identity belongs to another account");
    const [user] = await ctx.db.select().from(users).where(eq(users.id, userId)).for("update");
    if (user === undefined) throw new SignOnFailure("state", "the account is gone");
    await insertIdentity(ctx, identity, userId);
    await audit(ctx, {
      action: "user.link",
      organizationId: null,
      target: user.username,
      after: { issuer: identity.issuer },
    });
    if (user.email === null) await followEmail(ctx, user, identity);
  });
}

/** Serializes sign-ins of one identity until the transaction ends. */
async function lockIdentity(ctx: Context, { issuer, subject }: ProvenIdentity): Promise<void> {
  await ctx.db.execute(
    sql`select pg_advisory_xact_lock(hashtextextended(${`identity ${JSON.stringify([issuer, subject])}`}, 0))`,
  );
}

async function findByIdentity(ctx: Context, { issuer, subject }: ProvenIdentity): Promise<UserRow | undefined> {
  const [found] = await ctx.db
    .select({ user: users })
    .from(userIdentities)
    .innerJoin(users, eq(users.id, userIdentities.userId))
    .where(and(eq(userIdentities.issuer, issuer), eq(userIdentities.subject, subject)));
  return found?.user;
}

async function insertIdentity(ctx: Context, { issuer, subject }: ProvenIdentity, userId: string): Promise<void> {
  await ctx.db.insert(userIdentities).values({ issuer, subject, userId, createdAt: ctx.resources.now() });
}

async function createAccount(ctx: Context, identity: ProvenIdentity, settings: SignOnSettings): Promise<UserRow> {
  const base = suggestedNames(identity.claims, settings.usernameClaim).find(isUsername);
  if (base === undefined) throw new SignOnFailure("name", "no claim has a name that an account may have");
  for (let number = 1; number <= MAX_SUFFIX; number += 1) {
    const suffix = number === 1 ? "" : `-${number}`;
    const username =
      Array.from(base)
        .slice(0, MAX_NAME - suffix.length)
        .join("") + suffix;
    if (!(await isFree(ctx, username))) continue;
    const user = await refusingTakenName(() =>
      insertUser(ctx, {
        username,
        passwordHash: NO_PASSWORD,
        role: "USER",
        organizationName: `${username}'s Organization`,
        via: "oidc",
      }),
    );
    await insertIdentity(ctx, identity, user.id);
    return user;
  }
  throw new SignOnFailure("name", `every name up to ${base}-${MAX_SUFFIX} is taken`);
}

function isUsername(name: string): boolean {
  const characters = name.length > 2 * MAX_NAME ? name.length : Array.from(name).length;
  return characters >= MIN_NAME && characters <= MAX_NAME && hasAllowedCharacters(name);
}

/** True if no account has this name or one that looks like it. Keeps it free until the transaction ends. */
async function isFree(ctx: Context, username: string): Promise<boolean> {
  try {
    await refuseLookAlike(ctx, username);
    return true;
  } catch (error) {
    if (error instanceof Failure && (error.code === "notFound" || error.code === "conflict")) return false;
    throw error;
  }
}

async function followEmail(ctx: Context, user: UserRow, identity: ProvenIdentity): Promise<UserRow> {
  const email = emailOf(identity.claims);
  // An account with a password keeps the address that it has: its recovery goes there.
  if (email === undefined || email === user.email || (user.via === null && user.email !== null)) return user;
  await ctx.db.update(users).set({ email }).where(eq(users.id, user.id));
  return { ...user, email };
}

/** Sets the platform role that the claims give. The last ADMIN stays one. */
async function followPlatformRole(ctx: Context, user: UserRow, { platform }: ClaimedRoles): Promise<UserRow> {
  if (platform === undefined || platform === user.role) return user;
  await lockAdmins(ctx);
  const [current] = await ctx.db.select().from(users).where(eq(users.id, user.id)).for("update");
  if (current === undefined || current.role === platform) return current ?? user;
  if (platform === "USER" && (await isLastAdmin(ctx, current))) return current;
  const changed = { ...current, role: platform, updatedAt: ctx.resources.now() };
  await ctx.db.update(users).set({ role: platform, updatedAt: changed.updatedAt }).where(eq(users.id, user.id));
  await endSessionsOf(ctx, user.id);
  await audit(ctx, {
    action: "user.update",
    organizationId: null,
    target: user.username,
    before: factsOf(current),
    after: factsOf(changed),
  });
  return changed;
}

async function isLastAdmin(ctx: Context, user: UserRow): Promise<boolean> {
  try {
    await requireAnotherAdmin(ctx, user);
    return false;
  } catch (error) {
    if (error instanceof Failure && error.code === "forbidden") return true;
    throw error;
  }
}

/** Gives, changes and ends memberships as the claims say, in the organizations that a rule names. */
async function followMemberships(ctx: Context, user: UserRow, { organizations: roles }: ClaimedRoles): Promise<void> {
  // In the order of their ids, as every transaction locks organizations.
  const named = await Promise.all([...roles].map(async ([name, role]) => ({ id: await idOf(ctx, name), role })));
  const found = named.flatMap(({ id, role }) => (id === undefined ? [] : [{ id, role }]));
  for (const { id, role } of found.toSorted((a, b) => (a.id < b.id ? -1 : 1)))
    await followMembership(ctx, user, id, role);
}

/**
 * Finds an organization by id, or the oldest one by name: names are not unique, and anybody may choose one. Passes over one
 * that is frozen or has moved, whose members do not change here.
 */
async function idOf(ctx: Context, named: string): Promise<string | undefined> {
  const [row] = await ctx.db
    .select({ id: organizations.id })
    .from(organizations)
    .where(
      and(
        or(eq(organizations.id, named), eq(organizations.name, named)),
        isNull(organizations.frozenAt),
        isNull(organizations.movedTo),
      ),
    )
    .orderBy(sql`${organizations.id} = ${named} desc`, asc(organizations.createdAt), asc(organizations.id))
    .limit(1);
  return row?.id;
}

async function followMembership(
  ctx: Context,
  user: UserRow,
  organizationId: string,
  role: MemberRole | null,
): Promise<void> {
  const { ownerId } = await lockOrganization(ctx, organizationId, "no key update");
  if (ownerId === user.id) return;
  const isMember = and(eq(members.organizationId, organizationId), eq(members.userId, user.id));
  const [member] = await ctx.db.select({ role: members.role }).from(members).where(isMember);
  const before = member?.role ?? null;
  if (before === role) return;
  if (role === null) await ctx.db.delete(members).where(isMember);
  else if (before === null) await ctx.db.insert(members).values({ organizationId, userId: user.id, role });
  else await ctx.db.update(members).set({ role }).where(isMember);
  await audit(ctx, {
    action: role === null ? "member.remove" : before === null ? "member.add" : "member.change",
    organizationId,
    target: user.username,
    before: before === null ? undefined : { role: before },
    after: role === null ? undefined : { role },
  });
}
