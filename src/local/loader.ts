import { expected, mayRepeat, type Transport } from "../client/back/transport.ts";
import { isObject } from "../client/pricing-token.ts";
import { ServiceRequestError } from "../client/service-request-error.ts";
import {
  type DeferredEntry,
  SNAPSHOT_FORMAT,
  type SnapshotAnswer,
  type SnapshotEntry,
  type UnchangedEntry,
} from "../core/snapshot.ts";
import type { Answers } from "./answers.ts";
import { pause } from "./change-stream.ts";
import type { Decoder } from "./decoder.ts";
import type { Entries, Entry } from "./entries.ts";
import { askedIn } from "./entry-key.ts";

/** Entries of one call. */
const MAX_USERS = 500;
const MAX_CALLS = 4;
/** Times that a change during a call makes it repeat for one user. Its answer is true at the moment of the request. */
const MAX_VOIDED = 3;
const FIRST_WAIT_MS = 100;
/** The service limits the calls of a key per second. */
const RATE_WINDOW_MS = 1_000;

/** The service answers in a format that this version does not know. */
export class UnknownFormat extends Error {}

interface Wanted {
  promise: Promise<Entry>;
  resolve: (entry: Entry) => void;
  reject: (error: unknown) => void;
  voided: number;
}

/** One request for a snapshot, with the changes that were received since. */
interface Call {
  /** By `entryKey`: the entry that is to be revalidated, if any. */
  users: Map<string, Entry | undefined>;
  changed: Set<string>;
  allChanged: boolean;
}

/** Loads entries: asks that are made together share a call, and idle calls revalidate others. */
export class Loader {
  private readonly wanted = new Map<string, Wanted>();
  private readonly background = new Set<string>();
  /** Of a call in flight. */
  private readonly flying = new Map<string, Wanted | undefined>();
  private readonly calls = new Set<Call>();
  private isScheduled = false;
  private readonly closed = new AbortController();
  private readonly transport: Transport;
  private readonly retries: number;
  private readonly deadlineMs: number;
  private readonly decoder: Decoder;
  private readonly entries: Entries;
  private readonly onRefused: () => void;

  /** `transport` must not retry: an answer is as old as its attempt. */
  constructor(options: {
    transport: Transport;
    retries: number;
    /** Time limit of a request with all attempts. */
    deadlineMs: number;
    decoder: Decoder;
    entries: Entries;
    onRefused: () => void;
  }) {
    this.transport = options.transport;
    this.retries = options.retries;
    this.deadlineMs = options.deadlineMs;
    this.decoder = options.decoder;
    this.entries = options.entries;
    this.onRefused = options.onRefused;
  }

  /**
   * Requests the entry of this `entryKey`.
   * @throws ServiceRequestError, UnknownFormat
   */
  ask(key: string): Promise<Entry> {
    if (this.closed.signal.aborted) return Promise.reject(this.closed.signal.reason as Error);
    const existing = this.wanted.get(key) ?? this.flying.get(key);
    if (existing !== undefined) return existing.promise;
    const wanted = createWanted();
    this.background.delete(key);
    if (this.flying.has(key)) this.flying.set(key, wanted);
    else this.wanted.set(key, wanted);
    this.schedule();
    return wanted.promise;
  }

  /** Requests entries again, and those under way, when no ask waits. */
  revalidate(keys: readonly string[]): void {
    for (const key of [...keys, ...this.flying.keys()]) {
      if (!this.wanted.has(key)) this.background.add(key);
    }
    this.schedule();
  }

  /** Voids answers under way. */
  changed(contractIds: readonly string[] | null): void {
    for (const call of this.calls) {
      if (contractIds === null) call.allChanged = true;
      else for (const id of contractIds) call.changed.add(id);
    }
  }

  close(error: Error): void {
    this.closed.abort(error);
    this.background.clear();
    for (const wanted of [...this.wanted.values(), ...this.flying.values()]) wanted?.reject(error);
    this.wanted.clear();
    this.flying.clear();
  }

  private schedule(): void {
    if (this.isScheduled || this.closed.signal.aborted) return;
    this.isScheduled = true;
    queueMicrotask(() => {
      this.isScheduled = false;
      while (this.calls.size < MAX_CALLS && this.wanted.size > 0) void this.call();
      if (this.calls.size === 0 && this.background.size > 0) void this.call();
    });
  }

  private async call(): Promise<void> {
    const call: Call = { users: new Map(), changed: new Set(), allChanged: false };
    const take = (key: string) => {
      call.users.set(key, this.entries.get(key));
      this.flying.set(key, this.wanted.get(key));
      this.wanted.delete(key);
      this.background.delete(key);
    };
    for (const queue of [this.wanted.keys(), this.background.keys()]) {
      for (const key of queue) {
        if (call.users.size === MAX_USERS) break;
        if (!this.flying.has(key)) take(key);
      }
    }
    this.calls.add(call);
    try {
      await this.load(call);
    } catch (error) {
      if (error instanceof ServiceRequestError && (error.status === 401 || error.status === 403)) this.onRefused();
      for (const key of call.users.keys()) this.flying.get(key)?.reject(error);
    } finally {
      this.calls.delete(call);
      for (const key of call.users.keys()) this.flying.delete(key);
      this.schedule();
    }
  }

