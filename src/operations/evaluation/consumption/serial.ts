import { recordEvents } from "../../../db/queries/outbox.ts";
import { moveLevels } from "../../../db/queries/usage.ts";
import { type Context, newId } from "../../context.ts";
import { decide, explained, involvedLevels, limitsReached, mapValues } from "../decision.ts";
import { evaluatedOrganization, withLockedContract } from "../prepare.ts";
import type { EvaluationRequest, FeatureAnswer } from "../request.ts";

/**
 * Consumes in its own transaction, or in the caller's. Blocks on the contract's lock, and renews due balances first.
 */
export async function consumeSerially(ctx: Context, request: EvaluationRequest): Promise<FeatureAnswer> {
  const organizationId = evaluatedOrganization(ctx);
  return withLockedContract(ctx, { organizationId, userId: request.userId }, async (ctx, prepared) => {
    const { result, counts } = decide(prepared, request);
    if (!counts) return explained(prepared, result, request, prepared.usage);
    const now = ctx.resources.now();
    const involved = involvedLevels(prepared, request);
    const levels = await moveLevels(
      ctx.db,
      prepared.contract.contractId,
      involved.map(({ id, level }) => ({ level, delta: request.expected[id] ?? 0 })),
      { kind: "consume", operationId: newId(now), now, featureId: request.featureId },
    );
    const balances = new Map(involved.map(({ id }, i) => [id, levels[i]?.consumed ?? 0]));
    // Taken from the rows: their sums are exact where sums in JavaScript round.
    const answer = { ...result, used: mapValues(result.used ?? {}, (id, sum) => balances.get(id) ?? sum) };
    const reached = limitsReached(prepared, request, involved, answer);
    await recordEvents(
      ctx.db,
      reached.map((event) => ({ organizationId, event })),
    );
    return explained(prepared, answer, request, balances);
  });
}
