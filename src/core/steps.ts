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
