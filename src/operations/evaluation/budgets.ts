import { sum, total } from "../../core/exact.ts";
import type { HeldAmount, HeldBudget } from "../../core/holds.ts";
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
import { budgetOfPricing, budgetTermsOf, type BudgetTerms } from "../../core/pricing/budget-terms.ts";
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
import type { BudgetView, EvaluationRequest, UnitCosts } from "./request.ts";
import { costsOf, ratesIn } from "./units.ts";

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

/** Budgets of the pricings of an evaluation by service name, without those of pricings that have none. */
const ofPricings = new WeakMap<Evaluation, readonly (readonly [service: string, terms: readonly BudgetTerms[]])[]>();

/** Returns the budgets of a contract: its own, and those of its pricings. */
function budgetsOf(contract: ContractSnapshot, evaluation: Evaluation | undefined): readonly Budget[] {
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
  const own = found.flatMap(([service, terms]) => {
    const serviceId = contract.services.find(({ key }) => key === service)?.serviceId;
    return serviceId === undefined ? [] : terms.map((one) => budgetOfPricing(one, serviceId));
  });
  return [...own, ...contract.budgets];
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

type Spending = Pick<EvaluationRequest, "spender"> &
  Partial<Pick<EvaluationRequest, "expected" | "units" | "unitCosts" | "usedAt">>;
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
    const { usedAt } = request;
    const isFromFirst = typeof budget.window !== "string" && budget.window.anchor === "first";
    const span = spanOf(contract, book, budget, { at: (isFromFirst ? usedAt : undefined) ?? at, level, last });
    if (usedAt !== undefined && (usedAt.getTime() < span.since || isOver(span, at))) return [];
    const amount = costOf(budget, id, request, evaluation);
    return [
      { fit, id, level, amount, value: valueOf(contract, evaluation, budget), span, balance: balanceIn(last, span) },
    ];
  });
}

const isOver = ({ ends }: Span, at: Date): boolean => ends !== null && ends <= at.getTime();

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

function costOf({ unit }: Budget, id: string, request: Spending, evaluation: Evaluation): number {
  if (unit === null) return request.expected?.[id] ?? 0;
  const costs = request.unitCosts ?? (request.units && costsOf(request.units, ratesIn(evaluation)));
  return costOfUnits(costs?.[id], unit);
}

/** Sums what units with a beginning cost. */
const costOfUnits = (costs: Readonly<Record<string, number>> | undefined, beginning: string): number =>
  total(Object.entries(costs ?? {}).flatMap(([name, cost]) => (name.startsWith(beginning) ? [cost] : [])));

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

/** Returns what a budget still allows of its limit; undefined for one that denies nothing, or counts some units only. */
export const boundOfPart = (part: BudgetPart): number | undefined =>
  part.fit.budget.mode === "warn" || part.fit.budget.unit !== null ? undefined : (remainingOfPart(part) ?? undefined);

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
  { contract, budgets: book }: Omit<BudgetSubject, "evaluation">,
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
  setBalance(
    book,
    { contractId: contract.contractId, organizationId, budget: budget.id, spender },
    after,
    { used, held },
    writes,
  );
}

/** Sets a balance in the book, and adds its change to the writes. */
function setBalance(
  book: BudgetBook,
  of: Pick<BudgetChange, "contractId" | "organizationId" | "budget" | "spender">,
  after: BudgetBalance,
  { used, held }: { used: number; held: number },
  writes: BudgetWrites,
): void {
  const key = balanceKey(of.budget, of.spender);
  book.balances.set(key, after);
  const written = `${of.contractId} ${key}`;
  const earlier = writes.budgets.get(written);
  writes.budgets.set(written, {
    ...after,
    ...of,
    used: sum(earlier?.since === after.since ? earlier.used : 0, used),
    held: sum(earlier?.held ?? 0, held),
  });
}

/** Amounts of a budget that a hold or lease counts, and that it holds afterwards. */
export interface HeldChange {
  held: HeldBudget;
  counted: number;
  /** Default: nothing. */
  heldAfter?: number;
}

/**
 * Moves balances by what holds and leases count and no longer hold. Returns the movements that count, by levelKey. Nothing counts
 * for a budget that is gone, or whose window is over.
 */
