import { notifyAll } from "../listeners.ts";
import { decodePricingToken } from "../pricing-token.ts";
import type { TokenService } from "./token-service.ts";

/** The header in which a back end may send a fresh token with any answer; CORS must expose it. */
const HEADER = "pricing-token";

/** Called with what was wrong with a header; the answer itself is never disturbed, nor by what this throws. */
export type HeaderErrorListener = (error: Error) => void;

/** A `fetch` that takes over the token of every answer that has one. */
export function fetchWithPricingToken(
  tokens: TokenService,
  options: { fetch?: typeof fetch; onError?: HeaderErrorListener } = {},
): typeof fetch {
  return async (...request: Parameters<typeof fetch>) => {
    const { user, userId } = tokens;
    const answer = await (options.fetch ?? fetch)(...request);
    // A response to the former user is taken only if its token is the present user's.
    take(
      tokens,
      answer.headers,
      options.onError,
      userId === tokens.userId && (userId !== undefined || user === tokens.user),
    );
    return answer;
  };
}

/** Creates an axios response interceptor: `axios.interceptors.response.use(pricingTokenInterceptor(tokens))`. */
export function pricingTokenInterceptor(
  tokens: TokenService,
  onError?: HeaderErrorListener,
): <Answer extends { headers: object }>(answer: Answer) => Answer {
  return (answer) => {
    takePricingToken(tokens, answer.headers, onError);
    return answer;
  };
}

/** Takes over the token in these headers, if any: a `Headers` object, or a plain one with names in lower case. */
export function takePricingToken(tokens: TokenService, headers: object, onError?: HeaderErrorListener): void {
  take(tokens, headers, onError, true);
}

function take(
  tokens: TokenService,
  headers: object,
  onError: HeaderErrorListener | undefined,
  isSameUser: boolean,
): void {
  try {
    const value: unknown = hasGet(headers) ? headers.get(HEADER) : new Map(Object.entries(headers)).get(HEADER);
    if (typeof value !== "string" || value === "") return;
    const { sub } = decodePricingToken(value);
    if (sub === undefined ? isSameUser : sub === tokens.userId || (isSameUser && tokens.user.id === undefined)) {
      tokens.update(value);
    }
  } catch (error) {
    if (onError) notifyAll(new Set([onError]), error instanceof Error ? error : new Error(String(error)));
  }
}

function hasGet(headers: object): headers is { get(name: string): unknown } {
  return "get" in headers && typeof headers.get === "function";
}
