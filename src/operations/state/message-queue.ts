import { shareOfPool } from "../../db/postgres/connect.ts";
import { unavailable } from "../errors.ts";

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

/** Messages of one connection that are applied together. All keep their locks until the last one is written. */
const MAX_TOGETHER = 16;
/**
 * Batches of one connection that run at once. The second begins when it is full, or when the other has run for PATIENCE_MS:
 * that one may wait for a lock. Two small batches take more processor time than one, and evaluations wait for it.
 */
const CONNECTION_BATCHES = 2;
const PATIENCE_MS = 100;
/** How long the first message of a batch waits for others. */
const GATHER_MS = 5;

/** Bounds how many messages a process applies at once. */
export interface MessageQueue {
  /**
   * Passes the request to `work` in turn, together with others of its connection that wait. Connections are served round-robin,
   * the requests of each in order of arrival. `work` returns answers and errors in the order of its requests. Always pass the
   * same `work`: that of the first request is called with all.
   * @throws Failure unavailable when the queue or the connection's share of it is full, or after `waitMs`.
   */
  run<Request, Answer>(connectionId: string, request: Request, work: Work<Request, Answer>): Promise<Answer>;
}

type Work<Request, Answer> = (requests: readonly Request[]) => Promise<readonly (Answer | Error)[]>;

/** Returns how many batches may pin a connection of a pool of this size. */
export const messagesAtOnce = (poolSize: number): number => shareOfPool(poolSize, POOL_SHARE);

/** A request that waits, with its caller's promise. */
interface Waiting {
  request: unknown;
  work: Work<unknown, unknown>;
  resolve: (answer: unknown) => void;
  reject: (reason: unknown) => void;
  timer: ReturnType<typeof setTimeout> | undefined;
}

/** Requests of one connection. */
interface Line {
  waiting: Waiting[];
  running: number;
  /** How many of the running batches have taken longer than PATIENCE_MS. */
  slow: number;
  /** Set while the first that waits gathers others. */
  gathering: ReturnType<typeof setTimeout> | undefined;
}

/** Creates the queue of one process. */
export function createMessageQueue({
  concurrency,
  maxWaiting = MAX_WAITING,
  waitMs = WAIT_MS,
  maxTogether = MAX_TOGETHER,
  gatherMs = GATHER_MS,
}: {
  concurrency: number;
  maxWaiting?: number;
  waitMs?: number;
  maxTogether?: number;
  gatherMs?: number;
}): MessageQueue {
  /** Lines by connection: the one that began a batch longest ago is first. */
  const lines = new Map<string, Line>();
  let size = 0;
  let running = 0;

  /** True if no batch will be over soon: none runs, or each that does is slow. */
  const isIdle = (line: Line) => line.running === line.slow && line.running < CONNECTION_BATCHES;
  const mayBegin = (line: Line) => {
    const isFull = line.waiting.length >= maxTogether && line.running < CONNECTION_BATCHES;
    return isFull || (line.waiting.length > 0 && isIdle(line) && line.gathering === undefined);
  };

  const dropEmpty = (connectionId: string, line: Line) => {
    if (line.running === 0 && line.waiting.length === 0) lines.delete(connectionId);
  };

  /** Finds the connection that waits with the fewest batches running, of several the one that began a batch longest ago. */
  const findNext = () =>
    [...lines]
      .filter(([, line]) => mayBegin(line))
      .reduce<[string, Line] | undefined>(
        (best, each) => (best === undefined || each[1].running < best[1].running ? each : best),
        undefined,
      );

  const start = () => {
    while (running < concurrency) {
      const [connectionId, line] = findNext() ?? [];
      if (connectionId === undefined || line === undefined) return;
      const batch = line.waiting.splice(0, maxTogether);
      size -= batch.length;
      running += 1;
      line.running += 1;
      // Behind the others.
      lines.delete(connectionId);
      lines.set(connectionId, line);
      let isSlow = false;
      const patience = setTimeout(() => {
        isSlow = true;
        line.slow += 1;
        start();
      }, PATIENCE_MS);
      void runBatch(batch).finally(() => {
        clearTimeout(patience);
        if (isSlow) line.slow -= 1;
        running -= 1;
        line.running -= 1;
        dropEmpty(connectionId, line);
        start();
      });
    }
  };

  /** Begins a batch of an idle line a moment later: messages that arrive together are applied together. */
  const gather = (line: Line) => {
    line.gathering ??= setTimeout(() => {
      line.gathering = undefined;
      start();
    }, gatherMs);
  };

  return {
    run: <Request, Answer>(connectionId: string, request: Request, work: Work<Request, Answer>) => {
      const line = lines.get(connectionId) ?? { waiting: [], running: 0, slow: 0, gathering: undefined };
      const isFree = running < concurrency && isIdle(line) && line.waiting.length === 0;
      const isFull = size >= maxWaiting || line.waiting.length >= Math.ceil(maxWaiting * CONNECTION_SHARE);
      if (!isFree && isFull) return Promise.reject(tooManyMessages());
      lines.set(connectionId, line);
      return new Promise<Answer>((resolve, reject) => {
        const waiting = waitingFor({ request, work, resolve, reject });
        const giveUp = () => {
          line.waiting.splice(line.waiting.indexOf(waiting), 1);
          size -= 1;
          dropEmpty(connectionId, line);
          reject(tooManyMessages());
        };
        waiting.timer = setTimeout(giveUp, waitMs);
        line.waiting.push(waiting);
        size += 1;
        if (isIdle(line)) gather(line);
        start();
      });
    },
  };
}

/** Drops the types of a request: `run` resolves it with an answer of its own work. */
const waitingFor = <Request, Answer>(given: {
  request: Request;
  work: Work<Request, Answer>;
  resolve: (answer: Answer) => void;
  reject: (reason: unknown) => void;
}): Waiting => ({ ...(given as object as Omit<Waiting, "timer">), timer: undefined });

async function runBatch(batch: readonly Waiting[]): Promise<void> {
  const [first] = batch;
  if (first === undefined) return;
  for (const { timer } of batch) clearTimeout(timer);
  try {
    const answers = await first.work(batch.map(({ request }) => request));
    for (const [i, { resolve, reject }] of batch.entries()) {
      const answer = answers[i];
      if (answer instanceof Error) reject(answer);
      else resolve(answer);
    }
  } catch (error) {
    for (const { reject } of batch) reject(error);
  }
}

const tooManyMessages = () => unavailable(RETRY_AFTER_SECONDS);
