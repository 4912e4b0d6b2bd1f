/**
 * Long-running work as a generator that yields at least every few milliseconds. Callers can run it at once, in slices,
 * or stop it.
 */
export type Steps<Result> = Generator<void, Result, void>;

/** Polled by long-running work. Returns true when the work must stop and return its partial result. */
export type IsOver = () => boolean;

/** For work without a time limit. */
export const NEVER_OVER: IsOver = () => false;

/** Runs work to completion without pausing. */
export function finish<Result>(steps: Steps<Result>): Result {
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
  }
}

/** Longest step that {@link computingTime} counts as computing. */
const LONGEST_STEP_MS = 5;

/**
 * Measures computing by a clock in milliseconds. A gap of more than 5 ms between two readings counts as 5 ms: then the
 * machine ran something else, which must not change an answer.
 */
export function computingTime(clock: () => number): { resume(): void; read(): number } {
  let computed = 0;
  let readAt = clock();
  return {
    /** Starts again after a pause. */
    resume: () => void (readAt = clock()),
    /** Returns the milliseconds so far. */
    read: () => {
      const now = clock();
      computed += Math.min(now - readAt, LONGEST_STEP_MS);
      readAt = now;
      return computed;
    },
  };
}
