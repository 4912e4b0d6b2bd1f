import { analyse, clocksOf, sizeOf } from "../../core/change/analysis.ts";
import type { AnalysisResult, AnalysisTask } from "../../core/change/analysis.ts";
import { computingTime, type IsOver, type Steps } from "../../core/steps.ts";
import { Failure } from "../errors.ts";
import { Places } from "./places.ts";

/** Time budget of a task on the event loop. When it runs out, the task restarts in a thread. */
const INLINE_MS = 15;
/** Tasks that read more characters than this skip the attempt on the event loop. */
const INLINE_SIZE = 48 * 1024;
/** Longest slice when there are no threads. It bounds the latency that a slice adds to other requests. */
const SLICE_MS = 10;
/** Maximum steps of an analysis per slice: on Workers, the clock does not advance while code runs. */
const SLICE_STEPS = 16;
/** Time that each reading of a clock adds on Workers, where it stands still between slices. */
const READING_MS = 0.005;
/** Readings of a budget before it can be over. A small search needs fewer, and is not cut while the engine compiles it. */
const FEWEST_READINGS = 16;
/** Concurrent calls per organization that need more than INLINE_MS. */
export const CALLS_PER_ORGANIZATION = 2;
/** Concurrent calls per owner over all organizations, so that more organizations do not give more threads. */
export const CALLS_PER_OWNER = 4;
/** Bounds the queue per organization: its length, and how long a call waits in it. On a busy machine, a thread starts in seconds. */
const MAX_WAITING = 4;
const WAIT_MS = 10_000;
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

/** The organization that requests an analysis. `ownerId` is read only if the analysis needs a slot. */
export interface Tenant {
  organizationId: string;
  ownerId: () => Promise<string>;
}

/** Runs CPU-bound work without blocking the event loop. Only the pricings determine how large that work is. */
export interface Analysis {
  /**
   * Runs `work` with a call that executes its tasks. Small tasks run inline; the first larger one takes one of the
   * organization's slots, and one of its owner's.
   * @throws Failure tooManyRequests when no slot is free.
   */
  call<T>(tenant: Tenant, work: (call: AnalysisCall) => Promise<T>, signal?: AbortSignal | undefined): Promise<T>;
  /**
   * Starts the only replay of an organization. Returns a function that ends it.
   * @throws Failure tooManyRequests while another one runs.
   */
  startReplay(organizationId: string): () => void;
}

/** Error of work whose client has closed the connection. Nobody receives it. */
export const clientClosed = () => new Failure("invalid", "The client closed the request");

/** Yields to the event loop. */
export const pause = () => new Promise<void>((resolve) => setTimeout(resolve, 0));

/** Runs work on the event loop in slices, and yields between them. */
export async function inSlices<T>(
  steps: Steps<T>,
  { signal, maxSteps = Infinity }: { signal?: AbortSignal | undefined; maxSteps?: number } = {},
): Promise<T> {
  for (;;) {
    const until = performance.now() + SLICE_MS;
    for (let count = 0; count < maxSteps && performance.now() <= until; count++) {
      const { done, value } = steps.next();
      if (done === true) return value;
    }
    await pause();
    if (signal?.aborted === true) throw clientClosed();
  }
}

/**
 * Runs work in slices. `isOver` turns true after `milliseconds` of computing, not counting the pauses between slices; see
 * {@link computingTime}. It is false the first 16 times.
 */
export function inBudget<T>(milliseconds: number, work: (isOver: IsOver) => Steps<T>): Promise<T> {
  const time = computingTime(() => performance.now());
  let readings = 0;
  const isOver = () => {
    readings += 1;
    return time.read() + READING_MS * readings > milliseconds && readings > FEWEST_READINGS;
  };
  function* timed(): Steps<T> {
    const steps = work(isOver);
    for (;;) {
      time.resume();
      const { done, value } = steps.next();
      if (done === true) return value;
      time.read();
      yield;
    }
  }
  return inSlices(timed());
}

const tooMany = (whose: string, max: number) =>
  new Failure(
    "tooManyRequests",
    `Too many analyses of ${whose} at a time: at most ${max}. Try again in ${RETRY_AFTER_SECONDS} seconds`,
    { retryAfterSeconds: RETRY_AFTER_SECONDS },
  );

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
  const placesOf = (whose: string, max: number) =>
    new Places({ max, maxWaiting: mayWait ? MAX_WAITING : 0, waitMs: WAIT_MS, refusal: () => tooMany(whose, max) });
  const ofOrganizations = placesOf("this organization", CALLS_PER_ORGANIZATION);
  const ofOwners = placesOf("this organization's owner", CALLS_PER_OWNER);
  /** Takes both places. Returns a function that frees them. */
  const takePlaces = async ({ organizationId, ownerId }: Tenant): Promise<() => void> => {
    await ofOrganizations.take(organizationId);
    try {
      const owner = await ownerId();
      await ofOwners.take(owner);
      return () => {
        ofOwners.free(owner);
        ofOrganizations.free(organizationId);
      };
    } catch (error) {
      ofOrganizations.free(organizationId);
      throw error;
    }
  };
  const replaying = new Set<string>();
  return {
    startReplay: (organizationId) => {
      if (replaying.has(organizationId)) {
        throw new Failure(
          "tooManyRequests",
          `A replay of this organization is running. Try again in ${RETRY_AFTER_SECONDS} seconds`,
          { retryAfterSeconds: RETRY_AFTER_SECONDS },
        );
      }
      replaying.add(organizationId);
      return () => void replaying.delete(organizationId);
    },
    call: async (tenant, work, signal) => {
      let freePlaces: (() => void) | undefined;
      const run = async <Task extends AnalysisTask>(task: Task): Promise<AnalysisResult<Task>> => {
        const found = runAtOnce(task);
        if (found !== undefined) return found.value;
        freePlaces ??= await takePlaces(tenant);
        if (runInThread !== undefined) return runInThread(task, signal);
        let readings = 0;
        const clocks = clocksOf(() => performance.now() + READING_MS * (readings += 1));
        return inSlices(analyse(task, clocks), { signal, maxSteps: SLICE_STEPS });
      };
      try {
        return await work({ run });
      } finally {
        freePlaces?.();
      }
    },
  };
}
