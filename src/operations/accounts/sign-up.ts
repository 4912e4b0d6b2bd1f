import { KEY_REQUIRED } from "../../core/access/check-permission.ts";
import { eq } from "drizzle-orm";
import { addressBlock } from "../../core/access/address-block.ts";
import { isPlatformAdmin, type PlatformRole } from "../../core/access/caller.ts";
import { hasAllowedCharacters } from "../../core/access/username.ts";
import { insertOrganization } from "../../db/queries/organization-rows.ts";
import { users } from "../../db/schema.ts";
import { auditAll } from "../audit.ts";
import { type Context, contextOf, newId, type Resources, transaction } from "../context.ts";
import { hashPassword, issueApiKey } from "../credentials.ts";
import { Failure } from "../errors.ts";
import { type Client, hashing, UNKNOWN_CLIENT } from "./password-hashing.ts";
import { limitAccountCalls } from "./throttle.ts";
import { factsOf, lockAdmins, type UserRow, type UserView, viewUser } from "./user-rows.ts";
import { refuseLookAlike, refusingTakenName, TAKEN, usernameSkeleton } from "./username-skeletons.ts";

/**
 * Checks that this caller may create users.
 * @throws Failure unauthenticated or forbidden when sign-up is closed to it.
 */
export function requireSignUpAllowed(ctx: Context): void {
  if (ctx.resources.settings.allowPublicSignup || isPlatformAdmin(ctx.caller)) return;
  if (ctx.caller.kind === "user") {
    throw new Failure("forbidden", "PERMISSION ERROR: Only admins can create users.");
  }
  throw new Failure("unauthenticated", KEY_REQUIRED);
}

/**
 * Creates a user with its default organization and a key of scope ALL, in one transaction. Only a platform ADMIN
 * creates an ADMIN: a USER is rejected, any other caller gets a USER account. Source: users-organizations §3.4,
 * contract README decision 23.
 * @throws Failure notFound for a taken name (historical), also in a race; conflict for a look-alike.
 */
export async function createUser(
  ctx: Context,
  input: { username: string; password: string; role?: PlatformRole | undefined },
  client: Client = UNKNOWN_CLIENT,
): Promise<UserView> {
  requireSignUpAllowed(ctx);
  const row = await registerUser(ctx, input, client);
  const full = ctx.caller.kind !== "user" || isPlatformAdmin(ctx.caller);
  return viewUser(ctx, row, full);
}

/**
 * Creates a user as createUser does, also where sign-up is closed. `alongside` runs in the same transaction.
 * @throws Failure as createUser.
 */
export async function registerUser(
  ctx: Context,
  input: { username: string; password: string; role?: PlatformRole | undefined },
  client: Client,
  alongside: (ctx: Context, user: UserRow) => Promise<void> = async () => {},
): Promise<UserRow> {
  await limitAccountCalls(ctx, addressBlock(client.address));
  const [taken] = await ctx.db.select({ id: users.id }).from(users).where(eq(users.username, input.username));
  if (taken !== undefined) throw new Failure("notFound", TAKEN);
  if (ctx.caller.kind === "user" && ctx.caller.role !== "ADMIN" && input.role === "ADMIN") {
    throw new Failure("forbidden", "PERMISSION ERROR: Only admins can create other admins.");
  }
  const role = isPlatformAdmin(ctx.caller) ? (input.role ?? "USER") : "USER";
  // Checked before hashing, so that a rejected name costs nothing, and again with the skeleton locked.
  await refuseLookAlike(ctx, input.username);
  const passwordHash = await hashing(ctx, client, () =>
    hashPassword(input.password, ctx.resources.settings.passwordIterations),
  );
  const name = `${input.username}'s Organization`;
  return refusingTakenName(() =>
    transaction(ctx, async (ctx) => {
      await refuseLookAlike(ctx, input.username);
      const row = await insertUser(ctx, { ...input, role, passwordHash, organizationName: name });
      await alongside(ctx, row);
      return row;
    }),
  );
}

/**
 * Creates the first ADMIN with its default organization, unless an ADMIN exists. Returns true if it was created. Safe to
 * call from several processes at once. Source: users-organizations §1.10; contract README, decision 23.
 * @throws Failure unprocessable, notFound or conflict for a name that nobody could sign up with.
 */
export async function seedFirstAdmin(
  resources: Resources,
  admin: { username: string; password: string; organizationName: string },
): Promise<boolean> {
  const ctx = contextOf(resources, { kind: "anonymous" });
  return transaction(ctx, async (ctx) => {
    await lockAdmins(ctx);
    const [existing] = await ctx.db.select({ id: users.id }).from(users).where(eq(users.role, "ADMIN")).limit(1);
    if (existing !== undefined) return false;
    if (!hasAllowedCharacters(admin.username)) {
      throw new Failure("unprocessable", "The username contains characters that are not allowed");
    }
    await refuseLookAlike(ctx, admin.username);
    const passwordHash = await hashPassword(admin.password, ctx.resources.settings.passwordIterations);
    await insertUser(ctx, { ...admin, role: "ADMIN", passwordHash });
    return true;
  });
}

/** Inserts a user with a key, a default organization and its key of scope ALL. Call it inside a transaction. */
export async function insertUser(
  ctx: Context,
  input: { username: string; passwordHash: string; role: PlatformRole; organizationName: string; via?: "oidc" },
): Promise<UserRow> {
  const now = ctx.resources.now();
  const [userKey, organizationKey] = await Promise.all([
    issueApiKey(ctx.resources.keyring, "usr"),
    issueApiKey(ctx.resources.keyring, "org"),
  ]);
  const [row] = await ctx.db
    .insert(users)
    .values({
      id: newId(now),
      username: input.username,
      usernameSkeleton: usernameSkeleton(input.username),
      passwordHash: input.passwordHash,
      role: input.role,
      via: input.via ?? null,
      apiKeyHash: userKey.hash,
      apiKeySealed: userKey.sealed,
      createdAt: now,
      updatedAt: now,
    })
    .returning();
  if (row === undefined) throw new Error("an inserted user was not returned");
  const organizationId = newId(now);
  await insertOrganization(ctx.db, {
    id: organizationId,
    name: input.organizationName,
    ownerId: row.id,
    isDefault: true,
    createdAt: now,
    key: { id: newId(now), hash: organizationKey.hash, sealed: organizationKey.sealed },
  });
  await auditAll(ctx, [
    { action: "user.create", organizationId: null, target: row.username, after: factsOf(row) },
    {
      action: "organization.create",
      organizationId,
      target: input.organizationName,
      after: { name: input.organizationName, ownerId: row.id, default: true },
    },
  ]);
  return row;
}
