import type { SubscriptionRule } from "../../pricing/subscription.ts";
import type { FeatureComparison, HoldingComparison, LimitComparison } from "../compare.ts";
import type { Configuration, Price } from "../configuration.ts";
import type { Effect } from "../effect.ts";
import type { Side } from "../holding.ts";
import type { Flips } from "./usage.ts";

/** Contracts with the same configuration and the same usage. */
export interface ContractGroup {
  readonly configuration: Configuration;
  /** How many contracts; 1 when left out. */
  readonly count?: number;
  /** What they have consumed, by the name of the limit; what is left out counts as nothing consumed. */
  readonly usage: Readonly<Record<string, number>>;
}

/** Where the contracts of a configuration go; undefined when nowhere. */
export type Placement = (configuration: Configuration) => Configuration | undefined;

export interface ImpactOptions {
  readonly before: Side;
  /** Undefined when the service is taken away altogether. */
  readonly after: Side | undefined;
  /** Every configuration stays as it is when left out. */
  readonly place?: Placement;
  /** The comparison of a configuration with its target where it is known already; undefined: compared here. */
  readonly compared?: (configuration: Configuration) => HoldingComparison | undefined;
  /** What becomes of consumption: archiving starts it anew, a novation of contracts keeps it. */
  readonly usage: "kept" | "reset";
}

/** How many contracts each thing happens to. One contract may count under several of them, and once under each. */
export interface ImpactCounts {
  readonly contracts: number;
  /** Something is different for them. */
  readonly affected: number;
  /** They get more of something; they get less, or something that cannot be compared. */
  readonly gaining: number;
  readonly losing: number;
  /** They lose a feature: they could use it at some usage, and can no more. */
  readonly losingFeatures: number;
  /** A usage limit of theirs is lowered, starts again less often, or is taken away. */
  readonly losingQuota: number;
  /** A feature that is on for them now, with what they have consumed, is off afterwards. */
  readonly turnedOff: number;
  /** What they have consumed passes a limit afterwards, and did not before. */
  readonly newlyOver: number;
  /** What they have consumed passes a limit afterwards. */
  readonly over: number;
  /** They pay more, or a price that cannot be compared. */
  readonly payingMore: number;
  /** They have no valid configuration to go to. */
  readonly unplaced: number;
}

/** What a feature is for the contracts of one configuration, and for how many the evaluation changes its answer. */
export interface FeatureImpact extends FeatureComparison, Flips {}

/** What a limit is for the contracts of one configuration. */
export interface LimitImpact extends LimitComparison {
  readonly newlyOver: number;
  readonly over: number;
}

export interface ConfigurationImpact {
  readonly configuration: Configuration;
  readonly target: Configuration | null;
  /** Why there is no target, or why it may not be subscribed to. */
  readonly problem: { readonly rule: SubscriptionRule | "noTarget"; readonly message: string } | null;
  readonly counts: ImpactCounts;
  readonly features: readonly FeatureImpact[];
  readonly limits: readonly LimitImpact[];
  readonly price: { readonly before: Price; readonly after: Price | null; readonly effect: Effect };
}

export interface ImpactReport {
  readonly counts: ImpactCounts;
  /** Most contracts first. */
  readonly configurations: readonly ConfigurationImpact[];
  /** Features whose expressions read other services, so that their answer is not foreseen here. */
  readonly unforeseen: readonly string[];
}

/** Counts under way. */
export type Counter = { -readonly [Key in keyof ImpactCounts]: number };

/** Nothing counted yet. */
export function emptyCounts(): Counter {
  return {
    contracts: 0,
    affected: 0,
    gaining: 0,
    losing: 0,
    losingFeatures: 0,
    losingQuota: 0,
    turnedOff: 0,
    newlyOver: 0,
    over: 0,
    payingMore: 0,
    unplaced: 0,
  };
}

/** Every name in ImpactCounts. */
export const COUNTS: readonly (keyof ImpactCounts)[] = [
  "contracts",
  "affected",
  "gaining",
  "losing",
  "losingFeatures",
  "losingQuota",
  "turnedOff",
  "newlyOver",
  "over",
  "payingMore",
  "unplaced",
];
