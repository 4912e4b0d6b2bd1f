import {
  ErrorCode,
  type EvaluationContext,
  GeneralError,
  type JsonValue,
  OpenFeatureEventEmitter,
  type Provider,
  ProviderFatalError,
  type ResolutionDetails,
} from "@openfeature/server-sdk";
import { serviceAddress } from "../client/address.ts";
import { isFeatureId } from "../client/feature-state.ts";
import { isObject } from "../client/pricing-token.ts";
import { exchange, responseError } from "../client/request.ts";
import { asOtherType, type BooleanDetails, failure } from "./details.ts";

/** Endpoint and credentials of both providers for back ends. */
export interface BackEndOptions {
  /** Absolute http(s) URL of the deployment, with the sub-path if any. */
  url: string;
  /** Organization key. The scope EVALUATION is enough. */
  apiKey: string;
  /** Timeout of a request in milliseconds. Default: 2,000. */
  timeoutMs?: number | undefined;
  /** Evaluates server expressions of features that have one. */
  server?: boolean | undefined;
  /** Replacement for the platform's `fetch`. */
  fetch?: typeof fetch | undefined;
}

/** @internal */
export const UNREACHABLE = "The service cannot be reached or is broken.";

/** Base of both providers for back ends: checks the key and the request, and resolves other types than boolean. */
export abstract class BackEndProvider implements Provider {
  readonly metadata = { name: "Faregate" };
  readonly runsOn = "server";
  readonly events = new OpenFeatureEventEmitter();
  private readonly options: BackEndOptions;
  private readonly flagsUrl: string;

  /**
   * Checks the options.
   * @throws Error that names the invalid option.
   */
  constructor(options: BackEndOptions) {
    if (typeof options.apiKey !== "string" || options.apiKey.trim() === "") {
      throw new Error("config.apiKey must be a non-empty string");
    }
    this.options = options;
    this.flagsUrl = serviceAddress(options.url).httpUrl.replace(/\/api\/v1$/, "/ofrep/v1/evaluate/flags");
  }

  /**
   * Resolves a feature of a user; both are well-formed. `spender`: as the context says, unchecked.
   * @internal
   */
  protected abstract resolve(
    flagKey: string,
    defaultValue: boolean,
    userId: string,
    spender: unknown,
  ): Promise<BooleanDetails>;

  async resolveBooleanEvaluation(
    flagKey: string,
    defaultValue: boolean,
    { targetingKey, spender }: EvaluationContext,
  ): Promise<BooleanDetails> {
    if (!targetingKey) {
      return failure(defaultValue, ErrorCode.TARGETING_KEY_MISSING, "targetingKey must be the userId of a contract.");
    }
    // This check also keeps paths such as `..` out of the URL.
    if (!isFeatureId(flagKey)) return failure(defaultValue, ErrorCode.FLAG_NOT_FOUND, `${flagKey} is no feature id.`);
    return this.resolve(flagKey, defaultValue, targetingKey, spender);
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

  /**
   * Sends one request without a user, so that a wrong URL or key fails at startup.
   * @throws ProviderFatalError when the key is refused, or the URL is not a Faregate.
   * @throws GeneralError when the service cannot be reached.
   * @internal
   */
  protected async probe(): Promise<void> {
    const { status, body } = await this.send("", undefined).catch((error: unknown) => {
      throw new GeneralError(error instanceof Error ? error.message : UNREACHABLE);
    });
    if (status === 401 || status === 403) throw new ProviderFatalError(detailsOf(body));
    if (fieldsOf(body)["errorCode"] !== ErrorCode.TARGETING_KEY_MISSING) {
      throw new ProviderFatalError(`There is no Faregate at ${this.options.url}`);
    }
  }

  /**
   * Sends one OFREP request.
   * @throws ServiceRequestError for no response or a status from 500.
   * @internal
   */
  protected async send(
    path: string,
    targetingKey: string | undefined,
    spender?: unknown,
  ): Promise<{ status: number; body: unknown }> {
    const { apiKey, server, timeoutMs = 2_000, fetch } = this.options;
    const answer = await exchange({
      url: `${this.flagsUrl}${path}${server === true ? "?server=true" : ""}`,
      method: "POST",
      headers: { "x-api-key": apiKey, "content-type": "application/json", accept: "application/json" },
      body: JSON.stringify({ context: { targetingKey, spender } }),
      fetch,
      signal: undefined,
      timeoutMs,
    });
    if (answer.status >= 500) throw responseError(answer);
    return { status: answer.status, body: answer.body };
  }
}

/**
 * Returns the fields of an OFREP answer; none for another value.
 * @internal
 */
export const fieldsOf = (body: unknown): Readonly<Record<string, unknown>> => (isObject(body) ? body : {});

/**
 * Reads the error message of an OFREP answer.
 * @internal
 */
export function detailsOf(body: unknown): string {
  const details = fieldsOf(body)["errorDetails"];
  return typeof details === "string" ? details : "The service refused.";
}
