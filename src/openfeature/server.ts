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
import { Outage } from "../client/back/outage.ts";
import { isObject } from "../client/pricing-token.ts";
import { exchange, refusal } from "../client/request.ts";
import { asOtherType, type BooleanDetails, errorCodeOf, failure, featureDetails } from "./details.ts";

/** Where a back end's provider asks, as whom, and what it does when nobody answers. */
export interface FaregateProviderOptions {
  /** Absolute http(s) URL of the deployment, with the sub-path if any. */
  url: string;
  /** An organization's key; scope EVALUATION is enough. */
  apiKey: string;
  /** How long an answer may take. Default 2,000. */
  timeoutMs?: number | undefined;
  /** In an outage, how old the last answer about the same flag and user may be. Default 300,000; with 0 none is kept. */
  lastKnownForMs?: number | undefined;
  /** Asks the server expressions where a feature has them. */
  server?: boolean | undefined;
  /** Another `fetch` than the platform's. */
  fetch?: typeof fetch | undefined;
}

/** What the service said; undefined where it said nothing and nothing is known. */
interface Answer {
  readonly said: { readonly status: number; readonly body: unknown } | undefined;
}

const SILENT = "The service cannot be reached or is broken.";

/**
 * OpenFeature on a back end (`faregate/openfeature/server`): each evaluation is one request for the user whom `targetingKey` names, the
 * only part of the context that leaves the process; nothing is ever counted. In an outage the last known answer has the reason
 * STALE, and where there is none it is the caller's default. Source: OpenFeature specification §2; OFREP.
 */
export class FaregateProvider implements Provider {
  readonly metadata = { name: "Faregate" };
  readonly runsOn = "server";
  /** STALE, or ERROR where no answers are kept, when the service is silent; READY when an evaluation is answered again. */
  readonly events = new OpenFeatureEventEmitter();
  private readonly options: FaregateProviderOptions;
  private readonly flagsUrl: string;
  private readonly lastKnownForMs: number;
  private outage: Outage;
  private isSilent = false;

  /** @throws Error that names the option which cannot be used. */
  constructor(options: FaregateProviderOptions) {
    if (typeof options.apiKey !== "string" || options.apiKey.trim() === "") {
      throw new Error("config.apiKey must be a non-empty string");
    }
    this.options = options;
    this.flagsUrl = serviceAddress(options.url).httpUrl.replace(/\/api\/v1$/, "/ofrep/v1/evaluate/flags");
    this.lastKnownForMs = options.lastKnownForMs ?? 300_000;
    this.outage = this.nothingKnown();
  }

  /** Asks once, for nobody, so that a wrong address or key is known at the start. */
  async initialize(): Promise<void> {
    const { status, body } = await this.send("", undefined).catch((error: unknown) => {
      this.isSilent = true;
      throw new GeneralError(error instanceof Error ? error.message : SILENT);
    });
    if (status === 401 || status === 403) throw new ProviderFatalError(detailsOf(body));
    if (codeOf(body) !== ErrorCode.TARGETING_KEY_MISSING) {
      throw new ProviderFatalError(`There is no Faregate at ${this.options.url}`);
    }
  }

  /** Forgets the last answers. */
  async onClose(): Promise<void> {
    this.outage = this.nothingKnown();
    this.isSilent = false;
  }

  async resolveBooleanEvaluation(
    flagKey: string,
    defaultValue: boolean,
    { targetingKey }: EvaluationContext,
  ): Promise<BooleanDetails> {
    if (!targetingKey) {
      return failure(defaultValue, ErrorCode.TARGETING_KEY_MISSING, "targetingKey must be the userId of a contract.");
    }
    // Which also keeps paths such as `..` from being asked for.
    if (!isFeatureId(flagKey)) return failure(defaultValue, ErrorCode.FLAG_NOT_FOUND, `${flagKey} is no feature id.`);
    const { said, stale } = await this.outage.answer<Answer>(
      { userId: targetingKey, about: flagKey, options: {} },
      async () => ({ said: await this.send(`/${encodeURIComponent(flagKey)}`, targetingKey) }),
      // A refusal is an answer too: whoever lost the contract has not got it back in an outage.
      { remember: ({ said }) => said?.status !== 200 || isFlag(said.body), fallback: () => ({ said: undefined }) },
    );
    this.hear(stale);
    if (said === undefined) return failure(defaultValue, ErrorCode.GENERAL, SILENT);
    const { status, body } = said;
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

  /** The fallback is no feature being off but that nobody answered: see `Answer`. */
  private nothingKnown(): Outage {
    return new Outage({ lastKnownForMs: this.lastKnownForMs, whenUnreachable: "closed" });
  }

  private hear(isSilent: boolean): void {
    if (isSilent === this.isSilent) return;
    this.isSilent = isSilent;
    if (!isSilent) this.events.emit(ProviderEvents.Ready);
    else this.events.emit(this.lastKnownForMs > 0 ? ProviderEvents.Stale : ProviderEvents.Error, { message: SILENT });
  }

  /** One request of the protocol. @throws ServiceRequestError without an answer, and for a server that is broken. */
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
    if (answer.status >= 500) throw refusal(answer);
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
