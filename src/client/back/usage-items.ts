import type { Spender } from "./budgets.ts";
import { isObject } from "../pricing-token.ts";
import type { Consumption } from "./evaluation-options.ts";
import type { FeatureId } from "../feature-id.ts";
import type { Optional } from "./subscription.ts";
import type { CallOptions } from "./transport.ts";

/** Usage that one end user had of one feature. */
export interface UsageItem {
  readonly userId: string;
  readonly featureId: FeatureId;
  /** Amount per `{service}-{limit}`, for all limits of the feature. */
  readonly amounts: Consumption;
  /** Items with the same key and content count once within 35 days. Default: a new key per item. */
  readonly key?: string | undefined;
  /** Moment of use. Default: when the service counts it. */
  readonly at?: Date | string | undefined;
  /** False decides as if the contract had no blocks. Default: true. */
  readonly blocks?: boolean | undefined;
  /** The one who spent. Default: nobody. */
  readonly spender?: Spender | undefined;
}

/** Outcome of an item. `late`: recorded for its past period, without counting. */
export type UsageVerdict = "counted" | "duplicate" | "refused" | "unknown" | "late";

/** Verdict of one item. */
export interface ItemVerdict {
  readonly key: string;
  readonly verdict: UsageVerdict;
  /** Why it was refused, or is unknown. */
  readonly reason?: string;
  /** Sentence of the single call. */
  readonly error?: string;
}

/** Verdicts in the order of the items, and how many there are of each kind. */
export interface RecordedUsage {
  readonly counts: Readonly<Record<UsageVerdict, number>>;
  readonly items: readonly ItemVerdict[];
}

/** How items are counted. */
export type RecordingOptions = Optional<{
  /** Refuses amounts that would exceed a limit. */
  strict: boolean;
  /** Evaluates server expressions where features have them. */
  server: boolean;
  /** Usage before the running period: shown in the history only, or counted as of now. Default: record. */
  late: "record" | "count";
}>;

export type RecordOptions = CallOptions & RecordingOptions;

/** Selects usage to sum. Ranges are rounded to whole buckets. */
export type UsageQuery = Optional<{
  /** Rows of the report. Default: day. */
  by: "hour" | "day" | "month" | "feature" | "user" | "spender" | "unit" | "block" | "movement";
  from: Date | string;
  /** Exclusive. */
  to: Date | string;
  service: string;
  limit: string;
  /** By spender: number of ids of the path that make a row, 1 to 4. Default: 1. */
  depth: number;
  /** Rows per limit by feature, user, spender, unit and block, or movements. Default: 100. */
  top: number;
  /** Movements older than this id. */
  before: number;
}>;

/** Sums of one limit. */
export interface UsageSums {
  readonly service: string;
  readonly limit: string;
  /** Consumed and adjusted, less what was reverted. */
  readonly counted: number;
  /** Taken away by resets, renewals and removals. */
  readonly cleared: number;
  readonly late: number;
}

/** Row of a report. The fields depend on `by`. */
export type UsageRow = Pick<UsageSums, "service" | "limit"> &
  Optional<
    Pick<UsageSums, "counted" | "cleared" | "late"> & {
      /** Start of the bucket, or moment of use. ISO 8601. */
      at: string;
      featureId: string | null;
      userId: string;
      /** Path of a spender, cut to `depth` ids. */
      spender: string;
      unit: string;
      /** Number of units; `counted` and `late` are what they cost. */
      units: number;
      blockId: string;
      origin: string;
      /** Drawn from the block in the range. */
      drawn: number;
      id: number;
      recordedAt: string;
      kind: string;
      amount: number;
      operation: string;
      /** Only where the caller estimated the amount. */
      estimated?: true;
    }
  >;

/** Usage of one contract, or of all. */
export interface UsageReport {
  readonly by: string;
  readonly from: string;
  readonly to: string;
  /** Of the whole range, also of rows that `top` leaves out. */
  readonly totals: readonly UsageSums[];
  readonly data: readonly UsageRow[];
  /** `before` of the next page of movements; null if this is the last one. */
  readonly next?: number | null;
}

/** @internal */
export function isRecorded(value: unknown): value is RecordedUsage {
  return isObject(value) && isObject(value["counts"]) && Array.isArray(value["items"]);
}

/** @internal */
export function isReport(value: unknown): value is UsageReport {
  return isObject(value) && Array.isArray(value["totals"]) && Array.isArray(value["data"]);
}
