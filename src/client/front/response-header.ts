import { notifyAll } from "../listeners.ts";
import { decodePricingToken } from "../pricing-token.ts";
import type { TokenService } from "./token-service.ts";

/** Header with which a back end may send a fresh token in any answer. CORS must expose it. */
const HEADER = "pricing-token";

/** Called with the error of a header. Neither the error nor this listener disturbs the answer. */
export type HeaderErrorListener = (error: Error) => void;

/** Wraps `fetch` so that the token in an answer's header is stored. */
export function fetchWithPricingToken(
  tokens: TokenService,
  options: { fetch?: typeof fetch; onError?: HeaderErrorListener } = {},
): typeof fetch {
  return async (...request: Parameters<typeof fetch>) => {
    const { user, userId } = tokens;
    const answer = await (options.fetch ?? fetch)(...request);
    // An answer to the previous user's request counts only if its token is the current user's.
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

/** Stores the token of these headers, if any. Accepts `Headers`, or an object with names in lower case. */
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
