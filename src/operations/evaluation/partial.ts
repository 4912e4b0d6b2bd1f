import { limitValue } from "../../core/pricing/evaluation.ts";
import { budgetParts, remainingOfPart } from "./budget-parts.ts";
import { evaluationFor, involvedLevels, remainingOf } from "./decision.ts";
import type { Prepared } from "./prepare.ts";
import type { EvaluationRequest } from "./request.ts";

/**
 * Lowers the amounts of a partial hold to what limits and budgets leave. Where nothing is left, the amount stays and is denied.
 * Budgets of single units lower nothing: they deny.
 */
export function fitted<Request extends EvaluationRequest>(prepared: Prepared, request: Request): Request {
  if (request.hold?.partial !== true) return request;
  const involved = involvedLevels(prepared, request);
  const evaluation = evaluationFor(prepared, request);
  const parts = budgetParts(prepared, involved, request).filter(
    ({ fit: { budget } }) => budget.unit === null && budget.mode === "stop",
  );
  const lowered = involved.flatMap(({ id }) => {
    const rooms = [
      remainingOf(limitValue(evaluation, id), prepared.usage.get(id) ?? 0),
      ...parts.filter((part) => part.id === id).map((part) => remainingOfPart(part)),
    ];
    const room = Math.min(...rooms.map((rest) => rest ?? Infinity));
    return room > 0 && room < (request.expected[id] ?? 0) ? [[id, room] as const] : [];
  });
  return lowered.length === 0
    ? request
    : { ...request, expected: { ...request.expected, ...Object.fromEntries(lowered) } };
}
