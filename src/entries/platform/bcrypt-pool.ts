import { fileURLToPath } from "node:url";
import { Tinypool } from "tinypool";
import type { Resources } from "../../operations/context.ts";

/** Threads that compare bcrypt hashes. */
export interface BcryptPool {
  compare: NonNullable<Resources["compareBcrypt"]>;
  close(): Promise<void>;
}

/** Sign-ins with imported hashes come in bursts after an import. */
const IDLE_MS = 30_000;

/**
 * Opens a pool whose threads start with the first comparison. bcrypt runs in JavaScript for 50 ms to seconds. On the
 * event loop it would yield only every 100 ms.
 */
export function openBcryptPool(threads: number): BcryptPool {
  let pool: Tinypool | undefined;
  const open = () =>
    (pool ??= new Tinypool({
      filename: fileURLToPath(new URL("bcrypt-thread.mjs", import.meta.url)),
      runtime: "worker_threads",
      minThreads: 0,
      maxThreads: threads,
      idleTimeout: IDLE_MS,
      concurrentTasksPerWorker: 1,
      env: {},
      execArgv: [],
    }));
  return {
    compare: async (password, hash) => (await open().run({ password, hash })) === true,
    close: async () => {
      await pool?.destroy();
    },
  };
}
