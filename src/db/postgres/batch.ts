/** A queued request and its promise. */
interface Waiting<Ask, Answer> {
  ask: Ask;
  resolve: (answer: Answer) => void;
  reject: (reason: unknown) => void;
}

/** A hung server or dead host neither replies nor closes the socket, so only a timer ends the wait. */
class TimeoutError extends Error {
  readonly code = "READ_TIMEOUT";
}

/** Splits the timer, so that a blocked event loop counts as at most one slice. */
const TIMER_SLICES = 10;

function withTimeout<Answer>(work: Promise<Answer>, timeoutMs: number | undefined): Promise<Answer> {
  if (timeoutMs === undefined) return work;
  let timer: ReturnType<typeof setInterval> | undefined;
  const late = new Promise<never>((_, reject) => {
    let looks = 0;
    timer = setInterval(() => {
      looks += 1;
      if (looks === TIMER_SLICES) reject(new TimeoutError("the database did not answer in time"));
    }, timeoutMs / TIMER_SLICES);
  });
  return Promise.race([work, late]).finally(() => clearInterval(timer));
}

/**
 * Batches concurrent requests: those that arrive during a round trip share the next one. Under load that is one
 * statement for dozens of callers; a single request is sent immediately. `run` returns results in order, with an Error
 * for a request that fails alone. When it throws, the whole batch fails. With `timeoutMs`, for read-only requests, a
 * slow batch fails with code READ_TIMEOUT, together with everything queued behind it. Its slot is freed and its late
 * result ignored.
 */
export function createBatch<Ask, Answer>(
  run: (asks: readonly Ask[]) => Promise<readonly (Answer | Error)[]>,
  options: { maxBatchSize: number; concurrency: number; timeoutMs?: number },
): (ask: Ask) => Promise<Answer> {
  let waiting: Waiting<Ask, Answer>[] = [];
  let running = 0;

  const round = async (group: readonly Waiting<Ask, Answer>[]) => {
    try {
      const answers = await withTimeout(run(group.map((one) => one.ask)), options.timeoutMs);
      for (const [i, one] of group.entries()) {
        const answer = answers[i];
        if (answer === undefined) one.reject(new Error("a batch answered fewer asks than it was given"));
        else if (answer instanceof Error) one.reject(answer);
        else one.resolve(answer);
      }
    } catch (error) {
      for (const one of group) one.reject(error);
      if (error instanceof TimeoutError) {
        const behind = waiting;
        waiting = [];
        for (const one of behind) one.reject(error);
      }
    }
    running -= 1;
    start();
  };
  const start = () => {
    while (waiting.length > 0 && running < options.concurrency) {
      const group = waiting.slice(0, options.maxBatchSize);
      waiting = waiting.slice(options.maxBatchSize);
      running += 1;
      void round(group);
    }
  };
  return (ask) =>
    new Promise((resolve, reject) => {
      waiting.push({ ask, resolve, reject });
      // Deferred to the end of the tick, so that requests of the same tick share a batch.
      if (waiting.length === 1) queueMicrotask(start);
    });
}
