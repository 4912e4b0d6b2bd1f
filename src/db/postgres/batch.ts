import { afterArrivals } from "./arrivals.ts";

/** A request that waits for its batch, with its caller's promise. */
interface Pending<Request, Answer> {
  request: Request;
  resolve: (answer: Answer) => void;
  reject: (reason: unknown) => void;
}

/** The batch exceeded `timeoutMs`. A hung server or dead host neither replies nor closes the socket. */
class TimeoutError extends Error {
  readonly code = "READ_TIMEOUT";
}

/**
 * Slices of one timeout. A blocked event loop fires at most one pending interval tick late, so the timeout counts at most
 * one slice of our own delay.
 */
const TIMER_SLICES = 10;

function withTimeout<Answer>(work: Promise<Answer>, timeoutMs: number | undefined): Promise<Answer> {
  if (timeoutMs === undefined) return work;
  let timer: ReturnType<typeof setInterval> | undefined;
  const late = new Promise<never>((_, reject) => {
    let ticks = 0;
    timer = setInterval(() => {
      ticks += 1;
      if (ticks === TIMER_SLICES) reject(new TimeoutError("the database did not answer in time"));
    }, timeoutMs / TIMER_SLICES);
  });
  return Promise.race([work, late]).finally(() => clearInterval(timer));
}

/** Bounds of a look-up that requests begin with: each of them may wait for its timeout. */
export const LOOKUP = { maxBatchSize: 500, concurrency: 2, timeoutMs: 2000 };

/**
 * Batches concurrent requests: requests that arrive while a batch is in flight share the next one. Under load, one
 * statement serves dozens of callers; without load, a request is sent immediately. `run` returns answers in request order,
 * an Error for a request that fails alone. If `run` throws, the whole batch fails.
 *
 * Set `timeoutMs` only for reads. A batch that exceeds it fails with code READ_TIMEOUT, together with every queued request,
 * and frees its slot; its late result is ignored.
 */
export function createBatch<Request, Answer>(
  run: (requests: readonly Request[]) => Promise<readonly (Answer | Error)[]>,
  options: { maxBatchSize: number; concurrency: number; timeoutMs?: number },
): (request: Request) => Promise<Answer> {
  let queue: Pending<Request, Answer>[] = [];
  let running = 0;

  const runBatch = async (batch: readonly Pending<Request, Answer>[]) => {
    try {
      const answers = await withTimeout(run(batch.map(({ request }) => request)), options.timeoutMs);
      for (const [i, pending] of batch.entries()) {
        const answer = answers[i];
        if (answer === undefined)
          pending.reject(new Error(`a batch of ${batch.length} has no answer for request ${i}`));
        else if (answer instanceof Error) pending.reject(answer);
        else pending.resolve(answer);
      }
    } catch (error) {
      for (const pending of batch) pending.reject(error);
      if (error instanceof TimeoutError) {
        const queued = queue;
        queue = [];
        for (const pending of queued) pending.reject(error);
      }
    }
    running -= 1;
    start();
  };
  const start = () => {
    while (queue.length > 0 && running < options.concurrency) {
      const batch = queue.slice(0, options.maxBatchSize);
      queue = queue.slice(options.maxBatchSize);
      running += 1;
      void runBatch(batch);
    }
  };
  return (request) =>
    new Promise((resolve, reject) => {
      queue.push({ request, resolve, reject });
      // A microtask would run it after the first of the requests that arrive together.
      if (queue.length === 1) afterArrivals(start);
    });
}
