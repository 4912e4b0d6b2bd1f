import { databaseError } from "./connect.ts";

/** A deadlock, and a transaction that cannot be serialized: one of two is undone, so that the other can go on. */
const RETRYABLE_CODES = new Set(["40P01", "40001"]);
/** How often a transaction that lost is done again; who loses so often is told to come back. */
const MAX_RETRIES = 3;
/** Nor is anything begun again this long after its beginning: finding a deadlock alone takes Postgres a second. */
const RETRY_BUDGET_MS = 3000;
/** Longer from one time to the next, and never the same for two who lost to each other. */
const BACKOFF_MS = 20;

let retried = 0;

/** Transactions that this process has done again. */
export const retriedTransactions = (): number => retried;

/**
 * Does `work`, one whole transaction and never two in a row, again when Postgres has undone it for the sake of another one:
 * up to three times within three seconds, each after a short pause. Any other error is thrown as it is. Whatever `work` does
 * outside of the database it does as often.
 */
export async function retrySerializationFailures<T>(work: () => Promise<T>): Promise<T> {
  const deadline = performance.now() + RETRY_BUDGET_MS;
  for (let repeats = 0; ; repeats += 1) {
    try {
      return await work();
    } catch (error) {
      const isRetryable = RETRYABLE_CODES.has(databaseError(error)?.code ?? "");
      if (!isRetryable || repeats === MAX_RETRIES || performance.now() > deadline) throw error;
      retried += 1;
      await new Promise((resolve) => setTimeout(resolve, BACKOFF_MS * (repeats + Math.random())));
    }
  }
}
