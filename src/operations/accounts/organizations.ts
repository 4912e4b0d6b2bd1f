import { and, count, eq, gt, inArray } from "drizzle-orm";
import { union } from "drizzle-orm/pg-core";
import { isPlatformAdmin } from "../../core/access/caller.ts";
import { actorOf, denyDelete, denyRead, denyUpdate } from "../../core/access/membership.ts";
import { deleteOrganizations, insertOrganization } from "../../db/queries/organization-rows.ts";
import { members, organizations, users } from "../../db/schema.ts";
import { containsText, refuseMove, standingIn } from "../access.ts";
import { audit } from "../audit.ts";
import { newId, clampPageSize, transaction, type Context } from "../context.ts";
import { issueApiKey } from "../credentials.ts";
import { Failure } from "../errors.ts";
import {
  actorIn,
  findUserId,
  lockOrganization,
  readRows,
  refuse,
  refusingRaces,
  requireUserId,
  secondDefault,
  viewOne,
  viewRows,
  type DetailedOrganizationView,
  type OrganizationView,
} from "./organization-view.ts";

/**
 * Returns the organization of an organization key.
 * @throws Failure notFound once it is deleted.
 */
export async function showKeyOrganization(ctx: Context, organizationId: string): Promise<{ id: string; name: string }> {
  const [row] = await ctx.db
    .select({ id: organizations.id, name: organizations.name })
    .from(organizations)
    .where(eq(organizations.id, organizationId));
  if (row === undefined) throw new Failure("notFound", `Organization with ID ${organizationId} not found`);
  return row;
}

export interface OrganizationPage {
  offset: number;
  limit: number;
  total: number;
  page: number;
  pages: number;
}

/**
 * Lists a page of all organizations for a platform ADMIN. A USER gets every organization that it owns or belongs to,
 * and `asked` is not called. Ordered by creation time; four queries for any number of organizations. Source: contract
 * users-organizations §4.3.
 */
export async function listOrganizations(
  ctx: Context,
  asked: () => { q: string; limit: number; offset: number; after: string | undefined },
): Promise<{ data: OrganizationView[]; pagination?: OrganizationPage; next?: string | undefined }> {
  if (!isPlatformAdmin(ctx.caller)) return { data: await viewOwn(ctx) };
  const input = asked();
  const { q, offset, after } = input;
  if (!(input.limit >= 1 && input.limit <= 50)) {
    throw new Failure("invalid", "INVALID DATA: Limit must be between 1 and 50");
  }
  if (!(offset >= 0)) throw new Failure("invalid", "INVALID DATA: Offset must be a non-negative number");
  const limit = clampPageSize(ctx, input.limit);
  const matching = q === "" ? undefined : containsText(organizations.name, q);
  const [[counted], rows] = await Promise.all([
    ctx.db.select({ total: count() }).from(organizations).where(matching),
    readRows(ctx, after ? and(matching, gt(organizations.id, after)) : matching, after !== undefined)
      .limit(limit)
      .offset(offset),
  ]);
  const total = counted?.total ?? 0;
  const pages = Math.max(1, Math.ceil(total / limit));
  return {
    data: await viewRows(ctx, rows),
    pagination: { offset, limit, total, page: Math.floor(offset / limit) + 1, pages },
    next: after !== undefined && rows.length === limit ? rows.at(-1)?.id : undefined,
  };
}

async function viewOwn(ctx: Context): Promise<OrganizationView[]> {
  const callerId = requireUserId(ctx.caller);
  const own = union(
    ctx.db.select({ id: organizations.id }).from(organizations).where(eq(organizations.ownerId, callerId)),
    ctx.db.select({ id: members.organizationId }).from(members).where(eq(members.userId, callerId)),
  );
  return viewRows(ctx, await readRows(ctx, inArray(organizations.id, own)));
}

/**
 * Creates an organization with one key of scope ALL and no members. Source: users-organizations §4.4.
 * @throws Failure invalid for an unknown owner; forbidden for a USER naming someone else; conflict for a second default
 * organization, also in a race.
 */
export async function createOrganization(
  ctx: Context,
  input: { name: string; owner: string; default?: unknown },
): Promise<OrganizationView> {
  const ownerId = await findUserId(ctx, input.owner);
  if (!isPlatformAdmin(ctx.caller) && requireUserId(ctx.caller) !== ownerId) {
    throw new Failure("forbidden", "PERMISSION ERROR: Only admins can create organizations for other users.");
  }
  const isDefault = defaultFlag(input.default) ?? false;
  if (isDefault && (await ownsDefaultOrganization(ctx, ownerId))) throw secondDefault(input.owner);
  const now = ctx.resources.now();
  const id = newId(now);
  const key = { id: newId(now), ...(await issueApiKey(ctx.resources.keyring, "org")) };
  await refusingRaces({ username: input.owner }, () =>
    transaction(ctx, async (ctx) => {
      await insertOrganization(ctx.db, {
        id,
        name: input.name,
        ownerId,
        isDefault,
        createdAt: now,
        key: { id: key.id, hash: key.hash, sealed: key.sealed },
      });
      await audit(ctx, {
        action: "organization.create",
        organizationId: id,
        target: input.name,
        after: { name: input.name, ownerId, default: isDefault },
      });
    }),
  );
  return {
    id,
    name: input.name,
    owner: input.owner,
    default: isDefault,
    apiKeys: [{ id: key.id, key: key.apiKey, scope: "ALL" }],
    members: [],
  };
}

