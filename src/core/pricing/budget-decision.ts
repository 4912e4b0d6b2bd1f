import { sum, total } from "../exact.ts";
import {
  balanceIn,
  type Budget,
  type BudgetBalance,
  type Fit,
  fittingBudgets,
  type Span,
  type Spender,
} from "./budgets.ts";

/*
 * Decides calls by budgets: what they take of each fitting one, and which denies first. The server and replays share it. Source:
 * contract budgets §3.
 */

/** A usage level, by its service and limit. */
interface LevelName {
  readonly serviceId: string;
  readonly limitName: string;
}

/** Amount that a call takes of one budget. */
export interface BudgetPart<Level extends LevelName = LevelName> {
  readonly fit: Fit;
  /** Limit id. */
  readonly id: string;
  readonly level: Level;
  /** Cost that counts. */
  readonly amount: number;
  /** Undefined: no bound. */
  readonly value: number | undefined;
  readonly span: Span;
  /** In that window, before the call. */
  readonly balance: BudgetBalance;
}

/** Budgets of a contract with their balances, windows and amounts at one moment. */
export interface BudgetFacts<Level extends LevelName> {
  readonly budgets: readonly Budget[];
  readonly at: Date;
  balanceOf(fit: Fit): BudgetBalance | undefined;
  /** Window around a moment. */
  spanOf(budget: Budget, facts: { at: Date; level: Level; last: BudgetBalance | undefined }): Span;
  valueOf(budget: Budget): number | undefined;
}

/** A call, with its amounts. */
export interface BudgetCall {
  readonly spender: Spender;
  /** Moment of use, if it is not now. */
  readonly usedAt?: Date | undefined;
  costOf(budget: Budget, id: string): number;
}

export const isOver = ({ ends }: Span, at: Date): boolean => ends !== null && ends <= at.getTime();

/** Finds the limit that a budget is about. */
function findLevel<Level extends LevelName>(
  involved: readonly { id: string; level: Level }[],
  { serviceId, limitName }: LevelName,
): { id: string; level: Level } | undefined {
  for (const one of involved) {
    if (one.level.limitName === limitName && one.level.serviceId === serviceId) return one;
  }
  return undefined;
}

/**
 * Returns what a call takes of each fitting budget of the levels that it involves, from the contract down. Budgets whose window does not
 * contain both the use and now are left out.
 */
export function partsOfCall<Level extends LevelName>(
  facts: BudgetFacts<Level>,
  involved: readonly { id: string; level: Level }[],
  { spender, usedAt, costOf }: BudgetCall,
): BudgetPart<Level>[] {
  const { at } = facts;
  const parts: BudgetPart<Level>[] = [];
  for (const fit of fittingBudgets(facts.budgets, spender, at)) {
    const { budget } = fit;
    const found = findLevel(involved, budget);
    if (found === undefined) continue;
    const { id, level } = found;
    const last = facts.balanceOf(fit);
    const isFromFirst = typeof budget.window !== "string" && budget.window.anchor === "first";
    const span = facts.spanOf(budget, { at: (isFromFirst ? usedAt : undefined) ?? at, level, last });
    if (usedAt !== undefined && (usedAt.getTime() < span.since || isOver(span, at))) continue;
    const amount = costOf(budget, id);
    parts.push({ fit, id, level, amount, value: facts.valueOf(budget), span, balance: balanceIn(last, span) });
  }
  return parts;
}

/** Sums what units with a beginning cost. */
export const costOfUnits = (costs: Readonly<Record<string, number>> | undefined, beginning: string): number =>
  total(Object.entries(costs ?? {}).flatMap(([name, cost]) => (name.startsWith(beginning) ? [cost] : [])));

/** Returns what is used and held of a budget. */
export const takenOf = ({ balance }: Pick<BudgetPart, "balance">): number => sum(balance.used, balance.held);

/** True if the budget denies the call. Units that it does not count pass. */
function denies(part: BudgetPart): boolean {
  const { fit, value, amount } = part;
  if (value === undefined || fit.budget.mode === "warn") return false;
  const taken = takenOf(part);
  return (fit.budget.unit === null && taken >= value) || (amount > 0 && sum(taken, amount) > value);
}

/** Returns the first budget that denies a call, from the contract down. */
export const firstDenying = <Part extends BudgetPart>(parts: readonly Part[]): Part | undefined => parts.find(denies);

/** True if the budget denies to count more than what a hold holds of it, which `amount` says. */
export function deniesSettlement({ fit, value, balance, amount }: BudgetPart, counted: number): boolean {
  if (fit.budget.mode === "warn" || value === undefined || counted <= amount) return false;
  return total([balance.used, balance.held, -amount, counted]) > value;
}
