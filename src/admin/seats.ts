import { useQueries } from "@tanstack/react-query";
import { seatsOf } from "../core/pricing/seats.ts";
import type { Balance, Contract } from "./answers.ts";
import { callForText, path } from "./api.ts";
import { useHere } from "./here.tsx";

/**
 * Returns the balance that counts the members of a contract; undefined where no pricing counts them, and while loading. Only the
 * file of a version names its limit.
 */
export function useSeats(contract: Contract): Balance | undefined {
  const { base } = useHere();
  const services = Object.entries(contract.contractedServices);
  const limits = useQueries({
    queries: services.map(([service, version]) => {
      const to = base + path`/services/${service}/pricings/${version}/source`;
      return {
        queryKey: [to, "seats"],
        queryFn: async () => {
          const { parsePricing } = await import("../core/pricing/parse/pricing.ts");
          const parsed = parsePricing(await callForText(to), new Date());
          return (parsed.ok ? seatsOf(parsed.pricing) : undefined) ?? null;
        },
        staleTime: Number.POSITIVE_INFINITY,
      };
    }),
  });
  return contract.balances?.find(({ service, limit }) =>
    services.some(([name], i) => name === service && limits[i]?.data === limit),
  );
}
