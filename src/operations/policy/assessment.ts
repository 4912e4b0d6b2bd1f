import type { Proposal } from "../../core/change/best-fit/best-fit.ts";
import type { Verdict } from "../../core/change/best-fit/certificate.ts";
import type { Configuration } from "../../core/change/configuration.ts";
import type { Side } from "../../core/change/entitlements.ts";
import type { ImpactReport } from "../../core/change/impact/report.ts";
import type { Override } from "../../core/pricing/overrides.ts";
import type { ContractChange } from "../../core/scheduled.ts";
import type { VersionRow } from "../../db/queries/pricings.ts";

/** How a group's target was chosen; null if it has none. */
type ChosenBy = "group" | "fallback" | "rename" | "bestFit" | "unchanged" | null;

/** Contracts with the same configuration and overrides on the same version. */
export interface Group {
  readonly version: VersionRow;
  readonly side: Side;
  readonly configuration: Configuration;
  /** Overrides that hold now, and what becomes of each. */
  readonly overrides: readonly OverrideOutcome[];
  readonly target: Configuration | undefined;
  readonly chosenBy: ChosenBy;
  /** The best fit, also where another target was chosen. */
  readonly proposal: Proposal | undefined;
  /** Result of certifying the best fit; undefined where no contract moves to it. */
  readonly verdict: Verdict | undefined;
  readonly contractIds: string[];
}

/** An override of a group of contracts. `superfluous`: without it the target gives the same or more. */
export interface OverrideOutcome extends Override {
  readonly after: "kept" | "superfluous" | "inapplicable" | "ended";
}

/** The effects of a change, per configuration and group. */
export interface Assessment {
  /** `report.configurations` has the order of `groups`. */
  readonly report: ImpactReport;
  readonly groups: readonly Group[];
  /** The version that contracts move to. */
  readonly after: Side | undefined;
  /** Groups by the pending changes that must follow; `contractIds` are theirs. */
  readonly pending: readonly { group: Group; kind: ContractChange; contractIds: readonly string[] }[];
  /** Number of pending changes that would be rewritten or lose a service. */
  readonly scheduled: number;
  /** Contracts with open blocks of the service, and the rest of these blocks when the running periods began. */
  readonly blocks: { readonly contracts: number; readonly amount: number };
}
