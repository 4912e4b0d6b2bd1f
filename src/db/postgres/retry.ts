import { databaseError } from "./connect.ts";

/** SQLSTATEs of deadlock and serialization failure: Postgres rolled back this transaction in favour of another. */
const RETRYABLE_CODES = new Set(["40P01", "40001"]);
/** Maximum retries; then the caller receives the error. */
const MAX_RETRIES = 3;
/** No retry starts later than this after the first attempt: Postgres takes a second to detect a deadlock. */
const RETRY_BUDGET_MS = 3000;
/** Linear back-off with jitter, so two deadlocked transactions do not collide again. */
const BACKOFF_MS = 20;

let retried = 0;

/** Number of retries since this process started. */
export const retriedTransactions = (): number => retried;

/**
 * Runs `work`, exactly one transaction, and retries it after a deadlock or serialization failure: up to three times within
 * three seconds, with back-off. Other errors are rethrown. Side effects of `work` outside the database repeat with it.
 */
export async function retrySerializationFailures<T>(work: () => Promise<T>): Promise<T> {
  const deadline = performance.now() + RETRY_BUDGET_MS;
  for (let retries = 0; ; retries += 1) {
    try {
      return await work();
    } catch (error) {
      const isRetryable = RETRYABLE_CODES.has(databaseError(error)?.code ?? "");
      if (!isRetryable || retries === MAX_RETRIES || performance.now() > deadline) throw error;
      retried += 1;
      await new Promise((resolve) => setTimeout(resolve, BACKOFF_MS * (retries + Math.random())));
    }
  }
}
