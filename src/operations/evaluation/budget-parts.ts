import { sum } from "../../core/exact.ts";
import { type BudgetPart as PartOf, costOfUnits, partsOfCall, takenOf } from "../../core/pricing/budget-decision.ts";
import type { Budget, BudgetMovement } from "../../core/pricing/budgets.ts";
import type { Evaluation } from "../../core/pricing/evaluate.ts";
import type { SeenLevel } from "../../db/queries/contract-snapshots.ts";
import { sameLevel } from "../../db/queries/usage.ts";
import { type BudgetSubject, spanOf, valueOf } from "./budget-book.ts";
import type { BudgetView, EvaluationRequest } from "./request.ts";
import { costsOf, ratesIn } from "./units.ts";

/* Amounts that requests take of each fitting budget, as answers show and ledgers record them. Source: contract budgets §3. */

/** Amount that a request takes of one budget. */
export type BudgetPart = PartOf<SeenLevel>;

type Spending = Pick<EvaluationRequest, "spender"> &
  Partial<Pick<EvaluationRequest, "expected" | "units" | "unitCosts" | "usedAt">>;

/** Returns what a request takes of each fitting budget of these levels, from the contract down. */
export function budgetParts(
  subject: BudgetSubject,
  involved: readonly { id: string; level: SeenLevel }[],
  request: Spending,
): BudgetPart[] {
  const { contract, evaluation, at, budgets: book } = subject;
  if (book === undefined) return [];
  return partsOfCall(
    {
      budgets: book.budgets,
      at,
      balanceOf: ({ key }) => book.balances.get(key),
      spanOf: (budget, facts) => spanOf(contract, book, budget, facts),
      valueOf: (budget) => valueOf(contract, evaluation, budget),
    },
    involved,
    {
      spender: request.spender ?? [],
      usedAt: request.usedAt,
      costOf: (budget, id) => costOf(budget, id, request, evaluation),
    },
  );
}

function costOf({ unit }: Budget, id: string, request: Spending, evaluation: Evaluation): number {
  if (unit === null) return request.expected?.[id] ?? 0;
  const costs = request.unitCosts ?? (request.units && costsOf(request.units, ratesIn(evaluation)));
  return costOfUnits(costs?.[id], unit);
}

/** Returns what is left of a budget; null without bound. `counts`: after the request. */
export function remainingOfPart(part: BudgetPart, counts = false): number | null {
  if (part.value === undefined) return null;
  return Math.max(0, sum(part.value, -sum(takenOf(part), counts ? part.amount : 0)));
}

/** Returns what a budget still allows of its limit; undefined for one that denies nothing, or counts some units only. */
export const boundOfPart = (part: BudgetPart): number | undefined =>
  part.fit.budget.mode === "warn" || part.fit.budget.unit !== null ? undefined : (remainingOfPart(part) ?? undefined);

/** Returns the part as answers show it. */
export function viewBudget(part: BudgetPart, counts = false): BudgetView {
  const { fit, id, value, span, balance, amount } = part;
  const { name, spender, window } = fit.budget;
  const hasBegun = typeof window === "string" || window.anchor !== "first" || balance.used > 0 || counts;
  return {
    name,
    spender: spender.length === 0 ? null : fit.spender,
    limit: id,
    window,
    amount: value ?? null,
    used: counts ? sum(takenOf(part), amount) : takenOf(part),
    remaining: remainingOfPart(part, counts),
    resetAt: hasBegun && span.ends !== null ? new Date(span.ends).toISOString() : null,
  };
}

/** Returns the movements of budgets that a movement of a level names. */
export function movementsOf(parts: readonly BudgetPart[], level: SeenLevel): BudgetMovement[] | undefined {
  let moved: BudgetMovement[] | undefined;
  for (const { fit, amount, span, level: of } of parts) {
    if (amount > 0 && sameLevel(of, level)) (moved ??= []).push([fit.budget.id, fit.spender, amount, span.since]);
  }
  return moved;
}
