import {
  type EvaluationContext,
  GeneralError,
  InvalidContextError,
  type JsonValue,
  OpenFeatureEventEmitter,
  type Provider,
  ProviderEvents,
  ProviderFatalError,
  type ResolutionDetails,
  TargetingKeyMissingError,
} from "@openfeature/web-sdk";
import { isSegment } from "../client/address.ts";
import { ServiceRequestError } from "../client/service-request-error.ts";
import type { PricingTokenPayload } from "../client/pricing-token.ts";
import { ServiceClient } from "../client/front/service-client.ts";
import { asOtherType, type BooleanDetails, failure } from "./details.ts";
import { changedFlags, tokenDetails } from "./token-details.ts";

/** Token source of the browser provider: either `url` with `apiKey`, or `tokenSource`. */
export interface FaregateWebProviderOptions {
  /** Absolute http(s) URL of the deployment, with the sub-path if any. Enables live updates of pricing changes. */
  url?: string | undefined;
  /** A key of scope EVALUATION. The provider requests tokens for the user in `targetingKey`, and the path in `spender`. */
  apiKey?: string | undefined;
  /** Loads tokens from the application's own back end, so that the browser needs no key. */
  tokenSource?: ((context: EvaluationContext) => Promise<string>) | undefined;
  /** Replacement for the platform's `fetch`. */
  fetch?: typeof fetch | undefined;
}

type Condition = "ready" | "stale" | "error";

const FIRST_RETRY_MS = 5_000;
const LAST_RETRY_MS = 60_000;

/**
 * OpenFeature provider for browsers (`faregate/openfeature/web`). It answers flags from the user's pricing token,
 * without a request.
 *
 * READY: a valid token exists; answers have the reason CACHED.
 * CONFIGURATION_CHANGED: a newer token answers differently; the event lists the flags.
 * INVALID_CONTEXT: the service knows no contract of the user in `targetingKey`.
 * STALE: the event channel is lost, a refresh failed, or the token has expired; answers are the last known ones.
 * Source: OpenFeature specification §2, §5; contract clients §1.7 to §1.10, §3.3.
 */
export class FaregateWebProvider implements Provider {
  readonly metadata = { name: "Faregate" };
  readonly runsOn = "client";
  /** One provider holds one user's token. */
  readonly domainScoped = true;
  readonly events = new OpenFeatureEventEmitter();
  private readonly options: FaregateWebProviderOptions;
  private readonly client: ServiceClient;
  private context: EvaluationContext = {};
  /** Context of the last call to the token source. */
  private sourceContext: EvaluationContext | undefined;
  /** Last valid token of the current user. */
  private shown: PricingTokenPayload | null = null;
  private condition: Condition = "error";
  /** Why there will be no token for the current context; undefined while one may still come. */
  private rejection: InvalidContextError | TargetingKeyMissingError | undefined;
  /** Context changes in flight; the SDK announces their outcome itself. */
  private changes = 0;
  private isChannelLost = false;
  private wasSynchronized = false;
  private stops: (() => void)[] = [];
  private release: (() => void) | undefined;
  private retry: ReturnType<typeof setTimeout> | undefined;

  /**
   * Checks the options.
   * @throws Error that names the missing or invalid option.
   */
  constructor(options: FaregateWebProviderOptions) {
    const { url, apiKey, tokenSource, fetch } = options;
    if (tokenSource === undefined && (url === undefined || !apiKey)) {
      throw new Error("config.tokenSource is needed, or config.url and config.apiKey.");
    }
    this.options = options;
    const source =
      tokenSource &&
      (() => {
        this.sourceContext = this.context;
        return tokenSource(this.context);
      });
    this.client = new ServiceClient({ url, apiKey, fetch, tokenSource: source });
  }

  async initialize(context: EvaluationContext = {}): Promise<void> {
    const { client } = this;
    this.stops = [
      client.token.subscribe(() => this.onTokenChange()),
      client.subscribeConnection(() => this.onConnectionChange()),
      client.on("error", (error) => {
        if (this.condition === "ready") this.become("stale", error.message);
      }),
    ];
    await this.change(context);
  }

  async onContextChange(_: EvaluationContext, context: EvaluationContext): Promise<void> {
    await this.change(context);
  }

  /** Closes the channel, timers and requests, and drops the token. */
  async onClose(): Promise<void> {
    for (const stop of this.stops.splice(0)) stop();
    this.reset();
    this.condition = "error";
  }

  resolveBooleanEvaluation(flagKey: string, defaultValue: boolean): BooleanDetails {
    const { rejection } = this;
    const valid = this.ownPayload();
    const payload = valid ?? this.shown;
    if (!payload && rejection) return failure(defaultValue, rejection.code, rejection.message);
    return tokenDetails(payload, flagKey, defaultValue, !valid || this.condition === "stale");
  }

  resolveStringEvaluation(flagKey: string, defaultValue: string): ResolutionDetails<string> {
    return asOtherType(this.resolveBooleanEvaluation(flagKey, false), flagKey, defaultValue);
  }

  /** Resolves to the feature's limit; of several limits, the one with the least remaining. */
  resolveNumberEvaluation(flagKey: string, defaultValue: number): ResolutionDetails<number> {
    const details = this.resolveBooleanEvaluation(flagKey, false);
    const limit = details.flagMetadata?.["limit"];
    return typeof limit === "number" ? { ...details, value: limit } : asOtherType(details, flagKey, defaultValue);
  }

  resolveObjectEvaluation<T extends JsonValue>(flagKey: string, defaultValue: T): ResolutionDetails<T> {
    return asOtherType(this.resolveBooleanEvaluation(flagKey, false), flagKey, defaultValue);
  }

