/** What one caller waits for. */
interface Waiting<Ask, Answer> {
  ask: Ask;
  resolve: (answer: Answer) => void;
  reject: (reason: unknown) => void;
}

/** A server that is frozen, or gone without a word, neither answers nor closes the connection: only a clock can tell. */
class TimeoutError extends Error {
  readonly code = "READ_TIMEOUT";
}

/** Patience is cut into so many parts: what a process does not hear because it is busy itself is at most one of them. */
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
 * Groups concurrent asks: those that arrive while a round trip is under way share the next one. Under load that is one
 * statement for dozens of callers instead of one each; alone, an ask goes out at once. `run` answers in the order of the
 * asks, with an Error for an ask that fails by itself; when it throws, everybody of that round fails.
 *
 * With `timeoutMs`, for asks that change nothing: nobody waits longer. A round that is late fails together with everybody
 * who waits behind it, and its place is free; what comes of it is not looked at. The error's code is READ_TIMEOUT.
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
      // At the end of the tick, so that what arrived together goes together.
      if (waiting.length === 1) queueMicrotask(start);
    });
}
