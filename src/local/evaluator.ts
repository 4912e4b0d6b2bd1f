import { Faregate } from "../client/back/faregate.ts";
import { spenderPath } from "../client/back/budgets.ts";
import type { Consumption, EvaluationOptions } from "../client/back/evaluation-options.ts";
import type { FeatureAnswer } from "../client/back/feature-answers.ts";
import { DEADLINE_MS, segment } from "../client/back/transport.ts";
import type { FeatureId } from "../client/feature-id.ts";
import { ownValue } from "../client/pricing-token.ts";
import { type Deadline, startDeadline } from "./deadline.ts";
import { FRESH_MS, FreshEntries, inRange } from "./fresh-entries.ts";
import { LeasedAnswers } from "./leased-answers.ts";
import type {
  LocalAllFeatures,
  LocalAnswer,
  LocalEvaluator,
  LocalEvaluatorOptions,
  LocalOptions,
  LocalState,
} from "./local-evaluator.ts";

const CHECK_MS = 250;
/** Restarts of one spend because its contract changed. After these, the service decides. */
const MAX_ATTEMPTS = 3;
const NO_OPTIONS: LocalOptions = {};

/**
 * Creates an evaluator that keeps what decides about users in memory, and learns of changes within a second. For Node,
 * Bun and Deno. It keeps the process alive until it is closed.
 * @throws Error that names the invalid option.
 */
export function createLocalEvaluator(options: LocalEvaluatorOptions): LocalEvaluator {
  return new Evaluator(options);
}

class Evaluator implements LocalEvaluator {
  private readonly client: Faregate;
  private readonly entries: FreshEntries;
  /** Undefined if the caller wants none. */
  private readonly leased: LeasedAnswers | undefined;
  private readonly counts = { local: 0, lease: 0, service: 0 };
  private readonly timer: ReturnType<typeof setInterval>;
  private closing: Promise<void> | undefined;
  private readonly deadlineMs: number;

  constructor(options: LocalEvaluatorOptions) {
    this.client = new Faregate(options);
    this.deadlineMs = options.deadlineMs ?? DEADLINE_MS;
    const leaseSeconds = inRange("leaseSeconds", options.leaseSeconds ?? 30, 1, 600);
    this.entries = new FreshEntries(options, () => this.leased?.clear());
    if (options.leases !== false) this.leased = new LeasedAnswers(options, leaseSeconds, this.entries);
    this.timer = setInterval(() => {
      this.entries.updateState();
      this.leased?.maintain();
    }, CHECK_MS);
  }

  get state(): LocalState {
    return this.entries.state;
  }

  async evaluate(userId: string, featureId: FeatureId, options = NO_OPTIONS): Promise<LocalAnswer> {
    const entry = decidesHere(options) ? this.entries.get(userId, options.spender) : undefined;
    if (entry !== undefined && options.signal === undefined) {
      const now = performance.now();
      const ageMs = this.entries.ageOf(entry, now);
      if (this.entries.mayAnswer(entry, ageMs, now) && entry.refusal === null) {
        const result = entry.answers.one(featureId, options.server === true);
        // An error may be that of an id that is refused below.
        if (result?.error === null) {
          entry.isUsed = true;
          this.counts.local += 1;
          return localAnswer(result, ageMs, options);
        }
        const answer = this.leased?.atOnce(entry, featureId, options, { now, ageMs });
        if (answer !== undefined) {
          this.counts.lease += 1;
          return answer;
        }
      }
    }
    return this.within(options, (deadline) => this.evaluateSlowly(userId, featureId, options, deadline));
  }

  evaluateAll(userId: string, options: EvaluationOptions = {}): Promise<LocalAllFeatures> {
    return this.within(options, (deadline) => this.evaluateAllWithin(userId, options, deadline));
  }

  private async evaluateAllWithin(
    userId: string,
    options: EvaluationOptions,
    deadline: Deadline,
  ): Promise<LocalAllFeatures> {
    const atService = async (): Promise<LocalAllFeatures> => {
      this.counts.service += 1;
      return this.client.features.evaluateAll(userId, { ...options, deadlineMs: deadline.left() });
    };
    this.requireOpen();
    const found = await this.entries.find(userId, { ...options, signal: deadline.signal });
    if (found === undefined) return atService();
    if (found.entry === undefined) return allFallback(found.isOpen);
    const features = found.entry.answers.everything(options.server === true);
    if (features === null) return atService();
    this.counts.local += 1;
    return { features, isEnabled: (id) => ownValue(features, id) ?? false, ...found.freshness };
  }

