import type { PricingTokenPayload, TokenFeature } from "../pricing-token.ts";

/** A feature in a test: on or off, or with its figures. */
export type TestFeature = boolean | Partial<TokenFeature>;

/** Claims of a test token. All are optional. */
export type TestTokenPayload = Partial<Omit<PricingTokenPayload, "features">> & {
  features?: Readonly<Record<string, TestFeature>>;
};

/**
 * Creates a token that this library reads and no server accepts: it has no signature. Expires after an hour unless
 * `exp` is given.
 */
export function createTestToken(payload: TestTokenPayload = {}): string {
  const iat = Math.floor(Date.now() / 1000);
  const features: Record<string, TokenFeature> = {};
  for (const [id, feature] of Object.entries(payload.features ?? {})) {
    const fields = typeof feature === "boolean" ? { eval: feature } : feature;
    features[id] = { eval: true, limit: null, used: null, error: null, ...fields };
  }
  const claims = { iat, exp: iat + 3600, sub: "test-user", ...payload, features };
  return `${encode({ alg: "none" })}.${encode(claims)}.`;
}

function encode(value: unknown): string {
  const ascii = JSON.stringify(value).replace(
    /[^ -~]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  return btoa(ascii).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}
