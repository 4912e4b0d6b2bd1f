import { sum } from "../core/exact.ts";
import { trackedLimits } from "../core/pricing/compile.ts";
import { idOf } from "../core/pricing/evaluation.ts";
import { isBound } from "../core/pricing/model.ts";
import { isStorable } from "../core/storable.ts";
import {
  balanceIn,
  type Budget,
  type BudgetMode,
  type BudgetWindow,
  parsePattern,
  patternText,
  type Span,
  windowAt,
} from "../core/pricing/budgets.ts";
import {
  type BudgetRow,
  deleteBudget,
  findBudget,
  levelKey,
  listBudgetBalances,
  listBudgetRows,
  putBudget,
} from "../db/queries/budgets.ts";
import type { ContractSnapshot } from "../db/queries/contract-snapshots.ts";
import { recordStates } from "../db/queries/contract-states.ts";
import { audit } from "./audit.ts";
import { type Context, newId, transaction } from "./context.ts";
import type { ContractAddress } from "./contract-address.ts";
import { applyDueChangesOf } from "./due-changes.ts";
import { Failure } from "./errors.ts";
import { evaluationIfAny, grantedLimit } from "./evaluations.ts";
import { type LockedContract, lockCurrent } from "./locked-contract.ts";
import { compiledPricings } from "./subscriptions.ts";

/*
 * Budgets of contracts: how much of a limit a spender may take within a window. Source: contract budgets §2.
 */

const MAX_BUDGETS = 200;
const MAX_NAME_LENGTH = 100;
/** Balances that one budget shows, alone and in a list. */
const SHOWN = { alone: 100, listed: 10 };

/** A budget as requested. */
export interface NewBudget {
  limit: string;
  spender: string | null;
  unit: string | null;
  amount: number | string;
  window: BudgetWindow;
  mode: BudgetMode;
  until: Date | null;
  thresholds: readonly number[];
}

/** A budget in the form that endpoints return. */
export interface BudgetAnswer extends Omit<NewBudget, "limit"> {
  readonly name: string;
  /** Null for a limit that the contract no longer has. */
  readonly limit: string | null;
  readonly amountNow: number | null;
  readonly createdAt: Date;
  readonly balances: readonly {
    readonly spender: string | null;
    readonly used: number;
    readonly held: number;
    readonly remaining: number | null;
    readonly resetAt: string | null;
  }[];
  /** The last call that it denied; null for none. */
  readonly denied: { readonly spender: string | null; readonly amount: number; readonly at: Date } | null;
}

async function withCurrent<T>(
  ctx: Context,
  address: ContractAddress,
  work: (ctx: Context, locked: LockedContract) => Promise<T>,
): Promise<T> {
  await applyDueChangesOf(ctx, address);
  return transaction(ctx, async (ctx) => work(ctx, await lockCurrent(ctx, address)));
}

type Named = ContractAddress & { name: string };

/**
 * Creates or replaces a budget of a contract.
 * @throws Failure notFound for an unknown contract; unprocessable for an unknown limit or a wrong name; conflict with too many.
 */
