import { sum, total } from "../../core/exact.ts";
import {
  balanceIn,
  type Budget,
  type BudgetBalance,
  type BudgetMovement,
  type Fit,
  fittingBudgets,
  type Span,
} from "../../core/pricing/budgets.ts";
import type { Evaluation } from "../../core/pricing/evaluate.ts";
import { balanceKey } from "../../db/queries/budgets.ts";
import type { SeenLevel } from "../../db/queries/contract-snapshots.ts";
import { sameLevel } from "../../db/queries/usage.ts";
import { type BudgetSubject, isOver, spanOf, valueOf } from "./budget-book.ts";
import type { BudgetView, EvaluationRequest } from "./request.ts";
import { costsOf, ratesIn } from "./units.ts";

/* Amounts that requests take of each fitting budget, and the first budget that denies. Source: contract budgets §3. */

/** Amount that a request takes of one budget. */
export interface BudgetPart {
  readonly fit: Fit;
  /** Limit id. */
  readonly id: string;
  readonly level: SeenLevel;
  /** Cost that counts. */
  readonly amount: number;
  /** Undefined: no bound. */
  readonly value: number | undefined;
  readonly span: Span;
  /** In that window, before the request. */
  readonly balance: BudgetBalance;
}

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
  return fittingBudgets(book.budgets, request.spender ?? [], at).flatMap((fit) => {
    const { budget } = fit;
    const found = involved.find(({ level }) => sameLevel(level, budget));
    if (found === undefined) return [];
    const { id, level } = found;
    const last = book.balances.get(balanceKey(budget.id, fit.spender));
    const { usedAt } = request;
    const isFromFirst = typeof budget.window !== "string" && budget.window.anchor === "first";
    const span = spanOf(contract, book, budget, { at: (isFromFirst ? usedAt : undefined) ?? at, level, last });
    if (usedAt !== undefined && (usedAt.getTime() < span.since || isOver(span, at))) return [];
    const amount = costOf(budget, id, request, evaluation);
    return [
      { fit, id, level, amount, value: valueOf(contract, evaluation, budget), span, balance: balanceIn(last, span) },
    ];
  });
}

function costOf({ unit }: Budget, id: string, request: Spending, evaluation: Evaluation): number {
  if (unit === null) return request.expected?.[id] ?? 0;
  const costs = request.unitCosts ?? (request.units && costsOf(request.units, ratesIn(evaluation)));
  return costOfUnits(costs?.[id], unit);
}

/** Sums what units with a beginning cost. */
export const costOfUnits = (costs: Readonly<Record<string, number>> | undefined, beginning: string): number =>
  total(Object.entries(costs ?? {}).flatMap(([name, cost]) => (name.startsWith(beginning) ? [cost] : [])));

const takenOf = ({ balance }: BudgetPart): number => sum(balance.used, balance.held);

/** True if the budget denies the request. Units that it does not count pass. */
function denies(part: BudgetPart): boolean {
  const { fit, value, amount } = part;
  if (value === undefined || fit.budget.mode === "warn") return false;
  const taken = takenOf(part);
  return (fit.budget.unit === null && taken >= value) || (amount > 0 && sum(taken, amount) > value);
}

/** Returns the first budget that denies a request, from the contract down. */
export const firstDenying = (parts: readonly BudgetPart[]): BudgetPart | undefined => parts.find(denies);

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
  const moved = parts
    .filter((part) => part.amount > 0 && sameLevel(part.level, level))
    .map(({ fit, amount, span }): BudgetMovement => [fit.budget.id, fit.spender, amount, span.since]);
  return moved.length === 0 ? undefined : moved;
}
