import { sum } from "../../../core/exact.ts";
import type { HeldBudget } from "../../../core/holds.ts";
import type { NewHold } from "../../../db/queries/holds.ts";
import { newId } from "../../context.ts";
import type { BudgetPart } from "../budget-parts.ts";
import { recordedSpender } from "../spenders.ts";
import { explained, involvedLevels } from "../decision.ts";
import type { Prepared } from "../prepare.ts";
import type { EvaluationRequest, FeatureAnswer, QueuedEvaluation } from "../request.ts";

/** A request whose amounts are held. */
export type TakeRequest = EvaluationRequest & { hold: NonNullable<EvaluationRequest["hold"]> };

export const isTake = (request: EvaluationRequest): request is TakeRequest => request.hold !== undefined;

/** Returns the hold that a granted request takes now. */
export function newHold(
  prepared: Prepared,
  request: TakeRequest & QueuedEvaluation,
  parts: readonly BudgetPart[],
  now: Date,
): NewHold {
  const { organizationId, featureId, expected, hold } = request;
  return {
    id: newId(now),
    contractId: prepared.contract.contractId,
    organizationId,
    featureId,
    amounts: involvedLevels(prepared, request).map(({ id, level: { serviceId, limitName } }) => ({
      serviceId,
      limitName,
      id,
      amount: expected[id] ?? 0,
    })),
    onExpiry: hold.onExpiry,
    createdAt: now,
    until: new Date(now.getTime() + hold.durationMs),
    spender: recordedSpender(request.spender),
    budgets: heldBudgets(parts),
  };
}

/**
 * Returns what is held of budgets; null for nothing. Budgets of units are listed without an amount too: a settlement may name
 * units that the hold did not.
 */
export function heldBudgets(parts: readonly BudgetPart[]): HeldBudget[] | null {
  const held = parts.filter(({ amount, fit }) => amount > 0 || fit.budget.unit !== null).map(heldBudget);
  return held.length === 0 ? null : held;
}

/** Returns what is held of one budget. */
export function heldBudget({ fit: { budget, spender }, amount }: BudgetPart): HeldBudget {
  const { id, serviceId, limitName } = budget;
  return { budget: id, spender, serviceId, limitName, amount };
}

/** Adds a hold that was taken to the usage of its contract, and returns the answer. `result` is the granted verdict. */
export function holdTaken(
  prepared: Prepared,
  request: TakeRequest,
  result: FeatureAnswer,
  { id, amounts, until }: NewHold,
): FeatureAnswer {
  const { usage, held } = prepared;
  for (const { id: limitId, amount } of amounts) {
    if (amount === 0) continue;
    held.set(limitId, sum(held.get(limitId) ?? 0, amount));
    usage.set(limitId, result.used?.[limitId] ?? 0);
  }
  const taken = { id, until: until.toISOString() };
  if (request.hold.partial !== true) return explained(prepared, result, request, usage, taken);
  const byId = Object.fromEntries(amounts.map((one) => [one.id, one.amount]));
  return explained(prepared, result, request, usage, { ...taken, amounts: byId });
}
