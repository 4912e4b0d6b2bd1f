import type { PricingTokenPayload } from "../core/pricing-token.ts";

/** Decodes a pricing token without verifying its signature. Undefined when it is malformed. */
export function decodeToken(token: string): PricingTokenPayload | undefined {
  const parts = token.trim().split(".");
  if (parts.length !== 3) return undefined;
  try {
    const bytes = Uint8Array.from(atob((parts[1] ?? "").replaceAll("-", "+").replaceAll("_", "/")), (char) =>
      char.charCodeAt(0),
    );
    const payload: unknown = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
    return isPayload(payload) ? payload : undefined;
  } catch {
    return undefined;
  }
}

function isPayload(value: unknown): value is PricingTokenPayload {
  if (typeof value !== "object" || value === null) return false;
  const { features, iat, exp, sub } = value as Partial<Record<keyof PricingTokenPayload, unknown>>;
  const isTime = typeof iat === "number" && typeof exp === "number";
  return isTime && typeof sub === "string" && typeof features === "object" && features !== null;
}
