import { sum } from "../../exact.ts";
import { type BudgetPart, isOver, partsOfCall } from "../../pricing/budget-decision.ts";
import { type BudgetTerms, budgetOfPricing } from "../../pricing/budget-terms.ts";
import {
  balanceIn,
  balanceKey,
  type Budget,
  type BudgetBalance,
  NO_BALANCE,
  parsePattern,
  parseSpender,
  type Span,
  windowAt,
} from "../../pricing/budgets.ts";
import type { Evaluation } from "../../pricing/evaluate.ts";
import { isBound } from "../../pricing/model.ts";
import type { ReplayedLevel } from "./balances.ts";
import type { RecordedBudgetBalance, RecordedTerms } from "./record.ts";

/** Amount that a replayed call takes of one budget. */
export type ReplayedPart = BudgetPart<ReplayedLevel>;

/** A call of a spender, with its amounts. */
interface SpendingCall {
  readonly at: number;
  readonly usedAt: number;
  /** Path of the spender. Null without one. */
  readonly spender: string | null;
  readonly evaluation: Evaluation;
  /** Amounts by limit id. */
  readonly amounts: Readonly<Record<string, number>>;
  /** Returns what units with this beginning cost. */
  costOfUnits(budget: Budget, beginning: string): number;
}

/** Budgets of one replayed contract: its own, as they were, and those of the target. With their balances. */
export class ReplayedBudgets {
  #balances: Map<string, BudgetBalance> | undefined;
  readonly #recorded: readonly RecordedBudgetBalance[];
  #budgets: readonly Budget[] = [];
  #contractStart = new Date(0);
  readonly #serviceKeys = new Map<string, string>();

  constructor(recorded: readonly RecordedBudgetBalance[] = []) {
    this.#recorded = recorded;
  }

  get isEmpty(): boolean {
    return this.#budgets.length === 0;
  }

  /** Enters new terms. `termsOf`: budgets of the pricing that a service has in the replay. */
  enter(
    terms: RecordedTerms,
    levels: Iterable<ReplayedLevel>,
    termsOf: (service: RecordedTerms["services"][number]) => readonly BudgetTerms[],
  ): void {
    this.#contractStart = new Date(terms.startDate);
    this.#serviceKeys.clear();
    for (const { serviceId, key } of terms.services) this.#serviceKeys.set(serviceId, key);
    const ofPricings = terms.services.flatMap((service) =>
      termsOf(service).map((one) => budgetOfPricing(one, service.serviceId)),
    );
    const own = (terms.budgets ?? []).map((budget): Budget => ({
      ...budget,
      origin: "contract",
      spender: budget.spender === null ? [] : (parsePattern(budget.spender) ?? []),
    }));
    this.#budgets = [...ofPricings, ...own];
    this.#balances ??= this.#balancesAtStart(terms, [...levels]);
  }

  /** Balances at the start of the range. Those of a period that was over then are left out. */
  #balancesAtStart(terms: RecordedTerms, levels: readonly ReplayedLevel[]): Map<string, BudgetBalance> {
    const balances = new Map<string, BudgetBalance>();
    const windows = new Map(this.#budgets.map((budget) => [budget.id, budget]));
    for (const [id, spender, used, since, isReset] of this.#recorded) {
      const budget = windows.get(id);
      if (budget === undefined) continue;
      const isOfLevel = (one: { serviceId: string; limitName: string }) =>
        one.serviceId === budget.serviceId && one.limitName === budget.limitName;
      const level = levels.find(isOfLevel);
      if (budget.window !== "period") balances.set(balanceKey(id, spender), { ...NO_BALANCE, used, since });
      else if (!isReset && level !== undefined) {
        const resetAt = terms.levels.find(isOfLevel)?.resetAt;
        const isRunning = resetAt === null || resetAt === undefined || Date.parse(resetAt) >= level.runningSince;
        if (isRunning) balances.set(balanceKey(id, spender), { ...NO_BALANCE, used, since: level.runningSince });
      }
    }
    return balances;
  }

  /** Returns what a call takes of each fitting budget, from the contract down. */
  parts(involved: readonly { id: string; level: ReplayedLevel }[], call: SpendingCall): ReplayedPart[] {
    const { evaluation, amounts } = call;
    const at = new Date(call.at);
    return partsOfCall(
      {
        budgets: this.#budgets,
        at,
        balanceOf: ({ key }) => this.#balances?.get(key),
        spanOf: (budget, facts) => this.#spanOf(budget, facts),
        valueOf: (budget) => this.#valueOf(budget, evaluation),
      },
      involved,
      {
        spender: call.spender === null ? [] : (parseSpender(call.spender) ?? []),
        usedAt: call.usedAt < call.at ? new Date(call.usedAt) : undefined,
        costOf: (budget, id) => (budget.unit === null ? (amounts[id] ?? 0) : call.costOfUnits(budget, budget.unit)),
      },
    );
  }

  #spanOf(
    budget: Budget,
    { at, level, last }: { at: Date; level: ReplayedLevel; last: BudgetBalance | undefined },
  ): Span {
    return windowAt(budget.window, at, {
      contractStart: this.#contractStart,
      periodSince: new Date(level.runningSince),
      periodEnds: level.resetAt,
      lastSince: last?.since,
    });
  }

  #valueOf({ amount, serviceId }: Budget, evaluation: Evaluation): number | undefined {
    if (typeof amount === "number") return amount;
    const key = this.#serviceKeys.get(serviceId);
    const value = evaluation.services.find(({ serviceName }) => serviceName === key)?.grant.usageLimits.get(amount);
    return isBound(value) ? value : undefined;
  }

  /** Counts an amount. Starts a new window where the last one is over. */
  move({ fit, span }: Pick<ReplayedPart, "fit" | "span">, { used }: { used: number }): void {
    if (used === 0) return;
    const before = balanceIn(this.#balances?.get(fit.key), span);
    this.#balances?.set(fit.key, { ...before, used: Math.max(0, sum(before.used, used)) });
  }

  /** Holds an amount, or gives a held one back. Starts a new window only to hold. */
  hold({ fit, span }: ReplayedPart, amount: number): void {
    if (amount === 0) return;
    const last = this.#balances?.get(fit.key);
    const before = amount > 0 || last === undefined ? balanceIn(last, span) : last;
    this.#balances?.set(fit.key, { ...before, held: Math.max(0, sum(before.held, amount)) });
  }

  /** Gives back what a call used, unless its window is over. */
  giveBack({ fit, span }: ReplayedPart, amount: number): void {
    const last = this.#balances?.get(fit.key);
    if (last?.since === span.since) this.move({ fit, span }, { used: -amount });
  }

  /** Returns the parts of a hold in their windows of now, of budgets that are still there. */
  current(parts: readonly ReplayedPart[], at: number, evaluation: Evaluation | undefined): ReplayedPart[] {
    const moment = new Date(at);
    return parts.flatMap((part) => {
      const { budget, key } = part.fit;
      if (evaluation === undefined || !this.#budgets.some(({ id }) => id === budget.id)) return [];
      const last = this.#balances?.get(key);
      const span = this.#spanOf(budget, { at: moment, level: part.level, last });
      if (isOver(span, moment)) return [];
      return [{ ...part, span, value: this.#valueOf(budget, evaluation), balance: balanceIn(last, span) }];
    });
  }
}
