import { and, asc, count, eq, gt } from "drizzle-orm";
import { addressBlock } from "../../core/access/address-block.ts";
import { isPlatformAdmin, type PlatformRole } from "../../core/access/caller.ts";
import { passOnOrganizations } from "../../db/queries/organization-rows.ts";
import { users } from "../../db/schema.ts";
import { containsText } from "../access.ts";
import { audit, auditAll } from "../audit.ts";
import { clampPageSize, type Context, transaction } from "../context.ts";
import { hashPassword } from "../credentials.ts";
import { Failure } from "../errors.ts";
import { type Client, hashing, UNKNOWN_CLIENT } from "./password-hashing.ts";
import { endSessionsOf, sessionOfCaller } from "./session-rows.ts";
import { endRecoveries } from "./recovery.ts";
import { limitAccountCalls } from "./throttle.ts";
import {
  factsOf,
  findUser,
  lockAdmins,
  requireAnotherAdmin,
  requireUser,
  seesAll,
  type UpdatedUser,
  type UserRow,
  type UserView,
  viewUpdated,
  viewUser,
} from "./user-rows.ts";
import { refuseLookAlike, refusingTakenName, TAKEN, usernameSkeleton } from "./username-skeletons.ts";

export interface Pagination {
  offset: number;
  limit: number;
  total: number;
  page: number;
  pages: number;
}

/**
 * Lists one page of users by creation time. A USER must search for at least 4 characters of a name. `q` is a literal,
 * case-insensitive substring. Source: users-organizations §3.5.
 */
export async function listUsers(
  ctx: Context,
  input: { q: string; limit: number; offset: number; after: string | undefined },
): Promise<{ data: UserView[]; pagination: Pagination; next: string | undefined }> {
  const { after } = input;
  const q = input.q.trim();
  const { offset } = input;
  if (!isPlatformAdmin(ctx.caller) && Array.from(q).length < 4) {
    throw new Failure(
      "forbidden",
      "PERMISSION ERROR: Only admins can retrieve the full user list without providing at least 4 characters in the search query",
    );
  }
  if (!(input.limit >= 1 && input.limit <= 50)) {
    throw new Failure("invalid", "INVALID DATA: Limit must be between 1 and 50");
  }
  if (!(offset >= 0)) throw new Failure("invalid", "INVALID DATA: Offset must be a non-negative number");
  const limit = clampPageSize(ctx, input.limit);
  const matching = q === "" ? undefined : containsText(users.username, q);
  const [[counted], rows] = await Promise.all([
    ctx.db.select({ total: count() }).from(users).where(matching),
    ctx.db
      .select()
      .from(users)
      .where(after ? and(matching, gt(users.id, after)) : matching)
      .orderBy(...(after === undefined ? [asc(users.createdAt)] : []), asc(users.id))
      .limit(limit)
      .offset(offset),
  ]);
  const total = counted?.total ?? 0;
  return {
    data: await Promise.all(rows.map((row) => viewUser(ctx, row, seesAll(ctx, row)))),
    pagination: { offset, limit, total, page: Math.floor(offset / limit) + 1, pages: Math.ceil(total / limit) },
    next: after !== undefined && rows.length === limit ? rows.at(-1)?.id : undefined,
  };
}

/** Returns the user of the request's key. Source: users-organizations §3.6. */
export function currentUser(ctx: Context): { username: string; role: PlatformRole } {
  const { username, role } = requireUser(ctx);
  return { username, role };
}

/**
 * Returns one user. Only a platform ADMIN or the user itself sees role and key. Source: §3.7.
 * @throws Failure notFound.
 */
export async function showUser(ctx: Context, username: string): Promise<UserView> {
  const row = await findUser(ctx, username);
  return viewUser(ctx, row, seesAll(ctx, row));
}

/**
 * Changes name, password, role or address of a user. Ownerships and memberships reference the id, so a rename keeps them.
 * Source: users-organizations §3.8.
 * @throws Failure forbidden for others' accounts, for taking the role ADMIN and for demoting the last ADMIN; notFound
 * for an unknown user and for a taken name; conflict for a look-alike.
 */
export async function updateUser(
  ctx: Context,
  input: {
    target: string;
    username?: string | undefined;
    password?: string | undefined;
    role?: PlatformRole | undefined;
    email?: string | null | undefined;
  },
  client: Client = UNKNOWN_CLIENT,
): Promise<UpdatedUser> {
  const caller = requireUser(ctx);
  if (caller.role !== "ADMIN" && input.role === "ADMIN") {
    throw new Failure("forbidden", "PERMISSION ERROR: Only admins can change roles to admin.");
  }
  const refuseOthers = (target: UserRow) => {
    if (caller.role === "ADMIN") return;
    if (target.role === "ADMIN") {
      throw new Failure("forbidden", "PERMISSION ERROR: Only admins can update admin users.");
    }
    if (target.id !== caller.id) {
      throw new Failure("forbidden", "PERMISSION ERROR: Only admins can update other users.");
    }
  };
  // Checked before hashing, so that a rejected caller costs nothing, and again with the row locked.
  refuseOthers(await findUser(ctx, input.target));
  const { password } = input;
  if (password !== undefined) await limitAccountCalls(ctx, addressBlock(client.address));
  const passwordHash =
    password === undefined
      ? undefined
      : await hashing(ctx, client, () => hashPassword(password, ctx.resources.settings.passwordIterations));
  return refusingTakenName(() =>
    transaction(ctx, async (ctx) => {
      if (input.role !== undefined) await lockAdmins(ctx);
      const target = await findUser(ctx, input.target, "update");
      refuseOthers(target);
      if (target.role === "ADMIN" && input.role === "USER") await requireAnotherAdmin(ctx, target);
      if (input.username !== undefined) {
        const [taken] = await ctx.db.select({ id: users.id }).from(users).where(eq(users.username, input.username));
        if (taken !== undefined) throw new Failure("notFound", TAKEN);
        await refuseLookAlike(ctx, input.username, target.id);
      }
      const { username, role, email } = input;
      const isUnchanged = [username, role, email, passwordHash].every((value) => value === undefined);
      return isUnchanged ? viewUpdated(target) : writeUser(ctx, target, { username, role, email, passwordHash });
    }),
  );
}

