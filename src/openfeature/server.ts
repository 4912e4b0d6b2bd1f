import {
  ErrorCode,
  type EvaluationContext,
  type FlagMetadata,
  GeneralError,
  type JsonValue,
  OpenFeatureEventEmitter,
  type Provider,
  ProviderEvents,
  ProviderFatalError,
  type ResolutionDetails,
} from "@openfeature/server-sdk";
import { serviceAddress } from "../client/address.ts";
import { isFeatureId } from "../client/feature-state.ts";
import { FallbackCache } from "../client/back/fallback-cache.ts";
import { isObject } from "../client/pricing-token.ts";
import { exchange, responseError } from "../client/request.ts";
import { asOtherType, type BooleanDetails, errorCodeOf, failure, featureDetails } from "./details.ts";

export { withUnlockPlan } from "./unlock-plan.ts";

/** Endpoint, credentials and outage behaviour of the server-side provider. */
export interface FaregateProviderOptions {
  /** Absolute http(s) URL of the deployment, with the sub-path if any. */
  url: string;
  /** Organization key. The scope EVALUATION is enough. */
  apiKey: string;
  /** Timeout of a request in milliseconds. Default: 2,000. */
  timeoutMs?: number | undefined;
  /**
   * Maximum age in milliseconds of a cached answer per flag and user, used in an outage. Default: 300,000; 0 disables
   * the cache.
   */
  lastKnownForMs?: number | undefined;
  /** Evaluates server expressions of features that have one. */
  server?: boolean | undefined;
  /** Replacement for the platform's `fetch`. */
  fetch?: typeof fetch | undefined;
}

/** Response of the service. Undefined in an outage without a cached answer. */
interface Answer {
  readonly response: { readonly status: number; readonly body: unknown } | undefined;
}

const UNREACHABLE = "The service cannot be reached or is broken.";

/**
 * OpenFeature provider for back ends (`faregate/openfeature/server`). Each evaluation sends one request for the user in
 * `targetingKey`; the rest of the context never leaves the process. Evaluations never consume usage. In an outage it
 * returns the cached answer with the reason STALE, or the caller's default. Source: OpenFeature specification §2;
 * OFREP.
 */
export class FaregateProvider implements Provider {
  readonly metadata = { name: "Faregate" };
  readonly runsOn = "server";
  /** Emits STALE when the service stops answering (ERROR if caching is off), and READY when it answers again. */
  readonly events = new OpenFeatureEventEmitter();
  private readonly options: FaregateProviderOptions;
  private readonly flagsUrl: string;
  private readonly lastKnownForMs: number;
  private fallbackCache: FallbackCache;
  private isUnreachable = false;

  /**
   * Checks the options.
   * @throws Error that names the invalid option.
   */
  constructor(options: FaregateProviderOptions) {
    if (typeof options.apiKey !== "string" || options.apiKey.trim() === "") {
      throw new Error("config.apiKey must be a non-empty string");
    }
    this.options = options;
    this.flagsUrl = serviceAddress(options.url).httpUrl.replace(/\/api\/v1$/, "/ofrep/v1/evaluate/flags");
    this.lastKnownForMs = options.lastKnownForMs ?? 300_000;
    this.fallbackCache = this.emptyCache();
  }

  /**
   * Sends one request without a user, so that a wrong URL or key fails at startup.
   * @throws ProviderFatalError when the key is refused, or the URL is not a Faregate.
   * @throws GeneralError when the service cannot be reached.
   */
  async initialize(): Promise<void> {
    const { status, body } = await this.send("", undefined).catch((error: unknown) => {
      this.isUnreachable = true;
      throw new GeneralError(error instanceof Error ? error.message : UNREACHABLE);
    });
    if (status === 401 || status === 403) throw new ProviderFatalError(detailsOf(body));
    if (codeOf(body) !== ErrorCode.TARGETING_KEY_MISSING) {
      throw new ProviderFatalError(`There is no Faregate at ${this.options.url}`);
    }
  }

  /** Drops the cached answers. */
  async onClose(): Promise<void> {
    this.fallbackCache = this.emptyCache();
    this.isUnreachable = false;
  }