  async preload(userIds: readonly string[]): Promise<void> {
    this.requireOpen();
    await this.entries.load(userIds);
  }

  stats() {
    return { users: this.entries.size, leases: this.leased?.size ?? 0, ...this.counts };
  }

  close(): Promise<void> {
    this.closing ??= this.closeOnce();
    return this.closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  private async closeOnce(): Promise<void> {
    clearInterval(this.timer);
    this.entries.close(closedError());
    await this.leased?.close();
    await this.entries.closed;
  }

  /** Runs a call with one deadline for everything inside it: loading, leases, and the service's own answer. */
  private async within<T>(options: EvaluationOptions, call: (deadline: Deadline) => Promise<T>): Promise<T> {
    const deadline = startDeadline(options.deadlineMs ?? this.deadlineMs, options.signal);
    try {
      deadline.signal.throwIfAborted();
      return await call(deadline);
    } finally {
      deadline.clear();
    }
  }

  private async evaluateSlowly(
    userId: string,
    featureId: FeatureId,
    given: LocalOptions,
    deadline: Deadline,
  ): Promise<LocalAnswer> {
    this.requireOpen();
    segment("featureId", featureId);
    // A copy, because the caller may change the amounts meanwhile.
    const { consumption } = given;
    const options = {
      ...given,
      consumption: consumption && copyOf(consumption),
      spender: spenderPath(given.spender),
    };
    const consumes = Object.keys(options.consumption ?? {}).length > 0;
    // Leaves time for the service's client, which knows what may be answered about consumption in an outage.
    const bounded = { ...options, signal: consumes ? deadline.early(0.5) : deadline.signal };
    for (let attempt = 0; attempt < MAX_ATTEMPTS && decidesHere(options); attempt += 1) {
      const found = await this.entries.find(userId, bounded, consumes && options.dryRun !== true);
      if (found === undefined) break;
      if (found.entry === undefined) {
        return { eval: found.isOpen, ...DENIED, counted: false, idempotencyKey: null, ...FALLBACK };
      }
      const { entry, freshness } = found;
      const result = entry.answers.one(featureId, options.server === true);
      if (result !== null) {
        this.counts.local += 1;
        return { ...localAnswer(result, 0, options), ...freshness };
      }
      if (freshness.source !== "local") break;
      const answer = (await this.leased?.answer(entry, featureId, bounded)) ?? "service";
      if (answer === "service") break;
      if (answer === "again") continue;
      this.counts[answer.source === "lease" ? "lease" : "service"] += 1;
      return answer;
    }
    this.requireOpen();
    this.counts.service += 1;
    const answer = await this.client.features.evaluate(userId, featureId, {
      ...options,
      strict: consumes,
      deadlineMs: deadline.left(),
    });
    if (consumes) this.leased?.learn(userId, featureId, options, answer);
    return answer;
  }

  private requireOpen(): void {
    if (this.state === "closed") throw closedError();
  }
}

/** False for a call that is decided without blocks: memory and leases have the limits with them. */
const decidesHere = ({ blocks }: LocalOptions): boolean => blocks !== false;

const DENIED = { limit: null, used: null, error: null };
const FALLBACK = { source: "fallback", stale: true, ageMs: null } as const;

function allFallback(isOpen: boolean): LocalAllFeatures {
  return { features: {}, isEnabled: () => isOpen, ...FALLBACK };
}

function localAnswer(
  result: Pick<FeatureAnswer, "eval" | "limit" | "used" | "error">,
  ageMs: number,
  { explain, dryRun }: LocalOptions,
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

const closedError = () => new Error("The evaluator is closed");

/** Copies amounts, and units of them. */
const copyOf = (consumption: Consumption): Consumption =>
  Object.fromEntries(
    Object.entries(consumption).map(([id, amount]) => [id, typeof amount === "object" ? { ...amount } : amount]),
  );