export async function setBudget(
  ctx: Context,
  { name, budget, ...address }: Named & { budget: NewBudget },
): Promise<{ budget: BudgetAnswer; isNew: boolean }> {
  return withCurrent(ctx, address, async (ctx, locked) => {
    const { contract, organizationId, userId, now } = locked;
    const { contractId } = contract;
    if (name.length === 0 || name.length > MAX_NAME_LENGTH || !isStorable(name)) {
      throw new Failure("unprocessable", `The name of a budget must have 1 to ${MAX_NAME_LENGTH} characters`);
    }
    const level = await requireLimit(ctx, contract, budget.limit);
    if (typeof budget.amount === "string") await requireOther(ctx, contract, level, budget.amount);
    const before = await findBudget(ctx.db, contractId, name);
    if (before === undefined && (await listBudgetRows(ctx.db, contractId)).length >= MAX_BUDGETS) {
      throw new Failure("conflict", `CONFLICT: A contract cannot have more than ${MAX_BUDGETS} budgets`);
    }
    const { unit, amount, window, mode, until, thresholds } = budget;
    const spender = budget.spender === null ? null : patternText(parsePattern(budget.spender) ?? []);
    const identity = { ...level, spender, unit, window };
    const continued = before !== undefined && hasIdentity(before, identity) ? before : undefined;
    const row: BudgetRow = {
      id: continued?.id ?? newId(now),
      contractId,
      organizationId,
      name,
      ...identity,
      amount,
      mode,
      until,
      thresholds: [...thresholds],
      createdAt: before?.createdAt ?? now,
      updatedAt: now,
      deniedSpender: continued?.deniedSpender ?? null,
      deniedAmount: continued?.deniedAmount ?? null,
      deniedAt: continued?.deniedAt ?? null,
    };
    const [earlier] = before === undefined ? [] : await viewBudgets(ctx, locked, [before], 0);
    await putBudget(ctx.db, row, before);
    await recordStates(ctx.db, { contractIds: [contractId], cause: "budget", now });
    const [view] = await viewBudgets(ctx, locked, [row], SHOWN.alone);
    if (view === undefined) throw new Error("a budget has no view");
    await audit(ctx, {
      action: "budget.set",
      organizationId,
      target: userId,
      before: earlier,
      after: { ...view, balances: [], denied: null },
    });
    return { budget: view, isNew: before === undefined };
  });
}

/** True if the balances of a budget are those of one with this limit, spender, unit and window. */
function hasIdentity(
  row: BudgetRow,
  other: Pick<BudgetRow, "serviceId" | "limitName" | "spender" | "unit" | "window">,
): boolean {
  const textOf = ({ serviceId, limitName, spender, unit, window }: typeof other) =>
    JSON.stringify([serviceId, limitName, spender, unit, windowText(window)]);
  return textOf(row) === textOf(other);
}

const windowText = (window: BudgetWindow): string =>
  typeof window === "string" ? window : `${window.value} ${window.unit} ${window.anchor}`;

/** Returns the level of a limit id. @throws Failure unprocessable for one that is not numeric and tracked. */
async function requireLimit(ctx: Context, { services }: ContractSnapshot, limitId: string) {
  const compiled = await compiledPricings(ctx, services);
  for (const { serviceId, key, hash } of services.toReversed()) {
    const pricing = compiled.get(hash);
    const name = pricing && trackedLimits(pricing).find((limit) => idOf(key, limit.name) === limitId)?.name;
    const isNumeric = name !== undefined && typeof pricing?.usageLimits.get(name)?.defaultValue === "number";
    if (isNumeric) return { serviceId, limitName: name };
  }
  throw new Failure("unprocessable", `Unknown limit: ${limitId}`);
}

/** @throws Failure unprocessable for a name of no other limit of the pricing. */
async function requireOther(
  ctx: Context,
  { services }: ContractSnapshot,
  level: { serviceId: string; limitName: string },
  name: string,
): Promise<void> {
  const contracted = services.find(({ serviceId }) => serviceId === level.serviceId);
  const pricing = contracted && (await compiledPricings(ctx, [contracted])).get(contracted.hash);
  const isNumeric = typeof pricing?.usageLimits.get(name)?.defaultValue === "number";
  if (!isNumeric || name === level.limitName) throw new Failure("unprocessable", `Unknown limit: ${name}`);
}

/** @throws Failure notFound for an unknown contract or budget. */
export async function removeBudget(ctx: Context, { name, ...address }: Named): Promise<void> {
  await withCurrent(ctx, address, async (ctx, locked) => {
    const { contract, organizationId, userId, now } = locked;
    const row = await requireBudget(ctx, contract, { userId, name });
    const [before] = await viewBudgets(ctx, locked, [row], 0);
    await deleteBudget(ctx.db, row, now);
    await recordStates(ctx.db, { contractIds: [contract.contractId], cause: "budget", now });
    await audit(ctx, { action: "budget.delete", organizationId, target: userId, before });
  });
}

async function requireBudget(
  ctx: Context,
  { contractId }: ContractSnapshot,
  { userId, name }: { userId: string; name: string },
): Promise<BudgetRow> {
  const row = name.includes("\0") ? undefined : await findBudget(ctx.db, contractId, name);
  if (row === undefined) throw new Failure("notFound", `Budget ${name} of ${userId} not found`);
  return row;
}

