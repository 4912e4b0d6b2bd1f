import type { Caller } from "../../core/access/caller.ts";
import { Failure } from "../errors.ts";

/*
 * Rate limits that one process counts in memory. n processes allow n times as much.
 */

const WINDOW_MS = 60_000;
/** Failed sign-ins per minute, name and address. Source: contract README, decisions 18 and 22. */
export const MAX_FAILURES = 10;

/** The failure of a sign-in after too many wrong passwords. */
export function tooManyFailures(retryAfterSeconds: number): Failure {
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
    dropOldFailures(attempts, now().getTime());
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
    evictIdleBuckets(now().getTime());
  }
}

function attemptsOf(name: string): Attempts {
  const existing = attemptsByBucket.get(name);
  if (existing !== undefined) return existing;
  const fresh = { failures: [], running: [] };
  attemptsByBucket.set(name, fresh);
  return fresh;
}

function dropOldFailures(attempts: Attempts, now: number): void {
  attempts.failures = attempts.failures.filter((at) => Math.abs(now - at) < WINDOW_MS);
}

/** Evicts names without failures in the last minute. The speed of hashing bounds the rest. */
function evictIdleBuckets(now: number): void {
  for (const [name, attempts] of attemptsByBucket) {
    dropOldFailures(attempts, now);
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
export function limitKeyCalls(caller: Caller, now: Date, limit: number): void {
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
