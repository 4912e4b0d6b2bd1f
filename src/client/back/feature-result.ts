import type { BudgetReached } from "./budgets.ts";
import type { FeatureError } from "../pricing-token.ts";

/**
 * Result of one feature for one end user. Limits are named `{service}-{limit}`. Source: contract features-events §3.
 */
export interface FeatureResult {
  readonly eval: boolean;
  /** Null for a feature without limits, and if `error` is set. */
  readonly limit: Readonly<Record<string, number | boolean | null>> | null;
  readonly used: Readonly<Record<string, number>> | null;
  readonly error: FeatureError | null;
}

/** One step of a limit's value: one with `value` sets it, one with `adds` adds to it. */
export interface LimitStep {
  readonly from: "plan" | "default" | "addOn" | "override" | "blocks";
  /** Name of the plan or add-on. */
  readonly name?: string;
  /** Quantity of the add-on. */
  readonly quantity?: number;
  readonly value?: number | boolean;
  readonly adds?: number;
}

/** Why an answer is so. Only with `explain`. */
export interface Reasons {
  readonly reason?:
    | "GRANTED"
    | "BLOCKS_ONLY"
    | "BUDGET_REACHED"
    | "LIMIT_REACHED"
    | "NOT_GRANTED"
    | FeatureError["code"];
  /** The first budget that denies the call, from the contract down. Also without `explain`. */
  readonly budget?: BudgetReached;
  /** Budgets that count the call, from the contract down. */
  readonly budgets?: readonly BudgetReached[];
  /** How much of the usage open holds and leases hold. */
  readonly held?: Readonly<Record<string, number>> | null;
  /** Steps that make each limit, in their order. */
  readonly sources?: Readonly<Record<string, readonly LimitStep[]>> | null;
}
