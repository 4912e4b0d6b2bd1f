import type { Database } from "../db/postgres/connect.ts";
import { type Claim, claimDeliveries } from "./webhook-claims.ts";
import { makeDeliveries, type Outcome, settleDelivered, settleFailed } from "./webhook-rows.ts";
import { RETRY_TIMES, retryDelay, type RetryTimes } from "./retries.ts";
import { signatures } from "./webhook-signature.ts";

/** Sends one request. Rejects without an answer, with a sentence for the delivery log. */
export type Post = (request: {
  url: string;
  headers: Record<string, string>;
  body: string;
  signal: AbortSignal;
}) => Promise<{ status: number; retryAfterMs: number | undefined }>;

/** Delivery timings, which tests shorten. */
export interface WebhookTimes extends RetryTimes {
  suspendAfter: number;
  suspendOverMs: number;
}

/** Suspends an endpoint after a day without a success. */
const TIMES: WebhookTimes = { ...RETRY_TIMES, suspendAfter: 10, suspendOverMs: 86_400_000 };

/** Default number of requests in flight per process. */
const CONCURRENT = 64;
/**
 * An owner gets at most a quarter, an organization an eighth. Half is reserved for owners with none in flight. So
 * two owners can fill the other half, and each further one gets a single place.
 */
const sharesOf = (concurrent: number) => ({
  perOwner: Math.ceil(concurrent / 4),
  perOrganization: Math.ceil(concurrent / 8),
  reserved: Math.floor(concurrent / 2),
});
/** Slower endpoints come last in their owner's share. Remembers a bounded number of them. */
const SLOW_MS = 1000;
const MAX_SLOW = 1000;

/** Delivers webhooks until stopped. */
export interface Webhooks {
  /** Signals a new event. */
  wake(): void;
  /** Stops claiming, and resolves when requests in flight have ended or were aborted. */
  stop(): Promise<void>;
}

/**
 * Sends the events of the outbox to the endpoints of their organizations, at least once each. Any number of processes
 * may share a database: a claim locks the row, and deliveries of a dead process are due again after their lease.
 * `webhook-id` stays the same in every attempt, so that receivers can deduplicate.
 */
export function startWebhooks(options: {
  db: Database;
  post: Post;
  openSecret: (sealed: string) => Promise<string>;
  onError: (error: unknown) => void;
  /** Requests in flight. Default: 64. */
  concurrent?: number;
  times?: Partial<WebhookTimes>;
}): Webhooks {
  const { db, concurrent = CONCURRENT } = options;
  const shares = sharesOf(concurrent);
  const times = { ...TIMES, ...options.times };
  const underWay = new Map<number, { claim: Claim; done: Promise<void> }>();
  const slow = new Set<string>();
  const giveUp = new AbortController();
  /** True if there may be events without deliveries. Unknown at the start. */
  let hasNews = true;
  let cursor: number | undefined;
  let stopped = false;
  let again = false;
  let running: Promise<void> | undefined;
  const isStopped = () => stopped;

  const noteDuration = (endpointId: string, durationMs: number) => {
    slow.delete(endpointId);
    if (durationMs <= SLOW_MS) return;
    slow.add(endpointId);
    for (const oldest of slow) {
      if (slow.size <= MAX_SLOW) break;
      slow.delete(oldest);
    }
  };
  const deliver = async (claim: Claim) => {
    const outcome = await attempt(claim, options, giveUp.signal);
    if (outcome === undefined) return;
    noteDuration(claim.endpointId, outcome.durationMs);
    if (outcome.delivered) return settleDelivered(db, claim, outcome);
    return settleFailed(db, claim, outcome, {
      retryMs: claim.attempt >= times.attempts ? undefined : retryDelay(claim.attempt, outcome.retryAfterMs, times),
      suspendAfter: times.suspendAfter,
      suspendOverMs: times.suspendOverMs,
      suspendNow: outcome.responseStatus === 410 ? "The endpoint answered 410: it is gone" : undefined,
    });
  };
  const turn = async () => {
    if (hasNews) {
      hasNews = false;
      const made = await makeDeliveries(db).catch((error: unknown) => {
        // The next poll retries: no further event may arrive to wake this process.
        hasNews = true;
        throw error;
      });
      // More events may follow, or another process has made these deliveries.
      if (made === undefined || made !== cursor) hasNews = true;
      // One page per turn, so that an owner's thousand events do not delay due deliveries.
      if (made !== undefined && made !== cursor) again = true;
      cursor = made ?? cursor;
    }
    const free = concurrent - underWay.size;
    if (stopped || free <= 0) return;
    const inFlight = [...underWay.values()].map(({ claim }) => claim);
    const claims = await claimDeliveries(db, {
      limit: free,
      busy: [...new Set(inFlight.map(({ endpointId }) => endpointId))],
      slow: [...slow],
      inFlight: inFlight.map(({ organizationId, ownerId }) => ({ organizationId, ownerId })),
      shares,
    });
    if (claims.length > 0) again = true;
    for (const claim of claims) {
      const done = deliver(claim)
        .catch(options.onError)
        .finally(() => {
          underWay.delete(claim.id);
          look();
        });
      underWay.set(claim.id, { claim, done });
    }
  };
  const look = () => {
    again = true;
    running ??= (async () => {
      for (; again && !isStopped();) {
        again = false;
        await turn().catch(options.onError);
      }
    })().finally(() => (running = undefined));
  };

  const poll = setInterval(look, times.pollMs);
  look();
  return {
    wake: () => {
      hasNews = true;
      look();
    },
    stop: async () => {
      stopped = true;
      clearInterval(poll);
      await running;
      const force = setTimeout(() => giveUp.abort(), 3000);
      await Promise.all([...underWay.values()].map(({ done }) => done));
      clearTimeout(force);
    },
  };
}

/** Sends one request. Undefined when the process stopped meanwhile: then the lease decides. */
async function attempt(
  claim: Claim,
  options: { post: Post; openSecret: (sealed: string) => Promise<string> },
  signal: AbortSignal,
): Promise<(Outcome & { retryAfterMs?: number | undefined }) | undefined> {
  const started = performance.now();
  const took = () => Math.round(performance.now() - started);
  try {
    const sealed = [claim.secretSealed, ...(claim.previousSecretSealed === null ? [] : [claim.previousSecretSealed])];
    const secrets = await Promise.all(sealed.map(options.openSecret));
    const id = webhookId(claim);
    const timestamp = String(Math.floor(Date.now() / 1000));
    const { status, retryAfterMs } = await options.post({
      url: claim.url,
      headers: {
        "content-type": "application/json; charset=utf-8",
        "user-agent": "faregate",
        "webhook-id": id,
        "webhook-timestamp": timestamp,
        "webhook-signature": await signatures(secrets, `${id}.${timestamp}.${claim.payload}`),
      },
      body: claim.payload,
      signal,
    });
    const delivered = status >= 200 && status <= 299;
    const error = delivered ? null : `The endpoint answered ${status}`;
    return { delivered, responseStatus: status, durationMs: took(), error, retryAfterMs };
  } catch (error) {
    if (signal.aborted) return undefined;
    const sentence = error instanceof Error ? error.message : String(error);
    return { delivered: false, responseStatus: null, durationMs: took(), error: sentence.slice(0, 500) };
  }
}

/** Equal for every attempt, and for every duplicate that a receiver may get. */
export function webhookId({ endpointId, eventId }: { endpointId: string; eventId: number }): string {
  return `msg_${endpointId}_${eventId}`;
}
