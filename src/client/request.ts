import { ServiceRequestError } from "./service-request-error.ts";

const TIMEOUT_MS = 10_000;

/** One request. It carries no cookies. */
export interface Exchange {
  url: string;
  method: string;
  headers: Record<string, string>;
  body?: string | FormData | undefined;
  /** Default: the platform's own. */
  fetch: typeof fetch | undefined;
  signal: AbortSignal | undefined;
  timeoutMs: number;
}

/** HTTP response of any status. `body` is the parsed JSON, or the text if it is no JSON. */
export interface ServiceAnswer {
  ok: boolean;
  status: number;
  headers: Headers;
  text: string;
  body: unknown;
}

/**
 * Sends a request once. Does not wait for a `fetch` that ignores its signal.
 * @throws ServiceRequestError if no answer arrives in time, or on abort.
 */
export async function exchange(request: Exchange): Promise<ServiceAnswer> {
  const { url, method, headers, body = null, signal, timeoutMs } = request;
  if (signal?.aborted) throw aborted();
  // Always aborted at the end, which also removes the listener of `signal`.
  const controller = new AbortController();
  const send = async () => {
    const answer = await (request.fetch ?? fetch)(url, {
      method,
      headers,
      body,
      credentials: "omit",
      signal: controller.signal,
    });
    const text = await answer.text();
    return { ok: answer.ok, status: answer.status, headers: answer.headers, text, body: parse(text) };
  };
  let timer: ReturnType<typeof setTimeout> | undefined;
  const answered = new Promise<ServiceAnswer>((resolve, reject) => {
    timer = setTimeout(
      () => reject(new ServiceRequestError("TIMEOUT", `The service did not answer within ${timeoutMs / 1000} s.`)),
      timeoutMs,
    );
    signal?.addEventListener("abort", () => reject(aborted()), { signal: controller.signal });
    send().then(resolve, (cause: Error) => {
      // Node itself says only "fetch failed". The path is left out, because it contains ids.
      const code = (cause.cause as { code?: string } | undefined)?.code ?? cause.message;
      const error = new ServiceRequestError("NETWORK", `${new URL(url).origin} could not be reached: ${code}`);
      error.cause = cause;
      reject(error);
    });
  });
  return answered.finally(() => {
    clearTimeout(timer);
    controller.abort();
  });
}

/** Creates the error of an aborted request. */
export function aborted(): ServiceRequestError {
  return new ServiceRequestError("ABORTED", "The request was aborted.");
}

/** Creates the error for a response other than 2xx, with the service's own message if it sent one. */
export function responseError({ status, body }: ServiceAnswer): ServiceRequestError {
  const message = textIn(body, "error");
  return new ServiceRequestError("HTTP", message ?? `The service answered with status ${status}.`, { status, body });
}

/** Address and credentials of the token route. */
export interface TokenRoute {
  readonly httpUrl: string;
  readonly apiKey: string;
  /** `fetch` replaces the platform's. */
  readonly options: { readonly fetch?: typeof fetch | undefined };
}

/** A new token, with the time of the answer by the server's clock; NaN if the answer does not show it. */
export interface IssuedToken {
  token: string;
  serverTimeMs?: number;
}

/**
 * Requests an end user's token, for at most 10 s. Source: contract clients §1.8.
 * @throws ServiceRequestError
 */
export async function requestPricingToken(
  { httpUrl, apiKey, options }: TokenRoute,
  userId: string,
  { signal, spender }: { signal: AbortSignal; spender?: string | undefined },
): Promise<IssuedToken> {
  const query = spender === undefined ? "" : `?spender=${encodeURIComponent(spender)}`;
  const answer = await exchange({
    url: `${httpUrl}/features/${encodeURIComponent(userId)}/pricing-token${query}`,
    method: "POST",
    headers: { "x-api-key": apiKey, accept: "application/json" },
    fetch: options.fetch,
    signal,
    timeoutMs: TIMEOUT_MS,
  });
  if (!answer.ok) throw responseError(answer);
  return { token: tokenOf(answer), serverTimeMs: Date.parse(answer.headers.get("date") ?? "") };
}

/**
 * Returns the token of an answer.
 * @throws ServiceRequestError if it has none.
 */
export function tokenOf({ status, body }: ServiceAnswer): string {
  const token = textIn(body, "pricingToken");
  if (token) return token;
  throw new ServiceRequestError("BAD_RESPONSE", "The answer has no pricingToken.", { status, body });
}

/** Returns a text of a parsed answer; undefined without one. */
function textIn(body: unknown, name: string): string | undefined {
  const value = (body as Partial<Record<string, unknown>> | null | undefined)?.[name];
  return typeof value === "string" ? value : undefined;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
