import { type BudgetTerms, budgetTermsOf, identityOf } from "../pricing/budget-terms.ts";
import { patternText } from "../pricing/budgets.ts";
import type { JsonValue, Pricing } from "../pricing/model.ts";
import type { Effect } from "./effect.ts";

/** Returns the budgets that either pricing has of a limit, by name. Most pricings have none. */
export function budgetsOfBoth(
  before: Pricing,
  after: Pricing,
  limit: string,
): [name: string, was: BudgetTerms | undefined, is: BudgetTerms | undefined][] {
  const [old, now] = [budgetTermsOf(before), budgetTermsOf(after)];
  if (old === now) return [];
  const of = (all: readonly BudgetTerms[]) =>
    new Map(all.filter(({ limitName }) => limitName === limit).map((one) => [one.name, one]));
  const [had, has] = [of(old), of(now)];
  return [...new Set([...had.keys(), ...has.keys()])].map((name) => [name, had.get(name), has.get(name)]);
}

/** Returns the effect of a changed budget on who spends. A tighter one is less; one that only warns takes nothing. */
export function budgetEffect(was: BudgetTerms | undefined, is: BudgetTerms | undefined): Effect {
  const [old, now] = [was, is].map((one) => (one?.mode === "stop" ? one : undefined));
  if (old === undefined || now === undefined) return old === now ? "same" : old === undefined ? "less" : "more";
  if (identityOf(old) !== identityOf(now) || old.until !== now.until) return "different";
  if (old.amount === now.amount) return "same";
  if (typeof old.amount !== "number" || typeof now.amount !== "number") return "different";
  return old.amount < now.amount ? "more" : "less";
}

/** Returns the effects of what two pricings say about budgets of a limit, by the names of these. */
export const budgetEffects = (before: Pricing, after: Pricing, limit: string): [name: string, effect: Effect][] =>
  budgetsOfBoth(before, after, limit).map(([name, was, is]) => [name, budgetEffect(was, is)]);

/** Returns a budget as its pricing writes it. */
export function budgetJson({ spender, unit, amount, window, mode, until, thresholds }: BudgetTerms): JsonValue {
  return {
    spender: spender.length === 0 ? null : patternText(spender),
    unit,
    amount,
    window: typeof window === "string" ? window : { ...window },
    mode,
    until: until === null ? null : new Date(until).toISOString(),
    thresholds: [...thresholds],
  };
}
