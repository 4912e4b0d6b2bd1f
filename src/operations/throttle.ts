import { countRate, readRate, secondsToNextMinute } from "../db/rate-counters.ts";
import type { Context } from "./context.ts";
import { Failure } from "./errors.ts";

/*
 * Limits on what callers can cost. Failed sign-ins a name, and sign-ins and sign-ups an address, hold across processes: they
 * are counted in the database, beside the slow hash that each of them costs anyway. The rest is counted in the memory of
 * one process: with n processes it is n times as much.
 */

const WINDOW_MS = 60_000;
/** Failed sign-ins a minute and name, where the operator has not said otherwise. Source: contract README, decision 18. */
const MAX_FAILURES = 10;
/** Slow hashes asked for and not finished, where the operator has not said otherwise; a process computes about ten a second. */
const MAX_PENDING_HASHES = 600;

/** Sign-ins and sign-ups a minute and address, where the operator has not said otherwise: everybody behind one proxy or one office is one address. */
const MAX_ACCOUNT_CALLS = 3000;

/**
 * Counts a sign-in or a sign-up without a key from this address. Failure tooManyRequests once too many came within the
 * minute, to whichever process. An address that is not known is not counted.
 */
export async function limitAccountCalls(ctx: Context, address: string): Promise<void> {
  const limit = ctx.settings.accountCallsPerMinute ?? MAX_ACCOUNT_CALLS;
  if (address === "" || limit === 0 || ctx.caller.kind === "user") return;
  const now = ctx.now();
  if ((await countRate(ctx.db, `accounts ${address}`, now)) <= limit) return;
  throw new Failure("tooManyRequests", "Too many requests. Please try again later", {
    retryAfterSeconds: secondsToNextMinute(now),
  });
}

/**
 * The same as throttleSignIn, across processes: what failed at others counts too. Of calls that are under way at several
 * processes at once, a few more than the limit may come through.
 */
export async function throttleSignInEverywhere<T>(
  ctx: Context,
  name: string,
  signIn: () => Promise<T | undefined>,
): Promise<T | undefined> {
  // Not the name: people type their password there.
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(name)));
  const bucket = `sign-in ${Array.from(digest.slice(0, 16), (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
  const limit = ctx.settings.failedSignInsPerMinute ?? MAX_FAILURES;
  const attempt = async () => {
    const now = ctx.now();
    if ((await readRate(ctx.db, bucket, now)) >= limit) throw tooManyFailures(secondsToNextMinute(now));
    const result = await signIn();
    if (result === undefined) await countRate(ctx.db, bucket, now);
    return result;
  };
  return throttleSignIn(name, ctx.now, attempt, limit);
}

function tooManyFailures(retryAfterSeconds: number): Failure {
  return new Failure("tooManyRequests", "Too many failed sign-in attempts. Please try again later", {
    retryAfterSeconds,
  });
}

interface Attempts {
  /** Moments of failures, oldest first. */
  failures: number[];
  /** Sign-ins whose outcome is not known yet. */
  running: Promise<unknown>[];
}

const attemptsByName = new Map<string, Attempts>();
let pendingHashes = 0;

/**
 * Runs work that hashes a password for somebody without a key.
 * Failure tooManyRequests when so many wait that the answer would come too late to be of use.
 */
export async function boundHashing<T>(work: () => Promise<T>, mostWaiting: number = MAX_PENDING_HASHES): Promise<T> {
  if (pendingHashes >= mostWaiting) {
    throw new Failure("tooManyRequests", "Too many requests. Please try again later", { retryAfterSeconds: 10 });
  }
  pendingHashes += 1;
  try {
    return await work();
  } finally {
    pendingHashes -= 1;
  }
}

/**
 * Runs one sign-in attempt for this name; `signIn` resolves to undefined when it failed, and only failures count.
 * Failure tooManyRequests, before any work, after `limit` failures within a minute, whether the name exists or not.
 */
export async function throttleSignIn<T>(
  name: string,
  now: () => Date,
  signIn: () => Promise<T | undefined>,
  limit: number = MAX_FAILURES,
): Promise<T | undefined> {
  // No user has so long a name; kept one by one, such names would be a way to fill the memory.
  const bucket = name.length > 256 ? "" : name;
  let attempts = attemptsOf(bucket);
  for (;;) {
    forgetOldFailures(attempts, now().getTime());
    const oldest = attempts.failures[0];
    if (oldest !== undefined && attempts.failures.length >= limit) {
      throw tooManyFailures(Math.max(1, Math.ceil((oldest + WINDOW_MS - now().getTime()) / 1000)));
    }
    // Attempts in flight may all fail: more of them than failures are left must wait for their outcome.
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
  const known = attemptsByName.get(name);
  if (known !== undefined) return known;
  const fresh = { failures: [], running: [] };
  attemptsByName.set(name, fresh);
  return fresh;
}

function forgetOldFailures(attempts: Attempts, now: number): void {
  attempts.failures = attempts.failures.filter((at) => Math.abs(now - at) < WINDOW_MS);
}

/** Keeps the map as small as the failures of the last minute, which the speed of hashing bounds. */
function forgetIdleNames(now: number): void {
  for (const [name, attempts] of attemptsByName) {
    forgetOldFailures(attempts, now);
    if (attempts.failures.length === 0 && attempts.running.length === 0) attemptsByName.delete(name);
  }
}

/** Unknown keys a minute and address: far above what a misconfigured client sends, far below what guessing needs. */
const MAX_UNKNOWN_KEYS = 1000;
let unknownKeys = { minute: 0, byAddress: new Map<string, number>() };

/**
 * The failure for an unknown key from this address: the one given, or tooManyRequests once too many came within the minute.
 * Valid keys from the same address are not touched.
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

/** Calls of one second, by who called. */
let keyCalls = { second: 0, byCaller: new Map<string, number>() };

/** Counts a call with a valid key in this process. Failure tooManyRequests beyond `limit` a second. */
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
