import type { EvaluationErrorCode } from "../../../core/pricing/evaluate.ts";

/** Usage that one end user had of one feature. */
export interface UsageItem {
  userId: string;
  featureId: string;
  /** `<service>-<limit>` -> amount, or the number of each unit; at least one. */
  amounts: Readonly<Record<string, number | Readonly<Record<string, number>>>>;
  /** Chosen by the sender: the organization counts an item with a key once within 35 days. */
  key: string;
  /** Moment of use. Default: when it is recorded. */
  at?: Date | undefined;
  /** False decides as if the contract had no blocks. */
  blocks?: boolean | undefined;
  /** Path of the one who spent. */
  spender?: string | undefined;
}

/** Outcome of an item. `late`: recorded, but it moved no balance. */
export type VerdictKind = "counted" | "duplicate" | "refused" | "unknown" | "late";

/** Verdict of one item, with the reason for one that was neither counted nor a duplicate. */
export interface ItemVerdict {
  key: string;
  verdict: VerdictKind;
  reason?:
    | "KEY_REUSED"
    | "FUTURE"
    | "TOO_OLD"
    | "CONTRACT_NOT_FOUND"
    | "CONTRACT_EXPIRED"
    | "CONTRACT_INVALID"
    | "MEMBER_NOT_FOUND"
    | "UNKNOWN_LIMIT"
    | "BUDGET_REACHED"
    | "LIMIT_REACHED"
    | "NOT_GRANTED"
    | EvaluationErrorCode;
  /** Sentence of the single call. */
  error?: string;
}

/** How a batch treats its items. */
export interface RecordingMode {
  /** Treatment of usage before the running period: in the history only, or counted as of now. */
  late: "record" | "count";
  /** Refuses amounts that would exceed a limit. */
  strict: boolean;
  /** Evaluates server expressions. */
  server: boolean;
}

/** Canonical text of an item: two with the same text are the same item, whatever the order of their amounts. */
export function canonicalText({ userId, featureId, amounts, at, blocks, spender }: UsageItem): string {
  const inOrder = <T>(values: Readonly<Record<string, T>>) =>
    Object.entries(values).sort(([a], [b]) => (a < b ? -1 : 1));
  const sorted = inOrder(amounts).map(([id, value]) => [id, typeof value === "number" ? value : inOrder(value)]);
  return JSON.stringify([
    userId,
    featureId,
    sorted,
    at?.getTime() ?? null,
    ...(blocks === false ? [false] : []),
    ...(spender === undefined ? [] : [{ spender }]),
  ]);
}
