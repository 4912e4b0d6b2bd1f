import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import { isIP } from "node:net";
import { decodeFile } from "../../core/pricing/parse/encoding.ts";
import { Failure } from "../../operations/errors.ts";
import { isPublicAddress, notPublicHost, publicLookup } from "./public-lookup.ts";

const TIMEOUT_MS = 5000;
const MAX_REDIRECTS = 3;

/** Sends one request without following redirects. `isAllowed` skips the check for public addresses. */
export type FetchOnce = (
  address: URL,
  options: { isAllowed: boolean; headers: Record<string, string>; signal: AbortSignal },
) => Promise<FetchedOnce>;

interface FetchedOnce {
  status: number;
  location: string | undefined;
  bytes: AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
  /** Discards the rest of the body. */
  drop(): void;
}

/**
 * Downloads text for `Resources.download`. Only https: and public addresses are permitted, except for the allowed hosts
 * (`host` or `host:port`), where http: and private addresses are fine. The checked address is the one connected to,
 * which defeats DNS rebinding. Certificates are verified. The total timeout is 5 seconds; at most 3 redirects are
 * followed, each checked like the first.
 * @throws Failure invalid for every other case. Source: contract services-pricings §7.
 */
export function createDownload(options: {
  allowedHosts: readonly string[];
  fetchOnce?: FetchOnce;
}): (given: string, maxBytes: number) => Promise<string> {
  const { fetchOnce = fetchOnceChecked } = options;
  const allowed = new Set(options.allowedHosts.map((host) => host.toLowerCase()));
  return async (given, maxBytes) => {
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    try {
      const { bytes } = await follow(given, (at) => open(at, allowed, fetchOnce, signal));
      return decode(await readBytes(bytes, maxBytes, given));
    } catch (error) {
      if (error instanceof Failure) throw error;
      throw signal.aborted
        ? new Failure("invalid", `Timeout fetching pricing from URL: ${given}`, { cause: error })
        : failed(given, "", error);
    }
  };
}

/** Quotes the URL as the caller passed it, not that of a redirect. */
const failed = (given: string, why: string, cause?: unknown) =>
  new Failure("invalid", `Failed to fetch pricing from URL: ${given}${why}`, { cause });

/** Follows redirects until a response with status 2xx. */
async function follow(start: string, open: (address: URL) => Promise<FetchedOnce>): Promise<FetchedOnce> {
  let at = new URL(start);
  for (let hop = 0; hop <= MAX_REDIRECTS; hop += 1) {
    const fetched = await open(at);
    const { status, location } = fetched;
    if (status >= 200 && status <= 299) return fetched;
    fetched.drop();
    const redirects = [301, 302, 303, 307, 308].includes(status);
    if (!redirects || location === undefined || !URL.canParse(location, at.href)) {
      throw failed(start, `, status: ${status}`);
    }
    at = new URL(location, at.href);
  }
  throw failed(start, `, more than ${MAX_REDIRECTS} redirects`);
}

function open(
  address: URL,
  allowedHosts: ReadonlySet<string>,
  fetchOnce: FetchOnce,
  signal: AbortSignal,
): Promise<FetchedOnce> {
  // The URL parser has already normalized decimal, octal and shortened IPv4 hosts.
  const host = address.hostname.replace(/^\[|\]$/g, "");
  const port = address.port === "" ? (address.protocol === "https:" ? "443" : "80") : address.port;
  const isAllowed = [host, address.hostname, `${address.hostname}:${port}`].some((name) => allowedHosts.has(name));
  if (address.protocol !== "https:" && !(isAllowed && address.protocol === "http:")) {
    throw new Failure("invalid", `Protocol "${address.protocol}" not supported. Expected "https:"`);
  }
  if (address.username !== "" || address.password !== "") {
    throw new Failure("invalid", "Invalid URL: an address with a name or password is not fetched");
  }
  if (!isAllowed && isIP(host) !== 0 && !isPublicAddress(host)) throw notPublicHost(host);
  const headers = {
    accept: "application/yaml, text/yaml, text/plain, */*;q=0.1",
    "accept-encoding": "identity",
    "user-agent": "faregate",
  };
  return fetchOnce(address, { isAllowed, headers, signal });
}

/** Checks addresses in the socket's own lookup, so the checked address is the one connected to. */
function fetchOnceChecked(address: URL, options: Parameters<FetchOnce>[1]): Promise<FetchedOnce> {
  const request = address.protocol === "https:" ? httpsRequest : httpRequest;
  const { isAllowed, headers, signal } = options;
  return new Promise((resolve, reject) => {
    const asked = request(address, {
      signal,
      agent: false,
      rejectUnauthorized: true,
      headers,
      ...(isAllowed ? {} : { lookup: publicLookup }),
    });
    asked.once("response", (response) =>
      resolve({
        status: response.statusCode ?? 0,
        location: response.headers.location,
        bytes: response,
        drop: () => response.destroy(),
      }),
    );
    // Not `once`: destroying a response may emit another error, and an unhandled one ends the process.
    asked.on("error", reject);
    asked.end();
  });
}

async function readBytes(from: FetchedOnce["bytes"], maxBytes: number, given: string): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of from) {
    size += chunk.byteLength;
    if (size > maxBytes) throw failed(given, `, more than ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** Decodes UTF-8 without loss. */
function decode(bytes: Uint8Array): string {
  const decoded = decodeFile(bytes);
  if (decoded.ok) return decoded.text;
  const { message, line, column } = decoded;
  throw new Failure("invalid", `Pricing parsing error: ${message}`, {
    problems: [{ message, path: "", line, column }],
  });
}
