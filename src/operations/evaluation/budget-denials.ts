import type { ContractSnapshot } from "../../db/queries/contract-snapshots.ts";
import type { DeniedBudget } from "../state/call-counter.ts";
import type { Context } from "../context.ts";
import { type BudgetPart, viewBudget } from "./budget-parts.ts";
import type { BudgetView } from "./request.ts";

/* Denials by budgets, of which each budget shows the last. Answers show no ids of budgets, so these stand beside them. */

const denials = new WeakMap<object, DeniedBudget>();

/** Returns the budget that denies a call, as answers show it. Its denial can be noted once the call is answered. */
export function viewDenying(
  { contractId }: Pick<ContractSnapshot, "contractId">,
  part: BudgetPart,
  spender: string | null,
  amount = part.amount,
): BudgetView {
  const view = viewBudget(part);
  const { id, origin } = part.fit.budget;
  if (origin === "contract") denials.set(view, { contractId, budget: id, spender, amount });
  return view;
}

/** Lets another object stand for the denial of a view. */
export function carryDenial<To extends object>(view: BudgetView, to: To): To {
  const denial = denials.get(view);
  if (denial !== undefined) denials.set(to, denial);
  return to;
}

/** Notes the denial that an object stands for, after the commit. Others are ignored. */
export function noteDenial({ callCounter, now }: Context["resources"], of: object | undefined): void {
  const denial = of && denials.get(of);
  if (denial !== undefined) callCounter.countBudgetDenial(now(), denial);
}
