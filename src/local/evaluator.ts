import { Faregate } from "../client/back/faregate.ts";
import type { EvaluationOptions, FeatureAnswer, FeatureOptions } from "../client/back/features.ts";
import { segment } from "../client/back/transport.ts";
import type { FeatureId } from "../client/feature-id.ts";
import { ownValue } from "../client/pricing-token.ts";
import { FRESH_MS, FreshEntries } from "./fresh-entries.ts";
import type {
  LocalAllFeatures,
  LocalAnswer,
  LocalEvaluator,
  LocalEvaluatorOptions,
  LocalState,
} from "./local-evaluator.ts";

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
  private readonly client: Faregate;
  private readonly entries: FreshEntries;
  private readonly counts = { local: 0, service: 0 };
  private readonly stateTimer: ReturnType<typeof setInterval>;

  constructor(options: LocalEvaluatorOptions) {
    this.client = new Faregate(options);
    this.entries = new FreshEntries(options);
    this.stateTimer = setInterval(() => this.entries.updateState(), STATE_CHECK_MS);
  }

  get state(): LocalState {
    return this.entries.state;
  }

  evaluate(userId: string, featureId: FeatureId, options = NO_OPTIONS): Promise<LocalAnswer> {
    const entry = this.entries.get(userId);
    if (entry !== undefined) {
      const now = performance.now();
      const ageMs = this.entries.ageOf(entry, now);
      if (this.entries.mayAnswer(entry, ageMs, now) && entry.refusal === null) {
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
    this.requireOpen();
    const found = await this.entries.find(userId, options);
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
    return { users: this.entries.size, ...this.counts };
  }

  async close(): Promise<void> {
    if (this.state !== "closed") {
      clearInterval(this.stateTimer);
      this.entries.close(closedError());
    }
    await this.entries.closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  private async evaluateSlowly(
    userId: string,
    featureId: FeatureId,
    options: Omit<FeatureOptions, "strict">,
  ): Promise<LocalAnswer> {
    this.requireOpen();
    segment("featureId", featureId);
    const consumes = Object.keys(options.consumption ?? {}).length > 0;
    const atService = async (): Promise<LocalAnswer> => {
      this.counts.service += 1;
      return this.client.features.evaluate(userId, featureId, { ...options, strict: consumes });
    };
    const found = await this.entries.find(userId, options, consumes && options.dryRun !== true);
    if (found === undefined) return atService();
    if (found.entry === undefined) {
      return { eval: found.isOpen, ...DENIED, counted: false, idempotencyKey: null, ...FALLBACK };
    }
    const result = found.entry.answers.one(featureId, options.server === true);
    if (result === null) return atService();
    this.counts.local += 1;
    return { ...localAnswer(result, 0, options), ...found.freshness };
  }

  private requireOpen(): void {
    if (this.state === "closed") throw closedError();
  }
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

const closedError = () => new Error("The evaluator is closed");
