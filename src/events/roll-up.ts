import type { Database } from "../db/postgres/connect.ts";
import { createRollUp } from "../db/queries/usage-rollup.ts";

/** Histories read the movements of about the last two intervals one by one. */
const EVERY_MS = 1000;

/** Keeps the sums of usage up to date. Returns a function that stops it. */
export function startRollUp({ db, onError }: { db: Database; onError: (error: unknown) => void }): () => Promise<void> {
  let isStopping = false;
  const rollUp = createRollUp(db, () => isStopping);
  let running: Promise<unknown> | undefined;
  const timer = setInterval(() => {
    running ??= rollUp()
      .catch(onError)
      .finally(() => (running = undefined));
  }, EVERY_MS);
  return async () => {
    isStopping = true;
    clearInterval(timer);
    await running;
  };
}
