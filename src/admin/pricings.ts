import { useQueries } from "@tanstack/react-query";
import type { PricingOf } from "./explain.ts";
import { compiledFrom } from "./pricing.ts";
import { useHere } from "./here.tsx";
import { pricingQuery, serviceKey } from "./services.ts";

/**
 * Loads several pricings, cached under the same keys as single requests. Names match in any case. `failureOf` returns
 * the error of one that failed to load.
 */
export function usePricings(wanted: readonly (readonly [service: string, version: string])[]): {
  pricingOf: PricingOf;
  failureOf: (service: string, version: string) => Error | undefined;
} {
  const { base } = useHere();
  const distinct = [...new Map(wanted.map((each) => [each.join("\n"), each])).values()];
  const answers = useQueries({
    queries: distinct.map(([service, version]) => pricingQuery(base, service, version)),
  });
  const answerOf = (service: string, version: string) =>
    answers[distinct.findIndex(([name, number]) => serviceKey(name) === serviceKey(service) && number === version)];
  return {
    pricingOf: (service, version) => {
      const wire = answerOf(service, version)?.data;
      return wire === undefined ? undefined : compiledFrom(serviceKey(service), wire);
    },
    failureOf: (service, version) => answerOf(service, version)?.error ?? undefined,
  };
}
