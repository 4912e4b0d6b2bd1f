import { and, eq, or, type SQL } from "drizzle-orm";
import type { KeyScope, MemberRole } from "../core/access/caller.ts";
import * as membership from "../core/access/membership.ts";
import { members, organizationKeys, users } from "../db/schema.ts";
import { newId, transaction, type Context } from "./context.ts";
import { hashApiKey, issueApiKey } from "./credentials.ts";
import { Failure } from "./errors.ts";
import {
  actorIn,
  findUserId,
  lockOrganization,
  refuse,
  refusingRaces,
  viewOne,
  type DetailedOrganizationView,
} from "./organization-view.ts";

const SCOPES: readonly KeyScope[] = ["ALL", "MANAGEMENT", "EVALUATION"];

/** Adds a member, last in the order of joining. Failures in the order of users-organizations §5.2. */
export async function addMember(
  ctx: Context,
  input: { organizationId: string; username: string; role: MemberRole },
): Promise<DetailedOrganizationView> {
  const { organizationId, username, role } = input;
  const conflict = () =>
    new Failure("conflict", `CONFLICT: User with username ${username} is already a member of the organization.`);
  return refusingRaces({ username }, () =>
    transaction(ctx, async (ctx) => {
      const row = await lockOrganization(ctx, organizationId, "no key update");
      const actor = await actorIn(ctx, organizationId);
      refuse(membership.denyAddMember(actor, role));
      const userId = await findUserId(ctx, username);
      if (userId === row.ownerId) throw conflict();
      const added = await ctx.db
        .insert(members)
        .values({ organizationId, userId, role })
        .onConflictDoNothing()
        .returning({ userId: members.userId });
      if (added.length === 0) throw conflict();
      return viewOne(ctx, organizationId, actor);
    }),
  );
}

/** Gives a member another role. Failures in the order of users-organizations §5.3. */
export async function changeMemberRole(
  ctx: Context,
  input: { organizationId: string; username: string; role: MemberRole },
): Promise<DetailedOrganizationView> {
  const { organizationId, username, role } = input;
  return transaction(ctx, async (ctx) => {
    await lockOrganization(ctx, organizationId, "no key update");
    const actor = await actorIn(ctx, organizationId);
    refuse(membership.denyChangeMembers(actor));
    const member = await findMember(ctx, organizationId, username);
    if (member === undefined) {
      throw new Failure("invalid", `INVALID DATA: User with username ${username} is not a member of the organization.`);
    }
    if (member.role === role) {
      throw new Failure("conflict", `CONFLICT: User with username ${username} already has the role ${role}.`);
    }
    refuse(membership.denyNewRole(actor, member.role, role));
    await ctx.db.update(members).set({ role }).where(isMember(organizationId, member.userId));
    return viewOne(ctx, organizationId, actor);
  });
}

/** Removes a member; everybody may remove themselves. Failures in the order of users-organizations §5.4. */
export async function removeMember(
  ctx: Context,
  input: { organizationId: string; username: string },
): Promise<DetailedOrganizationView> {
  const { organizationId, username } = input;
  return transaction(ctx, async (ctx) => {
    await lockOrganization(ctx, organizationId, "no key update");
    const actor = await actorIn(ctx, organizationId);
    const member = await findMember(ctx, organizationId, username);
    const isSelf = ctx.caller.kind === "user" && ctx.caller.username === username;
    refuse(membership.denyRemoveMember(actor, { isSelf, role: member?.role }));
    if (member === undefined) {
      throw new Failure("invalid", `Member with username ${username} not found in organization ${organizationId}.`);
    }
    await ctx.db.delete(members).where(isMember(organizationId, member.userId));
    return viewOne(ctx, organizationId, actor);
  });
}

/** Adds a key of this scope; it is the last one of the answer. Failures in the order of users-organizations §6.1. */
export async function addOrganizationKey(
  ctx: Context,
  input: { organizationId: string; scope: unknown },
): Promise<DetailedOrganizationView> {
  const { organizationId } = input;
  return transaction(ctx, async (ctx) => {
    await lockOrganization(ctx, organizationId, "no key update");
    const actor = await actorIn(ctx, organizationId);
    refuse(membership.denyKeys(actor));
    const scope = keyScope(input.scope);
    refuse(membership.denyAddKey(actor, scope));
    const now = ctx.now();
    const { hash, sealed } = await issueApiKey(ctx.keyring, "org");
    await ctx.db.insert(organizationKeys).values({
      id: newId(now),
      organizationId,
      scope,
      keyHash: hash,
      keySealed: sealed,
      createdAt: now,
    });
    return viewOne(ctx, organizationId, actor);
  });
}

/** Deletes a key, named by its id or its value. Failures in the order of users-organizations §6.2. */
export async function removeOrganizationKey(
  ctx: Context,
  input: { organizationId: string; idOrKey: string },
): Promise<DetailedOrganizationView> {
  const { organizationId, idOrKey } = input;
  return transaction(ctx, async (ctx) => {
    await lockOrganization(ctx, organizationId, "no key update");
    const actor = await actorIn(ctx, organizationId);
    refuse(membership.denyKeys(actor));
    const keyHash = await hashApiKey(ctx.keyring, idOrKey);
    const [key] = await ctx.db
      .select({ id: organizationKeys.id, scope: organizationKeys.scope })
      .from(organizationKeys)
      .where(
        and(
          eq(organizationKeys.organizationId, organizationId),
          or(eq(organizationKeys.id, idOrKey), eq(organizationKeys.keyHash, keyHash)),
        ),
      );
    if (key === undefined) throw new Failure("invalid", `API Key not found in organization ${organizationId}.`);
    refuse(membership.denyRemoveKey(actor, key.scope));
    await ctx.db.delete(organizationKeys).where(eq(organizationKeys.id, key.id));
    return viewOne(ctx, organizationId, actor);
  });
}

function keyScope(value: unknown): KeyScope {
  if (value === undefined || value === null || value === "") {
    throw new Failure("invalid", "scope field is required");
  }
  const scope = SCOPES.find((known) => known === value);
  if (scope === undefined) {
    throw new Failure("invalid", "INVALID DATA: scope must be one of ALL, MANAGEMENT, EVALUATION.");
  }
  return scope;
}

function isMember(organizationId: string, userId: string): SQL | undefined {
  return and(eq(members.organizationId, organizationId), eq(members.userId, userId));
}

async function findMember(ctx: Context, organizationId: string, username: string) {
  const [member] = await ctx.db
    .select({ userId: members.userId, role: members.role })
    .from(members)
    .innerJoin(users, eq(users.id, members.userId))
    .where(and(eq(members.organizationId, organizationId), eq(users.username, username)));
  return member;
}
