import { ofrepEvaluationFailure, type OfrepFailure, ofrepFlag, type OfrepFlag } from "../../core/ofrep.ts";
import { evaluateFeature, featureIds, type FeatureResult } from "../../core/pricing/evaluate.ts";
import type { Context } from "../context.ts";
import { explained, offReason } from "./decision.ts";
import { evaluatedOrganization, type Prepared, prepareContract } from "./prepare.ts";
import type { Mode } from "./request.ts";

/**
 * Evaluates one feature as an OpenFeature (OFREP) flag. Consumes nothing, but counts a denial. Failures as in
 * prepareContract.
 */
export async function evaluateFlag(
  ctx: Context,
  input: { userId: string; featureId: string; mode: Mode },
): Promise<OfrepFlag | OfrepFailure> {
  const prepared = await prepareContract(ctx, input.userId);
  const result = evaluateFeature(prepared.evaluation, input.featureId, prepared.usage, input.mode);
  if (!result.eval && result.error === null) {
    const reason = offReason(prepared, input.featureId, result, input.mode);
    ctx.resources.callCounter.countDenial(ctx.resources.now(), evaluatedOrganization(ctx), input.featureId, reason);
  }
  return flagOf(prepared, input.featureId, result, input.mode);
}

/** Evaluates every feature with an expression, except those missing from the contract's pricing context. */
export async function evaluateFlags(
  ctx: Context,
  input: { userId: string; mode: Mode },
): Promise<(OfrepFlag | OfrepFailure)[]> {
  const prepared = await prepareContract(ctx, input.userId);
  return featureIds(prepared.evaluation, input.mode)
    .map((id) => flagOf(prepared, id, evaluateFeature(prepared.evaluation, id, prepared.usage, input.mode), input.mode))
    .filter((flag) => !("errorCode" in flag && flag.errorCode === "FLAG_NOT_FOUND"));
}

function flagOf(prepared: Prepared, featureId: string, result: FeatureResult, mode: Mode): OfrepFlag | OfrepFailure {
  if (result.error !== null) return ofrepEvaluationFailure(featureId, result.error);
  const request = { featureId, mode, strict: false, dryRun: false, explain: true };
  const answer = explained(prepared, result, request, prepared.usage);
  return ofrepFlag(featureId, answer, result.eval ? undefined : offReason(prepared, featureId, result, mode));
}
