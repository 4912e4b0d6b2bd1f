import { deepFreeze, isObject, type PricingTokenPayload } from "./pricing-token.ts";

/*
 * `faregate/verify`: checks EdDSA pricing tokens with the public keys of the server. Uses Web Crypto only, so it runs in back
 * ends, edge functions and pages. Source: contract tokens-and-leases §3.
 */

/** Reason for which a token is refused. */
export type TokenRefusal =
  | "malformed"
  | "algorithm"
  | "unavailable"
  | "key"
  | "unsupported"
  | "signature"
  | "issuer"
  | "audience"
  | "expired";

const MESSAGES: Readonly<Record<TokenRefusal, string>> = {
  malformed: "This is no pricing token",
  algorithm: "The token is not signed with EdDSA",
  unavailable: "The public keys cannot be read",
  key: "The key of this token is not known",
  unsupported: "This runtime cannot check Ed25519 signatures",
  signature: "The signature does not fit the token",
  issuer: "The token is of another issuer",
  audience: "The token is of another organization",
  expired: "The token has expired",
};

/** Claims of a token that was verified. `aud` is the id of the organization. */
export type VerifiedPricingToken = PricingTokenPayload &
  Readonly<Record<"iss" | "aud" | "sub", string> & Record<"iat", number>>;

/** Result of a verification. The payload is deeply frozen. */
export type TokenVerdict = Readonly<
  { ok: true; payload: VerifiedPricingToken; kid: string } | { ok: false; reason: TokenRefusal; message: string }
>;

/** Options of createTokenVerifier: exactly one of `jwksUrl` and `jwks`. */
export interface TokenVerifierOptions {
  /** Id of your organization. Tokens of others are refused. */
  organizationId: string;
  /** Address of the public keys: `<server>/.well-known/jwks.json`. */
  jwksUrl?: string | URL | undefined;
  /** Fixed public keys. They are never fetched, so a rotation needs new ones. */
  jwks?: { keys: readonly object[] } | undefined;
  /** Refuses tokens whose `iss` differs. Default: any issuer. */
  issuer?: string | undefined;
  /** Default: the global `fetch`. */
  fetch?: typeof fetch | undefined;
  /** Milliseconds since 1970. Default: `Date.now`. */
  now?: (() => number) | undefined;
}

/** Checks pricing tokens of one organization. */
export interface TokenVerifier {
  /** Never rejects. */
  verify(token: unknown): Promise<TokenVerdict>;
}

interface PublicKeys {
  keys: readonly unknown[];
  /** Time of the last successful request. */
  readAt: number;
  maxAgeMs: number;
  etag: string | null;
}

const RETRY_MS = 10_000;
const TIMEOUT_MS = 5_000;
/** Time beyond `max-age` for which known keys are used while no request succeeds. */
const MAX_STALENESS_MS = 3_600_000;

/**
 * Creates a verifier. It reads the keys at the first token, again once they are older than their `max-age`, and for a key
 * that it does not know.
 * @throws Error without an organization, and unless exactly one source of keys is given.
 */
export function createTokenVerifier(options: TokenVerifierOptions): TokenVerifier {
  const { organizationId, jwksUrl, jwks, issuer, now = Date.now } = options;
  if (typeof organizationId !== "string" || organizationId === "") {
    throw new Error("organizationId must be a non-empty string");
  }
  if ((jwksUrl === undefined) === (jwks === undefined))
    throw new Error("Exactly one of jwksUrl and jwks must be given");
  const keysFor = jwksUrl === undefined ? async () => jwks?.keys : createKeyReader(jwksUrl, options.fetch, now);

  const check = async (token: unknown): Promise<TokenVerdict | TokenRefusal> => {
    const decoded = decode(token);
    if (decoded === undefined) return "malformed";
    const { header, payload, signed, signature } = decoded;
    const { kid } = header;
    if (header["alg"] !== "EdDSA" || typeof kid !== "string" || "crit" in header) return "algorithm";
    const isNamed = (key: unknown): key is { x: string } =>
      isObject(key) && key["kid"] === kid && key["crv"] === "Ed25519" && typeof key["x"] === "string";
    const keys = await keysFor(isNamed);
    if (!Array.isArray(keys)) return "unavailable";
    const key = keys.find(isNamed);
    if (key === undefined) return "key";
    const verdict = await isSigned(key.x, signature, signed);
    if (verdict !== true) return verdict;
    if (issuer !== undefined && payload["iss"] !== issuer) return "issuer";
    if (payload.aud !== organizationId) return "audience";
    return now() < payload.exp * 1000 ? { ok: true, payload: deepFreeze(payload), kid } : "expired";
  };
  return {
    verify: async (token) => {
      const verdict = await check(token);
      return typeof verdict === "string" ? { ok: false, reason: verdict, message: MESSAGES[verdict] } : verdict;
    },
  };
}

