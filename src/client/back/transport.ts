import { isSegment, serviceAddress } from "../address.ts";
import { ServiceRequestError } from "../service-request-error.ts";
import { isObject } from "../pricing-token.ts";
import { aborted, exchange, responseError, type ServiceAnswer } from "../request.ts";

/** Address, credentials and time limits of the client. */
export interface TransportOptions {
  /** Absolute http(s) URL of the service, including its sub-path. */
  url: string;
  /** Organization key. The required scope depends on the call. */
  apiKey: string;
  /** Time limit of one attempt, in milliseconds. Default: 5,000. */
  timeoutMs?: number | undefined;
  /** Time limit of a call with all attempts and waits, in milliseconds. Default: 15,000. */
  deadlineMs?: number | undefined;
  /** Maximum retries of calls that are safe to repeat. Default: 3. */
  retries?: number | undefined;
  /** Replaces the platform's `fetch`. */
  fetch?: typeof fetch | undefined;
}

/** Options of every call. */
export interface CallOptions {
  /** Aborts the call; it rejects with the code `ABORTED`. */
  signal?: AbortSignal | undefined;
  /** Replaces the client's `timeoutMs`. */
  timeoutMs?: number | undefined;
  /** Replaces the client's `deadlineMs`. */
  deadlineMs?: number | undefined;
}

/** Options of calls that change usage. */
export interface CountedOptions extends CallOptions {
  /** Calls with the same key and content within 24 hours count once. Default: a new key per call. */
  idempotencyKey?: string | undefined;
}

/** @internal */
type Query = Readonly<Record<string, string | number | boolean | undefined>>;

/**
 * One call of the HTTP interface.
 * @internal
 */
export interface Call {
  method: "GET" | "POST" | "PUT" | "DELETE";
  /** Path below /api/v1, with segments encoded by `segment`. */
  path: string;
  query?: Query;
  /** Sent as JSON, except a form. */
  body?: unknown;
  /** True for a call that changes nothing, or the same however often it is sent. */
  isRead?: boolean;
  idempotencyKey?: string | undefined;
}

/**
 * Recognizes an answer by the parts that fail first. The service sends complete answers or errors.
 * @internal
 */
export type Guard<T> = (value: unknown) => value is T;

/**
 * Recognizes a list.
 * @internal
 */
export function listOf<T>(isIt: Guard<T>): Guard<T[]> {
  return (value): value is T[] => Array.isArray(value) && value.every(isIt);
}

/**
 * Recognizes an object by its values.
 * @internal
 */
export function recordOf<T>(isIt: Guard<T>): Guard<Record<string, T>> {
  return (value): value is Record<string, T> => isObject(value) && Object.values(value).every(isIt);
}

/**
 * Returns the body of an answer that `isIt` recognizes; see Transport.ask.
 * @internal
 */
export function expected<T>({ status, body }: ServiceAnswer, isIt: Guard<T>): T {
  if (isIt(body)) return body;
  throw new ServiceRequestError("BAD_RESPONSE", "The answer is not what was asked for.", { status, body });
}

/**
 * Default time limit of a call with all attempts.
 * @internal
 */
export const DEADLINE_MS = 15_000;
/**
 * Longer timers overflow, and fire at once.
 * @internal
 */
export const LONGEST_TIMER_MS = 2 ** 31 - 1;
const FIRST_WAIT_MS = 100;
const LONGEST_WAIT_MS = 2_000;

/** Sends calls. Retries those that are safe to repeat: reads, and writes with an idempotency key. */
export class Transport {
  private readonly baseUrl: string;
  private readonly options: TransportOptions;

  /**
   * Checks the options.
   * @throws Error that names the invalid option.
   */
  constructor(options: TransportOptions) {
    this.baseUrl = serviceAddress(options.url).httpUrl;
    if (typeof options.apiKey !== "string" || options.apiKey.trim() === "") {
      throw new Error("config.apiKey must be a non-empty string");
    }
    for (const name of ["timeoutMs", "deadlineMs", "retries"] as const) {
      const { [name]: value = 0 } = options;
      if (typeof value !== "number" || !(value >= 0)) throw new Error(`config.${name} must be a number of at least 0`);
    }
    this.options = options;
  }

