import { keepPreviousData, useQuery, type UseQueryResult } from "@tanstack/react-query";
import { useState } from "react";
import { configurationKey, configurationOf } from "../core/change/configuration.ts";
import type { Configuration, Impact, ImpactGroup } from "./answers.ts";
import { callForLines, path, Refused } from "./api.ts";
import { useHere, useUser } from "./session.tsx";
import { texts } from "./texts.ts";

/** A change that moves contracts, or takes something from them. */
export type ChangeRequest =
  | { action: "archive" | "activate"; pricingVersion: string }
  | { action: "disable" }
  | { action: "novation"; pricingVersion: string; from: readonly string[] };

/** Where contracts of one configuration go that do not go where it fits best. */
export interface GroupTarget {
  pricingVersion: string;
  configuration: Configuration;
  target: Configuration;
}

/** How far the server is. */
export interface Progress {
  contracts: number;
  of: number;
}

/** The same text for two groups exactly when the server holds them for one. */
export const groupKey = ({ pricingVersion, configuration }: Pick<ImpactGroup, "pricingVersion" | "configuration">) =>
  `${pricingVersion} ${configurationKey(configurationOf(configuration.plan, configuration.addOns))}`;

type Line = { progress: Progress } | { report: Impact } | { error: string };

/**
 * What a change would do, worked out by the server without doing it, and how far that is while it takes. The last report
 * stays while the next is worked out, and another `round` works it out anew. Nothing is asked while `isFrozen`: the change
 * itself makes its own report old.
 */
export function useImpact(
  service: string,
  change: ChangeRequest,
  options: { groups: readonly GroupTarget[]; round: number; isFrozen: boolean },
): { query: UseQueryResult<Impact>; progress: Progress | undefined } {
  const { base } = useHere();
  const { apiKey } = useUser();
  const [progress, setProgress] = useState<Progress>();
  const to = base + path`/services/${service}/impact`;
  const body = options.groups.length === 0 ? change : { ...change, groups: options.groups };
  const query = useQuery({
    queryKey: [to, body, options.round],
    queryFn: async ({ signal }) => {
      setProgress(undefined);
      let report: Impact | undefined;
      await callForLines<Line>("POST", to, { key: apiKey, body, signal }, (line) => {
        if ("error" in line) throw new Refused(500, line.error);
        if ("progress" in line) setProgress(line.progress);
        else report = line.report;
      });
      // A connection that was cut ends the lines as the last one does.
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
