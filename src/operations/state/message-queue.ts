import { Failure } from "../errors.ts";

/*
 * Queue of payment providers' messages in one process. Providers send thousands at once, such as at the turn of a month. Each
 * message pins a connection of the pool until it is applied: without a bound, evaluations would time out behind them.
 */

/** Share of the pool's connections that messages may pin. */
const POOL_SHARE = 0.4;
/** Messages that may wait in one process. Providers repeat those that are rejected. */
const MAX_WAITING = 1_000;
/** Maximum share of the queue for one connection to a provider. */
const CONNECTION_SHARE = 1 / 2;
/** How long a message waits. Providers time out after ten seconds or more. */
const WAIT_MS = 5_000;
const RETRY_AFTER_SECONDS = 5;

/** Bounds how many messages a process applies at once. */
export interface MessageQueue {
  /**
   * Runs `work` in turn. Connections are served round-robin, the messages of each in order of arrival.
   * @throws Failure unavailable when the queue or the connection's share of it is full, or after `waitMs`.
   */
  run<T>(connectionId: string, work: () => Promise<T>): Promise<T>;
}

/** Returns how many messages may pin a connection of a pool of this size. */
export const messagesAtOnce = (poolSize: number): number => Math.max(1, Math.floor(poolSize * POOL_SHARE));

/** Creates the queue of one process. */
export function createMessageQueue({
  concurrency,
  maxWaiting = MAX_WAITING,
  waitMs = WAIT_MS,
}: {
  concurrency: number;
  maxWaiting?: number;
  waitMs?: number;
}): MessageQueue {
  /** Starters of waiting messages by connection: the first connection is next. */
  const waiting = new Map<string, (() => void)[]>();
  let size = 0;
  let running = 0;

  const turn = (connectionId: string): Promise<void> => {
    const own = waiting.get(connectionId) ?? [];
    if (size >= maxWaiting || own.length >= Math.ceil(maxWaiting * CONNECTION_SHARE)) throw tooManyMessages();
    return new Promise((resolve, reject) => {
      const start = () => {
        clearTimeout(timer);
        resolve();
      };
      const timer = setTimeout(() => {
        own.splice(own.indexOf(start), 1);
        size -= 1;
        if (own.length === 0) waiting.delete(connectionId);
        reject(tooManyMessages());
      }, waitMs);
      own.push(start);
      waiting.set(connectionId, own);
      size += 1;
    });
  };

  /** Passes the place to the next connection's oldest message, else frees it. */
  const leave = () => {
    const [next] = waiting;
    if (next === undefined) {
      running -= 1;
      return;
    }
    const [connectionId, starters] = next;
    const start = starters.shift();
    size -= 1;
    waiting.delete(connectionId);
    if (starters.length > 0) waiting.set(connectionId, starters);
    start?.();
  };

  return {
    run: async (connectionId, work) => {
      if (running < concurrency) running += 1;
      else await turn(connectionId);
      try {
        return await work();
      } finally {
        leave();
      }
    },
  };
}

const tooManyMessages = () =>
  new Failure("unavailable", "The service is temporarily unavailable. Please try again", {
    retryAfterSeconds: RETRY_AFTER_SECONDS,
  });
