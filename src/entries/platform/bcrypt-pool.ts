import { fileURLToPath } from "node:url";
import { Tinypool } from "tinypool";
import { threadModule } from "./threads.ts";
import { openWebWorkers, type Threads } from "./web-workers.ts";
import type { Resources } from "../../operations/context.ts";

/** Threads that compare bcrypt hashes. */
export interface BcryptPool {
  compare: NonNullable<Resources["compareBcrypt"]>;
  close(): Promise<void>;
}

/** Sign-ins with imported hashes come in bursts after an import. */
const IDLE_MS = 30_000;
/** The most expensive accepted hash takes two seconds of one core. */
const TIMEOUT_MS = 60_000;

/**
 * Opens a pool whose threads start with the first comparison. bcrypt runs in JavaScript for 50 ms to seconds. On the
 * event loop it would yield only every 100 ms.
 */
export function openBcryptPool(threads: number): BcryptPool {
  let pool: Threads | undefined;
  const module = threadModule("bcrypt-thread");
  const openThreads = (): Threads =>
    "Deno" in globalThis
      ? openWebWorkers(module, IDLE_MS)
      : new Tinypool({
          filename: fileURLToPath(module),
          runtime: "worker_threads",
          minThreads: 0,
          maxThreads: threads,
          idleTimeout: IDLE_MS,
          concurrentTasksPerWorker: 1,
          env: {},
          execArgv: [],
        });
  return {
    compare: async (password, hash) => {
      pool ??= openThreads();
      return (await pool.run({ password, hash }, { signal: AbortSignal.timeout(TIMEOUT_MS) })) === true;
    },
    close: async () => {
      await pool?.destroy();
    },
  };
}
