import { keepPreviousData, useQuery, type UseQueryResult } from "@tanstack/react-query";
import { useState } from "react";
import { configurationKey, configurationOf } from "../core/change/configuration.ts";
import type { Configuration, Impact, ImpactGroup } from "./answers.ts";
import { callForLines, path, Refused } from "./api.ts";
import { useHere } from "./here.tsx";
import { texts } from "./texts.ts";

/** A change that moves contracts or takes features from them. */
export type ChangeRequest =
  | { action: "archive" | "activate"; pricingVersion: string }
  | { action: "disable" }
  | { action: "novation"; pricingVersion: string; from: readonly string[] };

/** A change, with the name of its service. */
export interface Changing {
  service: string;
  change: ChangeRequest;
}

/** A chosen target for one group of contracts, replacing the best fit. */
export interface GroupTarget {
  pricingVersion: string;
  configuration: Configuration;
  target: Configuration;
}

/** Contracts that the server has already counted; before that, the configurations that it has assessed. */
export interface Progress {
  contracts: number;
  of: number;
  configurations?: number;
  ofConfigurations?: number;
}

/** Returns equal keys for exactly those groups that the server treats as one. */
export const groupKey = ({ pricingVersion, configuration }: Pick<ImpactGroup, "pricingVersion" | "configuration">) =>
  `${pricingVersion} ${configurationKey(configurationOf(configuration.plan, configuration.addOns))}`;

type Line = { progress: Progress } | { report: Impact } | { error: string };

/**
 * Requests a change's impact without executing it, and reports progress meanwhile. The last report stays visible while
 * the next one loads; a new `round` recomputes it. Pauses while `isFrozen`: the change itself makes its report stale.
 */
export function useImpact(
  service: string,
  change: ChangeRequest,
  options: { groups: readonly GroupTarget[]; round: number; isFrozen: boolean },
): { query: UseQueryResult<Impact>; progress: Progress | undefined } {
  const { base } = useHere();
  const [progress, setProgress] = useState<Progress>();
  const to = base + path`/services/${service}/impact`;
  const body = options.groups.length === 0 ? change : { ...change, groups: options.groups };
  const query = useQuery({
    queryKey: [to, body, options.round],
    queryFn: async ({ signal }) => {
      setProgress(undefined);
      let report: Impact | undefined;
      await callForLines<Line>("POST", to, { body, signal }, (line) => {
        if ("error" in line) throw new Refused(500, line.error);
        if ("progress" in line) setProgress(line.progress);
        else report = line.report;
      });
      // A cut connection ends the stream just like the last line does.
      if (report === undefined) throw new Refused(0, texts.errors.unreachable);
      return report;
    },
    enabled: !options.isFrozen,
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnMount: "always",
    placeholderData: keepPreviousData,
  });
  return { query, progress };
}
