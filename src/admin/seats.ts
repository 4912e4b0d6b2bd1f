import { useQueries } from "@tanstack/react-query";
import type { Balance, Contract } from "./answers.ts";
import { useHere } from "./here.tsx";
import { pricingQuery, serviceKey } from "./services.ts";

/** Returns the balances that count the members of a contract; none while loading. Only their list moves them. */
export function useSeats(contract: Contract): readonly Balance[] {
  const { base } = useHere();
  const versions = Object.entries(contract.contractedServices);
  const pricings = useQueries({ queries: versions.map(([service, version]) => pricingQuery(base, service, version)) });
  return (contract.balances ?? []).filter(({ service, limit }) => {
    const place = versions.findIndex(([name]) => serviceKey(name) === service);
    return pricings[place]?.data?.usageLimits[limit]?.countsMembers === true;
  });
}
