import { LONGEST_TIMER_MS } from "../client/back/transport.ts";
import { aborted } from "../client/request.ts";
import { ServiceRequestError } from "../client/service-request-error.ts";

/** The end of one call, with everything that happens inside it. */
export interface Deadline {
  /** Aborts when the deadline passes or the caller's signal aborts. Its reason is an error of the code TIMEOUT or ABORTED. */
  readonly signal: AbortSignal;
  /**
   * Returns the milliseconds that are left.
   * @throws ServiceRequestError with the code TIMEOUT once none are.
   */
  left(): number;
  /** Returns a signal that aborts as `signal` does, but after this share of the time. */
  early(share: number): AbortSignal;
  /** Frees the timers. Call it when the call has ended. */
  clear(): void;
}

/** Starts a deadline. */
export function startDeadline(milliseconds: number, signal: AbortSignal | undefined): Deadline {
  const endsAt = performance.now() + milliseconds;
  const controller = new AbortController();
  const late = () => new ServiceRequestError("TIMEOUT", `The service did not answer within ${milliseconds / 1000} s.`);
  const timers: ReturnType<typeof setTimeout>[] = [];
  const abortAfter = (time: number, ended: AbortController) =>
    timers.push(setTimeout(() => ended.abort(late()), Math.min(time, LONGEST_TIMER_MS)));
  abortAfter(milliseconds, controller);
  const abort = () => controller.abort(aborted());
  if (signal?.aborted === true) abort();
  else signal?.addEventListener("abort", abort);
  return {
    signal: controller.signal,
    left: () => {
      const left = endsAt - performance.now();
      if (left > 0) return left;
      throw late();
    },
    early: (share) => {
      const ended = new AbortController();
      abortAfter(milliseconds * share, ended);
      controller.signal.addEventListener("abort", () => ended.abort(controller.signal.reason));
      if (controller.signal.aborted) ended.abort(controller.signal.reason);
      return ended.signal;
    },
    clear: () => {
      for (const timer of timers) clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    },
  };
}
