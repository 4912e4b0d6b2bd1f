import { isOutage, type OutageOptions } from "../client/back/fallback-cache.ts";
import type { Spender } from "../client/back/budgets.ts";
import type { EvaluationOptions } from "../client/back/evaluation-options.ts";
import { DEADLINE_MS, segment, Transport } from "../client/back/transport.ts";
import { serviceAddress } from "../client/address.ts";
import { notifyAll } from "../client/listeners.ts";
import { ServiceRequestError } from "../client/service-request-error.ts";
import { ChangeStream, unlessAborted } from "./change-stream.ts";
import { Circuit } from "./circuit.ts";
import { Decoder } from "./decoder.ts";
import { Entries, type Entry } from "./entries.ts";
import { askedOf, entryKey } from "./entry-key.ts";
import { Loader, UnknownFormat } from "./loader.ts";
import type { LocalEvaluatorOptions, LocalFreshness, LocalState } from "./local-evaluator.ts";

/** Age above which an answer says that it is stale. */
export const FRESH_MS = 1_000;
/** Time that the first asks wait for the stream, so that what they load need not be validated again. */
const FIRST_STREAM_MS = 250;

/** The entry that answers, or the caller's choice for an outage. */
export type Found = { entry: Entry; freshness: LocalFreshness } | { entry: undefined; isOpen: boolean };

/** Entries that are fresh enough to answer: loads them, follows their changes, and knows how old they are. */
export class FreshEntries {
  state: LocalState = "connecting";
  private readonly options: LocalEvaluatorOptions;
  private readonly maxStaleMs: number;
  private readonly entries: Entries;
  private readonly decoder = new Decoder();
  private readonly loader: Loader;
  private readonly stream: ChangeStream;
  private readonly circuit = new Circuit();
  private readonly running: Promise<void>;
  private readonly onRefused: () => void;
  /** Pending until the first stream beats, fails or takes too long. */
  private firstStream: Promise<void> | undefined;
  private endFirstStream = () => {};
  private isFormatUnknown = false;

  /**
   * Connects. `onRefused` is called when the service refuses the key.
   * @throws Error that names the invalid option.
   */
  constructor(options: LocalEvaluatorOptions, onRefused: () => void) {
    this.options = options;
    this.onRefused = onRefused;
    this.maxStaleMs = inRange("maxStaleMs", options.maxStaleMs ?? 10_000, 1_000);
    this.entries = new Entries(inRange("maxUsers", options.maxUsers ?? 50_000, 1));
    const { apiKey, fetch, retries = 3, deadlineMs = DEADLINE_MS } = options;
    this.loader = new Loader({
      transport: new Transport({ ...options, retries: 0 }),
      retries,
      deadlineMs,
      decoder: this.decoder,
      entries: this.entries,
      onRefused: () => this.refuse(),
    });
    const url = `${serviceAddress(options.url).httpUrl}/events/stream?changes=true`;
    this.stream = new ChangeStream(
      { url, apiKey, fetch },
      {
        onBeat: (isFirst) => {
          if (isFirst) this.loader.revalidate(this.keysInUseFirst());
          this.endFirstStream();
          this.updateState();
        },
        onChange: (contractIds) => {
          this.onChange(contractIds);
          if (options.onChange !== undefined) notifyAll(new Set([options.onChange]));
        },
        onEnd: () => this.keepProof(),
        onRefused: () => this.refuse(),
        onFailure: () => {
          this.endFirstStream();
          this.setState("disconnected");
        },
      },
    );
    this.firstStream = new Promise((resolve) => {
      const timer = setTimeout(() => this.endFirstStream(), FIRST_STREAM_MS);
      this.endFirstStream = () => {
        clearTimeout(timer);
        this.firstStream = undefined;
        resolve();
      };
    });
    this.running = this.stream.run();
  }

  get size(): number {
    return this.entries.size;
  }

  /** The entry that may answer for a user, and for a spender of the user's contract. */
  get(userId: string, spender?: Spender): Entry | undefined {
    if (spender === undefined) return this.entries.get(userId);
    const asked = askedOf(userId, spender);
    return asked && this.entries.get(entryKey(asked));
  }

  /**
   * Finds the entry that answers, and requests it if necessary. Returns no entry but the caller's choice for outages, and
   * undefined where the service is to answer.
   * @throws ServiceRequestError of a refusal, or of an outage.
   */
  async find(userId: string, options: EvaluationOptions, consumes = false): Promise<Found | undefined> {
    segment("userId", userId);
    const asked = askedOf(userId, options.spender);
    if (this.isFormatUnknown || asked === undefined) return undefined;
    const now = performance.now();
    const existing = this.entries.get(entryKey(asked));
    const ageMs = existing === undefined ? 0 : this.ageOf(existing, now);
    if (existing !== undefined && this.mayAnswer(existing, ageMs, now)) return foundIn(existing, ageMs, "local");
    if (this.firstStream !== undefined) await unlessAborted(this.firstStream, options.signal);
    const outage = this.outagePolicy(options);
    // While the circuit is open, only the policy answers, and one probe per second goes out.
    if (this.circuit.isOpen()) {
      if (consumes) return undefined;
      const withoutAsking = this.inOutage(existing, outage);
      if (withoutAsking !== undefined) return withoutAsking;
    }
    this.circuit.probe();
    try {
      const entry = await unlessAborted(this.loader.ask(entryKey(asked)), options.signal);
      this.circuit.succeeded();
      return foundIn(entry, this.ageOf(entry, performance.now()), "local");
    } catch (error) {
      if (error instanceof UnknownFormat) {
        this.isFormatUnknown = true;
        this.clear();
        return undefined;
      }
      if (!isOutage(error)) throw error;
      this.circuit.failed();
      // The service's client knows what may be answered about consumption.
      if (consumes) return undefined;
      const found = this.inOutage(existing, outage);
      if (found === undefined) throw error;
      return found;
    }
  }

