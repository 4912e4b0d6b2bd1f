import { sum } from "../../core/exact.ts";
import { type MaybePromise, chain } from "../../core/maybe-promise.ts";
import {
  balanceIn,
  type Budget,
  type BudgetBalance,
  type BudgetMovement,
  type Fit,
  fittingBudgets,
  patternText,
  type Span,
  type Spender,
  windowAt,
} from "../../core/pricing/budgets.ts";
import type { Evaluation } from "../../core/pricing/evaluate.ts";
import { isBound } from "../../core/pricing/model.ts";
import { hasAlerts, reachedThresholds } from "../../core/usage-alerts.ts";
import {
  balanceKey,
  type BudgetChange,
  levelKey,
  readBudgetBalancesWithin,
  type ReadBalances,
} from "../../db/queries/budgets.ts";
import type { ContractSnapshot, SeenLevel } from "../../db/queries/contract-snapshots.ts";
import type { Addressed } from "../../db/queries/outbox.ts";
import { sameLevel } from "../../db/queries/usage.ts";
import { type Context, isInTransaction } from "../context.ts";
import { grantedLimit } from "../evaluations.ts";
import type { BudgetView, EvaluationRequest } from "./request.ts";
import { amountsOf, ratesIn } from "./units.ts";

/*
 * Budgets of a contract, and how requests move their balances. Contracts without budgets have no book. Source: contract budgets
 * §3.
 */

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

/** Balances that were read of a snapshot, which stay true of it: they move with its levels. */
const cachedBalances = new WeakMap<ContractSnapshot, ReadBooks>();
type ReadBooks = Pick<BudgetBook, "balances" | "periods">;

/** Maximum cached balances per contract. */
const MAX_CACHED = 2000;

/**
 * Loads the budgets of a contract with the balances of these spenders, from the cache if possible. Undefined for a contract
 * without budgets.
 */
export function loadBudgets(
  ctx: Pick<Context, "db" | "resources">,
  { contract, at }: Pick<BudgetSubject, "contract" | "at">,
  spenders: readonly Spender[],
): MaybePromise<BudgetBook | undefined> {
  const { budgets } = contract;
  if (budgets.length === 0) return undefined;
  const fits = new Map<string, Fit>();
  for (const spender of spenders) {
    for (const fit of fittingBudgets(budgets, spender, at)) fits.set(balanceKey(fit.budget.id, fit.spender), fit);
  }
  return chain(readBalances(ctx, contract, fits), ({ balances, periods }) => ({
    budgets,
    periods,
    balances: new Map(Array.from(fits.keys(), (key) => [key, balances.get(key)])),
  }));
}

