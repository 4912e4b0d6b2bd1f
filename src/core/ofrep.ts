import type { FeatureResult } from "./pricing/evaluate.ts";
import { tightestLimit } from "./pricing-token.ts";

/*
 * What the OpenFeature Remote Evaluation Protocol says of a feature. Source: open-feature/protocol, service/openapi.yaml, and
 * OpenFeature's specification, types.
 */

/** A feature that was evaluated. */
export interface OfrepFlag {
  key: string;
  value: boolean;
  /** Always so: every answer is the outcome of one end user's contract. */
  reason: "TARGETING_MATCH";
  variant: "on" | "off";
  metadata: Record<string, string | number | boolean>;
}

/** Codes of the protocol; `key` is absent where the failure is not about one flag. */
export interface OfrepFailure {
  key?: string | undefined;
  errorCode: "FLAG_NOT_FOUND" | "PARSE_ERROR" | "TARGETING_KEY_MISSING" | "INVALID_CONTEXT" | "GENERAL";
  errorDetails: string;
}

/** Why a feature is off: it would be on had nothing been used, or what is contracted does not have it. */
export type OffReason = "LIMIT_REACHED" | "NOT_GRANTED";

/** A result with what is left of each limit and when it starts again (ISO 8601), null where there is no such thing. */
interface Explained extends FeatureResult {
  readonly remaining?: Readonly<Record<string, number | null>> | null | undefined;
  readonly resetAt?: Readonly<Record<string, string | null>> | null | undefined;
}

/** A result in the words of the protocol, with why it is off unless it is on, and the figures of the tightest limit as flat metadata, which may not hold null. */
export function ofrepFlag(key: string, result: Explained, offReason: OffReason | undefined): OfrepFlag {
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

/** An evaluation that failed: the protocol has no code of its own for an expression that broke or was no boolean. */
export function ofrepEvaluationFailure(key: string, error: NonNullable<FeatureResult["error"]>): OfrepFailure {
  const { code, message } = error;
  const errorCode = code === "FLAG_NOT_FOUND" || code === "PARSE_ERROR" ? code : "GENERAL";
  return { key, errorCode, errorDetails: message };
}
