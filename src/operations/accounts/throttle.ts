import { isPlatformAdmin } from "../../core/access/caller.ts";
import { countRate, readRate, secondsToNextMinute } from "../../db/queries/rate-counters.ts";
import type { Context } from "../context.ts";
import { Failure } from "../errors.ts";
import { MAX_FAILURES, tooManyFailures } from "../state/call-limits.ts";

/*
 * Rate limits on failed sign-ins and on calls that hash a password. They are counted in the database, so that they hold
 * across all processes; state/call-limits.ts counts the others in memory.
 *
 * rate-limiter-flexible does not fit: its windows begin with a key's first call and follow the system's clock. Here a
 * minute ends for everybody at once, which `Retry-After` announces, and the clock is the context's.
 */

/** Failed sign-ins per minute and name over all addresses. Source: contract README, decision 22. */
const MAX_FAILURES_PER_NAME = 500;

/**
 * Default for sign-ins and sign-ups per minute and address. It is high because everyone behind one proxy or office
 * shares an address.
 */
const MAX_ACCOUNT_CALLS = 3000;

/**
 * Counts a call that hashes a password, per address and across all processes. Platform ADMINs and unknown addresses are
 * exempt.
 * @throws Failure tooManyRequests above the limit per minute.
 */
export async function limitAccountCalls(ctx: Context, address: string): Promise<void> {
  const limit = ctx.resources.settings.accountCallsPerMinute ?? MAX_ACCOUNT_CALLS;
  if (address === "" || limit === 0 || isPlatformAdmin(ctx.caller)) return;
  const now = ctx.resources.now();
  if ((await countRate(ctx.db, `accounts ${address}`, now)) <= limit) return;
  throw new Failure("tooManyRequests", "Too many requests. Please try again later", {
    retryAfterSeconds: secondsToNextMinute(now),
  });
}

/**
 * Runs one sign-in attempt, and counts failures across all processes. The limit per name and address keeps others from
 * locking a user out; another limit per name covers all addresses. Concurrent attempts in several processes may exceed
 * a limit slightly.
 */
export async function throttleSignInEverywhere<T>(
  ctx: Context,
  { name, address }: { name: string; address: string },
  signIn: () => Promise<T | undefined>,
): Promise<T | undefined> {
  const limit = failuresPerMinute(ctx);
  return throttleFailures(
    ctx,
    [
      { bucket: `sign-in ${await digestOf(`${name}\n${address}`)}`, limit },
      { bucket: `sign-in-name ${await digestOf(name)}`, limit: Math.max(limit, MAX_FAILURES_PER_NAME) },
    ],
    `${name}\n${address}`,
    signIn,
  );
}

/**
 * Runs one use of a link's token, and counts unknown tokens per address as failed sign-ins.
 * @throws Failure tooManyRequests above the limit of failed sign-ins per minute.
 */
export async function throttleGuesses<T>(
  ctx: Context,
  { kind, address }: { kind: string; address: string },
  find: () => Promise<T | undefined>,
): Promise<T | undefined> {
  const bucket = `${kind} ${address}`;
  return throttleFailures(ctx, [{ bucket, limit: failuresPerMinute(ctx) }], `\n${bucket}`, find);
}

const failuresPerMinute = (ctx: Context) => ctx.resources.settings.failedSignInsPerMinute ?? MAX_FAILURES;

/** Runs an attempt unless a bucket is full. An attempt without a result counts in every bucket. */
function throttleFailures<T>(
  ctx: Context,
  limits: readonly { bucket: string; limit: number }[],
  inProcess: string,
  run: () => Promise<T | undefined>,
): Promise<T | undefined> {
  const attempt = async () => {
    const now = ctx.resources.now();
    for (const { bucket, limit } of limits) {
      if ((await readRate(ctx.db, bucket, now)) >= limit) throw tooManyFailures(secondsToNextMinute(now));
    }
    const result = await run();
    if (result === undefined) for (const { bucket } of limits) await countRate(ctx.db, bucket, now);
    return result;
  };
  return ctx.resources.callLimits.throttleSignIn(inProcess, ctx.resources.now, attempt, failuresPerMinute(ctx));
}

/** Hashes a name for storage, because people sometimes type their password into the name field. */
async function digestOf(text: string): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  return Array.from(digest.slice(0, 16), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
