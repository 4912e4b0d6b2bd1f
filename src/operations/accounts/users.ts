import { and, asc, count, eq, ne, sql } from "drizzle-orm";
import { addressBlock } from "../../core/access/address-block.ts";
import { isPlatformAdmin, type PlatformRole, type UserCaller } from "../../core/access/caller.ts";
import { hasAllowedCharacters } from "../../core/access/username.ts";
import { violates } from "../../db/postgres/connect.ts";
import { insertOrganization, passOnOrganizations } from "../../db/queries/organization-rows.ts";
import { users } from "../../db/schema.ts";
import { containsText } from "../access.ts";
import { audit, auditAll } from "../audit.ts";
import { newId, clampPageSize, contextOf, transaction, type Context, type Resources } from "../context.ts";
import { hashPassword, isOutdated, issueApiKey, readApiKey, verifyPassword } from "../credentials.ts";
import { Failure } from "../errors.ts";
import { inTurn, type Requester } from "../state/hashing-queue.ts";
import { limitAccountCalls, throttleSignInEverywhere } from "./throttle.ts";
import { refuseLookAlike, TAKEN, usernameSkeleton } from "./username-skeletons.ts";

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

export interface Pagination {
  offset: number;
  limit: number;
  total: number;
  page: number;
  pages: number;
}

/** Advisory lock id; arbitrary but unique. Held while an ADMIN may lose that role, and while users are deleted. */
const ADMINS_LOCK = 5403_0002;

const LAST_ADMIN = "PERMISSION ERROR: There must always be at least one ADMIN user in the system.";

type UserRow = typeof users.$inferSelect;

/** Network origin of a request. */
export interface Client {
  /** Empty if unknown. */
  address: string;
  /** Aborted when the client closes the connection. */
  signal?: AbortSignal | undefined;
}

const UNKNOWN_CLIENT: Client = { address: "" };

/**
 * Queues work that hashes a password under this caller.
 * @throws Failure tooManyRequests, see inTurn.
 */
function hashing<T>(ctx: Context, { address, signal }: Client, work: () => Promise<T>): Promise<T> {
  const requester: Requester =
    ctx.caller.kind === "user"
      ? { key: ctx.caller.id, kind: isPlatformAdmin(ctx.caller) ? "platformAdmin" : "user", signal }
      : { key: addressBlock(address), kind: "anonymous", signal };
  return inTurn(work, requester, ctx.resources.settings.maxWaitingHashes);
}

/**
 * Signs in and returns the current key and role. Signing in changes nothing, with one exception: a missing, expired or
 * undecryptable key is replaced. Source: contract users-organizations §3.3, D16.
 * @throws Failure unauthenticated, with equal message and duration for an unknown name and a wrong password;
 * tooManyRequests after 10 failures per minute, name and address.
 */
export async function authenticate(
  ctx: Context,
  input: { username: string; password: string },
  client: Client = UNKNOWN_CLIENT,
): Promise<{ username: string; apiKey: string; role: PlatformRole }> {
  const address = addressBlock(client.address);
  await limitAccountCalls(ctx, address);
  const user = await throttleSignInEverywhere(ctx, { name: input.username, address }, () =>
    hashing(ctx, client, async () => {
      const [found] = await ctx.db.select().from(users).where(eq(users.username, input.username));
      const { passwordIterations: iterations } = ctx.resources.settings;
      const { compareBcrypt } = ctx.resources;
      return (await verifyPassword(input.password, found?.passwordHash, { iterations, compareBcrypt }))
        ? found
        : undefined;
    }),
  );
  if (user === undefined) throw new Failure("unauthenticated", "INVALID DATA: Invalid credentials");
  if (isOutdated(user.passwordHash, ctx.resources.settings.passwordIterations))
    await rehash(ctx, user, input.password, client);
  const isOver = user.apiKeyExpiresAt !== null && user.apiKeyExpiresAt.getTime() <= ctx.resources.now().getTime();
  const current =
    user.apiKeySealed === null || isOver ? undefined : await readApiKey(ctx.resources.keyring, user.apiKeySealed);
  const itself = { ...ctx, caller: { kind: "user" as const, id: user.id, username: user.username, role: user.role } };
  return { username: user.username, apiKey: current ?? (await renewApiKey(itself, user.id)), role: user.role };
}

/**
 * Upgrades the password's hash, unless the password was changed meanwhile. A full queue must not fail a correct
 * sign-in: the upgrade is left to the next one.
 */
async function rehash(ctx: Context, user: UserRow, password: string, client: Client): Promise<void> {
  const passwordHash = await hashing(ctx, client, () =>
    hashPassword(password, ctx.resources.settings.passwordIterations),
  ).catch((error: unknown) => {
    if (error instanceof Failure && error.code === "tooManyRequests") return undefined;
    throw error;
  });
  if (passwordHash === undefined) return;
  await ctx.db
    .update(users)
    .set({ passwordHash })
    .where(and(eq(users.id, user.id), eq(users.passwordHash, user.passwordHash)));
}

