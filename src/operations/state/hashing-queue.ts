import { Failure } from "../errors.ts";

/*
 * Fair queue of password hashing in one process. A hash occupies a core for 200 ms outside the event loop; two at once
 * leave the other cores of a small machine free. Requests without a key (sign-in, sign-up) alternate with requests that
 * have one while both wait. Within each half, accounts and addresses are served round-robin.
 */

/** The account or address that a hash is queued for. */
export interface Requester {
  /** The user's id, or the client's address. Requests with the same key share one position in the round. */
  key: string;
  /** "anonymous": the request had no valid user key. "platformAdmin": exempt from queue limits. */
  kind: "anonymous" | "user" | "platformAdmin";
  /** Aborted when the client closes the connection, which removes a waiting hash. */
  signal?: AbortSignal | undefined;
}

/** Work of the process itself: the first ADMIN, tests. */
const PROCESS: Requester = { key: "", kind: "platformAdmin" };

/** Hashes that may wait in one process. Default: 600, one minute of work. */
const MAX_WAITING = 600;
/** Maximum share of the queue for one address without a key, and for one account. */
const ADDRESS_SHARE = 1 / 2;
const ACCOUNT_SHARE = 1 / 40;
/** Maximum share of the queue for all requests with a user key. It reserves the rest for sign-ins. */
const ACCOUNTS_SHARE = 1 / 2;

interface Turn {
  start: () => void;
  refuse: () => void;
  /** True for platform ADMINs: their turns are never refused. */
  isExempt: boolean;
}

/** Waiting turns by requester, in round-robin order: the first key is next. */
interface Round {
  waiting: Map<string, Turn[]>;
  size: number;
}

const newRound = (): Round => ({ waiting: new Map(), size: 0 });
const rounds = { anonymous: newRound(), accounts: newRound() };
let lastServed: keyof typeof rounds = "accounts";
let running = 0;
let concurrentHashes = 2;

/** Sets how many password hashes this process computes at once. */
export function allowHashes(atOnce: number): void {
  concurrentHashes = atOnce;
}

/** Counts password hashes in progress and waiting in this process. */
export function hashesWaiting(): number {
  return running + rounds.anonymous.size + rounds.accounts.size;
}

/**
 * Runs `work` when it is the requester's turn.
 * @throws Failure tooManyRequests when the queue or the requester's share of it is full, or when the connection closes
 * first.
 */
export async function inTurn<T>(
  work: () => Promise<T>,
  requester: Requester = PROCESS,
  maxWaiting: number = MAX_WAITING,
): Promise<T> {
  if (requester.signal?.aborted === true) throw connectionClosed();
  if (running < concurrentHashes) running += 1;
  else await nextTurn(requester, maxWaiting);
  try {
    return await work();
  } finally {
    serveNext();
  }
}

function nextTurn(requester: Requester, maxWaiting: number): Promise<void> {
  const round = requester.kind === "anonymous" ? rounds.anonymous : rounds.accounts;
  refuseBeyondShare(round, requester, maxWaiting);
  const { signal } = requester;
  return new Promise((resolve, reject) => {
    const drop = () => {
      remove(round, requester.key, turn);
      reject(connectionClosed());
    };
    const turn: Turn = {
      start: () => {
        signal?.removeEventListener("abort", drop);
        resolve();
      },
      refuse: () => {
        signal?.removeEventListener("abort", drop);
        reject(tooManyHashes());
      },
      isExempt: requester.kind === "platformAdmin",
    };
    add(round, requester.key, turn);
    signal?.addEventListener("abort", drop, { once: true });
  });
}

function refuseBeyondShare(round: Round, { key, kind }: Requester, maxWaiting: number): void {
  if (kind === "platformAdmin") return;
  const own = round.waiting.get(key)?.length ?? 0;
  const ownShare = Math.ceil(maxWaiting * (kind === "user" ? ACCOUNT_SHARE : ADDRESS_SHARE));
  const ofAll = Math.ceil(maxWaiting * (kind === "user" ? ACCOUNTS_SHARE : 1));
  // Where the address is not known, everybody has the same key: only the bound for all holds.
  if (key !== "" && own >= ownShare) throw tooManyHashes();
  // Otherwise two addresses, or twenty accounts, would take every place, and nobody else could sign in.
  if (round.size >= ofAll && !evictLargest(round, own + 1)) throw tooManyHashes();
}

/** Refuses the newest turn of the requester with the most turns, if it has more than `size`. Returns false otherwise. */
function evictLargest(round: Round, size: number): boolean {
  let largest: { key: string; turns: Turn[] } | undefined;
  for (const [key, turns] of round.waiting) {
    if (turns.length > (largest?.turns.length ?? size) && turns.at(-1)?.isExempt === false) largest = { key, turns };
  }
  const newest = largest?.turns.at(-1);
  if (largest === undefined || newest === undefined) return false;
  remove(round, largest.key, newest);
  newest.refuse();
  return true;
}

function tooManyHashes(): Failure {
  return new Failure("tooManyRequests", "Too many requests. Please try again later", { retryAfterSeconds: 10 });
}

function connectionClosed(): Failure {
  return new Failure("tooManyRequests", "The connection was closed before the password was hashed");
}

function add(round: Round, key: string, turn: Turn): void {
  const turns = round.waiting.get(key);
  if (turns === undefined) round.waiting.set(key, [turn]);
  else turns.push(turn);
  round.size += 1;
}

function remove(round: Round, key: string, turn: Turn): void {
  const turns = round.waiting.get(key);
  const at = turns?.indexOf(turn) ?? -1;
  if (turns === undefined || at < 0) return;
  turns.splice(at, 1);
  round.size -= 1;
  if (turns.length === 0) round.waiting.delete(key);
}

/** Passes the finished slot to the other half if it has waiters, else to the same half, else frees it. */
function serveNext(): void {
  const other = lastServed === "anonymous" ? "accounts" : "anonymous";
  const half = rounds[other].size > 0 ? other : lastServed;
  const turn = takeFirst(rounds[half]);
  if (turn === undefined) {
    running -= 1;
    return;
  }
  lastServed = half;
  turn.start();
}

function takeFirst(round: Round): Turn | undefined {
  const [first] = round.waiting;
  if (first === undefined) return undefined;
  const [key, turns] = first;
  const turn = turns.shift();
  round.size -= 1;
  round.waiting.delete(key);
  // Back to the end of the round.
  if (turns.length > 0) round.waiting.set(key, turns);
  return turn;
}
