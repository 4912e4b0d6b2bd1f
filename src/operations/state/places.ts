import { shareOfPool } from "../../db/postgres/connect.ts";
import { type Failure, unavailable } from "../errors.ts";

/** Share of the pool for one organization's transactions. The other connections are left to the requests of others. */
const TRANSACTIONS_SHARE = 3 / 4;
/** Transactions of one organization that may wait in one process, and how long. */
const MAX_WAITING = 1_000;
const WAIT_MS = 5_000;

/** Creates the places of transactions, by organization, over a pool of this size. */
export const createTransactionPlaces = (poolSize: number): Places =>
  new Places({
    max: shareOfPool(poolSize, TRANSACTIONS_SHARE),
    maxWaiting: MAX_WAITING,
    waitMs: WAIT_MS,
    refusal: () => unavailable(1),
  });

/** Semaphore per key with a short, bounded queue. */
export class Places {
  readonly #taken = new Map<string, number>();
  readonly #waiting = new Map<string, (() => void)[]>();
  readonly #options: { max: number; maxWaiting: number; waitMs: number; refusal: () => Failure };

  /** `max`: places of each key. `maxWaiting`: calls that may wait for one, each for `waitMs`. */
  constructor(options: { max: number; maxWaiting: number; waitMs: number; refusal: () => Failure }) {
    this.#options = options;
  }

  /** Runs `work` in a place of the key. @throws the refusal when none is free in time. */
  async within<T>(key: string, work: () => Promise<T>): Promise<T> {
    await this.take(key);
    try {
      return await work();
    } finally {
      this.free(key);
    }
  }

  /** Takes a place, which the caller frees. @throws the refusal when none is free in time. */
  async take(key: string): Promise<void> {
    const { max, maxWaiting, waitMs, refusal } = this.#options;
    const taken = this.#taken.get(key) ?? 0;
    if (taken < max) {
      this.#taken.set(key, taken + 1);
      return;
    }
    const waiting = this.#waiting.get(key) ?? [];
    if (waiting.length >= maxWaiting) throw refusal();
    this.#waiting.set(key, waiting);
    await new Promise<void>((resolve, reject) => {
      const next = () => {
        clearTimeout(timer);
        resolve();
      };
      const timer = setTimeout(() => {
        const position = waiting.indexOf(next);
        if (position >= 0) waiting.splice(position, 1);
        reject(refusal());
      }, waitMs);
      waiting.push(next);
    });
  }

  /** Passes the place to the longest-waiting call. */
  free(key: string): void {
    const next = this.#waiting.get(key)?.shift();
    if (next !== undefined) {
      next();
      return;
    }
    const taken = (this.#taken.get(key) ?? 1) - 1;
    if (taken > 0) this.#taken.set(key, taken);
    else {
      this.#taken.delete(key);
      this.#waiting.delete(key);
    }
  }
}
