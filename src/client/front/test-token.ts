import type { PricingTokenPayload, TokenFeature } from "../pricing-token.ts";

/** A feature of a test: on or off, or with its figures. */
export type TestFeature = boolean | Partial<TokenFeature>;

/** The claims of a test token; all may be left out. */
export type TestTokenPayload = Partial<Omit<PricingTokenPayload, "features">> & {
  features?: Readonly<Record<string, TestFeature>>;
};

/** A token that this library reads and no server accepts: without a signature, valid for an hour unless `exp` says else. */
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