  /** Loads users who cannot be answered about, 500 per request. */
  async load(userIds: readonly string[]): Promise<void> {
    // The service would refuse the whole request, with all users whom others ask for in it.
    for (const [index, userId] of userIds.entries()) segment(`userIds.${index}`, userId);
    await this.firstStream;
    const now = performance.now();
    const missing = [...new Set(userIds)].filter((userId) => {
      if (askedOf(userId, undefined) === undefined) return false;
      const entry = this.entries.get(userId);
      return entry === undefined || !this.mayAnswer(entry, this.ageOf(entry, now), now);
    });
    await Promise.all(missing.map((userId) => this.loader.ask(userId))).catch((error: unknown) => {
      // The service answers then.
      if (!(error instanceof UnknownFormat)) throw error;
    });
  }

  /** Milliseconds since the entry was last known to be true. */
  ageOf({ askedAt, knownAt }: Entry, now: number): number {
    const isFollowed = askedAt >= this.stream.firstBeatAt;
    return now - (isFollowed ? Math.max(knownAt, this.stream.provenAt) : knownAt);
  }

  /** True if the entry may answer at this age. */
  mayAnswer(entry: Entry, ageMs: number, now: number): boolean {
    return !entry.isVoid && ageMs <= this.maxStaleMs && now <= entry.expiresAt;
  }

  /** Empties everything, because the service refused the key. */
  refuse(): void {
    this.clear();
    this.onRefused();
  }

  updateState(): void {
    if (this.stream.isConnected(performance.now())) this.setState("connected");
    else if (this.state === "connected") this.setState("disconnected");
  }

  /** Disconnects. Asks under way reject with `error`. */
  close(error: Error): void {
    this.setState("closed");
    this.endFirstStream();
    this.stream.close();
    this.loader.close(error);
    this.clear();
  }

  /** Resolves when it is disconnected. */
  get closed(): Promise<void> {
    return this.running;
  }

  private outagePolicy(options: OutageOptions): Required<OutageOptions> {
    return {
      lastKnownForMs: options.lastKnownForMs ?? this.options.lastKnownForMs ?? 0,
      whenUnreachable: options.whenUnreachable ?? this.options.whenUnreachable ?? "throw",
    };
  }

  private inOutage(existing: Entry | undefined, policy: Required<OutageOptions>): Found | undefined {
    const { lastKnownForMs = 0, whenUnreachable } = policy;
    const ageMs = existing === undefined ? Infinity : this.ageOf(existing, performance.now());
    if (existing !== undefined && ageMs < lastKnownForMs) return foundIn(existing, ageMs, "last-known");
    if (whenUnreachable === "throw") return undefined;
    return { entry: undefined, isOpen: whenUnreachable === "open" };
  }

  private onChange(contractIds: readonly string[] | null): void {
    this.loader.changed(contractIds);
    if (contractIds === null) {
      for (const entry of this.entries.values()) entry.isVoid = true;
      this.loader.revalidate(this.keysInUseFirst());
      return;
    }
    for (const id of contractIds) {
      for (const entry of this.entries.ofContract(id)) entry.isVoid = true;
    }
  }

  /** Keeps what a stream that ends has proven about the entries that it followed. */
  private keepProof(): void {
    const { firstBeatAt, provenAt } = this.stream;
    for (const entry of this.entries.values()) {
      if (entry.askedAt >= firstBeatAt) entry.knownAt = Math.max(entry.knownAt, provenAt);
    }
  }

  private keysInUseFirst(): string[] {
    const entries = [...this.entries.values()];
    return [...entries.filter(({ isUsed }) => isUsed), ...entries.filter(({ isUsed }) => !isUsed)].map(entryKey);
  }

  private clear(): void {
    this.entries.clear();
    this.decoder.clear();
  }

  private setState(state: LocalState): void {
    if (this.state === state || this.state === "closed") return;
    this.state = state;
    if (this.options.onState !== undefined) notifyAll(new Set([this.options.onState]), state);
  }
}

/** @throws ServiceRequestError if every evaluation of this user is refused. */
function foundIn(entry: Entry, ageMs: number, source: "local" | "last-known"): Found {
  const { refusal } = entry;
  if (refusal !== null) {
    const { status, error } = refusal;
    throw new ServiceRequestError("HTTP", error, { status, body: { error } });
  }
  entry.isUsed = true;
  const stale = source === "last-known" || ageMs > FRESH_MS;
  return { entry, freshness: { source, stale, ageMs: Math.max(0, Math.round(ageMs)) } };
}

/** @throws Error that names the option. */
export function inRange(name: string, value: number, least: number, most = Infinity): number {
  if (typeof value === "number" && value >= least && value <= most) return value;
  const range = most === Infinity ? `of at least ${least}` : `from ${least} to ${most}`;
  throw new Error(`${name} must be a number ${range}`);
}
