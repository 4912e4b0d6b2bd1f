import { and, eq, gt, isNull } from "drizzle-orm";
import { addressBlock } from "../../core/access/address-block.ts";
import { recoveries, users } from "../../db/schema.ts";
import { audit } from "../audit.ts";
import { type Context, newId, transaction } from "../context.ts";
import { hashPassword } from "../credentials.ts";
import { Failure } from "../errors.ts";
import { findByToken, hashLinkToken, linkToken } from "./link-tokens.ts";
import { type Language, queueRecoveryMail } from "./mails.ts";
import { type Client, hashing } from "./password-hashing.ts";
import { endSessionsOf } from "./session-rows.ts";
import { limitAccountCalls, throttleSignInEverywhere } from "./throttle.ts";
import { factsOf, findUser } from "./user-rows.ts";

const LIFETIME_MS = 3_600_000;

/**
 * Queues a mail with a link for a new password, where the user has an address. Existing and unknown names take the same
 * statements, so neither the answer nor its time tells them apart.
 * @throws Failure tooManyRequests as for failed sign-ins: every request counts as one.
 */
export async function requestRecovery(
  ctx: Context,
  { username, language, client }: { username: string; language: Language; client: Client },
): Promise<void> {
  const address = addressBlock(client.address);
  await limitAccountCalls(ctx, address);
  await throttleSignInEverywhere(ctx, { name: `recovery of ${username}`, address }, async () => {
    await queueRecoveryMail(ctx, { username, language });
    return undefined;
  });
}

/**
 * Makes a link for a new password of somebody else. Only platform ADMINs reach it.
 * @throws Failure notFound for an unknown user.
 */
export async function createRecovery(ctx: Context, username: string): Promise<{ token: string; expiresAt: Date }> {
  return transaction(ctx, async (ctx) => {
    const user = await findUser(ctx, username, "update");
    const now = ctx.resources.now();
    const id = newId(now);
    await insertRecovery(ctx, { id, userId: user.id, askedAt: now });
    await audit(ctx, { action: "user.recovery", organizationId: null, target: user.username, after: factsOf(user) });
    return {
      token: await linkToken(ctx.resources.keyring, "recovery", id),
      expiresAt: new Date(now.getTime() + LIFETIME_MS),
    };
  });
}

/** Inserts a link for a new password that is valid for an hour. Does nothing if its id exists. */
export async function insertRecovery(
  ctx: Context,
  { id, userId, askedAt }: { id: string; userId: string; askedAt: Date },
): Promise<void> {
  const tokenHash = await hashLinkToken(await linkToken(ctx.resources.keyring, "recovery", id));
  const expiresAt = new Date(askedAt.getTime() + LIFETIME_MS);
  await ctx.db
    .insert(recoveries)
    .values({ id, userId, tokenHash, createdAt: askedAt, expiresAt })
    .onConflictDoNothing();
}

/**
 * Sets the password of the link's user, once. The user's sessions and other links end with it.
 * @throws Failure notFound for unknown, used and expired links alike; tooManyRequests.
 */
export async function recover(
  ctx: Context,
  { token, password, client }: { token: string; password: string; client: Client },
): Promise<void> {
  await limitAccountCalls(ctx, addressBlock(client.address));
  const open = (ctx: Context, hash: string) =>
    ctx.db
      .select()
      .from(recoveries)
      .where(
        and(eq(recoveries.tokenHash, hash), isNull(recoveries.usedAt), gt(recoveries.expiresAt, ctx.resources.now())),
      );
  const found = await findByToken(ctx, { token, kind: "recovery", address: client.address }, async (hash) => {
    const [row] = await open(ctx, hash);
    return row;
  });
  const passwordHash = await hashing(ctx, client, () =>
    hashPassword(password, ctx.resources.settings.passwordIterations),
  );
  await transaction(ctx, async (ctx) => {
    const [user] = await ctx.db.select().from(users).where(eq(users.id, found.userId)).for("update");
    const [row] = await open(ctx, found.tokenHash).for("update");
    if (user === undefined || row === undefined) {
      throw new Failure("notFound", "NOT FOUND: This recovery link is not valid any more");
    }
    await ctx.db.update(users).set({ passwordHash, updatedAt: ctx.resources.now() }).where(eq(users.id, user.id));
    await endRecoveries(ctx, user.id);
    const asUser = { ...ctx, author: { actorKind: "user" as const, actorId: user.id } };
    await endSessionsOf(asUser, user.id);
    await audit(asUser, {
      action: "user.update",
      organizationId: null,
      target: user.username,
      before: factsOf(user),
      after: { ...factsOf(user), passwordChanged: true, recoveryId: row.id },
    });
  });
}

/** Ends the links of a user whose password was changed. */
export async function endRecoveries(ctx: Context, userId: string): Promise<void> {
  await ctx.db
    .update(recoveries)
    .set({ usedAt: ctx.resources.now() })
    .where(and(eq(recoveries.userId, userId), isNull(recoveries.usedAt)));
}
