import { InvalidPricingTokenError } from "./invalid-pricing-token-error.ts";

/** A limit or a usage: a number, or from the reference server a number per usage limit. */
export type UsageFigure = number | null | Readonly<Record<string, number | boolean>>;

/** Reason why a feature could not be evaluated. */
export interface FeatureError {
  readonly code: string;
  readonly message: string;
}

/** One feature in a token. Older servers and test tokens may omit everything but `eval`. */
export interface TokenFeature {
  readonly eval: boolean;
  readonly limit?: UsageFigure | undefined;
  readonly used?: UsageFigure | undefined;
  readonly error?: FeatureError | null | undefined;
}

/** Claims of a pricing token. `features` may be empty. Servers may add other claims. */
export interface PricingTokenPayload {
  readonly features: Readonly<Record<string, TokenFeature>>;
  /** Seconds since 1970. */
  readonly exp: number;
  readonly iat?: number | undefined;
  /** Id of the end user. */
  readonly sub?: string | undefined;
  readonly spender?: string;
  readonly pricingContext?: unknown;
  readonly subscriptionContext?: unknown;
  readonly [claim: string]: unknown;
}

/**
 * Parses a token and returns its payload, deeply frozen. Does not check the signature, so base no important
 * decision on the result: createTokenVerifier of `faregate/verify` checks EdDSA tokens.
 * @throws InvalidPricingTokenError
 */
export function parsePricingToken(token: string): PricingTokenPayload {
  return deepFreeze(decodePricingToken(token));
}

/** Like parsePricingToken, without freezing. Source: contract clients §1.7, the pipeline of `update`. */
export function decodePricingToken(token: unknown): PricingTokenPayload {
  const text = typeof token === "string" ? token.trim() : "";
  if (!text) throw new InvalidPricingTokenError("type");
  const segments = text.split(".");
  const middle = segments[1];
  if (!middle || segments.length > 3) throw new InvalidPricingTokenError("segments");
  const payload = parseJson(decodeText(middle));
  if (!isObject(payload)) throw new InvalidPricingTokenError("json");
  const { exp, features = {} } = payload;
  if (!Number.isFinite(exp)) throw new InvalidPricingTokenError("exp");
  if (!isObject(features)) throw new InvalidPricingTokenError("features");
  return asPayload({ ...payload, features });
}

/** Type guarantee: decodePricingToken has checked `exp` and `features`; readers check the entries. */
function asPayload(claims: object): PricingTokenPayload {
  return claims as PricingTokenPayload;
}

/** Returns true for a JSON object: neither null nor an array. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Returns the own property of that name. Ids such as `constructor` must not find inherited members. */
export function ownValue<T>(object: Readonly<Record<string, T>>, key: string): T | undefined {
  return Object.prototype.hasOwnProperty.call(object, key) ? object[key] : undefined;
}

/** Freezes a value from JSON in place. */
export function deepFreeze<T>(value: T): T {
  if (typeof value === "object" && value !== null) {
    Object.freeze(value);
    for (const inner of Object.values(value)) deepFreeze(inner);
  }
  return value;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new InvalidPricingTokenError("json");
  }
}

/** Decodes both base64 alphabets, padded or not, as strict UTF-8. `atob` skips blanks, and reads one alphabet. */
function decodeText(segment: string): string {
  try {
    if (/\s/.test(segment)) throw segment;
    const digits = segment
      .replace(/={1,2}$/, "")
      .replace(/-/g, "+")
      .replace(/_/g, "/");
    const bytes = Uint8Array.from(atob(digits), (char) => char.charCodeAt(0));
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new InvalidPricingTokenError("encoding");
  }
}
