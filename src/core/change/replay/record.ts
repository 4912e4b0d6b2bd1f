import type { Override } from "../../pricing/overrides.ts";
import type { Budget } from "../../pricing/budgets.ts";
import type { CountedUnits } from "../../pricing/credits.ts";
import type { BlockOrigin } from "../../pricing/blocks.ts";
import type { PeriodUnit } from "../../pricing/model.ts";
import type { RenewalUnit } from "../../period.ts";
import type { Configuration } from "../configuration.ts";

/*
 * Input of a replay: recorded terms and movements of one contract, as plain data. Moments are epoch milliseconds.
 */

/** A contracted service of a recorded state. */
export interface RecordedService {
  readonly serviceId: string;
  /** Service name at that time, in lower case. */
  readonly key: string;
  readonly pricingId: string;
  /** Addresses the compiled pricing. */
  readonly hash: string;
  readonly plan: string | null;
  readonly addOns: Readonly<Record<string, number>> | null;
}

export interface RecordedOverride extends Override {
  readonly serviceId: string;
  /** ISO 8601. */
  readonly from: string;
  readonly until: string | null;
}

export interface RecordedLevel {
  readonly serviceId: string;
  readonly limitName: string;
  /** ISO 8601; null if it never resets. */
  readonly anchor: string | null;
  readonly resetAt: string | null;
  readonly periodValue: number | null;
  readonly periodUnit: PeriodUnit | null;
  /** Balance. Absent in a state that begins within the range. */
  readonly consumed?: number;
}

/** A budget of a contract. */
export type RecordedBudget = Omit<Budget, "spender" | "origin"> & {
  /** Path with `*` for any id. Null: the whole contract. */
  readonly spender: string | null;
};

/** Balance of one spender at the start of the range, in the newest window by then. */
export type RecordedBudgetBalance = readonly [
  budget: string,
  spender: string,
  used: number,
  /** Start of the window. */
  since: number,
  /** The limit was reset after the last use. */
  isReset: boolean,
];

/** Terms of a contract from `since` until the next ones. */
export interface RecordedTerms {
  readonly since: number;
  readonly startDate: number;
  readonly endDate: number;
  readonly autoRenew: boolean;
  readonly renewalDays: number;
  readonly renewalValue: number | null;
  readonly renewalUnit: RenewalUnit | null;
  readonly services: readonly RecordedService[];
  readonly levels: readonly RecordedLevel[];
  readonly overrides: readonly RecordedOverride[] | null;
  /** The contract's own budgets. Null or undefined: none. */
  readonly budgets?: readonly RecordedBudget[] | null;
}

/** A block that counted in the range. */
export interface RecordedBlock {
  readonly id: string;
  readonly serviceId: string;
  readonly limitName: string;
  readonly origin: BlockOrigin;
  /** Rest at the start of the period that ran at the start of the range. Of a later block: its amount. */
  readonly left: number;
  /** Draw in the running period, of a block that had ended before the range. Null: it had not ended. */
  readonly drawn: number | null;
  /** Amount that open holds then needed of it, beyond its draw. Default: nothing. */
  readonly kept?: number;
  readonly from: number;
  readonly expiresAt: number | null;
  readonly createdAt: number;
  readonly revokedAt: number | null;
}

/** A hold that was open in the range. */
export interface RecordedHold {
  readonly id: string;
  readonly featureId: string;
  readonly amounts: readonly { readonly serviceId: string; readonly limitName: string; readonly amount: number }[];
  /** Path of the spender. Null or undefined: none. */
  readonly spender?: string | null;
  readonly createdAt: number;
  /** When it was settled or released, or expired. */
  readonly endedAt: number;
}

export type MovementKind = "consume" | "revert" | "adjust" | "reset" | "renew" | "remove" | "late";

/** A movement as a tuple, which is half as long in JSON. */
export type RecordedMovement = readonly [
  kind: MovementKind,
  serviceId: string,
  limitName: string,
  featureId: string | null,
  operationId: string,
  amount: number,
  /** Moment of recording. */
  at: number,
  /** Moment of use. Null: `at`. */
  usedAt: number | null,
  revertedAt: number | null,
  /** Units of the call, with what each cost. Null: it named the amount. */
  units: CountedUnits | null,
  /** Path of the spender. Null or undefined: none. */
  spender?: string | null,
];

/** One contract in a range of time. */
export interface ContractRecord {
  readonly userId: string;
  /** False if the terms are not recorded from the start of the range, or of the contract. */
  readonly complete: boolean;
  /** In order. The first ones hold at the start of the range, if the contract existed then. */
  readonly terms: readonly RecordedTerms[];
  readonly blocks: readonly RecordedBlock[];
  readonly holds: readonly RecordedHold[];
  /** Balances of budgets. Absent without any. */
  readonly budgets?: readonly RecordedBudgetBalance[] | null;
  /** In the order in which they were counted. They are read twice. */
  readonly movements: Iterable<RecordedMovement>;
}

/** Where the contracts of one configuration of the service go. */
export interface Placement {
  /** Number of the group in the report. */
  readonly group: number;
  /** Undefined without one. */
  readonly target: Configuration | undefined;
  /** List prices per billing period. Null: a text price, or another currency. */
  readonly price: { readonly then: number | null; readonly replayed: number | null };
}

/** Key of a recorded configuration, by its literal values. */
export const placementKey = ({ pricingId, plan, addOns }: Pick<RecordedService, "pricingId" | "plan" | "addOns">) =>
  `${pricingId} ${JSON.stringify([plan, addOns])}`;
