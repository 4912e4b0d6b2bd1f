import { serviceAddress } from "../address.ts";
import { ServiceRequestError } from "../service-request-error.ts";
import { isObject } from "../pricing-token.ts";
import { aborted, exchange, responseError, type ServiceAnswer } from "../request.ts";

/** Where the service is, as whom to call it, and how long to try. */
export interface TransportOptions {
  /** Absolute http(s) URL of the service, with the sub-path if any. */
  url: string;
  /** An organization's key; which scope it needs depends on the call. */
  apiKey: string;
  /** How long one attempt may take. Default 5,000. */
  timeoutMs?: number | undefined;
  /** How long a call may take with all its attempts and waits. Default 15,000. */
  deadlineMs?: number | undefined;
  /** How often a call that can be repeated without harm is outcome again. Default 3. */
  retries?: number | undefined;
  /** Another `fetch` than the platform's. */
  fetch?: typeof fetch | undefined;
}

/** Options of every call. */
export interface CallOptions {
  /** Ends the call, in whatever state it is, with the code `ABORTED`. */
  signal?: AbortSignal | undefined;
  /** Instead of the client's own. */
  timeoutMs?: number | undefined;
  /** Instead of the client's own. */
  deadlineMs?: number | undefined;
}

/** A call that moves usage. */
export interface CountedOptions extends CallOptions {
  /** Calls with the same key and content within 24 hours count once. Without one, each call of a method is one of its own. */
  idempotencyKey?: string | undefined;
}

type Query = Readonly<Record<string, string | number | boolean | undefined>>;

/** A call in the words of the HTTP interface. */
export interface Call {
  method: "GET" | "POST" | "PUT" | "DELETE";
  /** Below /api/v1, its segments encoded by `segment`. */
  path: string;
  query?: Query;
  body?: unknown;
  /** A POST that only asks. */
  isRead?: boolean;
  idempotencyKey?: string | undefined;
}

/** Tells what an answer is from what it is not, by what would break first. The service answers things whole or not at all. */
export type Guard<T> = (value: unknown) => value is T;

/** A list of these. */
export function listOf<T>(isIt: Guard<T>): Guard<T[]> {
  return (value): value is T[] => Array.isArray(value) && value.every(isIt);
}

/** An object whose every value is one of these. */
export function recordOf<T>(isIt: Guard<T>): Guard<Record<string, T>> {
  return (value): value is Record<string, T> => isObject(value) && Object.values(value).every(isIt);
}

/** See Transport.ask. */
export function expected<T>({ status, body }: ServiceAnswer, isIt: Guard<T>): T {
  if (isIt(body)) return body;
  throw new ServiceRequestError("BAD_RESPONSE", "The answer is not what was asked for.", { status, body });
}

const FIRST_WAIT_MS = 100;
const LONGEST_WAIT_MS = 2_000;

/** Sends calls, and again where that can do no harm: what only asks, and what has an idempotency key. */
export class Transport {
  private readonly baseUrl: string;
  private readonly options: TransportOptions;

  /** @throws Error that names the field when `url` or `apiKey` cannot be used. */
  constructor(options: TransportOptions) {
    this.baseUrl = serviceAddress(options.url).httpUrl;
    if (typeof options.apiKey !== "string" || options.apiKey.trim() === "") {
      throw new Error("config.apiKey must be a non-empty string");
    }
    this.options = options;
  }

  /**
   * The answer, of status 2xx. A repetition waits as long as `Retry-After` says, else exponentially longer with full jitter, and is not
   * begun when the deadline would pass before it. @throws ServiceRequestError, that of the last attempt.
   */
  async send(call: Call, options: CallOptions = {}): Promise<ServiceAnswer> {
    const { timeoutMs = 5_000, deadlineMs = 15_000, retries = 3 } = this.options;
    const endsAt = performance.now() + (options.deadlineMs ?? deadlineMs);
    for (let attempt = 0; ; attempt += 1) {
      const left = endsAt - performance.now();
      const outcome = await this.attempt(call, options.signal, Math.min(options.timeoutMs ?? timeoutMs, left));
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

  /** The body of the answer. @throws ServiceRequestError, with BAD_RESPONSE when `isIt` does not know it: a proxy's page, say. */
  async ask<T>(call: Call, isIt: Guard<T>, options?: CallOptions): Promise<T> {
    return expected(await this.send(call, options), isIt);
  }

  private async attempt(
    { method, path, query, body, idempotencyKey }: Call,
    signal: AbortSignal | undefined,
    timeoutMs: number,
  ): Promise<ServiceAnswer | ServiceRequestError> {
    const headers: Record<string, string> = { "x-api-key": this.options.apiKey, accept: "application/json" };
    if (body !== undefined) headers["content-type"] = "application/json";
    if (idempotencyKey !== undefined) headers["idempotency-key"] = idempotencyKey;
    try {
      return await exchange({
        url: `${this.baseUrl}${path}${queryText(query)}`,
        method,
        headers,
        body: body === undefined ? undefined : JSON.stringify(body),
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

/** A text as one segment of a path. @throws Error for one that URLs cannot have there: empty, `.` or `..`. */
export function segment(name: string, value: string): string {
  if (typeof value !== "string" || /^(\s*|\.\.?)$/.test(value)) {
    throw new Error(`${name} must be a non-empty string other than '.' and '..'`);
  }
  return `/${encodeURIComponent(value)}`;
}

function queryText(query: Query = {}): string {
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    value === undefined || value === false ? [] : [[name, String(value)]],
  );
  return pairs.length === 0 ? "" : `?${new URLSearchParams(pairs).toString()}`;
}

/** 429 refuses before anything is done; after anything else the call may have had its effect. */
function mayRepeat({ method, isRead, idempotencyKey }: Call, { code, status }: ServiceRequestError): boolean {
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

/** @throws ServiceRequestError as soon as the signal says so. */
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
