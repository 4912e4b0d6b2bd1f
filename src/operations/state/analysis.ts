import { analyse, clocksOf, sizeOf } from "../../core/change/analysis.ts";
import type { AnalysisResult, AnalysisTask } from "../../core/change/analysis.ts";
import type { Steps } from "../../core/steps.ts";
import { Failure } from "../errors.ts";

/** Time budget of a task on the event loop. When it runs out, the task restarts in a thread. */
const INLINE_MS = 15;
/** Tasks that read more characters than this skip the attempt on the event loop. */
const INLINE_SIZE = 48 * 1024;
/** Longest slice when there are no threads. It bounds the latency that a slice adds to other requests. */
const SLICE_MS = 10;
/** Also bounds a slice by steps: on Workers, the clock does not advance while code runs. */
const SLICE_STEPS = 2_000;
/** Concurrent calls per organization that need more than INLINE_MS. */
export const CALLS_PER_ORGANIZATION = 2;
/** Bounds the queue per organization: its length, and how long a call waits in it. */
const MAX_WAITING = 4;
const WAIT_MS = 1_000;
/** The `Retry-After` of a rejected call: about the duration of one analysis. */
const RETRY_AFTER_SECONDS = 5;

/**
 * Runs a task in another thread; aborting `signal` stops it. Rejects with a Failure when the task exceeds its time or
 * memory.
 */
export type RunInThread = <Task extends AnalysisTask>(
  task: Task,
  signal: AbortSignal | undefined,
) => Promise<AnalysisResult<Task>>;

/** One request's tasks. They run one after the other and share one slot of the organization. */
export interface AnalysisCall {
  run<Task extends AnalysisTask>(task: Task): Promise<AnalysisResult<Task>>;
}

/** Runs CPU-bound work without blocking the event loop. Only the pricings determine how large that work is. */
export interface Analysis {
  /**
   * Runs `work` with a call that executes its tasks. Small tasks run inline; the first larger one takes one of the
   * organization's slots.
   * @throws Failure tooManyRequests when no slot is free.
   */
  call<T>(
    organizationId: string,
    work: (call: AnalysisCall) => Promise<T>,
    signal?: AbortSignal | undefined,
  ): Promise<T>;
}

/** Yields to the event loop. */
export const pause = () => new Promise<void>((resolve) => setTimeout(resolve, 0));

/** Runs work on the event loop in slices, and yields between them. */
export async function inSlices<T>(steps: Steps<T>, signal?: AbortSignal | undefined): Promise<T> {
  for (;;) {
    const until = performance.now() + SLICE_MS;
    for (let count = 0; count < SLICE_STEPS && performance.now() <= until; count++) {
      const { done, value } = steps.next();
      if (done === true) return value;
    }
    await pause();
    if (signal?.aborted === true) throw new Failure("invalid", "The client closed the request");
  }
}

/** Per-organization semaphore with a short, bounded queue. */
class Places {
  readonly #taken = new Map<string, number>();
  readonly #waiting = new Map<string, (() => void)[]>();
  readonly #mayWait: boolean;

  constructor(mayWait: boolean) {
    this.#mayWait = mayWait;
  }

  async take(organizationId: string): Promise<void> {
    const taken = this.#taken.get(organizationId) ?? 0;
    if (taken < CALLS_PER_ORGANIZATION) {
      this.#taken.set(organizationId, taken + 1);
      return;
    }
    const waiting = this.#waiting.get(organizationId) ?? [];
    if (!this.#mayWait || waiting.length >= MAX_WAITING) throw this.#refusal();
    this.#waiting.set(organizationId, waiting);
    await new Promise<void>((resolve, reject) => {
      const next = () => {
        clearTimeout(timer);
        resolve();
      };
      const timer = setTimeout(() => {
        const position = waiting.indexOf(next);
        if (position >= 0) waiting.splice(position, 1);
        reject(this.#refusal());
      }, WAIT_MS);
      waiting.push(next);
    });
  }

  /** Passes the slot to the longest-waiting call. */
  free(organizationId: string): void {
    const next = this.#waiting.get(organizationId)?.shift();
    if (next !== undefined) {
      next();
      return;
    }
    const taken = (this.#taken.get(organizationId) ?? 1) - 1;
    if (taken > 0) this.#taken.set(organizationId, taken);
    else {
      this.#taken.delete(organizationId);
      this.#waiting.delete(organizationId);
    }
  }

  #refusal(): Failure {
    return new Failure(
      "tooManyRequests",
      `Too many analyses of this organization at a time: at most ${CALLS_PER_ORGANIZATION}. Try again in ${RETRY_AFTER_SECONDS} seconds`,
      { retryAfterSeconds: RETRY_AFTER_SECONDS },
    );
  }
}

/** Runs a small task inline. Returns undefined when it exceeds the budget: the caller then restarts it elsewhere. */
function runAtOnce<Task extends AnalysisTask>(task: Task): { value: AnalysisResult<Task> } | undefined {
  if (sizeOf(task) > INLINE_SIZE) return undefined;
  let isCut = false;
  let until: number | undefined;
  const isOver = () => (isCut ||= performance.now() > (until ??= performance.now() + INLINE_MS));
  const steps = analyse(task, () => isOver);
  for (;;) {
    const { done, value } = steps.next();
    // The deadline may have truncated the result within the last step.
    if (isCut || isOver()) return undefined;
    if (done === true) return { value };
  }
}

/**
 * Creates the scheduler of analyses. Without `runInThread`, larger tasks run in slices. Set `mayWait` to false where
 * one request must not wait for another, as on Workers.
 */
export function createAnalysis(options: { runInThread?: RunInThread | undefined; mayWait?: boolean } = {}): Analysis {
  const { runInThread, mayWait = true } = options;
  const places = new Places(mayWait);
  return {
    call: async (organizationId, work, signal) => {
      let hasPlace = false;
      const run = async <Task extends AnalysisTask>(task: Task): Promise<AnalysisResult<Task>> => {
        const found = runAtOnce(task);
        if (found !== undefined) return found.value;
        if (!hasPlace) {
          await places.take(organizationId);
          hasPlace = true;
        }
        if (runInThread !== undefined) return runInThread(task, signal);
        const clocks = clocksOf(() => performance.now());
        return inSlices(analyse(task, clocks), signal);
      };
      try {
        return await work({ run });
      } finally {
        if (hasPlace) places.free(organizationId);
      }
    },
  };
}
