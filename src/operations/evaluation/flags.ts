import {
  ofrepEvaluationFailure,
  type OfrepFailure,
  ofrepFlag,
  type OfrepFlag,
  ofrepUnknownSpender,
} from "../../core/ofrep.ts";
import type { Spender } from "../../core/pricing/budgets.ts";
import { featureIds } from "../../core/pricing/evaluate.ts";
import type { Context } from "../context.ts";
import { noteDenial } from "./budget-denials.ts";
import { decide, explained, offReason } from "./decision.ts";
import { evaluatedOrganization, type Prepared, prepareContract } from "./prepare.ts";
import type { DecidedResult, EvaluationRequest, Mode } from "./request.ts";
import { strangerFailure, withSpenders } from "./spenders.ts";

/**
 * Evaluates one feature as an OpenFeature (OFREP) flag. Consumes nothing, but counts a denial. Failures as in
 * prepareContract.
 */
export async function evaluateFlag(
  ctx: Context,
  input: { userId: string; featureId: string; mode: Mode; spender?: Spender | undefined },
): Promise<OfrepFlag | OfrepFailure> {
  const prepared = await preparedFor(ctx, input);
  const stranger = strangerFailure(prepared, input);
  if (stranger !== undefined) return ofrepUnknownSpender(stranger.message, input.featureId);
  const { result } = decide(prepared, requestOf(input));
  if (!result.eval && result.error === null) {
    const reason =
      result.budget === undefined ? offReason(prepared, input.featureId, result, input.mode) : "LIMIT_REACHED";
    ctx.resources.callCounter.countDenial(ctx.resources.now(), evaluatedOrganization(ctx), input.featureId, reason);
    noteDenial(ctx.resources, result.budget);
  }
  return flagOf(prepared, input, result);
}

async function preparedFor(
  ctx: Context,
  { userId, spender }: { userId: string; spender?: Spender | undefined },
): Promise<Prepared> {
  return withSpenders(ctx, await prepareContract(ctx, userId), [spender ?? []]);
}

type FlagInput = Pick<EvaluationRequest, "userId" | "featureId" | "mode" | "spender">;

const requestOf = (input: FlagInput): EvaluationRequest => ({
  ...input,
  expected: {},
  strict: false,
  dryRun: false,
  explain: true,
});

/**
 * Evaluates every feature with an expression, except those missing from the contract's pricing context. One failure for a
 * spender who is no member.
 */
export async function evaluateFlags(
  ctx: Context,
  input: { userId: string; mode: Mode; spender?: Spender | undefined },
): Promise<(OfrepFlag | OfrepFailure)[] | OfrepFailure> {
  const prepared = await preparedFor(ctx, input);
  const stranger = strangerFailure(prepared, input);
  if (stranger !== undefined) return ofrepUnknownSpender(stranger.message);
  return featureIds(prepared.evaluation, input.mode)
    .map((featureId) => {
      const one = { ...input, featureId };
      return flagOf(prepared, one, decide(prepared, requestOf(one)).result);
    })
    .filter((flag) => !("errorCode" in flag && flag.errorCode === "FLAG_NOT_FOUND"));
}

function flagOf(prepared: Prepared, input: FlagInput, result: DecidedResult): OfrepFlag | OfrepFailure {
  const { featureId, mode } = input;
  if (result.error !== null) return ofrepEvaluationFailure(featureId, result.error);
  const answer = explained(prepared, result, requestOf(input), prepared.usage);
  const off = () => (result.budget === undefined ? offReason(prepared, featureId, result, mode) : "BUDGET_REACHED");
  return ofrepFlag(featureId, answer, result.eval ? undefined : off());
}