/** Returns a function that reads the keys when necessary. Undefined stands for no keys that may be used. */
function createKeyReader(
  url: string | URL,
  send: typeof fetch = (...given) => globalThis.fetch(...given),
  now: () => number,
): (isNamed: (key: unknown) => boolean) => Promise<readonly unknown[] | undefined> {
  let known: PublicKeys | undefined;
  let triedAt = -Infinity;
  let hasFailed = false;
  let inFlight: Promise<void> | undefined;

  const read = async () => {
    try {
      const answer = await send(url, {
        // Some edge runtimes reject "error". A redirect is no success either way.
        redirect: "manual",
        headers: known?.etag == null ? {} : { "If-None-Match": known.etag },
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
      const keys = answer.status === 304 ? known?.keys : answer.ok && (await answer.json()).keys;
      hasFailed = !Array.isArray(keys);
      if (hasFailed) return;
      const [, seconds = 300] = /\bmax-age=(\d+)/.exec(answer.headers.get("cache-control") ?? "") ?? [];
      known = { keys, readAt: now(), maxAgeMs: Number(seconds) * 1000, etag: answer.headers.get("etag") };
    } catch {
      hasFailed = true;
    }
  };
  /** Milliseconds beyond `max-age`; infinite before the first answer. */
  const staleness = () => (known === undefined ? Infinity : now() - known.readAt - known.maxAgeMs);
  return async (isNamed) => {
    const mayRetry = now() - triedAt >= RETRY_MS;
    const isStale = staleness() > 0;
    const isDue = staleness() > MAX_STALENESS_MS || mayRetry || (isStale && !hasFailed);
    if (isStale || !known?.keys.some(isNamed)) {
      if (isDue && inFlight === undefined) {
        triedAt = now();
        inFlight = read().finally(() => (inFlight = undefined));
      }
      await inFlight;
    }
    return staleness() > MAX_STALENESS_MS ? undefined : known?.keys;
  };
}

/** Checks an Ed25519 signature. */
async function isSigned(
  x: string,
  signature: Uint8Array<ArrayBuffer>,
  signed: Uint8Array<ArrayBuffer>,
): Promise<true | "key" | "unsupported" | "signature"> {
  let key: CryptoKey;
  try {
    key = await crypto.subtle.importKey("jwk", { kty: "OKP", crv: "Ed25519", x }, "Ed25519", false, ["verify"]);
  } catch (error) {
    return error instanceof Error && error.name === "DataError" ? "key" : "unsupported";
  }
  const isRight = await crypto.subtle.verify("Ed25519", key, signature, signed).catch(() => false);
  return isRight || "signature";
}

/** Decodes a token without verifying; undefined if it is malformed. */
function decode(token: unknown):
  | {
      header: Record<string, unknown>;
      payload: VerifiedPricingToken;
      signed: Uint8Array<ArrayBuffer>;
      signature: Uint8Array<ArrayBuffer>;
    }
  | undefined {
  const segments = typeof token === "string" && /^[\w-]+\.[\w-]+\.[\w-]*$/.test(token) ? token.split(".") : [];
  const [head = "", body = "", last = ""] = segments;
  try {
    const header = jsonIn(head);
    const payload = jsonIn(body);
    if (!isObject(header) || !isPayload(payload)) return undefined;
    return { header, payload, signed: new TextEncoder().encode(`${head}.${body}`), signature: bytesIn(last) };
  } catch {
    return undefined;
  }
}

/** `iss`, `aud` and `iat` are of the server that signs; only these three claims can be missing from a foreign token. */
function isPayload(value: unknown): value is VerifiedPricingToken {
  return (
    isObject(value) && Number.isFinite(value["exp"]) && typeof value["sub"] === "string" && isObject(value["features"])
  );
}

const jsonIn = (segment: string): unknown =>
  JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytesIn(segment)));

function bytesIn(segment: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(segment.replace(/-/g, "+").replace(/_/g, "/")), (char) => char.charCodeAt(0));
}