/**
 * Checks that this caller may create users.
 * @throws Failure unauthenticated or forbidden when sign-up is closed to it.
 */
export function requireSignUpAllowed(ctx: Context): void {
  if (ctx.resources.settings.allowPublicSignup || isPlatformAdmin(ctx.caller)) return;
  if (ctx.caller.kind === "user") {
    throw new Failure("forbidden", "PERMISSION ERROR: Only admins can create users.");
  }
  throw new Failure(
    "unauthenticated",
    'API Key not found. Please ensure to add an API Key as value of the "x-api-key" header.',
  );
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
  const row = await refusingTakenName(() =>
    transaction(ctx, async (ctx) => {
      await refuseLookAlike(ctx, input.username);
      return insertUser(ctx, { ...input, role, passwordHash, organizationName: name });
    }),
  );
  const full = ctx.caller.kind !== "user" || isPlatformAdmin(ctx.caller);
  return viewUser(ctx, row, full);
}

/**
 * Makes sure that the instance has an ADMIN: creates this one, with its default organization, when there is none.
 * True when it was created. Any number of processes may call it at once. Failure unprocessable, notFound or conflict for a
 * name that nobody could sign up with. Source: users-organizations §1.10; contract README, decision 23.
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

/**
 * Lists one page of users by creation time. A USER must search for at least 4 characters of a name. `q` is a literal,
 * case-insensitive substring. Source: users-organizations §3.5.
 */
export async function listUsers(
  ctx: Context,
  input: { q: string; limit: number; offset: number },
): Promise<{ data: UserView[]; pagination: Pagination }> {
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
      .where(matching)
      .orderBy(asc(users.createdAt), asc(users.id))
      .limit(limit)
      .offset(offset),
  ]);
  const total = counted?.total ?? 0;
  return {
    data: await Promise.all(rows.map((row) => viewUser(ctx, row, seesAll(ctx, row)))),
    pagination: { offset, limit, total, page: Math.floor(offset / limit) + 1, pages: Math.ceil(total / limit) },
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
 * Changes name, password or role of a user. Ownerships and memberships reference the id, so a rename keeps them.
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
      const { username, role } = input;
      if (username === undefined && role === undefined && passwordHash === undefined) return viewUpdated(target);
      return writeUser(ctx, target, { username, role, passwordHash });
    }),
  );
}

/** Options for replacing a key. */
export interface KeyRotation {
  /** Seconds that the previous key stays valid. Default: 0. */
  overlapSeconds?: number | undefined;
  /** When the new key expires; null for never. */
  expiresAt?: Date | null | undefined;
}

/** A user's key without its value. */
export interface UserKeyView {
  expiresAt: Date | null;
  /** Last recorded use; recording lags by about a minute. */
  lastUsedAt: Date | null;
  /** When the previous key stops working; null if it already has. */
  previousUntil: Date | null;
}

function requireKeyOf(ctx: Context, username: string): void {
  const caller = requireUser(ctx);
  if (caller.role === "ADMIN" || username === caller.username) return;
  throw new Failure("forbidden", "PERMISSION ERROR: Only admins can regenerate API keys for other users.");
}

/**
 * Replaces the user's key. The old one stops working immediately, or after the requested overlap. `rotation` is called
 * only once the caller is authorized, because it may throw. Source: users-organizations §3.9.
 * @throws Failure forbidden for a USER replacing someone else's key; notFound; invalid for a past expiry.
 */
export async function regenerateApiKey(
  ctx: Context,
  username: string,
  rotation: () => KeyRotation,
): Promise<{ apiKey: string }> {
  requireKeyOf(ctx, username);
  const target = await findUser(ctx, username);
  const wanted = rotation();
  if (wanted.expiresAt != null && wanted.expiresAt.getTime() <= ctx.resources.now().getTime()) {
    throw new Failure("invalid", "INVALID DATA: expiresAt must be in the future");
  }
  return { apiKey: await renewApiKey(ctx, target.id, wanted) };
}

/**
 * Returns the expiry and last use of the user's key, and the end of the previous one.
 * @throws Failure forbidden, notFound.
 */
