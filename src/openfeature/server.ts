import { ErrorCode, type FlagMetadata, GeneralError, ProviderEvents } from "@openfeature/server-sdk";
import { FallbackCache } from "../client/back/fallback-cache.ts";
import { BackEndProvider, type BackEndOptions, detailsOf, fieldsOf, UNREACHABLE } from "./back-end-provider.ts";
import { type BooleanDetails, errorCodeOf, failure, featureDetails } from "./details.ts";

export { withUnlockPlan } from "./unlock-plan.ts";

/** Endpoint, credentials and outage behaviour of the server-side provider. */
export interface FaregateProviderOptions extends BackEndOptions {
  /**
   * Maximum age in milliseconds of a cached answer per flag and user, used in an outage. Default: 300,000; 0 disables
   * the cache.
   */
  lastKnownForMs?: number | undefined;
}

/** Response of the service. Undefined in an outage without a cached answer. */
interface Answer {
  readonly response: { readonly status: number; readonly body: unknown } | undefined;
}

/**
 * OpenFeature provider for back ends (`faregate/openfeature/server`). Each evaluation sends one request for the user in
 * `targetingKey`, and the path of the one who spends in `spender`; the rest of the context never leaves the process. Evaluations never consume usage. In an outage it
 * returns the cached answer with the reason STALE, or the caller's default. It emits STALE when the service stops answering
 * (ERROR if caching is off), and READY when it answers again. Source: OpenFeature specification §2; OFREP.
 */
export class FaregateProvider extends BackEndProvider {
  /** `whenUnreachable` has no effect: the fallback is `response: undefined`, which is no feature that is off. */
  private readonly outage: { lastKnownForMs: number; whenUnreachable: "closed" };
  private fallbackCache: FallbackCache;
  private isUnreachable = false;

  /**
   * Checks the options.
   * @throws Error that names the invalid option.
   */
  constructor(options: FaregateProviderOptions) {
    super(options);
    this.outage = { lastKnownForMs: options.lastKnownForMs ?? 300_000, whenUnreachable: "closed" };
    this.fallbackCache = new FallbackCache(this.outage);
  }

  /**
   * Sends one request without a user, so that a wrong URL or key fails at startup.
   * @throws ProviderFatalError when the key is refused, or the URL is not a Faregate.
   * @throws GeneralError when the service cannot be reached.
   */
  async initialize(): Promise<void> {
    await this.probe().catch((error: unknown) => {
      this.isUnreachable = error instanceof GeneralError;
      throw error;
    });
  }

  /** Drops the cached answers. */
  async onClose(): Promise<void> {
    this.fallbackCache = new FallbackCache(this.outage);
    this.isUnreachable = false;
  }

  /** @internal */
  protected async resolve(
    flagKey: string,
    defaultValue: boolean,
    userId: string,
    spender: unknown,
  ): Promise<BooleanDetails> {
    const { response, stale } = await this.fallbackCache.answer<Answer>(
      { userId, key: JSON.stringify([flagKey, spender]), options: {} },
      async () => ({ response: await this.send(`/${encodeURIComponent(flagKey)}`, userId, spender) }),
      // Cache error responses too: a user who lost the contract must not regain it in an outage.
      {
        isCacheable: ({ response }) => response?.status !== 200 || isFlag(response.body),
        fallback: () => ({ response: undefined }),
      },
    );
    this.setUnreachable(stale);
    if (response === undefined) return failure(defaultValue, ErrorCode.GENERAL, UNREACHABLE);
    const { status, body } = response;
    if (status !== 200) return failure(defaultValue, errorCodeOf(fieldsOf(body)["errorCode"]), detailsOf(body));
    if (!isFlag(body)) return failure(defaultValue, ErrorCode.PARSE_ERROR, "The answer is not what was asked for.");
    return featureDetails(body.value, metadataOf(body.metadata), stale, "TARGETING_MATCH");
  }

  private setUnreachable(isUnreachable: boolean): void {
    if (isUnreachable === this.isUnreachable) return;
    this.isUnreachable = isUnreachable;
    if (!isUnreachable) this.events.emit(ProviderEvents.Ready);
    else
      this.events.emit(this.outage.lastKnownForMs > 0 ? ProviderEvents.Stale : ProviderEvents.Error, {
        message: UNREACHABLE,
      });
  }
}

function isFlag(body: unknown): body is { value: boolean; metadata?: unknown } {
  return typeof fieldsOf(body)["value"] === "boolean";
}

function metadataOf(value: unknown): FlagMetadata {
  const metadata: FlagMetadata = {};
  for (const [name, entry] of Object.entries(fieldsOf(value))) {
    if (typeof entry === "string" || typeof entry === "number" || typeof entry === "boolean") metadata[name] = entry;
  }
  return metadata;
}
