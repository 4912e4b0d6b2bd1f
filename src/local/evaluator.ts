/// <reference lib="esnext.disposable" preserve="true" />
import { isOutage, type OutageOptions } from "../client/back/fallback-cache.ts";
import { Faregate, type FaregateOptions } from "../client/back/faregate.ts";
import type { AllFeatures, EvaluationOptions, FeatureAnswer, FeatureOptions } from "../client/back/features.ts";
import { segment, Transport } from "../client/back/transport.ts";
import { serviceAddress } from "../client/address.ts";
import type { FeatureId } from "../client/feature-id.ts";
import { ownValue } from "../client/pricing-token.ts";
import { ServiceRequestError } from "../client/service-request-error.ts";
import { ChangeStream, unlessAborted } from "./change-stream.ts";
import { Circuit } from "./circuit.ts";
import { Decoder } from "./decoder.ts";
import { Entries, type Entry } from "./entries.ts";
import { Loader, UnknownFormat } from "./loader.ts";

/** Options of createLocalEvaluator. */
export interface LocalEvaluatorOptions extends FaregateOptions {
  /** Maximum age of what answers come from, in milliseconds, at least 1,000. Default: 10,000. */
  maxStaleMs?: number | undefined;
  /** Maximum users in memory. Default: 50,000. */
  maxUsers?: number | undefined;
  /** Called when `state` changes. */
  onState?: ((state: LocalState) => void) | undefined;
}

/** `connected`: what changes reaches this process within a second. */
export type LocalState = "connecting" | "connected" | "disconnected" | "closed";

/** Origin and age of an answer. `local`: from memory. */
export interface LocalFreshness {
  readonly source: FeatureAnswer["source"] | "local";
  /** True if a change that was made more than a second ago may be missing. */
  readonly stale: boolean;
  /** Milliseconds since it was last known to be true; null for a fallback. */
  readonly ageMs: number | null;
}

/** Answer about one feature. */
export type LocalAnswer = Omit<FeatureAnswer, keyof LocalFreshness> & LocalFreshness;
/** Answer about all features. */
export type LocalAllFeatures = Omit<AllFeatures, keyof LocalFreshness> & LocalFreshness;

/** Evaluates features in the memory of this process. Create one per process, and close it at the end. */
export interface LocalEvaluator extends AsyncDisposable {
  readonly state: LocalState;
  /**
   * Evaluates a feature. Answers from memory unless its expression reads usage; then the service answers, strictly with
   * `consumption`.
   * @throws ServiceRequestError with status 404 for a user without contract, 400 for an expired one.
   */
  evaluate(userId: string, featureId: FeatureId, options?: Omit<FeatureOptions, "strict">): Promise<LocalAnswer>;
  /** Evaluates all features, as on or off. Answers from memory unless an expression reads usage. */
  evaluateAll(userId: string, options?: EvaluationOptions): Promise<LocalAllFeatures>;
  /** Loads users in advance, 500 per request. */
  preload(userIds: readonly string[]): Promise<void>;
  /** Users in memory, and answers so far by source. */
  stats(): { users: number; local: number; service: number };
  /** Disconnects. Later calls reject. */
  close(): Promise<void>;
}

/** Age above which an answer says that it is stale. */
const FRESH_MS = 1_000;
/** Time that the first asks wait for the stream, so that what they load need not be validated again. */
const FIRST_STREAM_MS = 250;
const STATE_CHECK_MS = 250;
const NO_OPTIONS: Omit<FeatureOptions, "strict"> = {};

/**
 * Creates an evaluator that keeps what decides about users in memory, and learns of changes within a second. For Node,
 * Bun and Deno. It keeps the process alive until it is closed.
 * @throws Error that names the invalid option.
 */
export function createLocalEvaluator(options: LocalEvaluatorOptions): LocalEvaluator {
  return new Evaluator(options);
}

class Evaluator implements LocalEvaluator {
  state: LocalState = "connecting";
  private readonly options: LocalEvaluatorOptions;
  private readonly maxStaleMs: number;
  private readonly client: Faregate;
  private readonly entries: Entries;
  private readonly decoder = new Decoder();
  private readonly loader: Loader;
  private readonly stream: ChangeStream;
  private readonly circuit = new Circuit();
  private readonly counts = { local: 0, service: 0 };
  private readonly stateTimer: ReturnType<typeof setInterval>;
  private readonly running: Promise<void>;
  /** Pending until the first stream beats, fails or takes too long. */
  private firstStream: Promise<void> | undefined;
  private endFirstStream = () => {};
  private isFormatUnknown = false;

