import type { FeatureResult } from "./pricing/evaluate.ts";
import { tightestLimit } from "./pricing-token.ts";

/*
 * Responses of the OpenFeature Remote Evaluation Protocol. Source: open-feature/protocol, service/openapi.yaml, and
 * OpenFeature's specification, types.
 */

/** A successfully evaluated feature. */
export interface OfrepFlag {
  key: string;
  value: boolean;
  /** Constant, because every result depends on one end user's contract. */
  reason: "TARGETING_MATCH";
  variant: "on" | "off";
  metadata: Record<string, string | number | boolean>;
}

/** Error codes of the protocol. `key` is absent if the failure concerns no single flag. */
export interface OfrepFailure {
  key?: string | undefined;
  errorCode: "FLAG_NOT_FOUND" | "PARSE_ERROR" | "TARGETING_KEY_MISSING" | "INVALID_CONTEXT" | "GENERAL";
  errorDetails: string;
}

/**
 * Reason why a feature is off. LIMIT_REACHED: it would be on without consumption. NOT_GRANTED: the subscription does
 * not include it.
 */
export type OffReason = "LIMIT_REACHED" | "NOT_GRANTED";

/** A result with the remaining quota and next reset (ISO 8601) of each limit; null where there is none. */
interface Explained extends FeatureResult {
  readonly remaining?: Readonly<Record<string, number | null>> | null | undefined;
  readonly resetAt?: Readonly<Record<string, string | null>> | null | undefined;
}

/**
 * Converts a result to a flag of the protocol. `offReason` is set only when the feature is off. The figures of the
 * tightest limit become flat metadata, which may not contain null.
 */
export function ofrepFlag(
  key: string,
  result: Explained,
  offReason: OffReason | "BUDGET_REACHED" | undefined,
): OfrepFlag {
  const tightest = tightestLimit(result);
  const figures: [name: string, value: string | number | null | undefined][] =
    tightest === undefined
      ? []
      : [
          ["limitId", tightest.id],
          ["limit", tightest.limit],
          ["used", tightest.used],
          ["remaining", result.remaining?.[tightest.id]],
          ["resetsAt", result.resetAt?.[tightest.id]],
        ];
  const metadata: OfrepFlag["metadata"] = {};
  for (const [name, value] of figures) if (value !== null && value !== undefined) metadata[name] = value;
  if (offReason !== undefined) metadata["reason"] = offReason;
  return { key, value: result.eval, reason: "TARGETING_MATCH", variant: result.eval ? "on" : "off", metadata };
}

/** Converts a failed evaluation. Runtime and type errors become GENERAL, because the protocol has no codes for them. */
export function ofrepEvaluationFailure(key: string, error: NonNullable<FeatureResult["error"]>): OfrepFailure {
  const { code, message } = error;
  const errorCode = code === "FLAG_NOT_FOUND" || code === "PARSE_ERROR" ? code : "GENERAL";
  return { key, errorCode, errorDetails: message };
}

/** Failure of a context whose spender is no member of the contract. The protocol's closest code is INVALID_CONTEXT. */
export function ofrepUnknownSpender(errorDetails: string, key?: string): OfrepFailure {
  return { key, errorCode: "INVALID_CONTEXT", errorDetails };
}