  async resolveBooleanEvaluation(
    flagKey: string,
    defaultValue: boolean,
    { targetingKey }: EvaluationContext,
  ): Promise<BooleanDetails> {
    if (!targetingKey) {
      return failure(defaultValue, ErrorCode.TARGETING_KEY_MISSING, "targetingKey must be the userId of a contract.");
    }
    // This check also keeps paths such as `..` out of the URL.
    if (!isFeatureId(flagKey)) return failure(defaultValue, ErrorCode.FLAG_NOT_FOUND, `${flagKey} is no feature id.`);
    const { response, stale } = await this.fallbackCache.answer<Answer>(
      { userId: targetingKey, key: flagKey, options: {} },
      async () => ({ response: await this.send(`/${encodeURIComponent(flagKey)}`, targetingKey) }),
      // Cache error responses too: a user who lost the contract must not regain it in an outage.
      {
        isCacheable: ({ response }) => response?.status !== 200 || isFlag(response.body),
        fallback: () => ({ response: undefined }),
      },
    );
    this.setUnreachable(stale);
    if (response === undefined) return failure(defaultValue, ErrorCode.GENERAL, UNREACHABLE);
    const { status, body } = response;
    if (status !== 200) return failure(defaultValue, errorCodeOf(codeOf(body)), detailsOf(body));
    if (!isFlag(body)) return failure(defaultValue, ErrorCode.PARSE_ERROR, "The answer is not what was asked for.");
    return featureDetails(body.value, metadataOf(body.metadata), stale, "TARGETING_MATCH");
  }

  async resolveStringEvaluation(
    flagKey: string,
    defaultValue: string,
    context: EvaluationContext,
  ): Promise<ResolutionDetails<string>> {
    return this.resolveOther(flagKey, defaultValue, context);
  }

  async resolveNumberEvaluation(
    flagKey: string,
    defaultValue: number,
    context: EvaluationContext,
  ): Promise<ResolutionDetails<number>> {
    return this.resolveOther(flagKey, defaultValue, context);
  }

  async resolveObjectEvaluation<T extends JsonValue>(
    flagKey: string,
    defaultValue: T,
    context: EvaluationContext,
  ): Promise<ResolutionDetails<T>> {
    return this.resolveOther(flagKey, defaultValue, context);
  }

  private async resolveOther<T>(flagKey: string, value: T, context: EvaluationContext): Promise<ResolutionDetails<T>> {
    return asOtherType(await this.resolveBooleanEvaluation(flagKey, false, context), flagKey, value);
  }

  /** The fallback is `response: undefined`, so an outage is not mistaken for a feature that is off. */
  private emptyCache(): FallbackCache {
    return new FallbackCache({ lastKnownForMs: this.lastKnownForMs, whenUnreachable: "closed" });
  }

  private setUnreachable(isUnreachable: boolean): void {
    if (isUnreachable === this.isUnreachable) return;
    this.isUnreachable = isUnreachable;
    if (!isUnreachable) this.events.emit(ProviderEvents.Ready);
    else
      this.events.emit(this.lastKnownForMs > 0 ? ProviderEvents.Stale : ProviderEvents.Error, { message: UNREACHABLE });
  }

  /**
   * Sends one OFREP request.
   * @throws ServiceRequestError for no response or a status from 500.
   */
  private async send(path: string, targetingKey: string | undefined) {
    const { apiKey, server, timeoutMs = 2_000, fetch } = this.options;
    const answer = await exchange({
      url: `${this.flagsUrl}${path}${server === true ? "?server=true" : ""}`,
      method: "POST",
      headers: { "x-api-key": apiKey, "content-type": "application/json", accept: "application/json" },
      body: JSON.stringify({ context: { targetingKey } }),
      fetch,
      signal: undefined,
      timeoutMs,
    });
    if (answer.status >= 500) throw responseError(answer);
    return { status: answer.status, body: answer.body };
  }
}

function isFlag(body: unknown): body is { value: boolean; metadata?: unknown } {
  return isObject(body) && typeof body["value"] === "boolean";
}

function codeOf(body: unknown): unknown {
  return isObject(body) ? body["errorCode"] : undefined;
}

function detailsOf(body: unknown): string {
  const details = isObject(body) ? body["errorDetails"] : undefined;
  return typeof details === "string" ? details : "The service refused.";
}

function metadataOf(value: unknown): FlagMetadata {
  const metadata: FlagMetadata = {};
  for (const [name, entry] of Object.entries(isObject(value) ? value : {})) {
    if (typeof entry === "string" || typeof entry === "number" || typeof entry === "boolean") metadata[name] = entry;
  }
  return metadata;
}
