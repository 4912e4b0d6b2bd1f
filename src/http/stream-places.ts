import { Failure } from "../operations/errors.ts";

/** Who opens a stream: the key and the account that it belongs to, or an address without a key. */
export type StreamHolder = { keyId: string; accountId: string } | { address: string };

/** Limits of one process; 0: none. */
export interface StreamLimits {
  total: number;
  perAddress: number;
  perKey: number;
}

/** Seconds after which a client that was refused should try again. */
const RETRY_SECONDS = 5;
/** Parts of all places: for streams without a key, and for the keys of one account, its organizations' included. */
const WITHOUT_KEY = 1 / 2;
const PER_ACCOUNT = 1 / 4;

/**
 * The places of one process for event streams. Streams without a key get at most half of them, so that the other half is
 * reserved for keys, and no account gets more than a quarter.
 */
export interface StreamPlaces {
  /** Takes a place; returns how to leave it, which counts once. Failure tooManyRequests, unavailable. */
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
        // An address that is not known is not counted.
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
