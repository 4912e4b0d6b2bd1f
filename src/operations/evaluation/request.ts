import type { HoldState, OnExpiry } from "../../core/holds.ts";
import type { OffReason } from "../../core/ofrep.ts";
import type { BudgetWindow, Spender } from "../../core/pricing/budgets.ts";
import type { CountedUnits } from "../../core/pricing/credits.ts";
import type { EvaluationErrorCode, FeatureResult } from "../../core/pricing/evaluate.ts";
import type { LimitStep } from "../../core/pricing/sources.ts";
import type { HoldRow } from "../../db/queries/holds.ts";

/** Number of each unit, by limit id. */
export type Units = Readonly<Record<string, Readonly<Record<string, number>>>>;

/** Number and cost of units, by limit id. */
export type PricedUnits = Readonly<Record<string, CountedUnits>>;

/** Selects a feature's server or client expression. */
export interface Mode {
  server: boolean;
}

/** A request to evaluate one feature for one end user, with the consumption to count if granted. */
export interface EvaluationRequest {
  userId: string;
  featureId: string;
  /** `<service>-<limit>` -> amount; empty to evaluate without consuming. */
  expected: Readonly<Record<string, number>>;
  /** Units that stand for amounts, by limit id. Their amounts in `expected` are 0 until they are priced. */
  units?: Units | undefined;
  /** Cost of each unit. Default: by the rates of now. */
  unitCosts?: UnitCosts | undefined;
  /** Number and cost of the units, by limit id, once they are priced. */
  pricedUnits?: PricedUnits | undefined;
  mode: Mode;
  /** Denies any call that would exceed a limit. Otherwise the contract lets one call exceed it. */
  strict: boolean;
  /** Returns the verdict without counting anything. */
  dryRun: boolean;
  /**
   * Adds the remaining amounts and reset times to the answer, which strict and dry-run calls always include; and the
   * reason, what is held, and where limits come from.
   */
  explain: boolean;
  /** False decides as if the contract had no blocks. Default: with them. */
  blocks?: boolean | undefined;
  /** The one who spends. Without one, only budgets of the whole contract count. */
  spender?: Spender | undefined;
  /** Moment of use, of a batch item in the past. Budgets whose window began after it do not count it. */
  usedAt?: Date | undefined;
  /** Sets the amounts aside instead of counting them. Such a call is strict. */
  hold?:
    | {
        durationMs: number;
        onExpiry: OnExpiry;
        /** Holds less where less is left. Default: all or nothing. */
        partial?: boolean | undefined;
      }
    | undefined;
}

/** One consumption, or one hold to take, with the organization of its end user. */
export type QueuedEvaluation = EvaluationRequest & { organizationId: string };

/** Ends a hold by counting amounts of it. */
export interface SettlementRequest {
  userId: string;
  hold: HoldRow;
  /** By limit id: zero or more, for each limit of the hold. */
  amounts: Readonly<Record<string, number>>;
  /** Units that the amounts stand for. Default: none. */
  units?: PricedUnits | undefined;
  /** False decides about more than the held amounts as if there were no blocks. */
  blocks?: boolean | undefined;
  /** Cost of each unit of the amounts, by limit id, where the call names units. */
  unitCosts?: UnitCosts | undefined;
  /** True for amounts that the caller estimated. */
  estimated?: boolean | undefined;
}

/** Costs of units by limit id. */
export type UnitCosts = Readonly<Record<string, Readonly<Record<string, number>>>>;

/** One settlement, with the organization of the hold. */
export type QueuedSettlement = SettlementRequest & { organizationId: string };

export type QueuedRequest = QueuedEvaluation | QueuedSettlement;
export type AnswerTo<Request extends QueuedRequest> = Request extends QueuedSettlement
  ? SettlementAnswer
  : FeatureAnswer;

