import { sum } from "../exact.ts";
import type { OffReason } from "../ofrep.ts";
import { checkExpectedConsumption, type Evaluation, evaluateBoolean, evaluateFeature } from "./evaluate.ts";
import type { EvaluationMode, FeatureResult } from "./evaluate.ts";
import { isBound } from "./model.ts";

/** A request for a feature, with the amounts that it consumes by limit id. */
export interface ConsumptionRequest {
  readonly featureId: string;
  readonly expected: Readonly<Record<string, number>>;
  readonly mode: EvaluationMode;
  /** Also denies amounts that do not fit into a limit. */
  readonly strict: boolean;
}

/** Evaluates a request over these balances, and decides if its consumption is counted. `used` is the usage after it. */
export function decideConsumption(
  evaluation: Evaluation,
  usage: ReadonlyMap<string, number>,
  { featureId, expected, mode, strict }: ConsumptionRequest,
): { result: FeatureResult; counts: boolean } {
  const result = evaluateFeature(evaluation, featureId, usage, mode);
  if (result.error !== null || Object.keys(expected).length === 0) return { result, counts: false };
  const incomplete = checkExpectedConsumption(evaluation, featureId, expected, mode);
  if (incomplete !== undefined) return { result: incomplete, counts: false };
  if (result.used === null) return { result, counts: false };
  const used: Record<string, number> = {};
  for (const [id, consumed] of Object.entries(result.used)) used[id] = sum(consumed, expected[id] ?? 0);
  const fits = Object.entries(used).every(([id, balance]) => {
    const limit = result.limit?.[id];
    return !isBound(limit) || balance <= limit || (expected[id] ?? 0) === 0;
  });
  const granted = result.eval && (fits || !strict);
  return { result: { ...result, eval: granted, used }, counts: granted };
}

/** Determines why a feature is off, by a second evaluation with all balances at zero. */
export function offReasonOf(
  evaluation: Evaluation,
  usage: ReadonlyMap<string, number>,
  featureId: string,
  { mode, used }: { mode: EvaluationMode; used: FeatureResult["used"] },
): OffReason {
  if (used === null) return "NOT_GRANTED";
  const unused = new Map(Array.from(usage.keys(), (id) => [id, 0]));
  return evaluateBoolean(evaluation, featureId, unused, mode) ? "LIMIT_REACHED" : "NOT_GRANTED";
}