export async function showUserKey(ctx: Context, username: string): Promise<UserKeyView> {
  requireKeyOf(ctx, username);
  const row = await findUser(ctx, username);
  const until = row.previousApiKeyUntil;
  return {
    expiresAt: row.apiKeyExpiresAt,
    lastUsedAt: row.apiKeyLastUsedAt,
    previousUntil: until !== null && until.getTime() > ctx.resources.now().getTime() ? until : null,
  };
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

/** Serializes seeding and demoting ADMINs and deleting users, until the transaction ends. */
async function lockAdmins(ctx: Context): Promise<void> {
  await ctx.db.execute(sql`select pg_advisory_xact_lock(${ADMINS_LOCK})`);
}

async function requireAnotherAdmin(ctx: Context, target: UserRow): Promise<void> {
  const [other] = await ctx.db
    .select({ id: users.id })
    .from(users)
    .where(and(eq(users.role, "ADMIN"), ne(users.id, target.id)))
    .limit(1);
  if (other === undefined) throw new Failure("forbidden", LAST_ADMIN);
}

async function refusingTakenName<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (violates(error, "users_username_unique")) throw new Failure("notFound", TAKEN, { cause: error });
    throw error;
  }
}

async function insertUser(
  ctx: Context,
  input: { username: string; passwordHash: string; role: PlatformRole; organizationName: string },
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

/** Selects the audited fields of a user. */
const factsOf = ({ id, username, role }: Pick<UserRow, "id" | "username" | "role">) => ({ id, username, role });

async function renewApiKey(ctx: Context, userId: string, rotation: KeyRotation = {}): Promise<string> {
  const { apiKey, hash, sealed } = await issueApiKey(ctx.resources.keyring, "usr");
  const now = ctx.resources.now();
  const overlap = rotation.overlapSeconds ?? 0;
  const previousUntil = overlap === 0 ? null : new Date(now.getTime() + overlap * 1000);
  const expiresAt = rotation.expiresAt ?? null;
  return transaction(ctx, async (ctx) => {
    const [renewed] = await ctx.db
      .update(users)
      .set({
        apiKeyHash: hash,
        apiKeySealed: sealed,
        apiKeyExpiresAt: expiresAt,
        apiKeyLastUsedAt: null,
        previousApiKeyHash: previousUntil === null ? null : sql`${users.apiKeyHash}`,
        // An expired key must not become valid again.
        previousApiKeyUntil:
          previousUntil === null
            ? null
            : sql`least(${users.apiKeyExpiresAt}, ${previousUntil.toISOString()}::timestamptz)`,
        updatedAt: now,
      })
      .where(eq(users.id, userId))
      .returning({ username: users.username });
    if (renewed === undefined) throw new Failure("notFound", "INVALID DATA: User not found");
    await audit(ctx, {
      action: "user.key",
      organizationId: null,
      target: renewed.username,
      after: { expiresAt, previousUntil },
    });
    return apiKey;
  });
}

async function writeUser(
  ctx: Context,
  target: UserRow,
  change: { username?: string | undefined; role?: PlatformRole | undefined; passwordHash?: string | undefined },
): Promise<UpdatedUser> {
  const changed = { ...target, updatedAt: ctx.resources.now() };
  if (change.username !== undefined) changed.username = change.username;
  if (change.role !== undefined) changed.role = change.role;
  if (change.passwordHash !== undefined) changed.passwordHash = change.passwordHash;
  const { username, role, passwordHash, updatedAt } = changed;
  const skeleton = usernameSkeleton(username);
  await ctx.db
    .update(users)
    .set({ username, usernameSkeleton: skeleton, role, passwordHash, updatedAt })
    .where(eq(users.id, target.id));
  await audit(ctx, {
    action: "user.update",
    organizationId: null,
    target: target.username,
    before: factsOf(target),
    after: { ...factsOf(changed), ...(change.passwordHash === undefined ? {} : { passwordChanged: true }) },
  });
  return viewUpdated(changed);
}

async function findUser(ctx: Context, username: string, lock?: "update"): Promise<UserRow> {
  const query = ctx.db.select().from(users).where(eq(users.username, username));
  const [row] = await (lock === undefined ? query : query.for(lock));
  if (row === undefined) throw new Failure("notFound", "INVALID DATA: User not found");
  return row;
}

/** Narrows the caller's type: authorization admits only user keys to these operations. */
function requireUser(ctx: Context): UserCaller {
  if (ctx.caller.kind === "user") return ctx.caller;
  throw new Failure("forbidden", "This route requires a user API key. Organization API keys are not allowed");
}

function seesAll(ctx: Context, row: UserRow): boolean {
  return isPlatformAdmin(ctx.caller) || (ctx.caller.kind === "user" && ctx.caller.id === row.id);
}

async function viewUser(ctx: Context, row: UserRow, full: boolean): Promise<UserView> {
  const { id, username, role, createdAt, updatedAt } = row;
  if (!full) return { _id: id, id, username, createdAt, updatedAt };
  const apiKey = row.apiKeySealed === null ? undefined : await readApiKey(ctx.resources.keyring, row.apiKeySealed);
  if (apiKey === undefined) return { _id: id, id, username, role, createdAt, updatedAt };
  return { _id: id, id, username, apiKey, role, createdAt, updatedAt };
}

function viewUpdated({ username, role, createdAt, updatedAt }: UserRow): UpdatedUser {
  return { username, role, createdAt, updatedAt };
}
