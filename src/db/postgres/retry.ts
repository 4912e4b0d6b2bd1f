import { databaseError } from "./connect.ts";

/**
 * SQLSTATEs after which a transaction succeeds when it is repeated. Deadlock and serialization failure: Postgres rolled it
 * back in favour of another. Unknown prepared statement: a pooler gave it a backend that does not have the statement.
 */
const RETRYABLE_CODES = new Set(["40P01", "40001", "26000"]);
/** A migration changed the columns of a prepared statement. The driver prepares it again. */
const CHANGED_PLAN = { code: "0A000", routine: "RevalidateCachedQuery" };
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
 * Runs `work`, exactly one transaction, and retries it after errors that a repetition cures (RETRYABLE_CODES).
 * Up to three times within three seconds, with back-off. Other errors are rethrown. Side effects of `work` outside the
 * database repeat with it. The driver itself repeats lost statements outside of transactions.
 */
export async function retrySerializationFailures<T>(work: () => Promise<T>): Promise<T> {
  const deadline = performance.now() + RETRY_BUDGET_MS;
  for (let retries = 0; ; retries += 1) {
    try {
      return await work();
    } catch (error) {
      if (!isRetryable(error) || retries === MAX_RETRIES || performance.now() > deadline) throw error;
      retried += 1;
      await new Promise((resolve) => setTimeout(resolve, BACKOFF_MS * (retries + Math.random())));
    }
  }
}

function isRetryable(error: unknown): boolean {
  const found = databaseError(error);
  if (found === undefined) return false;
  return (
    RETRYABLE_CODES.has(found.code) || (found.code === CHANGED_PLAN.code && found.routine === CHANGED_PLAN.routine)
  );
}
