import { useQuery, type UseQueryResult } from "@tanstack/react-query";
import type { Contract } from "./answers.ts";
import { type ContractState, readAll, stateOf } from "./contract-list.ts";
import { usageOf, type Usage } from "./pricing.ts";
import { NEAR, shareOf, useNow } from "./parts/usage-bar.tsx";
import { usePricings } from "./services.ts";
import { useHere, useUser } from "./session.tsx";

/** So many contracts are looked at, because the server neither filters nor counts by state or use. */
export const SCANNED = 1000;

export const SCAN_STATES = ["active", "renewing", "ending", "expired", "near"] as const;
export type ScanState = (typeof SCAN_STATES)[number];

export interface ScannedContract {
  contract: Contract;
  state: ContractState;
  /** The limit that is used up most; undefined where nothing is counted. */
  tightest: Usage | undefined;
}

/** The first contracts of the organization with their state and the limit that they are nearest to. */
export function useScan(isWanted = true): {
  query: UseQueryResult<unknown>;
  scanned: ScannedContract[];
  total: number;
} {
  const { base } = useHere();
  const { apiKey } = useUser();
  const query = useQuery({
    queryKey: [`${base}/contracts`, "scan"],
    queryFn: ({ signal }) => readAll(`${base}/contracts`, {}, apiKey, { atMost: SCANNED, signal }),
    enabled: isWanted,
  });
  const contracts = query.data?.contracts ?? [];
  const pricingOf = usePricings(contracts.flatMap((contract) => Object.entries(contract.contractedServices)));
  const now = useNow();
  const scanned = contracts.map((contract) => ({
    contract,
    state: stateOf(contract, now),
    tightest: usageOf(contract, pricingOf).reduce<Usage | undefined>(
      (most, each) => ((shareOf(each) ?? -1) > (most === undefined ? -1 : (shareOf(most) ?? -1)) ? each : most),
      undefined,
    ),
  }));
  return { query, scanned, total: query.data?.total ?? 0 };
}

/** Whether somebody has used most of a limit. */
export function isNear({ tightest }: ScannedContract): boolean {
  return tightest !== undefined && (shareOf(tightest) ?? 0) >= NEAR;
}

/** Those of a state, or near a limit. */
export function ofState(scanned: readonly ScannedContract[], state: ScanState): ScannedContract[] {
  return scanned.filter((each) => (state === "near" ? isNear(each) : each.state === state));
}
