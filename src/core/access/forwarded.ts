/**
 * Returns the client's address behind `trustedProxies` proxies, taken from X-Forwarded-For. Each proxy appends one
 * entry, so the client can forge everything further left. Undefined without proxies; empty when the header lacks the
 * entry.
 */
export function forwardedAddress(header: string | string[] | undefined, trustedProxies: number): string | undefined {
  if (trustedProxies === 0) return undefined;
  const entries = String(header ?? "").split(",");
  return entries.at(-trustedProxies)?.trim() ?? "";
}
