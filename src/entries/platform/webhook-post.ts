import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import { isIP } from "node:net";
import type { Post } from "../../events/webhooks.ts";
import { isPublicAddress, publicLookup } from "./public-lookup.ts";

const TIMEOUT_MS = 10_000;
/** More than any polite answer; what it says is not looked at. */
const MAX_ANSWER_BYTES = 64 * 1024;

/**
 * Sends webhooks: https: at public addresses only, except to the allowed hosts (`host`, or `host:port`). The address that
 * is checked is the one connected to, at every attempt. Redirects are not followed: the answer counts as it is. Ten
 * seconds in all. Rejects with a sentence for the delivery log.
 */
export function createPost(options: { allowedHosts: readonly string[]; timeoutMs?: number }): Post {
  const allowed = new Set(options.allowedHosts.map((host) => host.toLowerCase()));
  const timeoutMs = options.timeoutMs ?? TIMEOUT_MS;
  return async ({ url, headers, body, signal }) => {
    const address = new URL(url);
    const isAllowed = isAllowedHost(address, allowed);
    refuse(address, isAllowed);
    const timeout = AbortSignal.timeout(timeoutMs);
    try {
      return await send(address, { headers, body, isAllowed, signal: AbortSignal.any([signal, timeout]) });
    } catch (error) {
      if (timeout.aborted) throw new Error(`No answer within ${timeoutMs / 1000} s`, { cause: error });
      throw error;
    }
  };
}

function isAllowedHost(address: URL, allowed: ReadonlySet<string>): boolean {
  const port = address.port === "" ? (address.protocol === "https:" ? "443" : "80") : address.port;
  return [address.hostname, `${address.hostname}:${port}`].some((name) => allowed.has(name));
}

function refuse(address: URL, isAllowed: boolean): void {
  if (address.protocol !== "https:" && !(isAllowed && address.protocol === "http:")) {
    throw new Error(`Webhooks are sent over https: only, not ${address.protocol}`);
  }
  const host = address.hostname.replace(/^\[|\]$/g, "");
  if (!isAllowed && isIP(host) !== 0 && !isPublicAddress(host)) {
    throw new Error(`${host} is not an address of the public internet`);
  }
}

function send(
  address: URL,
  options: { headers: Record<string, string>; body: string; isAllowed: boolean; signal: AbortSignal },
): ReturnType<Post> {
  const body = new TextEncoder().encode(options.body);
  const request = address.protocol === "https:" ? httpsRequest : httpRequest;
  return new Promise((resolve, reject) => {
    const sent = request(address, {
      method: "POST",
      agent: false,
      signal: options.signal,
      headers: { ...options.headers, "content-length": body.byteLength },
      ...(options.isAllowed ? {} : { lookup: publicLookup }),
    });
    sent.once("response", (response) => {
      const status = response.statusCode ?? 0;
      let size = 0;
      const done = () => resolve({ status, retryAfterMs: retryAfterOf(response.headers["retry-after"]) });
      response.on("data", (chunk: Uint8Array) => {
        size += chunk.byteLength;
        if (size <= MAX_ANSWER_BYTES) return;
        done();
        response.destroy();
      });
      response.once("end", done);
      response.once("error", reject);
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

function retryAfterOf(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,6}$/.test(text) ? Number(text) * 1000 : undefined;
}
