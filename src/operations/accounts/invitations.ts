import { and, count, desc, eq, gt, isNotNull, isNull, type SQL } from "drizzle-orm";
import type { MemberRole, OrganizationRole } from "../../core/access/caller.ts";
import * as membership from "../../core/access/membership.ts";
import { invitations, members, organizations, users } from "../../db/schema.ts";
import { organizationRole, refuseMove, standingIn } from "../access.ts";
import { audit } from "../audit.ts";
import { type Context, newId, transaction } from "../context.ts";
import { Failure } from "../errors.ts";
import { findByToken, hashLinkToken, linkToken } from "./link-tokens.ts";
import { type Language, queueInvitationMail } from "./mails.ts";
import { actorIn, lockOrganization, refuse, refusingRaces, requireUserId } from "./organization-view.ts";
import type { Client } from "./password-hashing.ts";
import { requireUser } from "./user-rows.ts";
import { requirePasswordSignIn } from "./sign-in.ts";
import { registerUser } from "./sign-up.ts";

/** Open invitations per organization. */
const MAX_OPEN = 100;
/** Invitations with an address per inviter and day: mails to people who have not asked for them. */
const MAX_MAILED = 100;
const DAY_MS = 86_400_000;
/** Newest invitations that a list returns. */
const MAX_LISTED = 200;

export type InvitationState = "pending" | "accepted" | "revoked" | "expired";

/** An invitation as the managers of its organization see it, without its link. */
export interface InvitationView {
  id: string;
  role: MemberRole;
  email: string | null;
  expiresAt: Date;
  state: InvitationState;
}

/** An invitation as the holder of its link sees it. */
export interface InvitationOffer {
  organization: string;
  role: MemberRole;
  invitedBy: string;
  expiresAt: Date;
}

type Row = typeof invitations.$inferSelect;

function stateOf({ acceptedAt, revokedAt, expiresAt }: Row, now: Date): InvitationState {
  if (acceptedAt !== null) return "accepted";
  if (revokedAt !== null) return "revoked";
  return expiresAt.getTime() <= now.getTime() ? "expired" : "pending";
}

function viewOf(ctx: Context, row: Row): InvitationView {
  const { id, role, email, expiresAt } = row;
  return { id, role, email, expiresAt, state: stateOf(row, ctx.resources.now()) };
}

/**
 * Invites somebody to an organization. The link's token appears only in this answer, and in a mail to `email`.
 * @throws Failure notFound; forbidden as for adding such a member; conflict for too many open invitations;
 * tooManyRequests for too many mails.
 */
export async function createInvitation(
  ctx: Context,
  input: { organizationId: string; role: MemberRole; email: string | null; days: number; language: Language },
): Promise<{ invitation: InvitationView; token: string }> {
  const { organizationId, role, email, days, language } = input;
  const { id: inviterId, username } = requireUser(ctx);
  const work = async (ctx: Context) => {
    const organization = await lockOrganization(ctx, organizationId, "no key update");
    refuse(membership.denyAddMember(await actorIn(ctx, organizationId), role));
    const now = ctx.resources.now();
    if ((await countOpen(ctx, organizationId, now)) >= MAX_OPEN) {
      throw new Failure("conflict", `CONFLICT: An organization can have at most ${MAX_OPEN} open invitations`);
    }
    if (email !== null) await limitMails(ctx, inviterId, now);
    const id = newId(now);
    const token = await linkToken(ctx.resources.keyring, "invitation", id);
    const [row] = await ctx.db
      .insert(invitations)
      .values({
        id,
        organizationId,
        role,
        email,
        tokenHash: await hashLinkToken(token),
        inviterId,
        createdAt: now,
        expiresAt: new Date(now.getTime() + days * DAY_MS),
      })
      .returning();
    if (row === undefined) throw new Error("the new invitation has no row");
    if (email !== null) await queueInvitationMail(ctx, { invitationId: id, organizationId, language });
    const after = { role, email, expiresAt: row.expiresAt };
    await audit(ctx, { action: "invitation.create", organizationId, target: organization.name, after });
    return { invitation: viewOf(ctx, row), token };
  };
  return refusingRaces({ username }, () => transaction(ctx, work));
}

async function countOpen(ctx: Context, organizationId: string, now: Date): Promise<number> {
  const [open] = await ctx.db
    .select({ number: count() })
    .from(invitations)
    .where(
      and(
        eq(invitations.organizationId, organizationId),
        isNull(invitations.acceptedAt),
        isNull(invitations.revokedAt),
        gt(invitations.expiresAt, now),
      ),
    );
  return open?.number ?? 0;
}

async function limitMails(ctx: Context, inviterId: string, now: Date): Promise<void> {
  const [sent] = await ctx.db
    .select({ number: count() })
    .from(invitations)
    .where(
      and(
        eq(invitations.inviterId, inviterId),
        isNotNull(invitations.email),
        gt(invitations.createdAt, new Date(now.getTime() - DAY_MS)),
      ),
    );
  if ((sent?.number ?? 0) < MAX_MAILED) return;
  throw new Failure("tooManyRequests", "Too many requests. Please try again later", { retryAfterSeconds: 3600 });
}

/**
 * Lists the newest invitations of an organization, newest first.
 * @throws Failure notFound.
 */
export async function listInvitations(
  ctx: Context,
  organizationId: string,
): Promise<(InvitationView & { invitedBy: string; createdAt: Date })[]> {
  const rows = await ctx.db
    .select({ invitation: invitations, invitedBy: users.username })
    .from(invitations)
    .innerJoin(users, eq(users.id, invitations.inviterId))
    .where(eq(invitations.organizationId, organizationId))
    .orderBy(desc(invitations.id))
    .limit(MAX_LISTED);
  return rows.map(({ invitation, invitedBy }) => ({
    ...viewOf(ctx, invitation),
    invitedBy,
    createdAt: invitation.createdAt,
  }));
}