/** Sets the platform role of a user. Failures forbidden or notFound, in the order of users-organizations §3.10. */
export async function changeRole(ctx: Context, input: { target: string; role: PlatformRole }): Promise<UpdatedUser> {
  const caller = requireUser(ctx);
  if (caller.role !== "ADMIN" && input.role === "ADMIN") {
    throw new Failure("forbidden", "PERMISSION ERROR: Only admins can assign the role ADMIN.");
  }
  if (caller.role !== "ADMIN" && input.target !== caller.username) {
    throw new Failure("forbidden", "PERMISSION ERROR: Only admins can change roles for other users.");
  }
  return transaction(ctx, async (ctx) => {
    await lockAdmins(ctx);
    const target = await findUser(ctx, input.target, "update");
    if (target.role === "ADMIN" && input.role === "USER") await requireAnotherAdmin(ctx, target);
    return writeUser(ctx, target, { role: input.role });
  });
}

/**
 * Deletes a user in one transaction, and ends all its memberships. Organizations it owns pass to the first member by
 * role (ADMIN, MANAGER, EVALUATOR), then by joining order. Organizations without members are deleted with everything in
 * them. Source: users-organizations §3.11.
 * @throws Failure forbidden for others' accounts and the last ADMIN; notFound.
 */
export async function deleteUser(ctx: Context, username: string): Promise<void> {
  const caller = requireUser(ctx);
  await transaction(ctx, async (ctx) => {
    await lockAdmins(ctx);
    // The row lock blocks transactions that would give this user another organization or membership.
    const target = await findUser(ctx, username, "update");
    if (caller.role !== "ADMIN" && target.role === "ADMIN") {
      throw new Failure("forbidden", "PERMISSION ERROR: Only admins can delete admin users.");
    }
    if (caller.role !== "ADMIN" && target.id !== caller.id) {
      throw new Failure("forbidden", "PERMISSION ERROR: Only admins can delete other users.");
    }
    if (target.role === "ADMIN") await requireAnotherAdmin(ctx, target);
    const passedOn = await passOnOrganizations(ctx.db, target.id, ctx.resources.now());
    await ctx.db.delete(users).where(eq(users.id, target.id));
    await auditAll(ctx, [
      { action: "user.delete", organizationId: null, target: target.username, before: factsOf(target) },
      ...passedOn.map(({ id, name, heirId }) => ({
        action: heirId === undefined ? ("organization.delete" as const) : ("organization.update" as const),
        organizationId: id,
        target: name,
        before: { ownerId: target.id },
        after: heirId === undefined ? undefined : { ownerId: heirId },
      })),
    ]);
  });
}

async function writeUser(
  ctx: Context,
  target: UserRow,
  change: {
    username?: string | undefined;
    role?: PlatformRole | undefined;
    email?: string | null | undefined;
    passwordHash?: string | undefined;
  },
): Promise<UpdatedUser> {
  const changed = { ...target, updatedAt: ctx.resources.now() };
  if (change.username !== undefined) changed.username = change.username;
  if (change.role !== undefined) changed.role = change.role;
  if (change.email !== undefined) changed.email = change.email;
  if (change.passwordHash !== undefined) changed.passwordHash = change.passwordHash;
  const { username, role, email, passwordHash, updatedAt } = changed;
  const skeleton = usernameSkeleton(username);
  await ctx.db
    .update(users)
    .set({ username, usernameSkeleton: skeleton, role, email, passwordHash, updatedAt })
    .where(eq(users.id, target.id));
  if (role !== target.role) await endSessionsOf(ctx, target.id);
  else if (change.passwordHash !== undefined) await endSessionsOf(ctx, target.id, sessionOfCaller(ctx));
  // A link that was mailed to the address before must not work on.
  const isNewAddress = email !== target.email;
  if (change.passwordHash !== undefined || isNewAddress) await endRecoveries(ctx, target.id);
  await audit(ctx, {
    action: "user.update",
    organizationId: null,
    target: target.username,
    before: factsOf(target),
    after: {
      ...factsOf(changed),
      ...(change.passwordHash === undefined ? {} : { passwordChanged: true }),
      ...(isNewAddress ? { emailChanged: true } : {}),
    },
  });
  return viewUpdated(changed);
}