/**
 * Returns one organization to its owner, its members or a platform ADMIN. Source: §4.5.
 * @throws Failure notFound, forbidden; gone for one that has moved to another instance.
 */
export async function showOrganization(ctx: Context, organizationId: string): Promise<DetailedOrganizationView> {
  const { role, move } = await standingIn(ctx, organizationId);
  const actor = actorOf(ctx.caller, role);
  refuse(denyRead(actor, organizationId));
  refuseMove(move, true);
  return viewOne(ctx, organizationId, actor);
}

/**
 * Changes name, owner or default flag, all or none. The old owner becomes a member with role ADMIN; the new owner's
 * membership ends. The default flag can only be set, and a default organization cannot be transferred. Failures in the
 * order of users-organizations §4.6.
 */
export async function updateOrganization(
  ctx: Context,
  input: { organizationId: string; name?: string | undefined; owner?: string | undefined; default?: unknown },
): Promise<DetailedOrganizationView> {
  const { organizationId } = input;
  const proposed = { username: input.owner ?? "" };
  return refusingRaces(proposed, () =>
    transaction(ctx, async (ctx) => {
      const row = await lockOrganization(ctx, organizationId, "no key update");
      const actor = await actorIn(ctx, organizationId);
      const sent = { owner: input.owner !== undefined, default: input.default !== undefined };
      refuse(denyUpdate(actor, sent));
      if (sent.owner && row.isDefault) {
        throw new Failure("conflict", "CONFLICT: Cannot transfer ownership of a default organization.");
      }
      const username = input.owner;
      const newOwner = username === undefined ? undefined : await findUserId(ctx, username);
      const isDefault = defaultFlag(input.default);
      const ownerId = newOwner ?? row.ownerId;
      if (input.owner === undefined && sent.default) proposed.username = await usernameOf(ctx, ownerId);
      if (sent.default && (await ownsDefaultOrganization(ctx, ownerId))) {
        throw secondDefault(proposed.username);
      }
      if (ownerId !== row.ownerId) await transferOwnership(ctx, row, ownerId);
      const after = { name: input.name ?? row.name, isDefault: isDefault ?? row.isDefault };
      await ctx.db
        .update(organizations)
        .set({ ...after, updatedAt: ctx.resources.now() })
        .where(eq(organizations.id, organizationId));
      await audit(ctx, {
        action: "organization.update",
        organizationId,
        target: row.name,
        before: factsOf(row),
        after: factsOf({ ...after, ownerId }),
      });
      return viewOne(ctx, organizationId, actor);
    }),
  );
}

async function transferOwnership(ctx: Context, row: { id: string; ownerId: string }, newOwnerId: string) {
  await ctx.db.delete(members).where(and(eq(members.organizationId, row.id), eq(members.userId, newOwnerId)));
  await ctx.db.update(organizations).set({ ownerId: newOwnerId }).where(eq(organizations.id, row.id));
  await ctx.db
    .insert(members)
    .values({ organizationId: row.id, userId: row.ownerId, role: "ADMIN" })
    .onConflictDoNothing();
}

/**
 * Deletes an organization with its services, pricings, contracts, members and keys, in one transaction. Source:
 * users-organizations §4.7.
 * @throws Failure notFound; forbidden; conflict for a default organization.
 */
export async function deleteOrganization(ctx: Context, organizationId: string): Promise<void> {
  await transaction(ctx, async (ctx) => {
    const row = await lockOrganization(ctx, organizationId, "update");
    refuse(denyDelete(await actorIn(ctx, organizationId), organizationId));
    if (row.isDefault) {
      throw new Failure("conflict", "CONFLICT: The default organization for a user cannot be deleted.");
    }
    await deleteOrganizations(ctx.db, [organizationId]);
    await audit(ctx, { action: "organization.delete", organizationId, target: row.name, before: factsOf(row) });
  });
}

/** Selects the audited fields of an organization. */
function factsOf({ name, ownerId, isDefault }: { name: string; ownerId: string; isDefault: boolean }) {
  return { name, ownerId, default: isDefault };
}

function defaultFlag(value: unknown): boolean | undefined {
  if (value === undefined || typeof value === "boolean") return value;
  throw new Failure("invalid", "INVALID DATA: Invalid organization default flag.");
}

async function usernameOf(ctx: Context, userId: string): Promise<string> {
  const [user] = await ctx.db.select({ username: users.username }).from(users).where(eq(users.id, userId));
  return user?.username ?? "";
}

async function ownsDefaultOrganization(ctx: Context, userId: string): Promise<boolean> {
  const [existing] = await ctx.db
    .select({ id: organizations.id })
    .from(organizations)
    .where(and(eq(organizations.ownerId, userId), organizations.isDefault));
  return existing !== undefined;
}
