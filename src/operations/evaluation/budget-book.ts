import type { HeldBudget } from "../../core/holds.ts";
import type { MaybePromise } from "../../core/maybe-promise.ts";
import { budgetOfPricing, type BudgetTerms, budgetTermsOf } from "../../core/pricing/budget-terms.ts";
import {
  balanceKey,
  type Budget,
  type BudgetBalance,
  fittingBudgets,
  type Span,
  type Spender,
  windowAt,
} from "../../core/pricing/budgets.ts";
import type { Evaluation } from "../../core/pricing/evaluate.ts";
import { isBound } from "../../core/pricing/model.ts";
import { levelKey, type ReadBalances, readBudgetBalancesWithin } from "../../db/queries/budgets.ts";
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

type ReadBooks = Pick<BudgetBook, "balances" | "periods">;

/**
 * Balances that were read of a snapshot, which stay true of it: they move with its levels. By the services, which outlive
 * consumption: an entry per snapshot would cost the garbage collector one per call.
 */
const cachedBalances = new WeakMap<ContractSnapshot["services"], ReadBooks & { of: ContractSnapshot }>();

/** Maximum cached balances per contract. */
const MAX_CACHED = 2000;

function cachedOf(contract: ContractSnapshot): ReadBooks | undefined {
  const cached = cachedBalances.get(contract.services);
  return cached?.of === contract ? cached : undefined;
}

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
  const isCacheable = !isInTransaction(ctx);
  const cached = isCacheable ? cachedOf(contract) : undefined;
  const balances: BudgetBook["balances"] = new Map();
  let missing: Map<string, BalanceName> | undefined;
  const want = (key: string, budget: string, spender: string) => {
    const balance = cached?.balances.get(key);
    if (balance !== undefined || cached?.balances.has(key) === true) balances.set(key, balance);
    else (missing ??= new Map()).set(key, { budget, spender });
  };
  for (const { budget, spender } of held) want(balanceKey(budget, spender), budget, spender);
  for (const spender of spenders) {
    for (const { key, budget, spender: path } of fittingBudgets(budgets, spender, at)) want(key, budget.id, path);
  }
  if (cached !== undefined && missing === undefined) return { budgets, balances, periods: cached.periods };
  const wanted: ReadonlyMap<string, BalanceName> = missing ?? new Map();
  return readBalances(ctx, contract, [...wanted.values()]).then((read) => {
    for (const key of wanted.keys()) balances.set(key, read.balances.get(key));
    if (isCacheable) cacheBalances(contract, balances, read.periods);
    return { budgets, balances, periods: read.periods };
  });
}

/** A balance of a contract, by the id of its budget and the path of its spender. */
type BalanceName = Pick<HeldBudget, "budget" | "spender">;

function readBalances(
  ctx: Pick<Context, "db" | "resources">,
  { contractId }: ContractSnapshot,
  missing: readonly BalanceName[],
): Promise<ReadBalances> {
  const query = {
    contractId,
    budgets: missing.map(({ budget }) => budget),
    spenders: missing.map(({ spender }) => spender),
  };
  return isInTransaction(ctx) ? readBudgetBalancesWithin(ctx.db, query) : ctx.resources.snapshots.budgetBalances(query);
}

/** Adds balances that were read to the cached ones of a snapshot, unless these are many. */
function cacheBalances(contract: ContractSnapshot, read: BudgetBook["balances"], periods: BudgetBook["periods"]): void {
  const cached = cachedOf(contract);
  const balances = new Map(cached !== undefined && cached.balances.size < MAX_CACHED ? cached.balances : []);
  for (const [key, balance] of read) balances.set(key, balance);
  cachedBalances.set(contract.services, { of: contract, balances, periods });
}

/** Caches the balances of a snapshot that follows from `before` by requests that moved the balances of the book. */
export function keepBalances(before: ContractSnapshot, after: ContractSnapshot, book: BudgetBook | undefined): void {
  const cached = cachedBalances.get(before.services);
  if (book === undefined || cached?.of !== before) return;
  const isExact = ({ used, held }: BudgetBalance) => Number.isSafeInteger(used) && Number.isSafeInteger(held);
  for (const balance of book.balances.values()) if (balance !== undefined && !isExact(balance)) return;
  for (const [key, balance] of book.balances) cached.balances.set(key, balance);
  cached.of = after;
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
    periodSince: budget.window === "period" ? (periods.get(levelKey(budget)) ?? null) : null,
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