  /**
   * Sends a call and returns its 2xx answer. A retry waits for `Retry-After`, or exponentially longer with full jitter.
   * It does not start if the deadline would pass first.
   * @throws ServiceRequestError of the last attempt.
   * @internal
   */
  async send(call: Call, options: CallOptions = {}): Promise<ServiceAnswer> {
    const { timeoutMs = 5_000, deadlineMs = DEADLINE_MS, retries = 3 } = this.options;
    const endsAt = performance.now() + (options.deadlineMs ?? deadlineMs);
    for (let attempt = 0; ; attempt += 1) {
      const left = endsAt - performance.now();
      const attemptMs = Math.min(options.timeoutMs ?? timeoutMs, left, LONGEST_TIMER_MS);
      const outcome = await this.attempt(call, options.signal, attemptMs);
      if (!(outcome instanceof ServiceRequestError) && outcome.ok) return outcome;
      const failure = outcome instanceof ServiceRequestError ? outcome : responseError(outcome);
      failure.idempotencyKey = call.idempotencyKey;
      const jitter = Math.random() * Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** attempt);
      const retryAfter = outcome instanceof ServiceRequestError ? 0 : retryAfterMs(outcome.headers);
      if (attempt >= retries || !mayRepeat(call, failure)) throw failure;
      if (performance.now() + retryAfter + jitter >= endsAt) throw failure;
      await pause(retryAfter + jitter, options.signal);
    }
  }

  /**
   * Returns the body of the answer.
   * @throws ServiceRequestError with the code BAD_RESPONSE if `isIt` does not recognize it, such as a proxy's page.
   * @internal
   */
  async ask<T>(call: Call, isIt: Guard<T>, options?: CallOptions): Promise<T> {
    return expected(await this.send(call, options), isIt);
  }

  private async attempt(
    { method, path, query, body, idempotencyKey }: Call,
    signal: AbortSignal | undefined,
    timeoutMs: number,
  ): Promise<ServiceAnswer | ServiceRequestError> {
    const headers: Record<string, string> = { "x-api-key": this.options.apiKey, accept: "application/json" };
    const isForm = body instanceof FormData;
    if (body !== undefined && !isForm) headers["content-type"] = "application/json";
    if (idempotencyKey !== undefined) headers["idempotency-key"] = idempotencyKey;
    try {
      return await exchange({
        url: `${this.baseUrl}${path}${queryText(query)}`,
        method,
        headers,
        body: body === undefined ? undefined : isForm ? body : JSON.stringify(body),
        fetch: this.options.fetch,
        signal,
        timeoutMs,
      });
    } catch (error) {
      if (error instanceof ServiceRequestError) return error;
      throw error;
    }
  }
}

/**
 * Encodes a text as one path segment.
 * @throws Error for texts that URLs cannot have there: empty, `.`, `..` and ill-formed Unicode.
 * @internal
 */
export function segment(name: string, value: string): string {
  if (!isSegment(value)) {
    throw new Error(`${name} must be a non-empty string other than '.' and '..', in well-formed Unicode`);
  }
  return `/${encodeURIComponent(value)}`;
}

function queryText(query: Query = {}): string {
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    value === undefined || value === false ? [] : [[name, String(value)]],
  );
  return pairs.length === 0 ? "" : `?${new URLSearchParams(pairs).toString()}`;
}

/**
 * Returns true if a failed call may be sent again. 429 rejects before any effect; after other failures it may have had its effect.
 * @internal
 */
export function mayRepeat({ method, isRead, idempotencyKey }: Call, { code, status }: ServiceRequestError): boolean {
  if (status === 429) return true;
  const canDoNoHarm = method === "GET" || isRead === true || idempotencyKey !== undefined;
  return canDoNoHarm && (code === "TIMEOUT" || code === "NETWORK" || status === 408 || (status ?? 0) >= 500);
}

/** Source: RFC 9110 §10.2.3, seconds or a date. */
function retryAfterMs(headers: Headers): number {
  const text = headers.get("retry-after") ?? "";
  const delay = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - Date.now();
  return Number.isNaN(delay) ? 0 : Math.max(0, delay);
}

/**
 * Waits.
 * @throws ServiceRequestError as soon as the signal aborts.
 */
async function pause(delayMs: number, signal: AbortSignal | undefined): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer);
      reject(aborted());
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, delayMs);
    if (signal?.aborted) abort();
    else signal?.addEventListener("abort", abort, { once: true });
  });
}
