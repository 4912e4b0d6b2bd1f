import { ServiceRequestError } from "./errors.ts";
import { isObject } from "./pricing-token.ts";

const TIMEOUT_MS = 10_000;

/** Where and as whom to ask for a token. */
export interface TokenRequest {
  httpUrl: string;
  apiKey: string;
  userId: string;
  /** Undefined: the platform's own. */
  fetch: typeof fetch | undefined;
  signal: AbortSignal;
}

/** A token just issued, with the server's clock where the answer shows it, else 0. */
export interface IssuedToken {
  token: string;
  serverTimeMs: number;
}

/** Asks for a user's token, for at most 10 s. Source: contract clients §1.8. @throws ServiceRequestError */
export async function requestPricingToken(request: TokenRequest): Promise<IssuedToken> {
  const controller = new AbortController();
  const abort = () => controller.abort();
  if (request.signal.aborted) abort();
  request.signal.addEventListener("abort", abort);
  let timedOut = false;
  const timer = setTimeout(() => {
    timedOut = true;
    abort();
  }, TIMEOUT_MS);
  try {
    return await send(request, controller.signal);
  } catch (error) {
    if (error instanceof ServiceRequestError) throw error;
    if (timedOut) throw new ServiceRequestError("TIMEOUT", "The service did not answer within 10 s.");
    if (controller.signal.aborted) throw aborted();
    throw new ServiceRequestError("NETWORK", "The service could not be reached.");
  } finally {
    clearTimeout(timer);
    request.signal.removeEventListener("abort", abort);
  }
}

/** What a request that is not wanted any more rejects with. */
export function aborted(): ServiceRequestError {
  return new ServiceRequestError("ABORTED", "The request was aborted.");
}

/** @returns the milliseconds of a `Date` header, 0 when there is none or it may not be read. */
async function send(request: TokenRequest, signal: AbortSignal): Promise<IssuedToken> {
  const ask = request.fetch ?? fetch;
  const answer = await ask(`${request.httpUrl}/features/${encodeURIComponent(request.userId)}/pricing-token`, {
    method: "POST",
    headers: { "x-api-key": request.apiKey, accept: "application/json" },
    credentials: "omit",
    signal,
  });
  const text = await answer.text();
  const body = parse(text);
  const { status } = answer;
  if (!answer.ok) {
    const told = isObject(body) && typeof body["error"] === "string" ? body["error"] : undefined;
    throw new ServiceRequestError("HTTP", told ?? `The service answered with status ${status}.`, { status, body });
  }
  const token = isObject(body) ? body["pricingToken"] : undefined;
  if (typeof token !== "string" || token === "") {
    throw new ServiceRequestError("BAD_RESPONSE", "The answer has no pricingToken.", { status, body });
  }
  return { token, serverTimeMs: Date.parse(answer.headers.get("date") ?? "") || 0 };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
