import { hasAsOf } from "./contract.ts";
import type { AllFeatures, AsOfContract, FeatureAnswer, PastAnswer } from "./feature-answers.ts";
import type { EvaluationOptions, FeatureOptions } from "./evaluation-options.ts";
import type { FeatureResult } from "./feature-result.ts";
import { instant, type Optional, type Paging } from "./subscription.ts";
import type { FeatureId } from "../feature-id.ts";
import { isUnlock } from "../ask.ts";
import type { Unlock } from "../offer.ts";
import { type Spender, spenderPath } from "./budgets.ts";
import type { FallbackCache } from "./fallback-cache.ts";
import { isObject, ownValue } from "../pricing-token.ts";
import { tokenOf } from "../request.ts";
import {
  type Call,
  type CallOptions,
  type CountedOptions,
  type Guard,
  listOf,
  recordOf,
  segment,
  type Transport,
} from "./transport.ts";

/** Selects features to list. */
export type FeatureQuery = Paging &
  Optional<{
    /** Matches any part of the name, ignoring case; so do the next two. */
    featureName: string;
    serviceName: string;
    pricingVersion: string;
    show: "active" | "archived" | "all";
    sort: "serviceName" | "featureName";
    order: "asc" | "desc";
  }>;

/** A feature of one version of a pricing. */
export interface ListedFeature {
  readonly info: {
    readonly name: string;
    readonly description?: string;
    readonly valueType: "BOOLEAN" | "NUMERIC" | "TEXT";
    readonly expression?: string;
    readonly serverExpression?: string;
    readonly [field: string]: unknown;
  };
  readonly service: string;
  readonly pricingVersion: string;
}

/** Evaluates features and consumes usage. Needs a key of any scope. Source: contract features-events. */
export class Features {
  private readonly transport: Transport;
  private readonly fallbackCache: FallbackCache;

  constructor(transport: Transport, fallbackCache: FallbackCache) {
    this.transport = transport;
    this.fallbackCache = fallbackCache;
  }

  /**
   * Evaluates a feature and, with `consumption`, consumes usage. Retries carry the same idempotency key, so usage is
   * counted once. In an outage the options decide; consumption then needs `acceptUncounted`. An unknown feature is an
   * `error` in the answer.
   * @throws ServiceRequestError with status 404 for a user without contract.
   */
  async evaluate(userId: string, featureId: FeatureId, options: FeatureOptions = {}): Promise<FeatureAnswer> {
    const { consumption = {}, dryRun = false, strict = false, server = false, explain = false, blocks } = options;
    const hasAmounts = Object.keys(consumption).length > 0;
    const consumes = hasAmounts && !dryRun;
    const idempotencyKey = consumes ? (options.idempotencyKey ?? crypto.randomUUID()) : undefined;
    const path = `/features${segment("userId", userId)}${segment("featureId", featureId)}`;
    const spender = spenderPath(options.spender);
    // As text, because a query leaves out what is false.
    const query = { server, strict, dryRun, explain, blocks: blocks === false ? "false" : undefined, spender };
    const call = { method: "POST", path, query, body: consumption, isRead: !consumes, idempotencyKey } as const;
    const denied = { limit: null, used: null, error: null };
    const answer = await this.fallbackCache.answer<FeatureResult>(
      { userId, key: keyOf(`one ${server} ${blocks !== false} ${featureId}`, spender), options },
      () => this.transport.ask(call, isResult, options),
      {
        // A dry run with amounts describes a hypothetical consumption, so do not cache it.
        isCacheable: (result) => result.error === null && !(hasAmounts && dryRun),
        fallback: consumes && options.acceptUncounted !== true ? undefined : (isOpen) => ({ eval: isOpen, ...denied }),
      },
    );
    const counted = consumes && !answer.stale && answer.eval && answer.used !== null;
    return { ...answer, counted, idempotencyKey: idempotencyKey ?? null };
  }

  /** Evaluates all features of an end user, as on or off. */
  async evaluateAll(userId: string, options: EvaluationOptions = {}): Promise<AllFeatures> {
    const answer = await this.fallbackCache.answer<{ features: Record<string, boolean>; isOpen?: boolean }>(
      { userId, key: keyOf(`all ${options.server === true}`, spenderPath(options.spender)), options },
      async () => ({ features: await this.askAll(userId, recordOf(isBoolean), options) }),
      { isCacheable: () => true, fallback: (isOpen) => ({ features: {}, isOpen }) },
    );
    const { isOpen = false, ...rest } = answer;
    return { ...rest, isEnabled: (id) => ownValue(answer.features, id) ?? isOpen };
  }

  /**
   * Evaluates all features of an end user, with limits, usage and errors. Rejects in an outage, because invented
   * figures would mislead.
   */
  async explainAll(
    userId: string,
    options: CallOptions & Pick<EvaluationOptions, "server" | "spender"> = {},
  ): Promise<Record<string, FeatureResult>> {
    return this.askAll(userId, recordOf(isResult), options, true);
  }

