import { asc, eq, inArray, type SQL } from "drizzle-orm";
import type { Caller, KeyScope, MemberRole, OrganizationRole } from "../../core/access/caller.ts";
import { actorOf, maskKey, seesKey, type Actor } from "../../core/access/membership.ts";
import { violates } from "../../db/postgres/connect.ts";
import { members, organizationKeys, organizations, users } from "../../db/schema.ts";
import { moveOf, organizationRole, refuseMove } from "../access.ts";
import type { Context } from "../context.ts";
import { readApiKey } from "../credentials.ts";
import { Failure } from "../errors.ts";

/* Shared by organizations.ts and members.ts: resolving the actor, locking the row, and the view of an organization. */

/** An organization in its wire format. Key values are masked for readers who may not use them. */
export interface OrganizationView {
  id: string;
  name: string;
  owner: string;
  default: boolean;
  apiKeys: { id: string; key: string; scope: KeyScope }[];
  members: { username: string; role: MemberRole }[];
}

/** Adds the owner's details, as reads by id return them. */
export interface DetailedOrganizationView extends OrganizationView {
  ownerDetails: { _id: string; username: string; createdAt: Date; updatedAt: Date; __v: 0 };
}

/** Throws Failure forbidden for a denial from membership.ts. */
export function refuse(refusal: string | undefined): void {
  if (refusal !== undefined) throw new Failure("forbidden", refusal);
}

/**
 * Resolves the caller's role before the operation changes anything.
 * @throws Failure notFound for an unknown organization.
 */
export async function actorIn(ctx: Context, organizationId: string): Promise<Actor> {
  return actorOf(ctx.caller, await organizationRole(ctx, organizationId));
}

/**
 * Locks the organization until the transaction ends, against concurrent changes of it, its members and its keys.
 * @throws Failure notFound; gone or unavailable as refuseMove.
 */
export async function lockOrganization(ctx: Context, organizationId: string, strength: "no key update" | "update") {
  const [row] = await ctx.db
    .select({
      id: organizations.id,
      name: organizations.name,
      ownerId: organizations.ownerId,
      isDefault: organizations.isDefault,
      frozenAt: organizations.frozenAt,
      movedTo: organizations.movedTo,
    })
    .from(organizations)
    .where(eq(organizations.id, organizationId))
    .for(strength);
  if (row === undefined) throw new Failure("notFound", `Organization with ID ${organizationId} not found`);
  refuseMove(moveOf(row), false);
  return row;
}

/** Narrows the caller's type: authorization admits only user keys to these operations. */
export function requireUserId(caller: Caller): string {
  if (caller.kind === "user") return caller.id;
  throw new Failure("forbidden", "This route requires a user API key. Organization API keys are not allowed");
}

function unknownUser(username: string, cause?: unknown): Failure {
  return new Failure("invalid", `INVALID DATA: User with username ${username} does not exist.`, { cause });
}

export function secondDefault(owner: string, cause?: unknown): Failure {
  return new Failure("conflict", `CONFLICT: The proposed owner ${owner} already has a default organization.`, {
    cause,
  });
}

/** Foreign keys of a user whom a call names, or who calls. */
const USER_KEYS = ["organizations_owner_fk", "members_user_fk", "invitations_inviter_fk"] as const;

/**
 * Maps constraint violations from races to Failures. After the check, the named user may be deleted or get a default
 * organization.
 */
export async function refusingRaces<T>(named: { username: string }, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (violates(error, "organizations_one_default_per_owner")) throw secondDefault(named.username, error);
    if (USER_KEYS.some((name) => violates(error, name))) {
      throw unknownUser(named.username, error);
    }
    throw error;
  }
}

/**
 * Returns the id of a user named in the request.
 * @throws Failure invalid for an unknown user.
 */
export async function findUserId(ctx: Context, username: string): Promise<string> {
  const [user] = await ctx.db.select({ id: users.id }).from(users).where(eq(users.username, username));
  if (user === undefined) throw unknownUser(username);
  return user.id;
}

