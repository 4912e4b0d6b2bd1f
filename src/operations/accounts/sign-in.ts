import { and, eq } from "drizzle-orm";
import { addressBlock } from "../../core/access/address-block.ts";
import type { PlatformRole } from "../../core/access/caller.ts";
import { users } from "../../db/schema.ts";
import type { Context, PasswordSignIn } from "../context.ts";
import { hashPassword, isOutdated, readApiKey, verifyPassword } from "../credentials.ts";
import { Failure } from "../errors.ts";
import { type Client, hashing, UNKNOWN_CLIENT } from "./password-hashing.ts";
import { limitAccountCalls, throttleSignInEverywhere } from "./throttle.ts";
import { renewApiKey } from "./user-keys.ts";
import { type UserRow, viewAccount } from "./user-rows.ts";

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
  const user = await verifyCredentials(ctx, input, client);
  const isOver = user.apiKeyExpiresAt !== null && user.apiKeyExpiresAt.getTime() <= ctx.resources.now().getTime();
  const current =
    user.apiKeySealed === null || isOver ? undefined : await readApiKey(ctx.resources.keyring, user.apiKeySealed);
  const asUser = { ...ctx, caller: { kind: "user" as const, id: user.id, username: user.username, role: user.role } };
  return { username: user.username, apiKey: current ?? (await renewApiKey(asUser, user.id)), role: user.role };
}

/**
 * Returns the user of a name and password, for any kind of sign-in.
 * @throws Failure as authenticate does; unauthenticated too where the operator wants people to use the provider.
 */
export async function verifyCredentials(
  ctx: Context,
  input: { username: string; password: string },
  client: Client,
): Promise<UserRow> {
  const { passwordSignIn } = ctx.resources.settings;
  if (passwordSignIn === "false") throw passwordRefused(ctx);
  const address = addressBlock(client.address);
  await limitAccountCalls(ctx, address);
  const { passwordIterations: iterations } = ctx.resources.settings;
  const user = await throttleSignInEverywhere(ctx, { name: input.username, address }, () =>
    hashing(ctx, client, async () => {
      const [found] = await ctx.db.select().from(users).where(eq(users.username, input.username));
      const { compareBcrypt } = ctx.resources;
      return (await verifyPassword(input.password, found?.passwordHash, { iterations, compareBcrypt }))
        ? found
        : undefined;
    }),
  );
  if (user === undefined) throw new Failure("unauthenticated", "INVALID DATA: Invalid credentials");
  if (passwordSignIn === "admins" && user.role !== "ADMIN") throw passwordRefused(ctx);
  if (!isOutdated(user.passwordHash, iterations)) return user;
  return { ...user, passwordHash: await rehash(ctx, user, input.password, client) };
}

/**
 * Refuses an account with a password, with which nobody could sign in.
 * @throws Failure unauthenticated where people use the provider.
 */
export function requirePasswordSignIn(ctx: Context): void {
  const { passwordSignIn = "true" } = ctx.resources.settings;
  if (passwordSignIn !== "true") throw passwordRefused(ctx);
}

const passwordRefused = ({ resources: { settings } }: Context) =>
  new Failure("unauthenticated", `Sign in with ${settings.signOn?.name ?? "the provider"}`);

/** Returns the ways in which people sign in here, and the user of the request. */
export async function signInMethods(ctx: Context) {
  const { passwordSignIn, signOn, allowPublicSignup } = ctx.resources.settings;
  const [user] = ctx.caller.kind === "user" ? await ctx.db.select().from(users).where(eq(users.id, ctx.caller.id)) : [];
  return {
    password: passwordSignIn ?? ("true" satisfies PasswordSignIn),
    provider: signOn === undefined ? null : { name: signOn.name },
    user: user === undefined ? null : viewAccount(user),
    signUp: allowPublicSignup && passwordSignIn !== "false",
  };
}

/**
 * Upgrades the password's hash, unless the password was changed meanwhile. Returns the hash that is stored then. A full queue must not fail a correct
 * sign-in: the upgrade is left to the next one.
 */
async function rehash(ctx: Context, user: UserRow, password: string, client: Client): Promise<string> {
  const { passwordIterations } = ctx.resources.settings;
  const passwordHash = await hashing(ctx, client, () => hashPassword(password, passwordIterations)).catch(
    (error: unknown) => {
      if (error instanceof Failure && error.code === "tooManyRequests") return undefined;
      throw error;
    },
  );
  if (passwordHash === undefined) return user.passwordHash;
  const upgraded = await ctx.db
    .update(users)
    .set({ passwordHash })
    .where(and(eq(users.id, user.id), eq(users.passwordHash, user.passwordHash)))
    .returning({ id: users.id });
  return upgraded.length === 0 ? user.passwordHash : passwordHash;
}
