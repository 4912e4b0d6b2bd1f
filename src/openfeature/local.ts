import { ErrorCode, ProviderEvents, ProviderFatalError } from "@openfeature/server-sdk";
import { isSegment } from "../client/address.ts";
import { isOutage } from "../client/back/fallback-cache.ts";
import { ServiceRequestError } from "../client/service-request-error.ts";
import { ofrepFlag } from "../core/ofrep.ts";
import {
  createLocalEvaluator,
  type LocalEvaluator,
  type LocalEvaluatorOptions,
  type LocalState,
} from "../local/local.ts";
import { BackEndProvider, UNREACHABLE } from "./back-end-provider.ts";
import { type BooleanDetails, errorCodeOf, failure, featureDetails } from "./details.ts";

export { withUnlockPlan } from "./unlock-plan.ts";

const DISCONNECTED = "Changes do not reach this process.";

/** Options of the provider that evaluates in memory: those of createLocalEvaluator. In an outage the caller's default answers. */
export interface FaregateLocalProviderOptions extends Omit<
  LocalEvaluatorOptions,
  "onState" | "onChange" | "whenUnreachable"
> {
  /** Evaluates server expressions of features that have one. */
  server?: boolean | undefined;
  /** Maximum age in milliseconds of answers that are used in an outage. Default: 300,000. */
  lastKnownForMs?: number | undefined;
}

/**
 * OpenFeature provider for back ends that evaluates in the memory of the process (`faregate/openfeature/local`). It answers
 * as FaregateProvider does, without a request for features without limits. Features with limits are asked of the service.
 * Evaluations never consume usage.
 *
 * READY: changes reach this process within a second.
 * CONFIGURATION_CHANGED: contracts of the organization may have changed.
 * STALE: changes do not reach this process; answers are the last known ones.
 *
 * It keeps the process alive until it is closed. For Node, Bun and Deno. Source: OpenFeature specification §2, §5.
 */
export class FaregateLocalProvider extends BackEndProvider {
  private readonly localOptions: FaregateLocalProviderOptions;
  private evaluator: LocalEvaluator | undefined;
  private isStale = false;

  /**
   * Checks the options. Those of the evaluator are checked when it starts.
   * @throws Error that names the invalid option.
   */
  constructor(options: FaregateLocalProviderOptions) {
    super(options);
    this.localOptions = options;
  }

  /**
   * Connects. Resolves also while changes do not reach this process, and then emits STALE.
   * @throws ProviderFatalError when the key is refused, or the URL is not a Faregate.
   * @throws GeneralError when the service cannot be reached: the provider becomes READY once it can.
   */
  async initialize(): Promise<void> {
    await this.onClose();
    const problem = await this.probe().then(
      () => undefined,
      (error: unknown) => error,
    );
    if (problem instanceof ProviderFatalError) throw problem;
    const first = await this.connect();
    this.isStale = first !== "connected";
    if (problem !== undefined && this.isStale) throw problem;
    // Wait one task: the SDK emits READY first.
    setTimeout(() => {
      if (this.isStale) this.events.emit(ProviderEvents.Stale, { message: DISCONNECTED });
    });
  }

  /** Closes the evaluator. */
  async onClose(): Promise<void> {
    const { evaluator } = this;
    this.evaluator = undefined;
    this.isStale = false;
    await evaluator?.close();
  }

  /** @internal */
  protected async resolve(
    flagKey: string,
    defaultValue: boolean,
    userId: string,
    spender: unknown,
  ): Promise<BooleanDetails> {
    if (this.evaluator === undefined) {
      return failure(defaultValue, ErrorCode.PROVIDER_NOT_READY, "The provider is not initialized, or closed.");
    }
    // The evaluator rejects these ids, for which the service finds no contract.
    if (!isSegment(userId)) {
      return failure(defaultValue, ErrorCode.INVALID_CONTEXT, "targetingKey must be the userId of a contract.");
    }
    try {
      // The service refuses an empty path, and takes null for none.
      const path = typeof spender === "string" ? spender : spender == null ? undefined : "";
      const options = { server: this.localOptions.server, explain: true, spender: path };
      const answer = await this.evaluator.evaluate(userId, flagKey, options);
      const { error, reason, stale } = answer;
      if (error !== null) return failure(defaultValue, errorCodeOf(error.code), error.message);
      const isOff = reason === "BUDGET_REACHED" || reason === "LIMIT_REACHED" || reason === "NOT_GRANTED";
      const { value, metadata } = ofrepFlag(flagKey, { ...answer, error }, isOff ? reason : undefined);
      return featureDetails(value, metadata, stale, "TARGETING_MATCH");
    } catch (error) {
      if (!(error instanceof ServiceRequestError)) throw error;
      if (isOutage(error)) return failure(defaultValue, ErrorCode.GENERAL, UNREACHABLE);
      const isOfUser = error.status === 400 || error.status === 404 || error.status === 422;
      return failure(defaultValue, isOfUser ? ErrorCode.INVALID_CONTEXT : ErrorCode.GENERAL, error.message);
    }
  }

  /** Creates the evaluator, and returns its first state: connected, or not. */
  private connect(): Promise<LocalState> {
    return new Promise((resolve) => {
      let hasState = false;
      this.evaluator = createLocalEvaluator({
        ...this.localOptions,
        lastKnownForMs: this.localOptions.lastKnownForMs ?? 300_000,
        whenUnreachable: "throw",
        onState: (state) => {
          if (hasState) this.onState(state);
          hasState = true;
          resolve(state);
        },
        onChange: () => this.events.emit(ProviderEvents.ConfigurationChanged),
      });
    });
  }

  private onState(state: LocalState): void {
    if (state === "disconnected" && !this.isStale) {
      this.isStale = true;
      this.events.emit(ProviderEvents.Stale, { message: DISCONNECTED });
    }
    if (state === "connected" && this.isStale) {
      this.isStale = false;
      this.events.emit(ProviderEvents.Ready);
      // Changes may have been missed.
      this.events.emit(ProviderEvents.ConfigurationChanged);
    }
  }
}
