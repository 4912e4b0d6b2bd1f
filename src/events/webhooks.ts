import type { Database } from "../db/connect.ts";
import {
  type Claim,
  claimDeliveries,
  makeDeliveries,
  type Outcome,
  settleDelivered,
  settleFailed,
} from "./webhook-rows.ts";
import { signatures } from "./webhook-signature.ts";

/** Sends one request; rejects when there is no answer, with a sentence for the delivery log. */
export type Post = (request: {
  url: string;
  headers: Record<string, string>;
  body: string;
  signal: AbortSignal;
}) => Promise<{ status: number; retryAfterMs: number | undefined }>;

/** Times of the delivery, for tests to shorten. */
export interface WebhookTimes {
  /** Before the second attempt; each further one waits four times as long, at most `retryMaxMs`, give or take a fifth. */
  retryFirstMs: number;
  retryMaxMs: number;
  attempts: number;
  suspendAfter: number;
  suspendOverMs: number;
  pollMs: number;
}

/** Nine attempts over about 18 hours; suspended when nothing has arrived for a day. */
const TIMES: WebhookTimes = {
  retryFirstMs: 5000,
  retryMaxMs: 36_000_000,
  attempts: 9,
  suspendAfter: 10,
  suspendOverMs: 86_400_000,
  pollMs: 1000,
};

/** Requests under way at once in one process. */
const CONCURRENT = 32;

/** Delivers webhooks until stopped. */
export interface Webhooks {
  /** There is a new event. */
  wake(): void;
  /** Takes nothing more, and returns when what is under way is over or has been given up. */
  stop(): Promise<void>;
}

/**
 * Sends the events of the outbox to the endpoints of their organizations, at least once each. Any number of processes do
 * so over one database: who takes a delivery locks its row, and one that a dead process had taken is due again after its
 * lease. Whether a process dies or an answer is lost, the `webhook-id` stays the same for the receiver to know it again.
 */
export function startWebhooks(options: {
  db: Database;
  post: Post;
  openSecret: (sealed: string) => Promise<string>;
  onError: (error: unknown) => void;
  times?: Partial<WebhookTimes>;
}): Webhooks {
  const { db } = options;
  const times = { ...TIMES, ...options.times };
  const underWay = new Map<number, { endpointId: string; done: Promise<void> }>();
  const giveUp = new AbortController();
  /** Whether there may be events without deliveries; at the start nobody knows. */
  let hasNews = true;
  let cursor: number | undefined;
  let stopped = false;
  let again = false;
  let running: Promise<void> | undefined;
  const isStopped = () => stopped;

  const deliver = async (claim: Claim) => {
    const outcome = await attempt(claim, options, giveUp.signal);
    if (outcome === undefined) return;
    if (outcome.delivered) return settleDelivered(db, claim, outcome);
    return settleFailed(db, claim, outcome, {
      retryMs: claim.attempt >= times.attempts ? undefined : retryDelay(claim.attempt, outcome.retryAfterMs, times),
      suspendAfter: times.suspendAfter,
      suspendOverMs: times.suspendOverMs,
      suspendNow: outcome.responseStatus === 410 ? "The endpoint answered 410: it is gone" : undefined,
    });
  };
  const turn = async () => {
    while (hasNews && !isStopped()) {
      hasNews = false;
      const made = await makeDeliveries(db);
      // There may be more, or another process was at it and has to be asked again.
      if (made === undefined || made !== cursor) hasNews = true;
      if (made === undefined) break;
      cursor = made;
    }
    const free = CONCURRENT - underWay.size;
    if (stopped || free <= 0) return;
    const busy = [...new Set([...underWay.values()].map(({ endpointId }) => endpointId))];
    const claims = await claimDeliveries(db, { limit: free, busy });
    if (claims.length > 0) again = true;
    for (const claim of claims) {
      const done = deliver(claim)
        .catch(options.onError)
        .finally(() => {
          underWay.delete(claim.id);
          look();
        });
      underWay.set(claim.id, { endpointId: claim.endpointId, done });
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

/** One request; undefined when it was given up because the process ends: then its lease decides. */
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

/** The same for every attempt, and for every copy that a receiver may get. */
export function webhookId({ endpointId, eventId }: { endpointId: string; eventId: number }): string {
  return `msg_${endpointId}_${eventId}`;
}

function retryDelay(attempt: number, retryAfterMs: number | undefined, times: WebhookTimes): number {
  const backoff = Math.min(times.retryFirstMs * 4 ** (attempt - 1), times.retryMaxMs);
  const jittered = backoff * (0.8 + 0.4 * Math.random());
  return Math.min(Math.max(jittered, retryAfterMs ?? 0), times.retryMaxMs * 1.2);
}
