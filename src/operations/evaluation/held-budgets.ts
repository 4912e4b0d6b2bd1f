import { sum, total } from "../../core/exact.ts";
import type { HeldAmount, HeldBudget } from "../../core/holds.ts";
import { costOfUnits, deniesSettlement } from "../../core/pricing/budget-decision.ts";
import { balanceIn, balanceKey, type BudgetMovement, fitOf } from "../../core/pricing/budgets.ts";
import type { Evaluation } from "../../core/pricing/evaluate.ts";
import { levelKey } from "../../db/queries/budgets.ts";
import { sameLevel } from "../../db/queries/usage.ts";
import { type BudgetSubject, spanOf, valueOf } from "./budget-book.ts";
import { type BudgetWrites, moveBudget, setBalance } from "./budget-moves.ts";
import { viewDenying } from "./budget-denials.ts";
import { type BudgetPart, remainingOfPart } from "./budget-parts.ts";
import type { BudgetView, SettlementAnswer, UnitCosts } from "./request.ts";

/* Budgets that holds and leases count towards: how they move, and how much they leave. */

type Subject = Omit<BudgetSubject, "evaluation"> & { evaluation: Evaluation | undefined };

/** Amounts of a budget that a hold or lease counts, and that it holds afterwards. */
export interface HeldChange {
  held: HeldBudget;
  counted: number;
  /** Default: nothing. */
  heldAfter?: number;
}

/**
 * Moves balances by what holds and leases count and no longer hold. Returns the movements that count, by levelKey. Nothing counts
 * for a budget that is gone, or whose window is over.
 */
export function moveHeld(
  subject: Subject,
  name: { organizationId: string; userId: string },
  changes: readonly HeldChange[],
  writes: BudgetWrites,
): Map<string, BudgetMovement[]> {
  const movements = new Map<string, BudgetMovement[]>();
  const { contract, evaluation, at, budgets: book } = subject;
  if (book === undefined) return movements;
  for (const { held, counted, heldAfter = 0 } of changes) {
    const balance = balanceKey(held.budget, held.spender);
    const last = book.balances.get(balance);
    const budget = book.budgets.find(({ id }) => id === held.budget);
    // A budget of units may have no balance yet: the hold was taken without units.
    if (last === undefined && budget === undefined) continue;
    const level = contract.levels.find((one) => sameLevel(one, held));
    const span = budget && level && spanOf(contract, book, budget, { at, level, last });
    const delta = { used: 0, held: sum(heldAfter, -held.amount) };
    if (budget === undefined || level === undefined || span === undefined || span.since < (last?.since ?? 0)) {
      if (last === undefined) continue;
      const { contractId } = contract;
      const { budget: id, spender } = held;
      const after = { ...last, held: sum(last.held, delta.held) };
      const of = { contractId, organizationId: name.organizationId, budget: id, spender };
      setBalance(book, balance, of, after, delta, writes);
      continue;
    }
    const part = {
      fit: fitOf(budget, held.spender),
      level,
      value: evaluation === undefined ? undefined : valueOf(contract, evaluation, budget),
      span,
    };
    moveBudget({ contract, at, budgets: book }, name, part, { ...delta, used: counted }, writes);
    if (counted === 0) continue;
    const key = levelKey(held);
    movements.set(key, [...(movements.get(key) ?? []), [budget.id, held.spender, counted, span.since]]);
  }
  return movements;
}

/** Returns movements by levelKey by the limit ids of a hold. */
export const byLimit = (
  { amounts }: { amounts: readonly HeldAmount[] },
  movements: ReadonlyMap<string, readonly BudgetMovement[]>,
): Record<string, readonly BudgetMovement[]> =>
  Object.fromEntries(
    amounts.flatMap((held) => {
      const moved = movements.get(levelKey(held));
      return moved === undefined ? [] : [[held.id, moved]];
    }),
  );

/** Returns what the settlement of a hold counts of its budgets. */
export function settledBudgets(
  { budgets: book }: Pick<BudgetSubject, "budgets">,
  hold: { amounts: readonly HeldAmount[]; budgets: readonly HeldBudget[] | null },
  amounts: Readonly<Record<string, number>>,
  costs?: UnitCosts,
): HeldChange[] {
  return (hold.budgets ?? []).map((held) => {
    const id = hold.amounts.find((one) => sameLevel(one, held))?.id ?? "";
    const amount = amounts[id] ?? 0;
    const unit = book?.budgets.find((budget) => budget.id === held.budget)?.unit ?? null;
    if (unit === null) return { held, counted: amount };
    const counted = costs?.[id] === undefined ? Math.min(held.amount, amount) : costOfUnits(costs[id], unit);
    return { held, counted };
  });
}

