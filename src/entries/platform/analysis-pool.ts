import { fileURLToPath } from "node:url";
import { availableParallelism } from "node:os";
import { Tinypool } from "tinypool";
import { threadModule } from "./threads.ts";
import { openWebWorkers, type Threads } from "./web-workers.ts";
import type { AnalysisResult, AnalysisTask } from "../../core/change/analysis.ts";
import { clientClosed, type RunInThread } from "../../operations/state/analysis.ts";
import { Failure, unavailable } from "../../operations/errors.ts";

/** How many threads at most, their memory, and how long one task may take before its thread is ended. */
export interface PoolLimits {
  threads: number;
  memoryMb: number;
  timeoutMs: number;
}

/** A pool of threads for analyses. */
export interface AnalysisPool {
  run: RunInThread;
  close(): Promise<void>;
}

/** Starting one takes half a second: it stays for a while. */
const IDLE_MS = 30_000;
/** Tasks that wait for a thread, over all organizations; each has two calls at most. */
const MAX_WAITING = 200;

const tooLarge = (cause: unknown) =>
  new Failure(
    "invalid",
    "INVALID DATA: The pricing is too large to be analysed: it takes more time or memory than one analysis may have",
    { cause },
  );

/** One thread for every processor but one, so that requests keep theirs; two at most. */
export function threadsOf(): number {
  try {
    return Math.min(2, Math.max(1, availableParallelism() - 1));
  } catch {
    // Deno says how many there are only where it was allowed to.
    return 1;
  }
}

/**
 * Opens a pool whose threads start with the first task and end when they are idle. A thread that takes too long or too much
 * memory is ended, and the process goes on. Bun and Deno do not bound the memory of a thread; time and the steps of the
 * analyses do.
 */
export function openAnalysisPool({ threads, memoryMb, timeoutMs }: PoolLimits): AnalysisPool {
  let pool: Threads | undefined;
  const openThreads = (): Threads => {
    if ("Deno" in globalThis) return openWebWorkers(new URL("analysis-thread.ts", import.meta.url), IDLE_MS);
    return new Tinypool({
      filename: fileURLToPath(threadModule("analysis-thread")),
      runtime: "worker_threads",
      minThreads: 0,
      maxThreads: threads,
      idleTimeout: IDLE_MS,
      concurrentTasksPerWorker: 1,
      // Nothing of the environment is needed there, secrets least of all.
      env: {},
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: memoryMb, maxYoungGenerationSizeMb: 32 },
    });
  };
  /** Tasks wait here and not in the pool: their time begins when they run. */
  const waiting: (() => void)[] = [];
  let running = 0;
  const takeThread = async (): Promise<void> => {
    if (running < threads) {
      running += 1;
      return;
    }
    if (waiting.length >= MAX_WAITING) {
      throw unavailable(5);
    }
    await new Promise<void>((resolve) => waiting.push(resolve));
  };
  const freeThread = (): void => {
    const next = waiting.shift();
    if (next === undefined) running -= 1;
    else next();
  };
  const run = async <Task extends AnalysisTask>(
    task: Task,
    signal: AbortSignal | undefined,
  ): Promise<AnalysisResult<Task>> => {
    await takeThread();
    const ended = new AbortController();
    const timer = setTimeout(() => ended.abort(), timeoutMs);
    const leave = () => ended.abort();
    signal?.addEventListener("abort", leave, { once: true });
    try {
      if (signal?.aborted === true) throw clientClosed();
      pool ??= openThreads();
      return (await pool.run(task, { signal: ended.signal })) as AnalysisResult<Task>;
    } catch (error) {
      if (error instanceof Failure) throw error;
      if (signal?.aborted === true) throw clientClosed();
      if (ended.signal.aborted || isOutOfMemory(error)) throw tooLarge(error);
      throw error;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", leave);
      freeThread();
    }
  };
  return {
    run,
    close: async () => {
      await pool?.destroy();
    },
  };
}

function isOutOfMemory(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return (
    ("code" in error && error.code === "ERR_WORKER_OUT_OF_MEMORY") || /out of memory|memory limit/i.test(error.message)
  );
}
