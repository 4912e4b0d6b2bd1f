import { isPlatformAdmin } from "../../core/access/caller.ts";
import { countRate, readRate, secondsToNextMinute } from "../../db/queries/rate-counters.ts";
import type { Context } from "../context.ts";
import { Failure } from "../errors.ts";

/*
 * Rate limits on expensive calls. Failed sign-ins and calls that hash a password are counted in the database, so their
 * limits hold across all processes. Everything else is counted in memory: n processes allow n times as much.
 *
 * rate-limiter-flexible does not fit: its windows begin with a key's first call and follow the system's clock. Here a
 * minute ends for everybody at once, which `Retry-After` announces, and the clock is the context's.
 */

const WINDOW_MS = 60_000;
/** Failed sign-ins per minute, name and address. Source: contract README, decisions 18 and 22. */
const MAX_FAILURES = 10;
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
  const limit = ctx.settings.accountCallsPerMinute ?? MAX_ACCOUNT_CALLS;
  if (address === "" || limit === 0 || isPlatformAdmin(ctx.caller)) return;
  const now = ctx.now();
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
  const limit = ctx.settings.failedSignInsPerMinute ?? MAX_FAILURES;
  const limits = [
    { bucket: `sign-in ${await digestOf(`${name}\n${address}`)}`, limit },
    { bucket: `sign-in-name ${await digestOf(name)}`, limit: Math.max(limit, MAX_FAILURES_PER_NAME) },
  ];
  const attempt = async () => {
    const now = ctx.now();
    for (const { bucket, limit } of limits) {
      if ((await readRate(ctx.db, bucket, now)) >= limit) throw tooManyFailures(secondsToNextMinute(now));
    }
    const result = await signIn();
    if (result === undefined) for (const { bucket } of limits) await countRate(ctx.db, bucket, now);
    return result;
  };
  return throttleSignIn(`${name}\n${address}`, ctx.now, attempt, limit);
}

/** Hashes a name for storage, because people sometimes type their password into the name field. */
async function digestOf(text: string): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  return Array.from(digest.slice(0, 16), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function tooManyFailures(retryAfterSeconds: number): Failure {
  return new Failure("tooManyRequests", "Too many failed sign-in attempts. Please try again later", {
    retryAfterSeconds,
  });
}

interface Attempts {
  /** Timestamps of failures, oldest first. */
  failures: number[];
  /** Sign-ins in flight. */
  running: Promise<unknown>[];
}

const attemptsByBucket = new Map<string, Attempts>();

/**
 * Runs one sign-in attempt of a bucket in this process. Only failures count, which `signIn` signals with undefined. The
 * limit applies to existing and unknown names alike.
 * @throws Failure tooManyRequests, before any work, after `limit` failures within a minute.
 */
export async function throttleSignIn<T>(
  bucketName: string,
  now: () => Date,
  signIn: () => Promise<T | undefined>,
  limit: number = MAX_FAILURES,
): Promise<T | undefined> {
  // No user has a name this long. One shared bucket keeps such names from filling the memory.
  const bucket = bucketName.length > 512 ? "" : bucketName;
  let attempts = attemptsOf(bucket);
  for (;;) {
    forgetOldFailures(attempts, now().getTime());
    const oldest = attempts.failures[0];
    if (oldest !== undefined && attempts.failures.length >= limit) {
      throw tooManyFailures(Math.max(1, Math.ceil((oldest + WINDOW_MS - now().getTime()) / 1000)));
    }
    // Attempts in flight may all fail, so further ones wait for an outcome.
    if (attempts.failures.length + attempts.running.length < limit) break;
    await Promise.race(attempts.running);
    attempts = attemptsOf(bucket);
  }
  const attempt = signIn();
  const settled = attempt.catch(() => {});
  attempts.running.push(settled);
  try {
    const result = await attempt;
    if (result === undefined) attempts.failures.push(now().getTime());
    return result;
  } finally {
    attempts.running.splice(attempts.running.indexOf(settled), 1);
    forgetIdleNames(now().getTime());
  }
}

function attemptsOf(name: string): Attempts {
  const known = attemptsByBucket.get(name);
  if (known !== undefined) return known;
  const fresh = { failures: [], running: [] };
  attemptsByBucket.set(name, fresh);
  return fresh;
}

function forgetOldFailures(attempts: Attempts, now: number): void {
  attempts.failures = attempts.failures.filter((at) => Math.abs(now - at) < WINDOW_MS);
}

/** Evicts names without failures in the last minute. The speed of hashing bounds the rest. */
function forgetIdleNames(now: number): void {
  for (const [name, attempts] of attemptsByBucket) {
    forgetOldFailures(attempts, now);
    if (attempts.failures.length === 0 && attempts.running.length === 0) attemptsByBucket.delete(name);
  }
}

/** Unknown keys per minute and address: far more than a misconfigured client sends, far fewer than guessing needs. */
const MAX_UNKNOWN_KEYS = 1000;
let unknownKeys = { minute: 0, byAddress: new Map<string, number>() };

/**
 * Returns the failure for an unknown key, or tooManyRequests above the limit per minute and address. Valid keys from
 * the same address are unaffected.
 */
export function unknownKeyFailure(
  address: string,
  now: Date,
  failure: Failure,
  limit: number = MAX_UNKNOWN_KEYS,
): Failure {
  const minute = Math.floor(now.getTime() / WINDOW_MS);
  if (unknownKeys.minute !== minute) unknownKeys = { minute, byAddress: new Map() };
  const count = (unknownKeys.byAddress.get(address) ?? 0) + 1;
  unknownKeys.byAddress.set(address, count);
  if (count <= limit || limit === 0) return failure;
  return new Failure("tooManyRequests", "Too many unknown API keys. Please try again later", {
    retryAfterSeconds: Math.ceil((WINDOW_MS - (now.getTime() % WINDOW_MS)) / 1000),
  });
}

/** Calls per caller in the current second. */
let keyCalls = { second: 0, byCaller: new Map<string, number>() };

/**
 * Counts a call with a valid key in this process.
 * @throws Failure tooManyRequests above `limit` calls per second.
 */
export function limitKeyCalls(caller: Context["caller"], now: Date, limit: number): void {
  if (caller.kind === "anonymous") return;
  const second = Math.floor(now.getTime() / 1000);
  if (keyCalls.second !== second) keyCalls = { second, byCaller: new Map() };
  const id = caller.kind === "user" ? caller.id : caller.keyId;
  const count = (keyCalls.byCaller.get(id) ?? 0) + 1;
  keyCalls.byCaller.set(id, count);
  if (count <= limit) return;
  throw new Failure("tooManyRequests", "Too many requests with this API key. Please try again later", {
    retryAfterSeconds: 1,
  });
}
