import { leastRecentlyUsed, type LeastRecentlyUsed } from "../../core/least-recently-used.ts";
import { ServiceRequestError } from "../service-request-error.ts";
import { deepFreeze } from "../pricing-token.ts";

/** Origin and age of an answer. */
export interface Freshness {
  /** `last-known`: an earlier answer to the same question. `fallback`: the caller's choice for outages. */
  readonly source: "service" | "last-known" | "fallback";
  /** True unless `source` is `service`. */
  readonly stale: boolean;
  /** Milliseconds since the service gave this answer; null for a fallback. */
  readonly ageMs: number | null;
}

/** Answers of evaluations while the service is unreachable or broken. */
export interface OutageOptions {
  /** Maximum age of an earlier answer that may be repeated, in milliseconds. Default: 0, none. */
  lastKnownForMs?: number | undefined;
  /** Without an earlier answer: reject, answer true (`open`), or answer false (`closed`). Default: `throw`. */
  whenUnreachable?: "throw" | "open" | "closed" | undefined;
}

interface CachedAnswer {
  readonly value: unknown;
  readonly at: number;
}

/** Maximum users, the most recently used ones, and answers of each. */
const MAX_ANSWERS = { users: 1_000, ofEach: 100 };
type Answers = LeastRecentlyUsed<CachedAnswer>;
const noAnswers = (): Answers => leastRecentlyUsed(MAX_ANSWERS.ofEach);

/**
 * Consecutive failures that open the circuit. Fewer may be one request that breaks the service, or one short time-out.
 */
const FAILURES_OF_AN_OUTAGE = 3;
/** Interval of probes while the circuit is open, over all callers. */
const PROBE_EVERY_MS = 1_000;

/** Caches the last answers for outages, with a circuit breaker. */
export class FallbackCache {
  private readonly users = leastRecentlyUsed<Answers>(MAX_ANSWERS.users);
  private failures = 0;
  private probeAt = 0;
  private readonly defaults: OutageOptions;

  constructor(defaults: OutageOptions) {
    this.defaults = defaults;
  }

  /** Evicts the user's answers. */
  evict(userId: string): void {
    if (this.users.get(userId) !== undefined) this.users.put(userId, noAnswers());
  }

  /**
   * Sends the request and falls back to the cache when it fails. While the circuit is open it answers from the cache at once, so that an
   * outage of the service does not slow the caller. `fallback` builds the open or closed answer.
   */
  async answer<T>(
    question: { userId: string; key: string; options: OutageOptions },
    request: () => Promise<T>,
    { isCacheable, fallback }: { isCacheable: (answer: T) => boolean; fallback: ((isOpen: boolean) => T) | undefined },
  ): Promise<T & Freshness> {
    const { userId, key } = question;
    const lastKnownForMs = question.options.lastKnownForMs ?? this.defaults.lastKnownForMs ?? 0;
    const answers = lastKnownForMs > 0 ? (this.users.get(userId) ?? this.users.put(userId, noAnswers())) : undefined;
    const fromCache = () =>
      fallback && this.withoutService(answers?.get(key), lastKnownForMs, fallback, question.options);
    if (this.failures >= FAILURES_OF_AN_OUTAGE) {
      const answer = performance.now() < this.probeAt ? fromCache() : undefined;
      if (answer !== undefined) return answer;
      this.probeAt = performance.now() + PROBE_EVERY_MS;
    }
    try {
      const value = await request();
      this.failures = 0;
      // `answers` is the user's cache at request time: an eviction in between also drops this answer.
      if (isCacheable(value)) answers?.put(key, { value: deepFreeze(value), at: performance.now() });
      return { ...value, source: "service", stale: false, ageMs: 0 };
    } catch (error) {
      if (!isOutage(error)) {
        if (error instanceof ServiceRequestError && error.status !== undefined) this.failures = 0;
        throw error;
      }
      this.failures += 1;
      this.probeAt = performance.now() + PROBE_EVERY_MS;
      const answer = fromCache();
      if (answer === undefined) throw error;
      return answer;
    }
  }

  private withoutService<T>(
    cached: CachedAnswer | undefined,
    lastKnownForMs: number,
    fallback: (isOpen: boolean) => T,
    options: OutageOptions,
  ): (T & Freshness) | undefined {
    const otherwise = options.whenUnreachable ?? this.defaults.whenUnreachable ?? "throw";
    const ageMs = cached && Math.round(performance.now() - cached.at);
    if (cached !== undefined && ageMs !== undefined && ageMs < lastKnownForMs) {
      return { ...asAnswered<T>(cached), source: "last-known", stale: true, ageMs };
    }
    if (otherwise === "throw") return undefined;
    return { ...fallback(otherwise === "open"), source: "fallback", stale: true, ageMs: null };
  }
}

/** Type guarantee: a question only finds its own answers. */
function asAnswered<T>(cached: CachedAnswer): T {
  return cached.value as T;
}

/**
 * Returns true if the service is unreachable or broken. A 4xx status is an answer, not an outage.
 * @internal
 */
export function isOutage(error: unknown): boolean {
  // Requests without a status got no response. An aborted request says nothing about the service.
  return error instanceof ServiceRequestError && error.code !== "ABORTED" && (error.status ?? 500) >= 500;
}