  /** Returns the payload, unless it belongs to the previous user. */
  private ownPayload(): PricingTokenPayload | null {
    const payload = this.client.token.getPayload();
    if (this.options.tokenSource) return payload;
    return payload?.sub === undefined || payload.sub === this.context.targetingKey ? payload : null;
  }

  /** Resolves once a token for this context, or for a newer one, has loaded. */
  private async change(context: EvaluationContext): Promise<void> {
    const { client } = this;
    const spender = spenderOf(context);
    const isSameUser = context.targetingKey === this.context.targetingKey && spender === spenderOf(this.context);
    this.context = context;
    if (!isSameUser) this.shown = null;
    if (client.spender !== spender) client.token.clear();
    client.spender = spender;
    this.sourceContext = this.rejection = undefined;
    this.changes += 1;
    clearTimeout(this.retry);
    try {
      // A token source may know the user by other means.
      if (!this.options.tokenSource && !isSegment(context.targetingKey)) {
        this.reset();
        const Rejection = context.targetingKey ? InvalidContextError : TargetingKeyMissingError;
        throw (this.rejection = new Rejection("targetingKey must be the userId of a contract."));
      }
      this.release ??= client.retain(this.options.url !== undefined);
      if (this.options.tokenSource) await this.loadFromSource(isSameUser);
      else if (!isSameUser || this.ownPayload() === null) await client.setUserId(context.targetingKey ?? "");
      this.condition = "ready";
    } catch (error) {
      this.condition = "error";
      if (!this.options.tokenSource && isTransient(error)) this.retryIn(FIRST_RETRY_MS);
      const reason = providerError(error);
      // Also correct for a replaced context: its promise follows the newer one.
      if (reason instanceof InvalidContextError) this.rejection = reason;
      throw reason;
    } finally {
      this.changes -= 1;
    }
    // Wait one task: the SDK emits READY first.
    setTimeout(() => {
      if (this.isChannelLost) this.become("stale", "The event channel is lost.");
    });
  }

  private async loadFromSource(isSameUser: boolean): Promise<void> {
    const { client } = this;
    if (!isSameUser) client.token.clear();
    client.token.setLoading(true);
    // `retain` starts a request one task later, which may already have called the source.
    await new Promise((resolve) => setTimeout(resolve));
    if (this.sourceContext === this.context && client.token.status === "valid") return;
    do {
      try {
        await client.refresh();
      } catch (error) {
        if (this.sourceContext === this.context) throw error;
      }
      // The response was for the previous context, so request again.
    } while (this.sourceContext !== this.context && this.release !== undefined);
  }

  /** Retries loading the first token with back-off and jitter. The client itself refreshes all later tokens. */
  private retryIn(delayMs: number): void {
    const next = Math.min(2 * delayMs, LAST_RETRY_MS);
    this.retry = setTimeout(
      () => {
        this.client.refresh().catch((error: unknown) => {
          if (isTransient(error)) this.retryIn(next);
        });
      },
      delayMs * (0.5 + Math.random() / 2),
    );
  }

  private reset(): void {
    clearTimeout(this.retry);
    this.release?.();
    this.release = undefined;
    this.shown = null;
    this.isChannelLost = this.wasSynchronized = false;
    this.client.token.clear();
  }

  private onTokenChange(): void {
    const payload = this.ownPayload();
    if (payload === null) {
      if (this.client.token.status === "expired") this.become("stale", "The pricing token has expired.");
      return;
    }
    if (payload === this.shown) return;
    const flagsChanged = changedFlags(this.shown, payload);
    this.shown = payload;
    if (this.changes > 0) return;
    if (!this.isChannelLost) this.become("ready");
    if (flagsChanged.length > 0) this.events.emit(ProviderEvents.ConfigurationChanged, { flagsChanged });
  }

  private onConnectionChange(): void {
    const { status, error } = this.client.connection;
    if (status === "disconnected") {
      this.isChannelLost = true;
      if (this.condition === "ready") this.become("stale", error?.message ?? "The event channel is lost.");
    } else if (status === "synchronized") {
      this.isChannelLost = false;
      // The client loads a new token after a loss; only that token is known to be current.
      if (!this.wasSynchronized && this.condition === "stale" && this.ownPayload()) this.become("ready");
      this.wasSynchronized = true;
    }
  }

  private become(condition: Condition, message?: string): void {
    if (condition === this.condition || this.changes > 0) return;
    this.condition = condition;
    this.events.emit(EVENT[condition], message === undefined ? {} : { message });
  }
}

const EVENT = {
  ready: ProviderEvents.Ready,
  stale: ProviderEvents.Stale,
  error: ProviderEvents.Error,
} as const;

/** Returns the path of the one who spends. The service refuses the empty one, which stands for anything but a text or null. */
function spenderOf({ spender }: EvaluationContext): string | undefined {
  return typeof spender === "string" ? spender : spender == null ? undefined : "";
}

/** Returns true for errors that a retry can fix: no response, status 429, or a status from 500. */
function isTransient(error: unknown): boolean {
  if (!(error instanceof ServiceRequestError) || error.code === "ABORTED") return false;
  return error.status === undefined || error.status === 429 || error.status >= 500;
}

function providerError(error: unknown): Error {
  if (!(error instanceof ServiceRequestError)) return error instanceof Error ? error : new GeneralError(String(error));
  const { status, message } = error;
  if (status === 401 || status === 403) return new ProviderFatalError(message);
  return status === 400 || status === 404 || status === 422
    ? new InvalidContextError(message)
    : new GeneralError(message);
}
