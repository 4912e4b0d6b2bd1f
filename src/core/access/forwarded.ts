/**
 * Behind `trustedProxies` proxies, who is connected to the outermost of them: each adds one entry to X-Forwarded-For, so
 * what stands further left is the client's own invention. Undefined without proxies, empty when they said nothing.
 */
export function forwardedAddress(header: string | string[] | undefined, trustedProxies: number): string | undefined {
  if (trustedProxies === 0) return undefined;
  const entries = String(header ?? "").split(",");
  return entries.at(-trustedProxies)?.trim() ?? "";
}
