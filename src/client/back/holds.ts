import { durationIn, MIN_HOLD_MS } from "../../core/holds.ts";
import { isObject } from "../pricing-token.ts";
import type { BudgetReached } from "./budgets.ts";
import type { Optional } from "./subscription.ts";
import type { FeatureResult, Reasons } from "./feature-result.ts";

declare global {
  /** Merges with the interface of TypeScript's library esnext.disposable; empty without it. */
  interface AsyncDisposable {}
}

export type HoldState = "open" | "settled" | "released" | "expired";

/** Amounts that are set aside until they are settled. Moments are ISO 8601 texts in UTC. */
export type Hold = Readonly<{
  id: string;
  userId: string;
  featureId: string;
  /** Per `{service}-{limit}`. */
  amounts: Readonly<Record<string, number>>;
  state: HoldState;
  /** An expired hold gives its amounts back, or counts them. */
  onExpiry: "release" | "consume";
  createdAt: string;
  /** End of a hold that nobody ends before. */
  until: string;
  /** Null while it is open. */
  endedAt: string | null;
  /** Amounts that were counted; null if nothing was. */
  counted: Readonly<Record<string, number>> | null;
}>;

/** Selects holds to list. */
export type HoldQuery = Optional<{
  /** Default: open. */
  state: HoldState | "all";
  /** 1 to 100. Default: 20. */
  limit: number;
  /** Id of a hold: only older ones. */
  before: string;
}>;

/**
 * Milliseconds between two extensions of a hold by its duration: a third of it, so that one of them may fail.
 * @internal
 */
export const extensionMs = (duration: string): number => (durationIn(duration) ?? MIN_HOLD_MS) / 3;

/** Rest of the limits after a call. */
export interface Remaining {
  /** Null for limits that are not numeric. */
  readonly remaining: Readonly<Record<string, number | null>> | null;
  /** Next reset of usage, in ISO 8601; null for limits that never reset. */
  readonly resetAt: Readonly<Record<string, string | null>> | null;
}

/**
 * Answer of a call that takes a hold. Where the runtime has it, `await using` releases the hold at the end of the block,
 * unless it has ended before.
 */
export interface HoldAnswer extends FeatureResult, Remaining, Reasons, AsyncDisposable {
  /** Cost of the units of the call, per limit. Only for a call with units. */
  readonly amounts?: Readonly<Record<string, number>>;
  /** Null if nothing is held: denied, or a feature without limits. */
  readonly hold: {
    readonly id: string;
    readonly until: string;
    /** Amounts of a partial hold, per limit. */
    readonly amounts?: Readonly<Record<string, number>>;
  } | null;
  readonly idempotencyKey: string;
}

/** Answer of a settlement, about the limits of the hold. */
export interface SettleAnswer extends FeatureResult, Remaining {
  /** Cost of the units of the call, per limit. Only for a call with units. */
  readonly amounts?: Readonly<Record<string, number>>;
  /** The first budget that denies the call, from the contract down. */
  readonly budget?: BudgetReached;
  /** Still open where `eval` is false: more than the held amounts did not fit. */
  readonly hold: Hold;
}

/**
 * Recognizes a hold.
 * @internal
 */
export function isHold(value: unknown): value is Hold {
  return isObject(value) && typeof value["id"] === "string" && typeof value["onExpiry"] === "string";
}

/** @internal */
export function isHoldPage(value: unknown): value is { data: Hold[]; next: string | null } {
  return isObject(value) && Array.isArray(value["data"]) && value["data"].every(isHold);
}
