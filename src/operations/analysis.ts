import { analyse, clocksOf, sizeOf } from "../core/change/analysis.ts";
import type { AnalysisResult, AnalysisTask } from "../core/change/analysis.ts";
import type { Steps } from "../core/steps.ts";
import { Failure } from "./errors.ts";

/** How long a task runs on the event loop before it is given to a thread. */
const INLINE_MS = 15;
/** A task that has to read more, in characters, is not tried on the event loop at all. */
const INLINE_SIZE = 48 * 1024;
/** The longest slice without threads: others wait so long. */
const SLICE_MS = 10;
/** A clock that stands still during work, as on Workers, must not make a slice endless. */
const SLICE_STEPS = 2_000;
/** Calls of one organization at a time that need more than INLINE_MS. */
export const CALLS_PER_ORGANIZATION = 2;
/** Calls that wait for a place of their organization, and how long they do. */
const MAX_WAITING = 4;
const WAIT_MS = 1_000;
/** When to come back: about as long as one analysis may take. */
const RETRY_AFTER_SECONDS = 5;

/** Runs a task in another thread. Rejects with a Failure when it takes too much time or memory; `signal` ends it. */
export type RunInThread = <Task extends AnalysisTask>(
  task: Task,
  signal: AbortSignal | undefined,
) => Promise<AnalysisResult<Task>>;

/** One call's use of the processor: its tasks run one after the other in one place of its organization. */
export interface AnalysisCall {
  run<Task extends AnalysisTask>(task: Task): Promise<AnalysisResult<Task>>;
}

/** Does work whose size only the pricings decide, and never holds the event loop for it. */
export interface Analysis {
  /**
   * Gives `work` a call to run its tasks with. Small tasks run at once; the first larger one takes one of the
   * organization's places. Failure tooManyRequests when these are taken.
   */
  call<T>(
    organizationId: string,
    work: (call: AnalysisCall) => Promise<T>,
    signal?: AbortSignal | undefined,
  ): Promise<T>;
}

/** Lets whatever else waits have its turn. */
export const pause = () => new Promise<void>((resolve) => setTimeout(resolve, 0));

/** Runs work on the event loop, in slices with pauses between them. */
export async function inSlices<T>(steps: Steps<T>, signal?: AbortSignal | undefined): Promise<T> {
  for (;;) {
    const until = performance.now() + SLICE_MS;
    for (let count = 0; count < SLICE_STEPS && performance.now() <= until; count++) {
      const { done, value } = steps.next();
      if (done === true) return value;
    }
    await pause();
    if (signal?.aborted === true) throw new Failure("invalid", "The request was given up by who sent it");
  }
}

/** Places of organizations: at most so many calls at a time, few that wait, each for a moment. */
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

  /** The place goes to whoever has waited longest. */
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

/** The result of a task that is done in no time; undefined for every other, which is begun anew elsewhere. */
function runAtOnce<Task extends AnalysisTask>(task: Task): { value: AnalysisResult<Task> } | undefined {
  if (sizeOf(task) > INLINE_SIZE) return undefined;
  let isCut = false;
  let until: number | undefined;
  const isOver = () => (isCut ||= performance.now() > (until ??= performance.now() + INLINE_MS));
  const steps = analyse(task, () => isOver);
  for (;;) {
    const { done, value } = steps.next();
    // What was cut short in its last step is not what was asked for.
    if (isCut || isOver()) return undefined;
    if (done === true) return { value };
  }
}

/**
 * Without `runInThread`, larger tasks run in slices. `mayWait` is false where a request must not wait for another one, as
 * on Workers.
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
