import { sum } from "../../core/exact.ts";
import { balanceIn, type BudgetBalance } from "../../core/pricing/budgets.ts";
import { hasAlerts, reachedThresholds } from "../../core/usage-alerts.ts";
import type { BudgetChange } from "../../db/queries/budgets.ts";
import type { Addressed } from "../../db/queries/outbox.ts";
import type { BudgetBook, BudgetSubject } from "./budget-book.ts";
import type { BudgetPart } from "./budget-parts.ts";

/* Changes of the balances of budgets, and the events of thresholds. */

/** Changes of balances by requests, and their events. */
export interface BudgetWrites {
  /** By contract and balance. */
  budgets: Map<string, BudgetChange>;
  events: Addressed[];
}

export const noBudgetWrites = () => ({ budgets: new Map<string, BudgetChange>(), events: [] });

/** Adds amounts to the balance of a part, in the book and in the writes. Adds the events of thresholds that it reaches. */
export function moveBudget(
  { contract, budgets: book }: Omit<BudgetSubject, "evaluation">,
  { organizationId, userId }: { organizationId: string; userId: string },
  part: Pick<BudgetPart, "fit" | "level" | "value" | "span">,
  { used = 0, held = 0 }: { used?: number; held?: number },
  writes: BudgetWrites,
): void {
  if (book === undefined || (used === 0 && held === 0)) return;
  const { budget, spender, key } = part.fit;
  const before = balanceIn(book.balances.get(key), part.span);
  let { alertedThreshold, alertedLimit } = before;
  const usedAfter = sum(before.used, used);
  if (used > 0 && hasAlerts(part.value)) {
    const reached = reachedThresholds(budget.thresholds, { consumed: usedAfter, limit: part.value }, before);
    const highest = reached.at(-1);
    if (highest !== undefined) [alertedThreshold, alertedLimit] = [highest, part.value];
    for (const threshold of reached) {
      const serviceName = contract.services.find(({ serviceId }) => serviceId === budget.serviceId)?.key ?? "";
      writes.events.push({
        organizationId,
        event: {
          code: "BUDGET_THRESHOLD_REACHED",
          details: {
            contractId: contract.contractId,
            userId,
            serviceName,
            limitName: budget.limitName,
            budget: budget.name,
            spender: budget.spender.length === 0 ? null : spender,
            threshold,
            amount: part.value,
            used: usedAfter,
            resetAt: part.span.ends === null ? null : new Date(part.span.ends).toISOString(),
          },
        },
      });
    }
  }
  const { contractId } = contract;
  const after = { used: usedAfter, held: sum(before.held, held), since: before.since, alertedThreshold, alertedLimit };
  setBalance(book, key, { contractId, organizationId, budget: budget.id, spender }, after, { used, held }, writes);
}

/** Sets the balance with this key in the book, and adds its change to the writes. */
export function setBalance(
  book: BudgetBook,
  key: string,
  {
    contractId,
    organizationId,
    budget,
    spender,
  }: Pick<BudgetChange, "contractId" | "organizationId" | "budget" | "spender">,
  after: BudgetBalance,
  { used, held }: { used: number; held: number },
  writes: BudgetWrites,
): void {
  book.balances.set(key, after);
  const { since, alertedThreshold, alertedLimit } = after;
  const written = `${contractId} ${key}`;
  const earlier = writes.budgets.get(written);
  writes.budgets.set(written, {
    contractId,
    organizationId,
    budget,
    spender,
    used: sum(earlier?.since === since ? earlier.used : 0, used),
    held: sum(earlier?.held ?? 0, held),
    since,
    alertedThreshold,
    alertedLimit,
  });
}
