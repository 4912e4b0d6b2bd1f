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
}

/** One feature's result with its limits reduced to the one with the least left; the first in the expression on a tie. */
export function tokenFeature(result: FeatureResult): TokenFeature {
  const { limit, used } = result;
  let tightest: { limit: number | null; used: number | null } = { limit: null, used: null };
  let left = Number.POSITIVE_INFINITY;
  for (const [id, consumed] of Object.entries(used ?? {})) {
    const value = limit === null ? null : limit[id];
    if (typeof value === "number" && value - consumed < left) {
      tightest = { limit: value, used: consumed };
      left = value - consumed;
    } else if (tightest.used === null) {
      tightest = { limit: null, used: consumed };
    }
  }
  return { eval: result.eval, ...tightest, error: result.error };
}

/**
 * The payload's JSON with everything escaped that would make its base64url hold `-` or `_` or need UTF-8: published clients
 * decode tokens with plain `atob`. Source: contract features-events §7.
 */
export function serializeTokenPayload(payload: PricingTokenPayload): string {
  return JSON.stringify(payload).replace(
    /[^\u0020-\u007d]|[>?]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