/**
 * Revokes a pending invitation.
 * @throws Failure notFound; forbidden as for adding such a member; conflict for one that is not pending.
 */
export async function revokeInvitation(
  ctx: Context,
  { organizationId, id }: { organizationId: string; id: string },
): Promise<void> {
  await transaction(ctx, async (ctx) => {
    const organization = await lockOrganization(ctx, organizationId, "no key update");
    const actor = await actorIn(ctx, organizationId);
    const mine = and(eq(invitations.organizationId, organizationId), eq(invitations.id, id));
    const [row] = await ctx.db.select().from(invitations).where(mine).for("update");
    if (row === undefined) throw new Failure("notFound", `Invitation ${id} not found`);
    refuse(membership.denyAddMember(actor, row.role));
    const state = stateOf(row, ctx.resources.now());
    if (state !== "pending") throw new Failure("conflict", `CONFLICT: Invitation ${id} is ${state}`);
    await ctx.db.update(invitations).set({ revokedAt: ctx.resources.now() }).where(mine);
    const before = { role: row.role, email: row.email };
    await audit(ctx, { action: "invitation.revoke", organizationId, target: organization.name, before });
  });
}

interface Link {
  token: string;
  client: Client;
}

/**
 * Shows a link's invitation.
 * @throws Failure notFound for every link that cannot be accepted; gone to an organization that has moved; tooManyRequests.
 */
export async function showInvitation(ctx: Context, link: Link): Promise<InvitationOffer> {
  const { row, organization, inviter } = await findInvitation(ctx, link);
  refuseMove((await standingIn(ctx, row.organizationId)).move, true);
  return { organization, role: row.role, invitedBy: inviter.username, expiresAt: row.expiresAt };
}

function findInvitation(ctx: Context, { token, client }: Link) {
  return findByToken(ctx, { token, kind: "invitation", address: client.address }, (hash) =>
    findValidInvitation(ctx, eq(invitations.tokenHash, hash)),
  );
}

/** Finds a pending invitation whose inviter may still add such a member. */
export async function findValidInvitation(ctx: Context, where: SQL) {
  const [found] = await ctx.db
    .select({
      row: invitations,
      organization: organizations.name,
      inviter: { id: users.id, username: users.username, role: users.role },
    })
    .from(invitations)
    .innerJoin(organizations, eq(organizations.id, invitations.organizationId))
    .innerJoin(users, eq(users.id, invitations.inviterId))
    .where(where);
  if (found === undefined || stateOf(found.row, ctx.resources.now()) !== "pending") return undefined;
  const inviter = { kind: "user" as const, ...found.inviter };
  const role = await organizationRole({ ...ctx, caller: inviter }, found.row.organizationId);
  const denial = membership.denyAddMember(membership.actorOf(inviter, role), found.row.role);
  return denial === undefined ? found : undefined;
}

/** The membership that an accepted invitation has given. */
export interface AcceptedInvitation {
  organization: { id: string; name: string };
  role: OrganizationRole;
  username: string;
}

/**
 * Makes the caller a member. Without a caller, creates `newUser` first, also where sign-up is closed. Once per invitation.
 * @throws Failure notFound for every link that cannot be accepted; conflict for a member; forbidden for an organization
 * key; unauthenticated for a new user where people sign in with the provider; as createUser for the new user.
 */
export async function acceptInvitation(
  ctx: Context,
  input: Link & { newUser: () => { username: string; password: string } },
): Promise<AcceptedInvitation> {
  const { client } = input;
  if (ctx.caller.kind === "key") requireUserId(ctx.caller);
  const { row: seen } = await findInvitation(ctx, input);
  const join = (ctx: Context, user: { id: string; username: string }) => joinOrganization(ctx, seen, user);
  if (ctx.caller.kind === "user") {
    const { caller } = ctx;
    return refusingRaces(caller, () => transaction(ctx, (ctx) => join(ctx, caller)));
  }
  requirePasswordSignIn(ctx);
  let accepted: AcceptedInvitation | undefined;
  await registerUser(ctx, input.newUser(), client, async (ctx, user) => {
    accepted = await join(ctx, user);
  });
  if (accepted === undefined) throw new Error("a new user joined nothing");
  return accepted;
}

async function joinOrganization(
  ctx: Context,
  { id, organizationId }: Row,
  user: { id: string; username: string },
): Promise<AcceptedInvitation> {
  const organization = await lockOrganization(ctx, organizationId, "no key update");
  await ctx.db.select({ id: invitations.id }).from(invitations).where(eq(invitations.id, id)).for("update");
  const found = await findValidInvitation(ctx, eq(invitations.id, id));
  if (found === undefined) throw new Failure("notFound", "NOT FOUND: This invitation link is not valid any more");
  const { role } = found.row;
  const conflict = () =>
    new Failure("conflict", `CONFLICT: User with username ${user.username} is already a member of the organization.`);
  if (organization.ownerId === user.id) throw conflict();
  const added = await ctx.db
    .insert(members)
    .values({ organizationId, userId: user.id, role })
    .onConflictDoNothing()
    .returning({ userId: members.userId });
  if (added.length === 0) throw conflict();
  await ctx.db
    .update(invitations)
    .set({ acceptedAt: ctx.resources.now(), acceptedBy: user.id })
    .where(eq(invitations.id, id));
  await audit(ctx, {
    action: "member.add",
    organizationId,
    target: user.username,
    after: { role, invitationId: id, invitedBy: found.inviter.username },
    author: { actorKind: "user", actorId: user.id },
  });
  return { organization: { id: organizationId, name: organization.name }, role, username: user.username };
}