  constructor(options: LocalEvaluatorOptions) {
    this.options = options;
    this.maxStaleMs = atLeast("maxStaleMs", options.maxStaleMs ?? 10_000, 1_000);
    this.entries = new Entries(atLeast("maxUsers", options.maxUsers ?? 50_000, 1));
    this.client = new Faregate(options);
    const { apiKey, fetch, retries = 3 } = options;
    this.loader = new Loader({
      transport: new Transport({ ...options, retries: 0 }),
      retries,
      decoder: this.decoder,
      entries: this.entries,
      onRefused: () => this.clear(),
    });
    const url = `${serviceAddress(options.url).httpUrl}/events/stream?changes=true`;
    this.stream = new ChangeStream(
      { url, apiKey, fetch },
      {
        onBeat: (isFirst) => {
          if (isFirst) this.loader.revalidate(this.usersInUseFirst());
          this.endFirstStream();
          this.updateState();
        },
        onChange: (contractIds) => this.onChange(contractIds),
        onEnd: () => this.keepProof(),
        onRefused: () => this.clear(),
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
    this.stateTimer = setInterval(() => this.updateState(), STATE_CHECK_MS);
    this.running = this.stream.run();
  }

  evaluate(userId: string, featureId: FeatureId, options = NO_OPTIONS): Promise<LocalAnswer> {
    const entry = this.entries.get(userId);
    if (entry !== undefined) {
      const now = performance.now();
      const ageMs = this.ageOf(entry, now);
      if (this.mayAnswer(entry, ageMs, now) && entry.refusal === null) {
        const result = entry.answers.one(featureId, options.server === true);
        if (result !== null && options.signal === undefined) {
          entry.isUsed = true;
          this.counts.local += 1;
          return Promise.resolve(localAnswer(result, ageMs, options));
        }
      }
    }
    return this.evaluateSlowly(userId, featureId, options);
  }

  async evaluateAll(userId: string, options: EvaluationOptions = {}): Promise<LocalAllFeatures> {
    const atService = async (): Promise<LocalAllFeatures> => {
      this.counts.service += 1;
      return this.client.features.evaluateAll(userId, options);
    };
    const found = await this.find(userId, options);
    if (found === undefined) return atService();
    if (found.entry === undefined) return allFallback(found.isOpen);
    const features = found.entry.answers.everything(options.server === true);
    if (features === null) return atService();
    this.counts.local += 1;
    return { features, isEnabled: (id) => ownValue(features, id) ?? false, ...found.freshness };
  }

  async preload(userIds: readonly string[]): Promise<void> {
    this.requireOpen();
    await this.firstStream;
    const now = performance.now();
    const missing = [...new Set(userIds)].filter((userId) => {
      const entry = this.entries.get(userId);
      return entry === undefined || !this.mayAnswer(entry, this.ageOf(entry, now), now);
    });
    await Promise.all(missing.map((userId) => this.loader.ask(userId))).catch((error: unknown) => {
      // The service answers then.
      if (!(error instanceof UnknownFormat)) throw error;
    });
  }

  stats() {
    return { users: this.entries.size, ...this.counts };
  }

  async close(): Promise<void> {
    if (this.state !== "closed") {
      this.setState("closed");
      clearInterval(this.stateTimer);
      this.endFirstStream();
      this.stream.close();
      this.loader.close(closedError());
      this.clear();
    }
    await this.running;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  private async evaluateSlowly(
    userId: string,
    featureId: FeatureId,
    options: Omit<FeatureOptions, "strict">,
  ): Promise<LocalAnswer> {
    segment("featureId", featureId);
    const consumes = Object.keys(options.consumption ?? {}).length > 0;
    const atService = async (): Promise<LocalAnswer> => {
      this.counts.service += 1;
      return this.client.features.evaluate(userId, featureId, { ...options, strict: consumes });
    };
    const found = await this.find(userId, options, consumes && options.dryRun !== true);
    if (found === undefined) return atService();
    if (found.entry === undefined) {
      return { eval: found.isOpen, ...DENIED, counted: false, idempotencyKey: null, ...FALLBACK };
    }
    const result = found.entry.answers.one(featureId, options.server === true);
    if (result === null) return atService();
    this.counts.local += 1;
    return { ...localAnswer(result, 0, options), ...found.freshness };
  }

  /**
   * Finds the entry that answers, and requests it if necessary. Returns no entry but the caller's choice for outages, and
   * undefined where the service is to answer.
   * @throws ServiceRequestError of a refusal, or of an outage.
   */
  private async find(userId: string, options: EvaluationOptions, consumes = false): Promise<Found | undefined> {
    this.requireOpen();
    segment("userId", userId);
    if (this.isFormatUnknown) return undefined;
    const now = performance.now();
    const existing = this.entries.get(userId);
    const ageMs = existing === undefined ? 0 : this.ageOf(existing, now);
    if (existing !== undefined && this.mayAnswer(existing, ageMs, now)) return foundIn(existing, ageMs, "local");
    await this.firstStream;
    const outage = this.outagePolicy(options);
    // While the circuit is open, only the policy answers, and one probe per second goes out.
    if (this.circuit.isOpen()) {
      if (consumes) return undefined;
      const withoutAsking = this.inOutage(existing, outage);
      if (withoutAsking !== undefined) return withoutAsking;
    }
    this.circuit.probe();
    try {
      const entry = await unlessAborted(this.loader.ask(userId), options.signal);
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

  /** Milliseconds since the entry was last known to be true. */
  private ageOf({ askedAt, knownAt }: Entry, now: number): number {
    const isFollowed = askedAt >= this.stream.firstBeatAt;
    return now - (isFollowed ? Math.max(knownAt, this.stream.provenAt) : knownAt);
  }

  private mayAnswer(entry: Entry, ageMs: number, now: number): boolean {
    return !entry.isVoid && ageMs <= this.maxStaleMs && now <= entry.expiresAt;
  }

  private onChange(contractIds: readonly string[] | null): void {
    this.loader.changed(contractIds);
    if (contractIds === null) {
      for (const entry of this.entries.values()) entry.isVoid = true;
      this.loader.revalidate(this.usersInUseFirst());
      return;
    }
    for (const id of contractIds) {
      const entry = this.entries.ofContract(id);
      if (entry !== undefined) entry.isVoid = true;
    }
  }

  /** Keeps what a stream that ends has proven about the entries that it followed. */
  private keepProof(): void {
    const { firstBeatAt, provenAt } = this.stream;
    for (const entry of this.entries.values()) {
      if (entry.askedAt >= firstBeatAt) entry.knownAt = Math.max(entry.knownAt, provenAt);
    }
  }

  private usersInUseFirst(): string[] {
    const entries = [...this.entries.values()];
    return [...entries.filter(({ isUsed }) => isUsed), ...entries.filter(({ isUsed }) => !isUsed)].map(
      ({ userId }) => userId,
    );
  }

  private clear(): void {
    this.entries.clear();
    this.decoder.clear();
  }

  private updateState(): void {
    if (this.stream.isConnected(performance.now())) this.setState("connected");
    else if (this.state === "connected") this.setState("disconnected");
  }

  private setState(state: LocalState): void {
    if (this.state === state || this.state === "closed") return;
    this.state = state;
    this.options.onState?.(state);
  }

  private requireOpen(): void {
    if (this.state === "closed") throw closedError();
  }
}

/** The entry that answers, or the caller's choice for an outage. */
type Found = { entry: Entry; freshness: LocalFreshness } | { entry: undefined; isOpen: boolean };

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

const DENIED = { limit: null, used: null, error: null };
const FALLBACK = { source: "fallback", stale: true, ageMs: null } as const;

function allFallback(isOpen: boolean): LocalAllFeatures {
  return { features: {}, isEnabled: () => isOpen, ...FALLBACK };
}

function localAnswer(
  result: Pick<FeatureAnswer, "eval" | "limit" | "used" | "error">,
  ageMs: number,
  { explain, dryRun }: Omit<FeatureOptions, "strict">,
): LocalAnswer {
  const answer = {
    eval: result.eval,
    limit: result.limit,
    used: result.used,
    error: result.error,
    source: "local",
    stale: ageMs > FRESH_MS,
    ageMs: ageMs > 0 ? Math.round(ageMs) : 0,
    counted: false,
    idempotencyKey: null,
  } as const;
  if (explain !== true && dryRun !== true) return answer;
  // Only features without limits are answered here, so a feature that is off is not granted.
  const reason = result.eval ? "GRANTED" : (result.error?.code ?? "NOT_GRANTED");
  const reasons = explain === true ? { reason, held: null, sources: null } : {};
  return { ...answer, remaining: null, resetAt: null, ...reasons };
}

function atLeast(name: string, value: number, least: number): number {
  if (typeof value === "number" && value >= least) return value;
  throw new Error(`${name} must be a number of at least ${least}`);
}

const closedError = () => new Error("The evaluator is closed");
