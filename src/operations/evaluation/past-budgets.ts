import { type BudgetBalance, fittingBudgets, NO_BALANCE, type Spender } from "../../core/pricing/budgets.ts";
import { levelKey } from "../../db/queries/budgets.ts";
import type { Level } from "../../db/queries/contract-snapshots.ts";
import { type PastBalance, readPastBalances, usedBefore } from "../../db/queries/past-budgets.ts";
import { sameLevel } from "../../db/queries/usage.ts";
import { isDue } from "../../db/queries/usage-renewals.ts";
import type { Context } from "../context.ts";
import { Failure } from "../errors.ts";
import { type BudgetBook, budgetsOf, spanOf } from "./budget-book.ts";
import type { Prepared } from "./prepare.ts";

/* Budgets of a past moment, with the balances that they had then. Source: contract budgets §3. */

const DAY_MS = 86_400_000;

/**
 * Loads the budgets that fitted a spender at the moment of a prepared past contract. `levels`: its levels before renewals.
 * @throws Failure invalid where the ledger no longer has what was used by then.
 */
export async function loadPastBudgets(
  ctx: Context,
  { contract, evaluation, at }: Prepared,
  { spender, levels, ledgerStart }: { spender: Spender; levels: readonly Level[]; ledgerStart: Date | null },
): Promise<BudgetBook | undefined> {
  const budgets = budgetsOf(contract, evaluation);
  if (budgets.length === 0) return undefined;
  const periods: BudgetBook["periods"] = new Map();
  const balances: BudgetBook["balances"] = new Map();
  const fits = fittingBudgets(budgets, spender, at).flatMap((fit) => {
    const level = contract.levels.find((one) => sameLevel(one, fit.budget));
    return level === undefined ? [] : [{ ...fit, level }];
  });
  const queries = fits.map(({ budget, spender: path, level }) => {
    const { id, serviceId, limitName, window } = budget;
    const { since, ends } = spanOf(contract, { periods }, budget, { at, level, last: undefined });
    // One from the first use began within its length. Clocks of processes differ by less than a day, months by three.
    const earliest = Math.min(since, 2 * at.getTime() - (ends ?? 0) - 3 * DAY_MS) - DAY_MS;
    const isFromFirst = typeof window !== "string" && window.anchor === "first";
    const from = typeof window === "string" ? null : new Date(earliest);
    return {
      budget: id,
      spender: path,
      serviceId,
      limitName,
      from,
      sinceReset: window === "period",
      since: isFromFirst ? earliest : since,
    };
  });
  const found = await readPastBalances(ctx.db, { contractId: contract.contractId, at }, queries);
  for (const [i, { budget, spender: path, key, level }] of fits.entries()) {
    const read = found.find((one) => one.budget === budget.id && one.spender === path);
    if (read === undefined) continue;
    const isPeriod = budget.window === "period";
    const isOver = isPeriod && levels.some((one) => sameLevel(one, level) && isDue(one, at));
    const balance = isOver
      ? undefined
      : await balanceAt(ctx, { contract, at, ledgerStart }, read, queries[i]?.since ?? 0);
    const { held } = read;
    if (isPeriod && balance !== undefined) periods.set(levelKey(budget), new Date(balance.since));
    const none = { ...NO_BALANCE, held };
    balances.set(key, balance ?? (held > 0 ? none : undefined));
  }
  return { budgets, periods, balances };
}

/** Returns the balance in the newest window by then; undefined if it was never used. */
async function balanceAt(
  ctx: Context,
  { contract, at, ledgerStart }: { contract: Prepared["contract"]; at: Date; ledgerStart: Date | null },
  { budget, spender, since, used, held, isReset }: PastBalance,
  windowSince: number,
): Promise<BudgetBalance | undefined> {
  const balance = since === null ? undefined : { ...NO_BALANCE, used, held, since };
  const isWhole = ledgerStart === null || isReset || (since ?? windowSince) >= ledgerStart.getTime();
  if (isWhole) return balance;
  const before = await usedBefore(ctx.db, { contractId: contract.contractId, at }, { budget, spender });
  if (before === undefined && balance === undefined) return undefined;
  if (before !== undefined && before.since <= at.getTime()) return { ...NO_BALANCE, ...before, held };
  throw new Failure("invalid", `INVALID DATA: The record of usage starts at ${ledgerStart.toISOString()}`);
}
