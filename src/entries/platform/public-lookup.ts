import { type LookupAddress, type LookupOptions, Resolver } from "node:dns";
import { isIP } from "node:net";
import ipaddr from "ipaddr.js";
import { Failure } from "../../operations/errors.ts";

/** Time-out of the first attempt; the second one gets twice as long. */
const TIMEOUT_MS = 1500;
const TRIES = 2;

/** Global unicast addresses of IPv6. The library also counts unassigned ranges as unicast. */
const GLOBAL_UNICAST = ipaddr.parseCIDR("2000::/3");

/** Returns true for an IP address of the public internet, in its usual spelling. */
export function isPublicAddress(address: string): boolean {
  if (isIP(address) === 0 || address.includes("%")) return false;
  const parsed = ipaddr.parse(address);
  if (parsed.range() !== "unicast") return false;
  return parsed.kind() === "ipv4" || parsed.match(GLOBAL_UNICAST);
}

/** Creates the error for a host outside the public internet. */
export function notPublicHost(host: string): Failure {
  return new Failure("invalid", `Invalid URL: ${host} is not an address of the public internet`);
}

type LookupDone = (error: Error | null, address: string | LookupAddress[], family?: number) => void;
type Lookup = (host: string, options: LookupOptions, done: LookupDone) => void;

/**
 * Creates the lookup of a socket to a host that a tenant names. It fails if any of the host's addresses is not public.
 * It asks DNS servers directly: `dns.lookup` occupies one of libuv's four threads until the system's resolver gives up,
 * so that a few hanging names would stop every other lookup, file access and password hash of the process. Each lookup
 * has its own resolver, because servers that time out on one name are asked last by the resolver that saw it. Hosts files
 * and search domains do not apply: what they name is the operator's.
 */
export function createPublicLookup(options: { servers?: readonly string[] } = {}): Lookup {
  return (host, { all, family }, done) => {
    resolve(host, family, options.servers).then(
      (addresses) => {
        const [first] = addresses;
        if (first === undefined) done(new Error(`${host} has no address`), "");
        else if (all === true) done(null, addresses);
        else done(null, first.address, first.family);
      },
      (error: Error) => done(error, ""),
    );
  };
}

/** Resolves a host at connect time, and fails if any of its addresses is not public. */
export const publicLookup = createPublicLookup();

async function resolve(
  host: string,
  family: LookupOptions["family"],
  servers: readonly string[] | undefined,
): Promise<LookupAddress[]> {
  // RFC 6761: never asked of a DNS server.
  if (/(^|\.)localhost\.?$/i.test(host)) throw notPublicHost(host);
  const resolver = new Resolver({ timeout: TIMEOUT_MS, tries: TRIES });
  if (servers !== undefined) resolver.setServers(servers);
  const families = family === 4 || family === "IPv4" ? [4] : family === 6 || family === "IPv6" ? [6] : [4, 6];
  const answers = await Promise.allSettled(families.map((each) => addressesOf(resolver, host, each)));
  const addresses = answers.flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
  const failed = answers.find((answer) => answer.status === "rejected");
  if (addresses.length === 0 && failed !== undefined) throw failed.reason;
  if (!addresses.every(({ address }) => isPublicAddress(address))) throw notPublicHost(host);
  return addresses;
}

function addressesOf(resolver: Resolver, host: string, family: number): Promise<LookupAddress[]> {
  return new Promise((done, fail) => {
    const answered = (error: Error | null, addresses: string[]) =>
      error === null ? done(addresses.map((address) => ({ address, family }))) : fail(error);
    if (family === 4) resolver.resolve4(host, answered);
    else resolver.resolve6(host, answered);
  });
}
