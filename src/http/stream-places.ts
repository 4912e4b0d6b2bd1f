import { Failure } from "../operations/errors.ts";

/** Opener of a stream: a key with its account, or an address without a key. */
export type StreamHolder = { keyId: string; accountId: string } | { address: string };

/** Limits of one process; 0 disables a limit. */
export interface StreamLimits {
  total: number;
  perAddress: number;
  perKey: number;
}

/** Retry-After of a rejected stream. */
const RETRY_SECONDS = 5;
/** Shares of all places: streams without a key, and one account with the keys of its organizations. */
const WITHOUT_KEY = 1 / 2;
const PER_ACCOUNT = 1 / 4;

/**
 * Event streams that one process may keep open. Streams without a key get at most half of the places, which reserves
 * the other half for keys. No account gets more than a quarter.
 */
export interface StreamPlaces {
  /**
   * Takes a place, and returns an idempotent function that frees it.
   * @throws Failure tooManyRequests or unavailable.
   */
  take(holder: StreamHolder, limits: StreamLimits): () => void;
}

export function createStreamPlaces(): StreamPlaces {
  const open = new Map<string, number>();
  const of = (name: string) => open.get(name) ?? 0;
  const change = (name: string, by: number) => {
    const count = of(name) + by;
    if (count === 0) open.delete(name);
    else open.set(name, count);
  };
  return {
    take: (holder, { total, perAddress, perKey }) => {
      const names = ["all", ...("keyId" in holder ? [`key ${holder.keyId}`, `account ${holder.accountId}`] : [])];
      if ("keyId" in holder) {
        if (perKey > 0 && of(`key ${holder.keyId}`) >= perKey) throw tooMany("with this API key");
        if (of(`account ${holder.accountId}`) >= Math.ceil(total * PER_ACCOUNT)) throw tooMany("for this account");
      } else {
        names.push("without key");
        // Unknown addresses are not counted.
        if (holder.address !== "") names.push(`address ${holder.address}`);
        if (perAddress > 0 && of(`address ${holder.address}`) >= perAddress) throw tooMany("from this address");
        if (of("without key") >= Math.ceil(total * WITHOUT_KEY)) throw full();
      }
      if (of("all") >= total) throw full();
      for (const name of names) change(name, 1);
      let isOpen = true;
      return () => {
        if (!isOpen) return;
        isOpen = false;
        for (const name of names) change(name, -1);
      };
    },
  };
}

function tooMany(where: string): Failure {
  return new Failure("tooManyRequests", `Too many event streams are open ${where}. Please try again later`, {
    retryAfterSeconds: RETRY_SECONDS,
  });
}

function full(): Failure {
  return new Failure("unavailable", "Too many event streams are open. Please try again", {
    retryAfterSeconds: RETRY_SECONDS,
  });
}
