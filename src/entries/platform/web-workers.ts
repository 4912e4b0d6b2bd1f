/** A pool of threads, as Tinypool has it. */
export interface Threads {
  run(task: unknown, options: { signal: AbortSignal }): Promise<unknown>;
  destroy(): Promise<void>;
}

/** Time for a thread to load its code. A thread that is slower is replaced. */
const START_MS = 20_000;
const ATTEMPTS = 3;

/**
 * Opens a pool of web workers, for Deno. `module` exports the function that answers tasks. Tinypool's first message to a new worker_threads thread is lost there when the
 * processors are busy, so a worker here reports when it is ready, and only then receives its task. Idle workers exit
 * after `idleMs`.
 */
export function openWebWorkers(module: URL, idleMs: number): Threads {
  const idle: { worker: Worker; timer: ReturnType<typeof setTimeout> }[] = [];
  const take = async (): Promise<Worker> => {
    const free = idle.pop();
    if (free === undefined) return startWorker(module);
    clearTimeout(free.timer);
    return free.worker;
  };
  const giveBack = (worker: Worker) => {
    const timer = setTimeout(() => {
      idle.splice(
        idle.findIndex((each) => each.worker === worker),
        1,
      );
      worker.terminate();
    }, idleMs);
    idle.push({ worker, timer });
  };
  return {
    run: async (task, { signal }) => {
      const worker = await take();
      try {
        const answer = await ask(worker, task, signal);
        giveBack(worker);
        return answer;
      } catch (error) {
        worker.terminate();
        throw error;
      }
    },
    destroy: async () => {
      for (const { worker, timer } of idle.splice(0)) {
        clearTimeout(timer);
        worker.terminate();
      }
    },
  };
}

/** Starts a worker and waits until it is ready. @throws Error after several attempts. */
async function startWorker(module: URL): Promise<Worker> {
  for (let attempt = 1; ; attempt += 1) {
    const worker = new Worker(new URL("web-worker.ts", import.meta.url), { type: "module", name: module.href });
    const isReady = await new Promise<boolean>((resolve) => {
      const timer = setTimeout(() => resolve(false), START_MS);
      worker.addEventListener("message", () => (clearTimeout(timer), resolve(true)), { once: true });
      worker.addEventListener("error", (event) => {
        event.preventDefault();
        clearTimeout(timer);
        resolve(false);
      });
    });
    if (isReady) return worker;
    worker.terminate();
    if (attempt === ATTEMPTS) throw new Error("an analysis thread did not start");
  }
}

/** Sends a task and resolves with its answer. Rejects when the signal is aborted or the worker fails. */
function ask(worker: Worker, task: unknown, signal: AbortSignal): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const listeners = new AbortController();
    const settle = (done: () => void) => {
      listeners.abort();
      done();
    };
    const options = { signal: listeners.signal };
    const onMessage = ({ data }: MessageEvent<{ value?: unknown; error?: string }>) =>
      settle(() => (data.error === undefined ? resolve(data.value) : reject(new Error(data.error))));
    worker.addEventListener("message", onMessage, options);
    const onError = (event: ErrorEvent) => {
      event.preventDefault();
      settle(() => reject(new Error(event.message)));
    };
    worker.addEventListener("error", onError, options);
    signal.addEventListener("abort", () => settle(() => reject(signal.reason as Error)), options);
    if (signal.aborted) settle(() => reject(signal.reason as Error));
    else worker.postMessage(task);
  });
}
