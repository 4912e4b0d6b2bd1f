/** Longest description of a webhook, in characters. */
export const MAX_WEBHOOK_DESCRIPTION = 200;

/**
 * Returns a sentence on what is wrong with the address of a webhook; undefined for a good one. `mayUseHttp` says which
 * hosts need no https.
 */
export function webhookUrlProblem(text: string, mayUseHttp: (url: URL) => boolean): string | undefined {
  if (!URL.canParse(text) || text.length > 2048) return "The url is not a valid address";
  const url = new URL(text);
  if (url.protocol !== "https:" && !(url.protocol === "http:" && mayUseHttp(url))) {
    return "The url must begin with https://. WEBHOOK_ALLOWED_HOSTS of the server allows local receivers";
  }
  return url.username === "" && url.password === "" ? undefined : "The url must not contain credentials";
}

/** True for IP addresses and names of a local network, which a server may allow over http. */
export const isLocalHost = ({ hostname }: URL): boolean =>
  !hostname.includes(".") || /^[\d.]+$|\.(internal|local|localhost|test)$/.test(hostname);
