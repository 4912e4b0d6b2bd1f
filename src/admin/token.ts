import type { PricingTokenPayload } from "../core/pricing-token.ts";

/** Content of a pricing token. Tokens of older servers name no issuer and no organization. */
export interface DecodedToken {
  algorithm: string;
  /** Id of the key that signed it. HS256 tokens have none. */
  kid: string | undefined;
  payload: Omit<PricingTokenPayload, "iss" | "aud"> & { iss?: unknown; aud?: unknown };
}

/** Decodes a pricing token without verifying its signature. Undefined when it is malformed. */
export function decodeToken(token: string): DecodedToken | undefined {
  const [head = "", body = "", ...rest] = token.trim().split(".");
  if (rest.length !== 1) return undefined;
  try {
    const header = jsonOf(head);
    const payload = jsonOf(body);
    if (!isHeader(header) || !isPayload(payload)) return undefined;
    return { algorithm: header.alg, kid: typeof header.kid === "string" ? header.kid : undefined, payload };
  } catch {
    return undefined;
  }
}

function jsonOf(segment: string): unknown {
  const bytes = Uint8Array.from(atob(segment.replaceAll("-", "+").replaceAll("_", "/")), (char) => char.charCodeAt(0));
  return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
}

function isHeader(value: unknown): value is { alg: string; kid?: unknown } {
  return typeof value === "object" && value !== null && "alg" in value && typeof value.alg === "string";
}

function isPayload(value: unknown): value is DecodedToken["payload"] {
  if (typeof value !== "object" || value === null) return false;
  const { features, iat, exp, sub } = value as Partial<Record<keyof PricingTokenPayload, unknown>>;
  const isTime = typeof iat === "number" && typeof exp === "number";
  return isTime && typeof sub === "string" && typeof features === "object" && features !== null;
}
