import type { FeatureResult } from "./pricing/evaluate.ts";

/** What a pricing token says of one feature; `limit` and `used` are its tightest limit. Source: contract README, decision 8. */
export interface TokenFeature {
  eval: boolean;
  limit: number | null;
  used: number | null;
  error: FeatureResult["error"];
}

/** The claims, in the order in which they are written. Source: contract features-events §7. */
export interface PricingTokenPayload {
  features: Record<string, TokenFeature>;
  pricingContext: unknown;
  subscriptionContext: unknown;
  /** Seconds since 1970. */
  iat: number;
  /** Seconds since 1970; `iat` plus the life of a token. */
  exp: number;
  /** The end user. */
  sub: string;
  /** The instance that signed the token: its PUBLIC_URL, or `urn:faregate:<24 hex digits>`. */
  iss: string;
  /** The organization of the contract. Tokens of two organizations differ in it, whatever their names are. */
  aud: string;
}

/**
 * The limit with the least left, the first in the expression on a tie; one that is not a number (`limit` null) only when there
 * is no other. Undefined for a feature without limits.
 */
export function tightestLimit(
  result: Pick<FeatureResult, "limit" | "used">,
): { id: string; limit: number | null; used: number } | undefined {
  let tightest: ReturnType<typeof tightestLimit>;
  let left = Number.POSITIVE_INFINITY;
  for (const [id, used] of Object.entries(result.used ?? {})) {
    const limit = result.limit?.[id];
    if (typeof limit === "number" && limit - used < left) {
      tightest = { id, limit, used };
      left = limit - used;
    } else {
      tightest ??= { id, limit: null, used };
    }
  }
  return tightest;
}

/** One feature's result with its limits reduced to the tightest. */
export function tokenFeature(result: FeatureResult): TokenFeature {
  const { limit, used } = tightestLimit(result) ?? { limit: null, used: null };
  return { eval: result.eval, limit, used, error: result.error };
}

/**
 * The payload's JSON with everything escaped that would make its base64url hold `-` or `_` or need UTF-8: published clients
 * decode tokens with plain `atob`. Source: contract features-events §7.
 */
export function serializeTokenPayload(payload: PricingTokenPayload): string {
  // One call for all of a character: two million callbacks, which a long text costs, take half a second.
  return JSON.stringify(payload)
    .replaceAll(">", "\\u003e")
    .replaceAll("?", "\\u003f")
    .replaceAll("~", "\\u007e")
    .replace(/[^\u0020-\u007d]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
