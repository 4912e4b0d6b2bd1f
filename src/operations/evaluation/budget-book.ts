import type { HeldBudget } from "../../core/holds.ts";
import { chain, type MaybePromise } from "../../core/maybe-promise.ts";
import { budgetOfPricing, type BudgetTerms, budgetTermsOf } from "../../core/pricing/budget-terms.ts";
import {
  type Budget,
  type BudgetBalance,
  fittingBudgets,
  type Span,
  type Spender,
  windowAt,
} from "../../core/pricing/budgets.ts";
import type { Evaluation } from "../../core/pricing/evaluate.ts";
import { isBound } from "../../core/pricing/model.ts";
import { balanceKey, levelKey, type ReadBalances, readBudgetBalancesWithin } from "../../db/queries/budgets.ts";
import type { ContractSnapshot, SeenLevel } from "../../db/queries/contract-snapshots.ts";
import { type Context, isInTransaction } from "../context.ts";
import { grantedLimit } from "../evaluations.ts";

/* Reads the budgets that decide about a contract. One without budgets has no book. Source: contract budgets §3. */

/** Budgets of a contract at one moment, with the balances that its requests need. */
export interface BudgetBook {
  readonly budgets: readonly Budget[];
  /** By balanceKey. Granted requests move them. Undefined: never used. */
  readonly balances: Map<string, BudgetBalance | undefined>;
  /** Start of the running period, by levelKey. */
  readonly periods: ReadBalances["periods"];
}

/** Contract, evaluation, moment and book of a decision. */
export interface BudgetSubject {
  readonly contract: ContractSnapshot;
  readonly evaluation: Evaluation;
  readonly at: Date;
  readonly budgets?: BudgetBook | undefined;
}

/** Budgets of the pricings of an evaluation by service name, without those of pricings that have none. */
const ofPricings = new WeakMap<Evaluation, readonly (readonly [service: string, terms: readonly BudgetTerms[]])[]>();

/** Budgets of both, by the services of a contract, of its last evaluation. A list that stays the same has cached fits. */
const ofContracts = new WeakMap<
  ContractSnapshot["services"],
  { evaluation: Evaluation; own: readonly Budget[]; all: readonly Budget[] }
>();

/** Returns the budgets of a contract: its own, and those of its pricings. */
export function budgetsOf(contract: ContractSnapshot, evaluation: Evaluation | undefined): readonly Budget[] {
  if (evaluation === undefined) return contract.budgets;
  let found = ofPricings.get(evaluation);
  if (found === undefined) {
    found = evaluation.services.flatMap(({ serviceName, pricing }) => {
      const terms = budgetTermsOf(pricing.pricing);
      return terms.length === 0 ? [] : [[serviceName, terms] as const];
    });
    ofPricings.set(evaluation, found);
  }
  if (found.length === 0) return contract.budgets;
  const cached = ofContracts.get(contract.services);
  if (cached?.evaluation === evaluation && cached.own === contract.budgets) return cached.all;
  const ofVersions = found.flatMap(([service, terms]) => {
    const serviceId = contract.services.find(({ key }) => key === service)?.serviceId;
    return serviceId === undefined ? [] : terms.map((one) => budgetOfPricing(one, serviceId));
  });
  const all = [...ofVersions, ...contract.budgets];
  ofContracts.set(contract.services, { evaluation, own: contract.budgets, all });
  return all;
}

/** Balances that were read of a snapshot, which stay true of it: they move with its levels. */
const cachedBalances = new WeakMap<ContractSnapshot, ReadBooks>();
type ReadBooks = Pick<BudgetBook, "balances" | "periods">;

/** Maximum cached balances per contract. */
const MAX_CACHED = 2000;

/**
 * Loads the budgets of a contract with the balances of these spenders and holds, from the cache if possible. Undefined if there
 * are no budgets.
 */