  private async load(call: Call): Promise<void> {
    const known = this.decoder.known();
    const body = {
      users: Array.from(call.users, ([key, entry]) => ({
        ...askedIn(key),
        ...(entry?.version == null ? {} : { version: entry.version }),
      })),
      knownPricings: [...known.pricings.keys()],
      knownGrants: [...known.grants.keys()],
    };
    const { answer, askedAt } = await this.send(body);
    if (answer.format !== SNAPSHOT_FORMAT) throw new UnknownFormat();
    const answersOf = await this.decoder.read(answer, known);
    if (this.closed.signal.aborted) return;
    const serverTime = Date.parse(answer.now);
    // In the order of the request: an answer does not repeat the spender.
    for (const [index, [key, before]] of [...call.users].entries()) {
      const described = answer.users[index];
      if (described === undefined) continue;
      const entry = entryOf(described, before, { key, answersOf, askedAt, serverTime });
      this.settle(key, entry, call);
    }
  }

  /** Stores an entry and answers those who wait for it. Requests it again if it is missing or void. */
  private settle(key: string, entry: Entry | undefined, call: Call): void {
    const wanted = this.flying.get(key);
    this.flying.delete(key);
    const isVoid =
      entry !== undefined && (call.allChanged || (entry.contractId !== null && call.changed.has(entry.contractId)));
    if (entry !== undefined) {
      entry.isVoid = isVoid;
      this.entries.put(entry);
    }
    if (wanted !== undefined && isVoid) wanted.voided += 1;
    const isAnswer = entry !== undefined && (!isVoid || (wanted?.voided ?? MAX_VOIDED) >= MAX_VOIDED);
    if (isAnswer) wanted?.resolve(entry);
    else if (wanted !== undefined) this.wanted.set(key, wanted);
    else this.background.add(key);
  }

  private async send(body: object): Promise<{ answer: SnapshotAnswer; askedAt: number }> {
    const endsAt = performance.now() + this.deadlineMs;
    for (let attempt = 0; ; attempt += 1) {
      const askedAt = performance.now();
      const call = { method: "POST", path: "/snapshot", body, isRead: true } as const;
      try {
        const answer = await this.transport.send(call, {
          signal: this.closed.signal,
          deadlineMs: endsAt - askedAt,
        });
        return { answer: expected(answer, isSnapshot), askedAt };
      } catch (error) {
        if (!(error instanceof ServiceRequestError) || !mayRepeat(call, error)) throw error;
        if (attempt >= this.retries || this.closed.signal.aborted) throw error;
        const firstWaitMs = error.status === 429 ? RATE_WINDOW_MS : FIRST_WAIT_MS;
        const waitMs = Math.random() * firstWaitMs * 2 ** attempt;
        if (performance.now() + waitMs >= endsAt) throw error;
        await pause(waitMs, this.closed.signal);
      }
    }
  }
}

function createWanted(): Wanted {
  let resolve: Wanted["resolve"] = () => {};
  let reject: Wanted["reject"] = () => {};
  const promise = new Promise<Entry>((onEntry, onError) => {
    resolve = onEntry;
    reject = onError;
  });
  return { promise, resolve, reject, voided: 0 };
}

/** Creates the entry that an answer describes; undefined if it was deferred, or names a part that is missing. */
function entryOf(
  described: SnapshotEntry | UnchangedEntry | DeferredEntry,
  before: Entry | undefined,
  context: {
    key: string;
    answersOf: (services: SnapshotEntry["services"]) => Answers | undefined;
    askedAt: number;
    serverTime: number;
  },
): Entry | undefined {
  if ("deferred" in described) return undefined;
  const { askedAt, serverTime } = context;
  const facts = "unchanged" in described ? before : factsOf(described, context.answersOf);
  if (facts === undefined) return undefined;
  const { contractId, version, validUntil, refusal, answers } = facts;
  // The service read its clock after `askedAt`, so this expires early rather than late.
  const expiresAt = validUntil === null ? Infinity : askedAt + Date.parse(validUntil) - serverTime;
  const state = { askedAt, knownAt: askedAt, expiresAt, isVoid: false, isUsed: before?.isUsed ?? true };
  return { ...askedIn(context.key), contractId, version, validUntil, refusal, answers, ...state };
}

function factsOf(described: SnapshotEntry, answersOf: (services: SnapshotEntry["services"]) => Answers | undefined) {
  const answers = answersOf(described.services);
  return answers === undefined ? undefined : { ...described, answers };
}

function isSnapshot(value: unknown): value is SnapshotAnswer {
  return isObject(value) && typeof value["format"] === "number" && Array.isArray(value["users"]);
}
