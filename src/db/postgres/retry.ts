import { databaseError } from "./connect.ts";

/** SQLSTATEs of a deadlock and a serialization failure: Postgres rolled back one of two transactions. */
const RETRYABLE_CODES = new Set(["40P01", "40001"]);
/** Retries per transaction; then the caller gets a retryable error. */
const MAX_RETRIES = 3;
/** No retry starts later than this: detecting one deadlock alone takes Postgres a second. */
const RETRY_BUDGET_MS = 3000;
/** Linear back-off with jitter, so two deadlocked transactions do not collide again. */
const BACKOFF_MS = 20;

let retried = 0;

/** Number of transactions that this process has retried. */
export const retriedTransactions = (): number => retried;

/**
 * Runs `work`, which must be exactly one transaction, and retries it after a deadlock or serialization failure. At most
 * three retries within three seconds, each after a short back-off. Other errors are rethrown. Effects of `work` outside
 * the database are repeated too.
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