export function loadBudgets(
  ctx: Pick<Context, "db" | "resources">,
  { contract, evaluation, at }: Pick<BudgetSubject, "contract" | "at"> & { evaluation?: Evaluation | undefined },
  spenders: readonly Spender[],
  held: readonly HeldBudget[] = [],
): MaybePromise<BudgetBook | undefined> {
  const budgets = budgetsOf(contract, evaluation);
  if (budgets.length === 0 && held.length === 0) return undefined;
  const wanted = new Map<string, BalanceName>();
  for (const { budget, spender } of held) wanted.set(balanceKey(budget, spender), { budget, spender });
  for (const spender of spenders) {
    for (const fit of fittingBudgets(budgets, spender, at)) {
      wanted.set(balanceKey(fit.budget.id, fit.spender), { budget: fit.budget.id, spender: fit.spender });
    }
  }
  return chain(readBalances(ctx, contract, wanted), ({ balances, periods }) => ({
    budgets,
    periods,
    balances: new Map(Array.from(wanted.keys(), (key) => [key, balances.get(key)])),
  }));
}

/** A balance of a contract, by the id of its budget and the path of its spender. */
type BalanceName = Pick<HeldBudget, "budget" | "spender">;

function readBalances(
  ctx: Pick<Context, "db" | "resources">,
  contract: ContractSnapshot,
  wanted: ReadonlyMap<string, BalanceName>,
): MaybePromise<ReadBooks> {
  const { contractId } = contract;
  const isCacheable = !isInTransaction(ctx);
  const cached = isCacheable ? cachedBalances.get(contract) : undefined;
  const missing = [...wanted].filter(([key]) => cached?.balances.has(key) !== true);
  if (cached !== undefined && missing.length === 0) return cached;
  const query = {
    contractId,
    budgets: missing.map(([, { budget }]) => budget),
    spenders: missing.map(([, { spender }]) => spender),
  };
  const reading = isCacheable ? ctx.resources.snapshots.budgetBalances(query) : readBudgetBalancesWithin(ctx.db, query);
  return reading.then((read) => {
    const balances = new Map(cached !== undefined && cached.balances.size < MAX_CACHED ? cached.balances : []);
    for (const key of wanted.keys()) balances.set(key, read.balances.get(key) ?? cached?.balances.get(key));
    const books = { balances, periods: read.periods };
    if (isCacheable) cachedBalances.set(contract, books);
    return books;
  });
}

/** Caches the balances of a snapshot that follows from `before` by requests that moved the balances of the book. */
export function keepBalances(before: ContractSnapshot, after: ContractSnapshot, book: BudgetBook | undefined): void {
  const cached = cachedBalances.get(before);
  if (cached === undefined || book === undefined) return;
  for (const [key, balance] of book.balances) {
    if (balance !== undefined && !(Number.isSafeInteger(balance.used) && Number.isSafeInteger(balance.held))) return;
    cached.balances.set(key, balance);
  }
  cachedBalances.delete(before);
  cachedBalances.set(after, cached);
}

/** Returns the window of a budget around a moment. */
export function spanOf(
  contract: ContractSnapshot,
  { periods }: Pick<BudgetBook, "periods">,
  budget: Budget,
  { at, level, last }: { at: Date; level: Pick<SeenLevel, "resetAt">; last: BudgetBalance | undefined },
): Span {
  return windowAt(budget.window, at, {
    contractStart: contract.startDate,
    periodSince: periods.get(levelKey(budget)) ?? null,
    periodEnds: level.resetAt,
    lastSince: last?.since,
  });
}

/** Returns the amount of a budget; undefined without bound. */
export function valueOf(contract: ContractSnapshot, evaluation: Evaluation, budget: Budget): number | undefined {
  const { amount, serviceId } = budget;
  const value =
    typeof amount === "number" ? amount : grantedLimit(contract, evaluation, { serviceId, limitName: amount });
  return isBound(value) ? value : undefined;
}