/** Returns the budgets of a hold or lease with their windows and balances, of those that are still there. */
export function heldParts(
  subject: Subject,
  hold: { amounts: readonly HeldAmount[]; budgets: readonly HeldBudget[] | null },
): BudgetPart[] {
  const { contract, evaluation, at, budgets: book } = subject;
  return (hold.budgets ?? []).flatMap((held) => {
    const budget = book?.budgets.find(({ id }) => id === held.budget);
    const level = contract.levels.find((one) => sameLevel(one, held));
    const id = hold.amounts.find((one) => sameLevel(one, held))?.id;
    if (book === undefined || budget === undefined || level === undefined || id === undefined) return [];
    const fit = fitOf(budget, held.spender);
    const last = book.balances.get(fit.key);
    const span = spanOf(contract, book, budget, { at, level, last });
    const value = evaluation && valueOf(contract, evaluation, budget);
    return [{ fit, id, level, amount: held.amount, value, span, balance: balanceIn(last, span) }];
  });
}

/** Returns the first budget that denies to count more than what is held of it, from the contract down. */
export function deniedSettlement(
  subject: Subject,
  hold: { amounts: readonly HeldAmount[]; budgets: readonly HeldBudget[] | null; spender: string | null },
  changes: readonly HeldChange[],
): BudgetView | undefined {
  const denying = heldParts(subject, hold).find((part) => deniesSettlement(part, countedOf(changes, part)));
  return denying && viewDenying(subject.contract, denying, hold.spender, countedOf(changes, denying));
}

/**
 * Lowers what a settlement leaves of each limit to what the budgets of its hold leave. Budgets for some units count where it has
 * such units. Call it once the budgets have moved. Source: contract budgets §3.
 */
export function withHeldBudgets<Answer extends Pick<SettlementAnswer, "remaining">>(
  answer: Answer,
  subject: Subject,
  hold: { amounts: readonly HeldAmount[]; budgets: readonly HeldBudget[] | null },
  changes: readonly HeldChange[],
): Answer {
  if (hold.budgets === null) return answer;
  const remaining = { ...answer.remaining };
  for (const part of heldParts(subject, hold)) {
    const { budget } = part.fit;
    const left = budget.mode === "warn" ? null : remainingOfPart(part);
    if (left === null || (budget.unit !== null && countedOf(changes, part) === 0)) continue;
    remaining[part.id] = Math.min(remaining[part.id] ?? Infinity, left);
  }
  return { ...answer, remaining };
}

/** Returns what a settlement counts of a budget. */
const countedOf = (changes: readonly HeldChange[], { fit: { budget, spender } }: BudgetPart): number =>
  changes.find(({ held }) => held.budget === budget.id && held.spender === spender)?.counted ?? 0;

/** Returns the balance of a budget that a hold counts towards, in its window of now; undefined where there is none. */
function balanceOf({ contract, evaluation, at, budgets: book }: Subject, held: HeldBudget) {
  const budget = book?.budgets.find(({ id }) => id === held.budget);
  const level = contract.levels.find((one) => sameLevel(one, held));
  if (book === undefined || budget === undefined || level === undefined) return undefined;
  const last = book.balances.get(balanceKey(held.budget, held.spender));
  const span = spanOf(contract, book, budget, { at, level, last });
  const value = evaluation === undefined ? undefined : valueOf(contract, evaluation, budget);
  return { budget, span, balance: balanceIn(last, span), value };
}

/** Returns the most of a limit that the budgets of a hold let it hold, once `changes` have counted. */
export function heldRoom(subject: Subject, changes: readonly HeldChange[], amount: HeldAmount): number {
  const rooms = changes.map(({ held, counted }) => {
    const found = sameLevel(held, amount) ? balanceOf(subject, held) : undefined;
    if (found?.value === undefined || found.budget.mode === "warn" || found.budget.unit !== null) return Infinity;
    const { used, held: heldInAll } = found.balance;
    return total([found.value, -used, -heldInAll, held.amount, -counted]);
  });
  return Math.max(0, Math.min(Infinity, ...rooms));
}

/** Returns what a budget counted in its window of now, if that began before `since`; else 0. */
export function usedInWindow(subject: Subject, held: HeldBudget, since: Date): number {
  const found = balanceOf(subject, held);
  return found === undefined || found.span.since > since.getTime() ? 0 : found.balance.used;
}
