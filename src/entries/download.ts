import type { LookupAddress, LookupOptions } from "node:dns";
import { lookup } from "node:dns";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import { BlockList, isIP } from "node:net";
import { Failure } from "../operations/errors.ts";

const TIMEOUT_MS = 5000;
const MAX_REDIRECTS = 3;

/** Addresses that lead back to the machine, its network or its cloud's metadata; and those that are no one host's. */
const notPublic = new BlockList();
for (const [network, prefix] of [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.88.99.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 3],
] as const) {
  notPublic.addSubnet(network, prefix, "ipv4");
}
// Of IPv6 only what is handed out to the public (2000::/3), and of that not what tunnels to IPv4 or is for documents.
const publicV6 = new BlockList();
publicV6.addSubnet("2000::", 3, "ipv6");
for (const [network, prefix] of [
  ["2001::", 23],
  ["2001:db8::", 32],
  ["2002::", 16],
  ["3fff::", 20],
] as const) {
  notPublic.addSubnet(network, prefix, "ipv6");
}

/** Whether an address, as text, is one of the public internet. */
export function isPublicAddress(address: string): boolean {
  const version = isIP(address);
  if (version === 4) return !notPublic.check(address, "ipv4");
  return version === 6 && publicV6.check(address, "ipv6") && !notPublic.check(address, "ipv6");
}

/**
 * Fetches text for `Resources.download`: https: at public addresses only, except at the allowed hosts, where http: and
 * private addresses are fine. The address that was checked is the one connected to, so a name that changes its mind
 * between check and use gains nothing. Five seconds in all, at most three redirects, each checked like the first.
 * Failure invalid otherwise. Source: contract services-pricings §7.
 */
export function createDownload(options: {
  allowedHosts: readonly string[];
}): (address: URL, maxBytes: number) => Promise<string> {
  return async (address, maxBytes) => {
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    let at = address;
    for (let hop = 0; hop <= MAX_REDIRECTS; hop += 1) {
      const response = await open(at, options.allowedHosts, signal);
      const status = response.statusCode ?? 0;
      const location = response.headers.location;
      if (status >= 300 && status < 400 && location !== undefined && URL.canParse(location, at.href)) {
        response.destroy();
        at = new URL(location, at.href);
        continue;
      }
      if (status < 200 || status > 299) {
        response.destroy();
        throw new Failure("invalid", `The pricing could not be fetched: ${at.host} answered ${status}`);
      }
      return await readText(response, maxBytes);
    }
    throw new Failure("invalid", `The pricing could not be fetched: more than ${MAX_REDIRECTS} redirects`);
  };
}

function open(address: URL, allowedHosts: readonly string[], signal: AbortSignal): Promise<IncomingMessage> {
  const host = address.hostname.replace(/^\[|\]$/g, "");
  const allowed = allowedHosts.includes(address.host) || allowedHosts.includes(host);
  if (address.protocol !== "https:" && !(allowed && address.protocol === "http:")) {
    throw new Failure("invalid", `Invalid URL: only https: addresses are fetched, not ${address.protocol}`);
  }
  if (address.username !== "" || address.password !== "") {
    throw new Failure("invalid", "Invalid URL: an address with a name or password is not fetched");
  }
  if (!allowed && isIP(host) !== 0 && !isPublicAddress(host)) throw notAllowed(host);
  const request = address.protocol === "https:" ? httpsRequest : httpRequest;
  return new Promise((resolve, reject) => {
    const asked = request(address, {
      signal,
      agent: false,
      headers: { accept: "application/yaml, text/yaml, text/plain, */*;q=0.1", "user-agent": "faregate" },
      ...(allowed ? {} : { lookup: publicLookup }),
    });
    asked.once("response", resolve);
    asked.once("error", (cause) => reject(cause instanceof Failure ? cause : unreachable(host, cause)));
    asked.end();
  });
}

type LookupDone = (error: Error | null, address: string | LookupAddress[], family?: number) => void;

/** Resolves a name and refuses it when any of its addresses is not public. */
function publicLookup(host: string, options: LookupOptions, done: LookupDone): void {
  lookup(host, { ...options, all: true }, (error, addresses) => {
    const first = addresses?.[0];
    if (error !== null || first === undefined) return done(error ?? new Error("no address"), "");
    if (!addresses.every(({ address }) => isPublicAddress(address))) return done(notAllowed(host), "");
    return options.all === true ? done(null, addresses) : done(null, first.address, first.family);
  });
}

async function readText(response: IncomingMessage, maxBytes: number): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  try {
    for await (const chunk of response as AsyncIterable<Uint8Array>) {
      size += chunk.byteLength;
      if (size > maxBytes) throw new Failure("invalid", `The pricing at this URL is larger than ${maxBytes} bytes`);
      chunks.push(chunk);
    }
  } catch (cause) {
    throw cause instanceof Failure ? cause : unreachable("its host", cause);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function notAllowed(host: string): Failure {
  return new Failure("invalid", `Invalid URL: ${host} is not an address of the public internet`);
}

function unreachable(host: string, cause: unknown): Failure {
  return new Failure("invalid", `The pricing could not be fetched: ${host} cannot be reached or took too long`, {
    cause,
  });
}
