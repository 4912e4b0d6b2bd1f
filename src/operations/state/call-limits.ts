import type { Caller } from "../../core/access/caller.ts";
import { Failure } from "../errors.ts";

const WINDOW_MS = 60_000;
/** Failed sign-ins per minute, name and address. Source: contract README, decisions 18 and 22. */
export const MAX_FAILURES = 10;
/** Public offers per minute and address. */
const MAX_PUBLIC_OFFERS = 600;
/** Unknown keys per minute and address: far more than a misconfigured client sends, far fewer than guessing needs. */
const MAX_UNKNOWN_KEYS = 1000;

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

/** Rate limits that one process counts in memory. n processes allow n times as much. */
export class CallLimits {
  readonly #attemptsByBucket = new Map<string, Attempts>();
  readonly #unknownKeys = { minute: 0, byAddress: new Map<string, number>() };
  readonly #publicOffers = { minute: 0, byAddress: new Map<string, number>() };
  #keyCalls = { second: 0, byCaller: new Map<string, number>() };

  /**
   * Runs one sign-in attempt of a bucket in this process. Only failures count, which `signIn` signals with undefined.
   * The limit applies to existing and unknown names alike.
   * @throws Failure tooManyRequests, before any work, after `limit` failures within a minute.
   */
  async throttleSignIn<T>(
    bucketName: string,
    now: () => Date,
    signIn: () => Promise<T | undefined>,
    limit: number = MAX_FAILURES,
  ): Promise<T | undefined> {
    // No user has a name this long. One shared bucket keeps such names from filling the memory.
    const bucket = bucketName.length > 512 ? "" : bucketName;
    let attempts = this.#attemptsOf(bucket);
    for (;;) {
      dropOldFailures(attempts, now().getTime());
      const oldest = attempts.failures[0];
      if (oldest !== undefined && attempts.failures.length >= limit) {
        throw tooManyFailures(Math.max(1, Math.ceil((oldest + WINDOW_MS - now().getTime()) / 1000)));
      }
      // Attempts in flight may all fail, so further ones wait for an outcome.
      if (attempts.failures.length + attempts.running.length < limit) break;
      await Promise.race(attempts.running);
      attempts = this.#attemptsOf(bucket);
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
      this.#evictIdleBuckets(now().getTime());
    }
  }

  #attemptsOf(name: string): Attempts {
    const existing = this.#attemptsByBucket.get(name);
    if (existing !== undefined) return existing;
    const fresh = { failures: [], running: [] };
    this.#attemptsByBucket.set(name, fresh);
    return fresh;
  }

  /** Evicts names without failures in the last minute. The speed of hashing bounds the rest. */
  #evictIdleBuckets(now: number): void {
    for (const [name, attempts] of this.#attemptsByBucket) {
      dropOldFailures(attempts, now);
      if (attempts.failures.length === 0 && attempts.running.length === 0) this.#attemptsByBucket.delete(name);
    }
  }

  /**
   * Returns the failure for an unknown key, or tooManyRequests above the limit per minute and address. Valid keys from
   * the same address are unaffected.
   */
  unknownKeyFailure(address: string, now: Date, failure: Failure, limit: number = MAX_UNKNOWN_KEYS): Failure {
    const count = countIn(this.#unknownKeys, address, now);
    if (count <= limit || limit === 0) return failure;
    return new Failure("tooManyRequests", "Too many unknown API keys. Please try again later", {
      retryAfterSeconds: secondsLeft(now),
    });
  }

  /**
   * Counts a call for a public offer.
   * @throws Failure tooManyRequests above `limit` calls per minute and address; 0 disables the limit.
   */
  countPublicOffer(address: string, now: Date, limit: number = MAX_PUBLIC_OFFERS): void {
    if (limit === 0 || countIn(this.#publicOffers, address, now) <= limit) return;
    throw new Failure("tooManyRequests", "Too many requests. Please try again later", {
      retryAfterSeconds: secondsLeft(now),
    });
  }

  /**
   * Counts a call with a valid key.
   * @throws Failure tooManyRequests above `limit` calls per second.
   */
  countKeyCall(caller: Caller, now: Date, limit: number): void {
    if (caller.kind === "anonymous") return;
    const second = Math.floor(now.getTime() / 1000);
    if (this.#keyCalls.second !== second) this.#keyCalls = { second, byCaller: new Map() };
    const id = caller.kind === "user" ? caller.id : caller.keyId;
    const count = (this.#keyCalls.byCaller.get(id) ?? 0) + 1;
    this.#keyCalls.byCaller.set(id, count);
    if (count <= limit) return;
    throw new Failure("tooManyRequests", "Too many requests with this API key. Please try again later", {
      retryAfterSeconds: 1,
    });
  }
}

/** Calls of one minute, by address. */
interface MinuteCounts {
  minute: number;
  byAddress: Map<string, number>;
}

/** Counts a call, and returns the calls of its address in this minute. */
function countIn(counts: MinuteCounts, address: string, now: Date): number {
  const minute = Math.floor(now.getTime() / WINDOW_MS);
  if (counts.minute !== minute) {
    counts.minute = minute;
    counts.byAddress = new Map();
  }
  const count = (counts.byAddress.get(address) ?? 0) + 1;
  counts.byAddress.set(address, count);
  return count;
}

function secondsLeft(now: Date): number {
  return Math.ceil((WINDOW_MS - (now.getTime() % WINDOW_MS)) / 1000);
}

function dropOldFailures(attempts: Attempts, now: number): void {
  attempts.failures = attempts.failures.filter((at) => Math.abs(now - at) < WINDOW_MS);
}