  /**
   * Evaluates a feature as of a past moment, from the recorded contract and usage. Counts nothing.
   * @throws ServiceRequestError with status 404 before the contract's creation, 400 before the start of the record.
   */
  async evaluateAt(
    userId: string,
    featureId: FeatureId,
    at: Date | string,
    options: CallOptions & Pick<FeatureOptions, "server" | "spender" | "strict" | "consumption"> = {},
  ): Promise<PastAnswer> {
    const { server, strict, consumption: body = {} } = options;
    const path = `/features${segment("userId", userId)}${segment("featureId", featureId)}`;
    const query = { server, strict, dryRun: true, at: instant(at), spender: spenderPath(options.spender) };
    return this.transport.ask({ method: "POST", path, query, body, isRead: true }, isPastAnswer, options);
  }

  /** Evaluates all features of an end user as of a past moment. Counts nothing. */
  async evaluateAllAt(
    userId: string,
    at: Date | string,
    options: CallOptions & Pick<EvaluationOptions, "server" | "spender"> = {},
  ): Promise<{ readonly features: Readonly<Record<string, FeatureResult>>; readonly asOf: AsOfContract }> {
    const path = `/features${segment("userId", userId)}`;
    const query = { server: options.server, details: true, at: instant(at), spender: spenderPath(options.spender) };
    return this.transport.ask({ method: "POST", path, query, isRead: true }, arePastResults, options);
  }

  /** Reverts what the feature consumed for the end user in the last two minutes, or only the latest of it. */
  async revert(
    userId: string,
    featureId: FeatureId,
    options: CountedOptions & {
      latest?: boolean | undefined;
      /** Only what this one consumed, or somebody below. */
      spender?: Spender | undefined;
    } = {},
  ): Promise<void> {
    const { latest = false, idempotencyKey = crypto.randomUUID() } = options;
    const query = { revert: true, latest, spender: spenderPath(options.spender) };
    const path = `/features${segment("userId", userId)}${segment("featureId", featureId)}`;
    await this.transport.send({ method: "POST", path, query, idempotencyKey }, options);
    this.fallbackCache.evict(userId);
  }

  /**
   * Finds the smallest purchase that turns a feature on for an end user, with room for `amounts` per
   * `{service}-{limit}`. Buys nothing; see `novationTo`. Rejects in an outage, because an offer is never made up.
   * @throws ServiceRequestError with status 404 for a user without contract.
   */
  async unlock(
    userId: string,
    featureId: FeatureId,
    options: CallOptions & {
      amounts?: Readonly<Record<string, number>> | undefined;
      server?: boolean | undefined;
      /** Searches this active version instead of the user's. */
      pricingVersion?: string | undefined;
      /** The one who spends, whose budgets decide too. Default: nobody. */
      spender?: Spender | undefined;
    } = {},
  ): Promise<Unlock> {
    const { amounts, server, pricingVersion } = options;
    const query = { server, pricingVersion, spender: spenderPath(options.spender) };
    const path = `/features${segment("userId", userId)}${segment("featureId", featureId)}/unlock`;
    const body = amounts === undefined ? {} : { amounts };
    return this.transport.ask({ method: "POST", path, query, body, isRead: true }, isUnlock, options);
  }

  /**
   * Returns a signed pricing token of the end user, for a front end. Tokens signed with EdDSA are verified by
   * `faregate/verify`. Default of `signature`: the server's.
   */
  async pricingToken(
    userId: string,
    options: CallOptions &
      Pick<EvaluationOptions, "server" | "spender"> & { signature?: "HS256" | "EdDSA" | undefined } = {},
  ): Promise<string> {
    const path = `/features${segment("userId", userId)}/pricing-token`;
    const { server, signature } = options;
    const query = { server, signature, spender: spenderPath(options.spender) };
    const call: Call = { method: "POST", path, query, isRead: true };
    return tokenOf(await this.transport.send(call, options));
  }

  /** Lists one page of the features of pricings. */
  async list(query: FeatureQuery = {}, options?: CallOptions): Promise<ListedFeature[]> {
    return this.transport.ask({ method: "GET", path: "/features", query: { ...query } }, listOf(isListed), options);
  }

  private askAll<T>(
    userId: string,
    isIt: Guard<T>,
    options: CallOptions & Pick<EvaluationOptions, "server" | "spender">,
    details = false,
  ): Promise<T> {
    const path = `/features${segment("userId", userId)}`;
    const query = { server: options.server, details, spender: spenderPath(options.spender) };
    return this.transport.ask({ method: "POST", path, query, isRead: true }, isIt, options);
  }
}

/** Key of a cached answer, which differs by spender. */
const keyOf = (of: string, spender: string | undefined): string => (spender === undefined ? of : `${of} ${spender}`);

function isResult(value: unknown): value is FeatureResult {
  return isObject(value) && typeof value["eval"] === "boolean";
}

function isBoolean(value: unknown): value is boolean {
  return typeof value === "boolean";
}

function isListed(value: unknown): value is ListedFeature {
  return isObject(value) && isObject(value["info"]) && typeof value["service"] === "string";
}

function isPastAnswer(value: unknown): value is PastAnswer {
  return isResult(value) && hasAsOf(value);
}

function arePastResults(value: unknown): value is { features: Record<string, FeatureResult>; asOf: AsOfContract } {
  return hasAsOf(value) && "features" in value && recordOf(isResult)(value.features);
}
