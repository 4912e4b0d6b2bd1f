import { and, eq, type SQL } from "drizzle-orm";
import type { MemberRole } from "../../core/access/caller.ts";
import * as membership from "../../core/access/membership.ts";
import { members, users } from "../../db/schema.ts";
import { audit } from "../audit.ts";
import { transaction, type Context } from "../context.ts";
import { Failure } from "../errors.ts";
import {
  actorIn,
  findUserId,
  lockOrganization,
  refuse,
  refusingRaces,
  viewOne,
  type DetailedOrganizationView,
} from "./organization-view.ts";

/** Adds a member, last in joining order. Failures in the order of users-organizations §5.2. */
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
      await audit(ctx, { action: "member.add", organizationId, target: username, after: { role } });
      return viewOne(ctx, organizationId, actor);
    }),
  );
}

/** Changes a member's role. Failures in the order of users-organizations §5.3. */
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
    await audit(ctx, {
      action: "member.change",
      organizationId,
      target: username,
      before: { role: member.role },
      after: { role },
    });
    return viewOne(ctx, organizationId, actor);
  });
}

/** Removes a member; every member may remove themselves. Failures in the order of users-organizations §5.4. */
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
    await audit(ctx, { action: "member.remove", organizationId, target: username, before: { role: member.role } });
    return viewOne(ctx, organizationId, actor);
  });
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
