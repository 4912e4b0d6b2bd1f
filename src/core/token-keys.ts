/** An Ed25519 key of the instance, as far as everybody may know it. Source: contract tokens-and-leases §1. */
export interface PublicTokenKey {
  /** RFC 7638 thumbprint of the public half. */
  readonly kid: string;
  /** Public half in base64url. */
  readonly x: string;
  /** Tokens are signed with the key from this moment on. */
  readonly signsFrom: Date;
  /** The key is published until this moment. Null: until it is replaced. */
  readonly publishedUntil: Date | null;
}

/** Signature algorithms of pricing tokens. */
export const TOKEN_SIGNATURES = ["HS256", "EdDSA"] as const;
export type TokenSignature = (typeof TOKEN_SIGNATURES)[number];

/** Returns the keys that are published now, in the order given. */
export function publishedKeys<Key extends PublicTokenKey>(keys: readonly Key[], now: Date): Key[] {
  return keys.filter(({ publishedUntil }) => publishedUntil === null || now < publishedUntil);
}

/** Returns a published key that does not sign yet, from keys in order of creation. */
export function nextKey<Key extends PublicTokenKey>(keys: readonly Key[], now: Date): Key | undefined {
  return publishedKeys(keys, now).findLast(({ signsFrom }) => now < signsFrom);
}

/**
 * Returns the newest published key that signs now, from keys in order of creation. Returns the oldest one if none signs yet:
 * the clock of the process that created it may be ahead.
 */
export function signingKey<Key extends PublicTokenKey>(keys: readonly Key[], now: Date): Key | undefined {
  const published = publishedKeys(keys, now);
  return published.findLast(({ signsFrom }) => signsFrom <= now) ?? published[0];
}

/** A public key as RFC 8037 writes it. */
export interface TokenJwk {
  kty: "OKP";
  crv: "Ed25519";
  use: "sig";
  alg: "EdDSA";
  kid: string;
  x: string;
}

/** Returns the published keys as a JSON Web Key Set, with members in the contract's order. */
export function jwksOf(keys: readonly PublicTokenKey[], now: Date): { keys: TokenJwk[] } {
  return { keys: publishedKeys(keys, now).map(jwkOf) };
}

/** Returns one key as a JSON Web Key. */
export function jwkOf({ kid, x }: Pick<PublicTokenKey, "kid" | "x">): TokenJwk {
  return { kty: "OKP", crv: "Ed25519", use: "sig", alg: "EdDSA", kid, x };
}
