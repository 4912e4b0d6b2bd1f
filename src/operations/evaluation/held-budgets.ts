import { total } from "../../core/exact.ts";
import type { HeldAmount, HeldBudget } from "../../core/holds.ts";
import { balanceIn } from "../../core/pricing/budgets.ts";
import type { Evaluation } from "../../core/pricing/evaluate.ts";
import { balanceKey } from "../../db/queries/budgets.ts";
import { sameLevel } from "../../db/queries/usage.ts";
import { type BudgetSubject, type HeldChange, spanOf, valueOf } from "./budgets.ts";

/* Balances of the budgets that one hold counts towards. */

type Subject = Omit<BudgetSubject, "evaluation"> & { evaluation: Evaluation | undefined };

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