/** Answer of a settlement, about the limits of the hold. */
export interface SettlementAnswer {
  /** False if more than the held amounts does not fit: then nothing is changed, and the hold stays open. */
  readonly eval: boolean;
  readonly limit: Record<string, number | boolean | null>;
  readonly used: Record<string, number>;
  readonly error: null;
  readonly remaining: Record<string, number | null>;
  readonly resetAt: Record<string, string | null>;
  /** Cost of the units of a call, by limit. */
  readonly amounts?: Readonly<Record<string, number>>;
  /** The first budget that denies it, from the contract down. */
  readonly budget?: BudgetView;
  readonly hold: HoldView;
}

/** A hold in the form that endpoints return. Source: contract usage-records §3. */
export interface HoldView {
  readonly id: string;
  readonly userId: string;
  readonly featureId: string;
  readonly amounts: Readonly<Record<string, number>>;
  readonly state: HoldState;
  readonly onExpiry: OnExpiry;
  /** ISO 8601, as the other moments. */
  readonly createdAt: string;
  readonly until: string;
  /** Null while it is open. */
  readonly endedAt: string | null;
  /** By limit: what was counted; null if nothing was. */
  readonly counted: Readonly<Record<string, number>> | null;
}

/** A lease in the form that endpoints return. Ids are those that it was granted with. */
export interface LeaseView {
  readonly id: string;
  readonly userId: string;
  readonly featureId: string;
  readonly server: boolean;
  readonly state: "open" | "ended";
  /** Totals since the lease began, by limit. */
  readonly granted: Readonly<Record<string, number>>;
  readonly spent: Readonly<Record<string, number>>;
  /** Moment of its end, ISO 8601. */
  readonly until: string;
}

/** Answer of a call about a lease. */
export interface LeaseAnswer extends DecidedResult {
  /** By limit: what is left for others after the call; null for a non-numeric limit. */
  readonly remaining: Record<string, number | null> | null;
  readonly resetAt: Record<string, string | null> | null;
  /** Moment of the answer, ISO 8601. */
  readonly now: string;
  /** Null if nothing was leased. */
  readonly lease: LeaseView | null;
}

/** Why a feature is on or off: granted, or the code of its error, or only blocks are left, or an exhausted limit, or the plan. */
export type Reason = "GRANTED" | "BLOCKS_ONLY" | "BUDGET_REACHED" | OffReason | EvaluationErrorCode;

/** A budget as answers show it, with its balance. */
export interface BudgetView {
  readonly name: string;
  /** Path whose balance it is; null for the whole contract. */
  readonly spender: string | null;
  /** `<service>-<limit>`. */
  readonly limit: string;
  readonly window: BudgetWindow;
  /** Null if its value has no bound. */
  readonly amount: number | null;
  /** Consumed and held. */
  readonly used: number;
  readonly remaining: number | null;
  /** ISO 8601; null if its window has no end, or has not begun. */
  readonly resetAt: string | null;
}

/** A result, with the budget that denies it. */
export interface DecidedResult extends FeatureResult {
  readonly budget?: BudgetView;
}

/** A feature's result. The additional fields describe the balances after the call. */
export interface FeatureAnswer extends DecidedResult {
  /** By limit: the amount still available; null for a non-numeric limit. */
  readonly remaining?: Record<string, number | null> | null;
  /** By limit: when its balance resets to zero, ISO 8601; null if never. */
  readonly resetAt?: Record<string, string | null> | null;
  readonly reason?: Reason;
  /** Budgets that count the call, from the contract down. */
  readonly budgets?: readonly BudgetView[];
  /** By limit: how much of its usage is held. */
  readonly held?: Record<string, number> | null;
  /** By limit: the steps that make its value. */
  readonly sources?: Record<string, LimitStep[]> | null;
  /** Cost of the units of a call, by limit. */
  readonly amounts?: Readonly<Record<string, number>>;
  /** Of a call that asks for a hold: the hold, or null if nothing is held. */
  readonly hold?: {
    readonly id: string;
    readonly until: string;
    /** Amounts of a partial hold, by limit. */
    readonly amounts?: Readonly<Record<string, number>>;
  } | null;
}