/** Selects organizations with their owners, ordered by creation time and id, or by id alone. */
export function readRows(ctx: Context, where: SQL | undefined, byId = false) {
  return ctx.db
    .select({
      id: organizations.id,
      name: organizations.name,
      isDefault: organizations.isDefault,
      owner: { id: users.id, username: users.username, createdAt: users.createdAt, updatedAt: users.updatedAt },
    })
    .from(organizations)
    .innerJoin(users, eq(users.id, organizations.ownerId))
    .where(where)
    .orderBy(...(byId ? [] : [asc(organizations.createdAt)]), asc(organizations.id))
    .$dynamic();
}

/** Placeholder for a key that can no longer be decrypted, so that it can still be listed and deleted. */
const UNREADABLE = maskKey("org_xxxxxxxx");

type OrganizationRow = Awaited<ReturnType<typeof readRows>>[number];

function byOrganization<T extends { organizationId: string }>(rows: readonly T[]): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const row of rows) {
    const group = groups.get(row.organizationId);
    if (group === undefined) groups.set(row.organizationId, [row]);
    else group.push(row);
  }
  return groups;
}

/**
 * Builds the views of organizations; members and keys take two queries in total. Keys are masked by the reader's role
 * in each organization. Pass `actor` if that was resolved before a change. Source: users-organizations §4.1, §6.3.
 */
export async function viewRows(
  ctx: Context,
  rows: readonly OrganizationRow[],
  actor?: Actor,
): Promise<OrganizationView[]> {
  if (rows.length === 0) return [];
  const ids = rows.map((row) => row.id);
  const [memberRows, keyRows] = await Promise.all([
    ctx.db
      .select({
        organizationId: members.organizationId,
        userId: users.id,
        username: users.username,
        role: members.role,
      })
      .from(members)
      .innerJoin(users, eq(users.id, members.userId))
      .where(inArray(members.organizationId, ids))
      .orderBy(asc(members.position)),
    ctx.db
      .select({
        id: organizationKeys.id,
        organizationId: organizationKeys.organizationId,
        scope: organizationKeys.scope,
        sealed: organizationKeys.keySealed,
      })
      .from(organizationKeys)
      .where(inArray(organizationKeys.organizationId, ids))
      .orderBy(asc(organizationKeys.position)),
  ]);
  const membersOf = byOrganization(memberRows);
  const keysOf = byOrganization(keyRows);
  const callerId = ctx.caller.kind === "user" ? ctx.caller.id : undefined;
  return Promise.all(
    rows.map(async (row) => {
      const joined = membersOf.get(row.id) ?? [];
      const role: OrganizationRole | undefined =
        row.owner.id === callerId ? "OWNER" : joined.find((member) => member.userId === callerId)?.role;
      const reader = actor ?? actorOf(ctx.caller, role);
      const apiKeys = (keysOf.get(row.id) ?? []).map(async ({ id, scope, sealed }) => {
        const key = (await readApiKey(ctx.resources.keyring, sealed)) ?? UNREADABLE;
        return { id, key: seesKey(reader, scope) ? key : maskKey(key), scope };
      });
      return {
        id: row.id,
        name: row.name,
        owner: row.owner.username,
        default: row.isDefault,
        apiKeys: await Promise.all(apiKeys),
        members: joined.map(({ username, role }) => ({ username, role })),
      };
    }),
  );
}

/** Returns one organization with its owner's details, as all single-organization answers do. */
export async function viewOne(ctx: Context, organizationId: string, actor: Actor): Promise<DetailedOrganizationView> {
  const [row] = await readRows(ctx, eq(organizations.id, organizationId));
  const [view] = row === undefined ? [] : await viewRows(ctx, [row], actor);
  if (row === undefined || view === undefined) {
    throw new Failure("notFound", `Organization with ID ${organizationId} not found`);
  }
  const { id, username, createdAt, updatedAt } = row.owner;
  return { ...view, ownerDetails: { _id: id, username, createdAt, updatedAt, __v: 0 } };
}
