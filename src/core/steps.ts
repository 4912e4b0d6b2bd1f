/**
 * Work that yields after every small step, so that a caller can run it at once, in slices, or stop it. A step takes a few
 * milliseconds at most.
 */
export type Steps<Result> = Generator<void, Result, void>;

/** Asked often by long work: true once it must stop and report what it has. */
export type IsOver = () => boolean;

/** For work that may take as long as it takes. */
export const NEVER_OVER: IsOver = () => false;

/** Runs work to its end without a pause. */
export function finish<Result>(steps: Steps<Result>): Result {
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
  }
}