function readBalances(
  ctx: Pick<Context, "db" | "resources">,
  contract: ContractSnapshot,
  fits: ReadonlyMap<string, Fit>,
): MaybePromise<ReadBooks> {
  const { contractId } = contract;
  const isCacheable = !isInTransaction(ctx);
  const cached = isCacheable ? cachedBalances.get(contract) : undefined;
  const missing = [...fits].filter(([key]) => cached?.balances.has(key) !== true);
  if (cached !== undefined && missing.length === 0) return cached;
  const query = {
    contractId,
    budgets: missing.map(([, { budget }]) => budget.id),
    spenders: missing.map(([, { spender }]) => spender),
  };
  const reading = isCacheable ? ctx.resources.snapshots.budgetBalances(query) : readBudgetBalancesWithin(ctx.db, query);
  return reading.then((read) => {
    const balances = new Map(cached !== undefined && cached.balances.size < MAX_CACHED ? cached.balances : []);
    for (const key of fits.keys()) balances.set(key, read.balances.get(key) ?? cached?.balances.get(key));
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

/** Amount that a request takes of one budget. */
export interface BudgetPart {
  readonly fit: Fit;
  /** Limit id. */
  readonly id: string;
  readonly level: SeenLevel;
  /** Cost that counts. */
  readonly amount: number;
  /** Undefined: no bound. */
  readonly value: number | undefined;
  readonly span: Span;
  /** In that window, before the request. */
  readonly balance: BudgetBalance;
}

type Spending = Pick<EvaluationRequest, "spender"> & Partial<Pick<EvaluationRequest, "expected" | "units">>;

/** Returns what a request takes of each fitting budget of these levels, from the contract down. */
export function budgetParts(
  subject: BudgetSubject,
  involved: readonly { id: string; level: SeenLevel }[],
  request: Spending,
): BudgetPart[] {
  const { contract, evaluation, at, budgets: book } = subject;
  if (book === undefined) return [];
  return fittingBudgets(book.budgets, request.spender ?? [], at).flatMap((fit) => {
    const { budget } = fit;
    const found = involved.find(({ level }) => sameLevel(level, budget));
    if (found === undefined) return [];
    const { id, level } = found;
    const last = book.balances.get(balanceKey(budget.id, fit.spender));
    const span = spanOf(contract, book, budget, { at, level, last });
    const amount = costOf(budget, id, request, evaluation);
    return [
      { fit, id, level, amount, value: valueOf(contract, evaluation, budget), span, balance: balanceIn(last, span) },
    ];
  });
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

function costOf({ unit }: Budget, id: string, { expected, units }: Spending, evaluation: Evaluation): number {
  if (unit === null) return expected?.[id] ?? 0;
  const counted = Object.entries(units?.[id] ?? {}).filter(([name]) => name.startsWith(unit));
  if (counted.length === 0) return 0;
  return amountsOf({ [id]: Object.fromEntries(counted) }, ratesIn(evaluation))[id] ?? 0;
}

const takenOf = ({ balance }: BudgetPart): number => sum(balance.used, balance.held);

/** True if the budget denies the request. Units that it does not count pass. */
function denies(part: BudgetPart): boolean {
  const { fit, value, amount } = part;
  if (value === undefined || fit.budget.mode === "warn") return false;
  const taken = takenOf(part);
  return (fit.budget.unit === null && taken >= value) || (amount > 0 && sum(taken, amount) > value);
}

/** Returns the first budget that denies a request, from the contract down. */
export const firstDenying = (parts: readonly BudgetPart[]): BudgetPart | undefined => parts.find(denies);

/** Returns what is left of a budget; null without bound. `counts`: after the request. */
export function remainingOfPart(part: BudgetPart, counts = false): number | null {
  if (part.value === undefined) return null;
  return Math.max(0, sum(part.value, -sum(takenOf(part), counts ? part.amount : 0)));
}

/** Returns the part as answers show it. */
export function viewBudget(part: BudgetPart, counts = false): BudgetView {
  const { fit, id, value, span, balance, amount } = part;
  const { name, spender, window } = fit.budget;
  const hasBegun = typeof window === "string" || window.anchor !== "first" || balance.used > 0 || counts;
  return {
    name,
    spender: spender.length === 0 ? null : fit.spender,
    limit: id,
    window,
    amount: value ?? null,
    used: counts ? sum(takenOf(part), amount) : takenOf(part),
    remaining: remainingOfPart(part, counts),
    resetAt: hasBegun && span.ends !== null ? new Date(span.ends).toISOString() : null,
  };
}

/** Changes of balances by requests, and their events. */
export interface BudgetWrites {
  /** By contract and balance. */
  budgets: Map<string, BudgetChange>;
  events: Addressed[];
}

export const noBudgetWrites = () => ({ budgets: new Map<string, BudgetChange>(), events: [] });

/** Adds amounts to the balance of a part, in the book and in the writes. Adds the events of thresholds that it reaches. */
export function moveBudget(
  { contract, budgets: book }: BudgetSubject,
  { organizationId, userId }: { organizationId: string; userId: string },
  part: Pick<BudgetPart, "fit" | "level" | "value" | "span">,
  { used = 0, held = 0 }: { used?: number; held?: number },
  writes: BudgetWrites,
): void {
  if (book === undefined || (used === 0 && held === 0)) return;
  const { budget, spender } = part.fit;
  const key = balanceKey(budget.id, spender);
  const before = balanceIn(book.balances.get(key), part.span);
  let after: BudgetBalance = { ...before, used: sum(before.used, used), held: sum(before.held, held) };
  if (used > 0 && hasAlerts(part.value)) {
    const reached = reachedThresholds(budget.thresholds, { consumed: after.used, limit: part.value }, before);
    const highest = reached.at(-1);
    if (highest !== undefined) after = { ...after, alertedThreshold: highest, alertedLimit: part.value };
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
            used: after.used,
            resetAt: part.span.ends === null ? null : new Date(part.span.ends).toISOString(),
          },
        },
      });
    }
  }
  book.balances.set(key, after);
  const { contractId } = contract;
  const earlier = writes.budgets.get(`${contractId} ${key}`);
  writes.budgets.set(`${contractId} ${key}`, {
    ...after,
    contractId,
    organizationId,
    budget: budget.id,
    spender,
    used: sum(earlier?.used ?? 0, used),
    held: sum(earlier?.held ?? 0, held),
  });
}

/** Returns the movements of budgets that a movement of a level names. */
export function movementsOf(parts: readonly BudgetPart[], level: SeenLevel): BudgetMovement[] | undefined {
  const moved = parts
    .filter((part) => part.amount > 0 && sameLevel(part.level, level))
    .map(({ fit, amount, span }): BudgetMovement => [fit.budget.id, fit.spender, amount, span.since]);
  return moved.length === 0 ? undefined : moved;
}

/** Text of a spender as it is recorded; null without one. */
export const recordedSpender = (spender: Spender | undefined): string | null =>
  spender === undefined || spender.length === 0 ? null : patternText(spender);
