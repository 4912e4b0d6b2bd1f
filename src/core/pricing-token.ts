import type { FeatureResult } from "./pricing/evaluate.ts";

/**
 * Result of one feature in a pricing token. `limit` and `used` refer to its tightest limit. Source: contract README,
 * decision 8.
 */
export interface TokenFeature {
  eval: boolean;
  limit: number | null;
  used: number | null;
  error: FeatureResult["error"];
}

/** Claims of a pricing token, in serialization order. Source: contract features-events §7. */
export interface PricingTokenPayload {
  features: Record<string, TokenFeature>;
  pricingContext: unknown;
  subscriptionContext: unknown;
  /** Issue time in seconds since 1970. */
  iat: number;
  /** Expiry in seconds since 1970: `iat` plus the token's lifetime. */
  exp: number;
  /** Subject: the end user. */
  sub: string;
  /** Issuer: the PUBLIC_URL of the instance, or `urn:faregate:<24 hex digits>`. */
  iss: string;
  /**
   * Audience: the organization of the contract. Always differs between organizations, even if user and service names
   * are equal.
   */
  aud: string;
  /** Path of the spender for whom the features were evaluated. Absent without one. */
  spender?: string;
}

/**
 * Returns the limit with the least remaining quota; on a tie, the first in the expression. Returns a non-numeric limit
 * (`limit` null) only if there is no other. Undefined for a feature without limits.
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

/** Reduces a feature's result to its tightest limit. */
export function tokenFeature(result: FeatureResult): TokenFeature {
  const { limit, used } = tightestLimit(result) ?? { limit: null, used: null };
  return { eval: result.eval, limit, used, error: result.error };
}

/**
 * Serializes the payload as JSON that published clients can decode with plain `atob`. Escapes every character that
 * would yield `-` or `_` in base64url or require UTF-8. Source: contract features-events §7.
 */
export function serializeTokenPayload(payload: PricingTokenPayload): string {
  // Separate `replaceAll` calls avoid a callback per match. A long text would cost two million callbacks, which take
  // half a second.
  return JSON.stringify(payload)
    .replaceAll(">", "\\u003e")
    .replaceAll("?", "\\u003f")
    .replaceAll("~", "\\u007e")
    .replace(/[^\u0020-\u007d]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
