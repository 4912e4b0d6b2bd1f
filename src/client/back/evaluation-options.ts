import type { Spender } from "./budgets.ts";
import type { OutageOptions } from "./fallback-cache.ts";
import type { CallOptions, CountedOptions } from "./transport.ts";
import type { Units } from "./units.ts";

/** Options of evaluations. */
export interface EvaluationOptions extends CallOptions, OutageOptions {
  /** The one who spends, whose budgets decide too. Default: nobody. */
  spender?: Spender | undefined;
  /** Evaluates server expressions where features have them. */
  server?: boolean | undefined;
}

/** Amount per `{service}-{limit}`, or the number of each unit of a limit that has rates. */
export type Consumption = Readonly<Record<string, number | Units>>;

/** Options of one evaluation. */
export interface FeatureOptions extends EvaluationOptions, CountedOptions {
  /**
   * Amount per `{service}-{limit}`, for all limits of the feature. Counted if the feature is on, in one step with the
   * evaluation.
   */
  consumption?: Consumption | undefined;
  /** Rejects consumption that would exceed a limit. Without it, one call may exceed it. */
  strict?: boolean | undefined;
  /** False decides as if the contract had no blocks, so that one can ask before what was bought is spent. Default: true. */
  blocks?: boolean | undefined;
  /** Returns the answer that a call would get, and counts nothing. */
  dryRun?: boolean | undefined;
  /** Adds `remaining`, `resetAt`, `reason`, `held` and `sources` to the answer. */
  explain?: boolean | undefined;
  /** Permits answers in an outage for calls with consumption. Nothing is counted then: `counted` is false. */
  acceptUncounted?: boolean | undefined;
}