export function moveHeld(
  subject: Omit<BudgetSubject, "evaluation"> & { evaluation: Evaluation | undefined },
  name: { organizationId: string; userId: string },
  changes: readonly HeldChange[],
  writes: BudgetWrites,
): Map<string, BudgetMovement[]> {
  const movements = new Map<string, BudgetMovement[]>();
  const { contract, evaluation, at, budgets: book } = subject;
  if (book === undefined) return movements;
  for (const { held, counted, heldAfter = 0 } of changes) {
    const last = book.balances.get(balanceKey(held.budget, held.spender));
    if (last === undefined) continue;
    const budget = book.budgets.find(({ id }) => id === held.budget);
    const level = contract.levels.find((one) => sameLevel(one, held));
    const span = budget && level && spanOf(contract, book, budget, { at, level, last });
    const delta = { used: 0, held: sum(heldAfter, -held.amount) };
    if (budget === undefined || level === undefined || span === undefined || span.since < last.since) {
      const { contractId } = contract;
      const { budget: id, spender } = held;
      const after = { ...last, held: sum(last.held, delta.held) };
      setBalance(book, { contractId, organizationId: name.organizationId, budget: id, spender }, after, delta, writes);
      continue;
    }
    const part = {
      fit: { budget, spender: held.spender },
      level,
      value: evaluation === undefined ? undefined : valueOf(contract, evaluation, budget),
      span,
    };
    moveBudget({ contract, at, budgets: book }, name, part, { ...delta, used: counted }, writes);
    if (counted === 0) continue;
    const key = levelKey(held);
    movements.set(key, [...(movements.get(key) ?? []), [budget.id, held.spender, counted, span.since]]);
  }
  return movements;
}

/** Returns movements by levelKey by the limit ids of a hold. */
export const byLimit = (
  { amounts }: { amounts: readonly HeldAmount[] },
  movements: ReadonlyMap<string, readonly BudgetMovement[]>,
): Record<string, readonly BudgetMovement[]> =>
  Object.fromEntries(
    amounts.flatMap((held) => {
      const moved = movements.get(levelKey(held));
      return moved === undefined ? [] : [[held.id, moved]];
    }),
  );

/** Returns what the settlement of a hold counts of its budgets. */
export function settledBudgets(
  { budgets: book }: Pick<BudgetSubject, "budgets">,
  hold: { amounts: readonly HeldAmount[]; budgets: readonly HeldBudget[] | null },
  amounts: Readonly<Record<string, number>>,
  costs?: UnitCosts,
): HeldChange[] {
  return (hold.budgets ?? []).map((held) => {
    const id = hold.amounts.find((one) => sameLevel(one, held))?.id ?? "";
    const amount = amounts[id] ?? 0;
    const unit = book?.budgets.find((budget) => budget.id === held.budget)?.unit ?? null;
    if (unit === null) return { held, counted: amount };
    const counted = costs?.[id] === undefined ? Math.min(held.amount, amount) : costOfUnits(costs[id], unit);
    return { held, counted };
  });
}

/** Returns the budgets of a hold or lease with their windows and balances, of those that are still there. */
export function heldParts(
  subject: Omit<BudgetSubject, "evaluation"> & { evaluation: Evaluation | undefined },
  hold: { amounts: readonly HeldAmount[]; budgets: readonly HeldBudget[] | null },
): BudgetPart[] {
  const { contract, evaluation, at, budgets: book } = subject;
  return (hold.budgets ?? []).flatMap((held) => {
    const budget = book?.budgets.find(({ id }) => id === held.budget);
    const level = contract.levels.find((one) => sameLevel(one, held));
    const id = hold.amounts.find((one) => sameLevel(one, held))?.id;
    if (book === undefined || budget === undefined || level === undefined || id === undefined) return [];
    const last = book.balances.get(balanceKey(budget.id, held.spender));
    const span = spanOf(contract, book, budget, { at, level, last });
    const value = evaluation && valueOf(contract, evaluation, budget);
    const fit = { budget, spender: held.spender };
    return [{ fit, id, level, amount: held.amount, value, span, balance: balanceIn(last, span) }];
  });
}

/** Returns the first budget that denies to count more than what is held of it, from the contract down. */
export function deniedSettlement(
  subject: Omit<BudgetSubject, "evaluation"> & { evaluation: Evaluation | undefined },
  hold: { amounts: readonly HeldAmount[]; budgets: readonly HeldBudget[] | null },
  changes: readonly HeldChange[],
): BudgetView | undefined {
  const denying = heldParts(subject, hold).find((part) => {
    const { fit, value, balance, amount: held } = part;
    const change = changes.find((one) => one.held.budget === fit.budget.id && one.held.spender === fit.spender);
    const counted = change?.counted ?? 0;
    if (fit.budget.mode === "warn" || value === undefined || counted <= held) return false;
    return total([balance.used, balance.held, -held, counted]) > value;
  });
  return denying && viewBudget(denying);
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
