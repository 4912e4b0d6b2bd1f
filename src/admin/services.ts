import { useQueries, useQuery, useQueryClient, type UseQueryResult } from "@tanstack/react-query";
import type { Offer } from "../client/offer.ts";
import type { Service, WirePricing } from "./answers.ts";
import { type Call, call, callWithHeaders, path } from "./api.ts";
import { useAsk, useAskCounted } from "./queries.ts";
import { useHere } from "./here.tsx";

/** Returns a service's name as contracts spell it: in lower case. */
export const serviceKey = (name: string): string => name.toLowerCase();

export function useServices(): UseQueryResult<Service[]> {
  return useServicesBelow(useHere().base);
}

/** Loads all services of an organization, sorted by name. Disabled while `base` is undefined. */
export function useServicesBelow(base: string | undefined): UseQueryResult<Service[]> {
  const to = `${base}/services`;
  return useQuery({
    queryKey: [to, {}, "all"],
    queryFn: ({ signal }) => loadServices(to, signal),
    enabled: base !== undefined,
  });
}

/** Id before every other one: calls leave out an empty parameter. */
const BEFORE_ALL = "0".repeat(24);

async function loadServices(to: string, signal: AbortSignal): Promise<Service[]> {
  const all: Service[] = [];
  let after: string | null = BEFORE_ALL;
  while (after !== null) {
    const options: Call = { query: { limit: 1000, after }, signal };
    const { body, headers }: { body: Service[]; headers: Headers } = await callWithHeaders("GET", to, options);
    all.push(...body);
    after = headers.get("next-after");
  }
  const { compare } = new Intl.Collator(document.documentElement.lang);
  return all.sort((one, other) => compare(one.name, other.name));
}

export function usePricing(service: string | undefined, version: string | undefined): UseQueryResult<WirePricing> {
  const { base } = useHere();
  const isNamed = service !== undefined && version !== undefined;
  return useAsk<WirePricing>(isNamed ? base + path`/services/${service}/pricings/${version}` : undefined);
}

/** Counts the contracts of a service or of one version. Undefined while loading. */
export function useContractCount(service: string, version?: string): number | undefined {
  const filters = JSON.stringify({ services: { [service]: version === undefined ? [] : [version] } });
  const { data } = useAskCounted(`${useHere().base}/contracts`, { limit: 1, filters });
  return data?.total;
}

/** Loads a service's active versions, newest first. Undefined until then, and without a service. */
export function useActiveVersions(service: string | undefined): readonly string[] | undefined {
  const { base } = useHere();
  return useAsk<Offer>(service === undefined ? undefined : base + path`/services/${service}/offer`).data?.versions;
}

/** Returns a function that finds the version that new contracts get: the newest active one. */
export function useNewestVersion(): (service: Service) => Promise<string | undefined> {
  const { base } = useHere();
  const queries = useQueryClient();
  return async ({ name, activePricings }) => {
    const to = base + path`/services/${name}/offer`;
    const queryFn = () => call<Offer>("GET", to);
    try {
      const { versions, pricingVersion } = await queries.fetchQuery({ queryKey: [to, {}], queryFn });
      return versions?.[0] ?? pricingVersion;
    } catch {
      // The list shows which version was chosen, so a guess misleads nobody.
      return Object.keys(activePricings).at(-1);
    }
  };
}

/** Sorts newest first, as the server does; a stable sort keeps equal dates in upload order. */
export const byDate = (one: WirePricing, other: WirePricing): number =>
  Date.parse(other.createdAt) - Date.parse(one.createdAt);

/** Loads pricings as the server sends them. The result finds one by its service; undefined while it is loading. */
export function usePricingAnswers(
  wanted: readonly (readonly [service: string, version: string])[],
): (service: string) => WirePricing | undefined {
  const { base } = useHere();
  const answers = useQueries({
    queries: wanted.map(([service, version]) => pricingQuery(base, service, version)),
  });
  return (service) => answers[wanted.findIndex(([name]) => serviceKey(name) === serviceKey(service))]?.data;
}

/** The query of one version, cached under the same key as a single request. */
export function pricingQuery(base: string, service: string, version: string) {
  const to = base + path`/services/${service}/pricings/${version}`;
  return {
    queryKey: [to, {}],
    queryFn: ({ signal }: { signal: AbortSignal }) => call<WirePricing>("GET", to, { signal }),
    staleTime: Number.POSITIVE_INFINITY,
  };
}
