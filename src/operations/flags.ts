import { type OffReason, ofrepEvaluationFailure, type OfrepFailure, ofrepFlag, type OfrepFlag } from "../core/ofrep.ts";
import { evaluateBoolean, evaluateFeature, featureIds, type FeatureResult } from "../core/pricing/evaluate.ts";
import type { Context } from "./context.ts";
import { explained } from "./decision.ts";
import { type Mode, type Prepared, prepareSubject } from "./subject.ts";

/** One feature as a flag of OpenFeature's protocol. Counts nothing. Failures as prepareSubject's. */
export async function evaluateFlag(
  ctx: Context,
  input: { userId: string; featureId: string; mode: Mode },
): Promise<OfrepFlag | OfrepFailure> {
  return flagOf(await prepareSubject(ctx, input.userId), input.featureId, input.mode);
}

/** Every feature that has an expression, those left out that the contract's pricing context does not have. */
export async function evaluateFlags(
  ctx: Context,
  input: { userId: string; mode: Mode },
): Promise<(OfrepFlag | OfrepFailure)[]> {
  const prepared = await prepareSubject(ctx, input.userId);
  return featureIds(prepared.evaluation, input.mode)
    .map((id) => flagOf(prepared, id, input.mode))
    .filter((flag) => !("errorCode" in flag && flag.errorCode === "FLAG_NOT_FOUND"));
}

function flagOf(prepared: Prepared, featureId: string, mode: Mode): OfrepFlag | OfrepFailure {
  const { evaluation, usage } = prepared;
  const result = evaluateFeature(evaluation, featureId, usage, mode);
  if (result.error !== null) return ofrepEvaluationFailure(featureId, result.error);
  const ask = { userId: "", featureId, expected: {}, mode, strict: false, dryRun: false, explain: true };
  const answer = explained(prepared, result, ask, usage);
  return ofrepFlag(featureId, answer, result.eval ? undefined : offReason(prepared, featureId, result, mode));
}

/** Tells by evaluating once more as if nothing had been used. */
function offReason({ evaluation, usage }: Prepared, featureId: string, { used }: FeatureResult, mode: Mode): OffReason {
  if (used === null) return "NOT_GRANTED";
  const unused = new Map(Array.from(usage.keys(), (id) => [id, 0]));
  return evaluateBoolean(evaluation, featureId, unused, mode) ? "LIMIT_REACHED" : "NOT_GRANTED";
}
