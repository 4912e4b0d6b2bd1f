import type { Configuration } from "../configuration.ts";
import type { DenialReason } from "./decision.ts";

/** Calls that the target would have denied. */
export interface DeniedCalls {
  /** Contracts with at least one of them. */
  contracts: number;
  movements: number;
  /** By limit id: what they would have consumed. */
  amounts: Record<string, number>;
}

/** Revenue of a set of contracts in the range: as it was, and under the target. Null: a text price or another currency. */
export interface ReplayedPrice {
  readonly then: number | null;
  readonly replayed: number | null;
}

/** Percentiles of whole days. */
export interface DayPercentiles {
  readonly p10: number;
  readonly p50: number;
  readonly p90: number;
}

export interface ReplayedDay {
  /** `YYYY-MM-DD`, UTC. */
  readonly day: string;
  readonly denied: number;
  readonly contracts: number;
}

export interface ReplayedUser {
  readonly userId: string;
  readonly denied: number;
  /** ISO 8601. */
  readonly firstDenialAt: string;
  readonly price: ReplayedPrice;
}

/** Contracts that had one configuration within the range. */
export interface ReplayedGroup {
  readonly pricingVersion: string;
  readonly configuration: Configuration;
  /** Null without one: everything is denied. */
  readonly target: Configuration | null;
  readonly problem: { readonly rule: string; readonly message: string } | null;
  readonly contracts: number;
  readonly denied: DeniedCalls;
  /** Days from the start of the range, or of the contract, to the first denial. Null without denials. */
  readonly firstDenialAfterDays: DayPercentiles | null;
  readonly price: ReplayedPrice;
}

export interface ReplayReport {
  readonly action: "replay";
  readonly serviceName: string;
  readonly targetVersion: string;
  /** ISO 8601. */
  readonly from: string;
  readonly to: string;
  /** Only what was counted is replayed: evaluations without consumption are not recorded. */
  readonly basis: "movements";
  /** False if terms of a contract are not recorded from the start, or a best fit is uncertain. */
  readonly complete: boolean;
  readonly contracts: number;
  /** Calls that consumed something. */
  readonly movements: number;
  readonly totals: {
    readonly denied: DeniedCalls & { readonly reasons: Readonly<Record<DenialReason, number>> };
    /** By feature id: calls that were denied in reality. */
    readonly deniedThen: Readonly<Record<string, number>>;
    readonly revenue: {
      readonly then: number;
      readonly replayed: number;
      readonly currency: string;
      /** Contracts with a text price or another currency, which the sums leave out. */
      readonly unpriced: number;
    };
    readonly paying: { readonly more: number; readonly less: number; readonly same: number };
  };
  readonly days: readonly ReplayedDay[];
  readonly groups: readonly ReplayedGroup[];
  readonly top: readonly ReplayedUser[];
  /** Ids of limits that only the target has: nobody reported their consumption. */
  readonly unknown: readonly string[];
}

/** Returns the part of the contracts that would have had a denied call, from 0 to 1. */
export const deniedShare = ({ contracts, totals }: Pick<ReplayReport, "contracts" | "totals">): number =>
  contracts === 0 ? 0 : totals.denied.contracts / contracts;

/** Returns the change of the revenue as a part of it: -0.02 is two percent less. Undefined without revenue before. */
export const revenueChange = ({ totals: { revenue } }: Pick<ReplayReport, "totals">): number | undefined =>
  revenue.then === 0 ? undefined : revenue.replayed / revenue.then - 1;

/** Returns the number of calls that were denied in reality. */
export const deniedInReality = ({ totals }: Pick<ReplayReport, "totals">): number =>
  Object.values(totals.deniedThen).reduce((sum, calls) => sum + calls, 0);
