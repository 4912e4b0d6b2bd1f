import { and, eq, ne, sql } from "drizzle-orm";
import { isPlatformAdmin, type PlatformRole, type UserCaller } from "../../core/access/caller.ts";
import { users } from "../../db/schema.ts";
import type { Context } from "../context.ts";
import { readApiKey } from "../credentials.ts";
import { Failure } from "../errors.ts";

export type UserRow = typeof users.$inferSelect;

/**
 * A user in its wire format. Only a platform ADMIN, the user itself and the sign-up response see `apiKey` and `role`.
 */
export interface UserView {
  _id: string;
  id: string;
  username: string;
  apiKey?: string;
  role?: PlatformRole;
  createdAt: Date;
  updatedAt: Date;
}

/** Response of an update, without ids and key. */
export type UpdatedUser = Pick<UserView, "username" | "createdAt" | "updatedAt"> & { role: PlatformRole };

/** Selects the audited fields of a user. */
export const factsOf = ({ id, username, role }: Pick<UserRow, "id" | "username" | "role">) => ({ id, username, role });

export async function findUser(ctx: Context, username: string, lock?: "update"): Promise<UserRow> {
  const query = ctx.db.select().from(users).where(eq(users.username, username));
  const [row] = await (lock === undefined ? query : query.for(lock));
  if (row === undefined) throw new Failure("notFound", "INVALID DATA: User not found");
  return row;
}

/** Narrows the caller's type: authorization admits only user keys to these operations. */
export function requireUser(ctx: Context): UserCaller {
  if (ctx.caller.kind === "user") return ctx.caller;
  throw new Failure("forbidden", "This route requires a user API key. Organization API keys are not allowed");
}

export function seesAll(ctx: Context, row: UserRow): boolean {
  return isPlatformAdmin(ctx.caller) || (ctx.caller.kind === "user" && ctx.caller.id === row.id);
}

export async function viewUser(ctx: Context, row: UserRow, full: boolean): Promise<UserView> {
  const { id, username, role, createdAt, updatedAt } = row;
  if (!full) return { _id: id, id, username, createdAt, updatedAt };
  const apiKey = row.apiKeySealed === null ? undefined : await readApiKey(ctx.resources.keyring, row.apiKeySealed);
  if (apiKey === undefined) return { _id: id, id, username, role, createdAt, updatedAt };
  return { _id: id, id, username, apiKey, role, createdAt, updatedAt };
}

/** A user as its own sessions see it: without the key, which a page must not hold. */
export interface AccountView {
  id: string;
  username: string;
  role: PlatformRole;
  email?: string;
  via?: "oidc";
}

export function viewAccount({ id, username, role, email, via }: UserRow): AccountView {
  return { id, username, role, ...(email === null ? {} : { email }), ...(via === null ? {} : { via }) };
}

export function viewUpdated({ username, role, createdAt, updatedAt }: UserRow): UpdatedUser {
  return { username, role, createdAt, updatedAt };
}

/** Advisory lock id; arbitrary but unique. Held while an ADMIN may lose that role, and while users are deleted. */
const ADMINS_LOCK = 5403_0002;

const LAST_ADMIN = "PERMISSION ERROR: There must always be at least one ADMIN user in the system.";

/** Serializes seeding and demoting ADMINs and deleting users, until the transaction ends. */
export async function lockAdmins(ctx: Context): Promise<void> {
  await ctx.db.execute(sql`select pg_advisory_xact_lock(${ADMINS_LOCK})`);
}

export async function requireAnotherAdmin(ctx: Context, target: UserRow): Promise<void> {
  const [other] = await ctx.db
    .select({ id: users.id })
    .from(users)
    .where(and(eq(users.role, "ADMIN"), ne(users.id, target.id)))
    .limit(1);
  if (other === undefined) throw new Failure("forbidden", LAST_ADMIN);
}