/** @throws Failure notFound for an unknown contract or budget. */
export async function showBudget(ctx: Context, { name, ...address }: Named): Promise<BudgetAnswer> {
  await ctx.resources.callCounter.flush();
  return withCurrent(ctx, address, async (ctx, locked) => {
    const row = await requireBudget(ctx, locked.contract, { userId: locked.userId, name });
    const [view] = await viewBudgets(ctx, locked, [row], SHOWN.alone);
    if (view === undefined) throw new Error("a budget has no view");
    return view;
  });
}

/** Lists the budgets of a contract by name. @throws Failure notFound for an unknown contract. */
export async function listBudgets(ctx: Context, address: ContractAddress): Promise<{ data: BudgetAnswer[] }> {
  await ctx.resources.callCounter.flush();
  return withCurrent(ctx, address, async (ctx, locked) => ({
    data: await viewBudgets(ctx, locked, await listBudgetRows(ctx.db, locked.contract.contractId), SHOWN.listed),
  }));
}

/** Shows budgets with up to `shown` balances each; with none, nor the last denial. */
async function viewBudgets(
  ctx: Context,
  { contract, now }: LockedContract,
  rows: readonly BudgetRow[],
  shown: number,
): Promise<BudgetAnswer[]> {
  const evaluation = await evaluationIfAny(ctx, contract, now);
  const periods = new Map(contract.levels.map((level) => [levelKey(level), level]));
  const spanOf = (row: Pick<Budget, "window" | "serviceId" | "limitName">, lastSince?: number): Span =>
    windowAt(row.window, now, {
      contractStart: contract.startDate,
      periodSince: periods.get(levelKey(row))?.runningSince ?? null,
      periodEnds: periods.get(levelKey(row))?.resetAt ?? null,
      lastSince,
    });
  // A window from the first use has begun since the longest that may still run.
  const asked = rows.map((row) => ({ id: row.id, since: isFromFirst(row) ? longestAgo(row, now) : spanOf(row).since }));
  const found = shown === 0 ? [] : await listBudgetBalances(ctx.db, contract.contractId, asked, shown);
  return rows.map((row) => {
    const { name, spender, unit, amount, window, mode, until, thresholds, createdAt, deniedAt } = row;
    const key = contract.services.find(({ serviceId }) => serviceId === row.serviceId)?.key;
    const hasLevel = key !== undefined && periods.has(levelKey(row));
    const { serviceId } = row;
    const value =
      typeof amount === "number" ? amount : grantedLimit(contract, evaluation, { serviceId, limitName: amount });
    const amountNow = isBound(value) ? value : null;
    const balances = found
      .filter((balance) => balance.budget === row.id)
      .map((balance) => {
        const span = spanOf(row, balance.since);
        const { used, held } = balanceIn(balance, span);
        return {
          spender: balance.spender === "" ? null : balance.spender,
          used,
          held,
          remaining: amountNow === null ? null : Math.max(0, sum(amountNow, -sum(used, held))),
          resetAt: span.ends === null ? null : new Date(span.ends).toISOString(),
        };
      })
      .filter(({ used, held }) => used > 0 || held > 0);
    return {
      name,
      limit: hasLevel ? idOf(key, row.limitName) : null,
      spender,
      unit,
      amount,
      amountNow,
      window,
      mode,
      until,
      thresholds,
      createdAt,
      balances,
      denied:
        deniedAt === null || shown === 0
          ? null
          : { spender: row.deniedSpender, amount: row.deniedAmount ?? 0, at: deniedAt },
    };
  });
}

const isFromFirst = ({ window }: Pick<BudgetRow, "window">) => typeof window !== "string" && window.anchor === "first";

/** Start of the earliest window from the first use that may still run, in milliseconds. */
function longestAgo({ window }: Pick<BudgetRow, "window">, now: Date): number {
  if (typeof window === "string") return 0;
  const days = { HOUR: 1 / 24, DAY: 1, WEEK: 7, MONTH: 31 }[window.unit] * window.value;
  return now.getTime() - days * 86_400_000;
}
