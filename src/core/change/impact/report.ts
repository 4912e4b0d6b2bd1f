import type { SubscriptionRule } from "../../pricing/subscription.ts";
import type { FeatureComparison, HoldingComparison, LimitComparison } from "../compare.ts";
import type { Configuration, Price } from "../configuration.ts";
import type { Effect } from "../effect.ts";
import type { Side } from "../entitlements.ts";
import type { Flips } from "./usage.ts";

/** Contracts with the same configuration and the same usage. */
export interface ContractGroup {
  readonly configuration: Configuration;
  /** Number of contracts in the group. Default: 1. */
  readonly count?: number;
  /** Consumption by limit name. Limits that are missing count as 0. */
  readonly usage: Readonly<Record<string, number>>;
}

/** Maps a configuration to the target of its contracts; undefined for no target. */
export type Placement = (configuration: Configuration) => Configuration | undefined;

export interface ImpactOptions {
  readonly before: Side;
  /** Undefined when the service is removed. */
  readonly after: Side | undefined;
  /** Default: every configuration stays as it is. */
  readonly place?: Placement;
  /**
   * Returns an existing comparison of a configuration with its target. If undefined, the comparison is computed here.
   */
  readonly compared?: (configuration: Configuration) => HoldingComparison | undefined;
  /** Archiving a pricing resets consumption; a novation of contracts keeps it. */
  readonly usage: "kept" | "reset";
}

/** Number of contracts per effect. A contract counts at most once per effect, but can show several. */
export interface ImpactCounts {
  readonly contracts: number;
  /** Contracts with any difference. */
  readonly affected: number;
  /** Contracts that get more of something, and contracts that get less of something. A contract can do both. */
  readonly gaining: number;
  readonly losing: number;
  /** Contracts that get something that is neither more nor less, such as another text. */
  readonly differing: number;
  /** Contracts that lose a feature: usable at some consumption before, and never afterwards. */
  readonly losingFeatures: number;
  /** Contracts with a usage limit that is lowered, renewed less often, or removed. */
  readonly losingQuota: number;
  /** Contracts with a feature that is on at their current consumption and off afterwards. */
  readonly turnedOff: number;
  /** Contracts whose present consumption exceeds a limit afterwards but not before. If the change resets it: for information. */
  readonly newlyOver: number;
  /** Contracts whose present consumption exceeds a limit afterwards. If the change resets it: for information. */
  readonly over: number;
  /** Contracts whose price rises or becomes incomparable. */
  readonly payingMore: number;
  /** Contracts without a valid target configuration. */
  readonly unplaced: number;
}

/**
 * Comparison of one feature for the contracts of a configuration, plus the number of contracts for which its result
 * flips.
 */
export interface FeatureImpact extends FeatureComparison, Flips {}

/** Comparison of one limit for the contracts of a configuration. */
export interface LimitImpact extends LimitComparison {
  readonly newlyOver: number;
  readonly over: number;
}

export interface ConfigurationImpact {
  readonly configuration: Configuration;
  readonly target: Configuration | null;
  /** Reason why there is no target or why it is not a valid subscription. */
  readonly problem: { readonly rule: SubscriptionRule | "noTarget"; readonly message: string } | null;
  readonly counts: ImpactCounts;
  readonly features: readonly FeatureImpact[];
  readonly limits: readonly LimitImpact[];
  readonly price: { readonly before: Price; readonly after: Price | null; readonly effect: Effect };
}

export interface ImpactReport {
  /** See {@link ImpactOptions}. */
  readonly usage: "kept" | "reset";
  readonly counts: ImpactCounts;
  /** Sorted by number of contracts, descending. */
  readonly configurations: readonly ConfigurationImpact[];
  /** Features whose expressions read other services. Their results cannot be predicted here. */
  readonly unforeseen: readonly string[];
}

export type Counter = { -readonly [Key in keyof ImpactCounts]: number };

export function emptyCounts(): Counter {
  return {
    contracts: 0,
    affected: 0,
    gaining: 0,
    losing: 0,
    differing: 0,
    losingFeatures: 0,
    losingQuota: 0,
    turnedOff: 0,
    newlyOver: 0,
    over: 0,
    payingMore: 0,
    unplaced: 0,
  };
}

/** All keys of {@link ImpactCounts}. */
export const COUNTS: readonly (keyof ImpactCounts)[] = [
  "contracts",
  "affected",
  "gaining",
  "losing",
  "differing",
  "losingFeatures",
  "losingQuota",
  "turnedOff",
  "newlyOver",
  "over",
  "payingMore",
  "unplaced",
];
