import { sum } from "../../../core/exact.ts";
import { LATE_END_MS } from "../../../core/leases.ts";
import type { BudgetMovement } from "../../../core/pricing/budgets.ts";
import { evaluateFeature, type FeatureResult } from "../../../core/pricing/evaluate.ts";
import type { SeenLevel } from "../../../db/queries/contract-snapshots.ts";
import { changeBudgetBalances, levelKey } from "../../../db/queries/budgets.ts";
import { changeLease, findLease, type FoundLease, type LeaseRow, takeBack } from "../../../db/queries/leases.ts";
import { moveLevels, sameLevel } from "../../../db/queries/usage.ts";
import { type Context, newId } from "../../context.ts";
import { Failure } from "../../errors.ts";
import { grantedLimit } from "../../evaluations.ts";
import { usageEvents } from "../../usage-events.ts";
import { type BudgetBook, loadBudgets } from "../budget-book.ts";
import { moveBudget, noBudgetWrites } from "../budget-moves.ts";
import { viewDenying } from "../budget-denials.ts";
import { boundOfPart, type BudgetPart } from "../budget-parts.ts";
import { heldParts, moveHeld } from "../held-budgets.ts";
import { recordUsage } from "../consumption/record.ts";
import { remainingOf } from "../decision.ts";
import { afterHoldEnds, evaluatedOrganization, type LockedHolder, usageOf, withLockedHolder } from "../prepare.ts";
import { isOver } from "../renewal.ts";
import type { DecidedResult, LeaseAnswer } from "../request.ts";
import { type Amounts, availableOf, endOf, viewLease } from "./lease.ts";

/** Report of a lease's holder, with the ids of the lease. */
export interface LeaseReport {
  id: string;
  /** Total spent since the lease began. */
  spent: Amounts;
  /** Amounts to be left after the call; all 0 ends the lease. Default: what is left. */
  amounts: Amounts | undefined;
  /** New duration from now. Default: the end stays. */
  durationMs: number | undefined;
}

/**
 * Counts newly spent amounts of a lease. Adds what lacks of the wanted ones, as far as it is available. A lease that
 * expired accepts only its end, which takes back what its expiry counted and nobody spent.
 * @throws Failure notFound for an unknown lease and for one that is gone; unprocessable for missing and unknown limits;
 * conflict after its end, or if more was spent than granted, or less than reported before.
 */
export function reportLease(ctx: Context, report: LeaseReport): Promise<LeaseAnswer> {
  return withLease(ctx, report.id, (ctx, leased) => {
    checkLimits(leased.lease, "spent", report.spent);
    if (report.amounts !== undefined) checkLimits(leased.lease, "amounts", report.amounts);
    return applyReport(ctx, leased, report);
  });
}

/**
 * Ends a lease with what was reported last. Does nothing if that has happened before.
 * @throws Failure notFound as reportLease.
 */
export async function endLease(ctx: Context, id: string): Promise<void> {
  await withLease(ctx, id, (ctx, leased) => {
    const { spent } = leased.lease.lease;
    return applyReport(ctx, leased, {
      spent: Object.fromEntries(spent.map((one) => [one.id, one.amount])),
      amounts: Object.fromEntries(spent.map((one) => [one.id, 0])),
      durationMs: undefined,
    });
  });
}

/** A lease and its contract, both locked and current, with the levels of the lease by position. */
interface Leased extends LockedHolder, FoundLease {
  levels: readonly SeenLevel[];
  /** Balances of the budgets that count it. */
  budgets: BudgetBook | undefined;
}

async function withLease<T>(ctx: Context, id: string, work: (ctx: Context, leased: Leased) => Promise<T>): Promise<T> {
  const notFound = () => new Failure("notFound", `Lease ${id} not found`);
  const address = /^[0-9a-f]{24}$/.test(id) ? await findLease(ctx.db, id) : undefined;
  if (address === undefined || address.organizationId !== evaluatedOrganization(ctx)) throw notFound();
  return withLockedHolder(ctx, address, async (ctx, holder) => {
    const found = await findLease(ctx.db, id);
    const levels = found === undefined ? undefined : levelsOf(found.lease, holder);
    if (found === undefined || levels === undefined) throw notFound();
    const budgets = await loadBudgets(ctx, holder, [], found.lease.budgets ?? []);
    return work(ctx, { ...holder, ...found, levels, budgets });
  });
}

/** Returns the levels of a lease; undefined if the lease is gone: it ended long ago, or its levels are tracked no more. */
function levelsOf({ state, until, amounts }: LeaseRow, { contract, at }: LockedHolder): SeenLevel[] | undefined {
  const isGone = state === "released" || (state !== "open" && at.getTime() - until.getTime() >= LATE_END_MS);
  const levels = amounts.flatMap((held) => contract.levels.find((level) => sameLevel(level, held)) ?? []);
  return isGone || levels.length < amounts.length ? undefined : levels;
}

/** @throws Failure unprocessable for a limit of the lease that is missing, or another one. */
function checkLimits({ lease: { spent } }: LeaseRow, field: "spent" | "amounts", given: Amounts): void {
  const missing = spent.find(({ id }) => !Object.hasOwn(given, id));
  if (missing !== undefined) throw new Failure("unprocessable", `The ${field}.${missing.id} field is required`);
  const unknown = Object.keys(given).find((name) => !spent.some(({ id }) => id === name));
  if (unknown !== undefined) throw new Failure("unprocessable", `Unknown limit in ${field}: ${unknown}`);
}

type ReportedAmounts = Omit<LeaseReport, "id">;

/** One limit of a report. */
interface Part {
  /** Id of the limit when the lease was granted. */
  id: string;
  level: SeenLevel;
  limit: number | boolean | null;
  /** Totals before the report and after it. */
  reported: number;
  spent: number;
  /** Rest of the lease after the report, without what that adds. */
  left: number;
}

async function applyReport(ctx: Context, leased: Leased, report: ReportedAmounts): Promise<LeaseAnswer> {
  const parts = partsOf(leased, report);
  const isEnd = report.amounts !== undefined && Object.values(report.amounts).every((amount) => amount === 0);
  checkReport(leased, parts, isEnd);
  return leased.lease.state === "open"
    ? reportOpen(ctx, leased, parts, { ...report, isEnd })
    : endLate(ctx, leased, parts);
}

function partsOf(leased: Leased, { spent }: ReportedAmounts): Part[] {
  const { lease, levels, contract, evaluation } = leased;
  return levels.map((level, i) => {
    const { id = "", amount: reported = 0 } = lease.lease.spent[i] ?? {};
    const total = spent[id] ?? 0;
    const granted = sum(reported, lease.amounts[i]?.amount ?? 0);
    const limit = grantedLimit(contract, evaluation, level) ?? null;
    return { id, level, limit, reported, spent: total, left: sum(granted, -total) };
  });
}

function checkReport({ lease: { id, state, until } }: Leased, parts: readonly Part[], isEnd: boolean): void {
  const conflict = (how: string) => new Failure("conflict", `CONFLICT: Lease ${id} ${how}`);
  if (state !== "open" && !isEnd) throw conflict(`ended at ${until.toISOString()}`);
  const over = parts.find(({ left }) => left < 0);
  if (over !== undefined) {
    const granted = sum(over.spent, over.left);
    throw conflict(`was granted ${granted} of ${over.id}, and ${over.spent} are reported`);
  }
  const under = parts.find(({ spent, reported }) => spent < reported);
  if (under !== undefined) {
    throw conflict(`has ${under.reported} of ${under.id} reported already, and ${under.spent} are reported`);
  }
}

async function reportOpen(
  ctx: Context,
  leased: Leased,
  parts: readonly Part[],
  { amounts, durationMs, isEnd }: ReportedAmounts & { isEnd: boolean },
): Promise<LeaseAnswer> {
  const { lease, contract, at, organizationId, userId } = leased;
  const newlySpent = parts.filter(({ spent, reported }) => spent > reported);
  const counting = heldParts(leased, lease);
  const boundOf = ({ id }: Part) =>
    Math.min(Infinity, ...counting.flatMap((part) => (part.id === id ? (boundOfPart(part) ?? []) : [])));
  // Held amounts are usage already, so spending them leaves usage the same.
  const usages = parts.map(({ level }) => sum(level.consumed, level.held));
  const result = evaluateWithout(
    leased,
    parts.map(({ left }, i) => sum(usages[i] ?? 0, -left)),
  );
  // A budget that others have used up leaves only what is held already.
  const isOff = parts.some((part) => part.left === 0 && boundOf(part) === 0);
  const goesOn = result.eval && !isEnd && !isOff;
  const denying = result.eval && !isEnd && isOff ? counting.find((part) => boundOfPart(part) === 0) : undefined;
  const left = parts.map((part, i) => {
    if (isEnd) return 0;
    const lacking = Math.max(0, sum(goesOn ? (amounts?.[part.id] ?? 0) : 0, -part.left));
    return sum(part.left, Math.min(lacking, availableOf(part.limit, usages[i] ?? 0), boundOf(part)));
  });
  const writes = noBudgetWrites();
  const changes = (lease.budgets ?? []).map((held) => {
    const i = parts.findIndex(({ level }) => sameLevel(level, held));
    const { spent = 0, reported = 0 } = parts[i] ?? {};
    return { held, counted: sum(spent, -reported), heldAfter: left[i] ?? 0 };
  });
  const movements = moveHeld(leased, leased, changes, writes);
  const moved = await moveLevels(
    ctx.db,
    lease.contractId,
    newlySpent.map(({ level, spent, reported }) => ({
      level,
      delta: sum(spent, -reported),
      budgets: movements.get(levelKey(level)),
    })),
    { kind: "consume", operationId: newId(at), now: at, featureId: lease.featureId, spender: lease.spender },
  );
  const extended =
    goesOn && durationMs !== undefined
      ? endOf(contract, leased.levels, { at, durationMs, spans: counting.map(({ span }) => span) })
      : lease.until;
  const end = isEnd ? ({ state: "settled", until: at, endedAt: at } as const) : undefined;
  const after = {
    ...lease,
    until: extended.getTime() > at.getTime() ? extended : lease.until,
    ...end,
    ...amountsAfter(lease, parts, left),
    budgets: lease.budgets && changes.map(({ held, heldAfter }) => ({ ...held, amount: heldAfter })),
  };
  const { state, until, endedAt, amounts: amountsNow, budgets, lease: facts } = after;
  await changeLease(ctx.db, lease, { amounts: amountsNow, lease: facts, state, until, endedAt, budgets });
  await changeBudgetBalances(ctx.db, [...writes.budgets.values()]);
  const balanceChanges = newlySpent.map(({ level, limit }, i) => ({
    level,
    before: level.consumed,
    after: moved[i]?.consumed ?? level.consumed,
    limit: limit ?? undefined,
  }));
  const { events, raised } = usageEvents(contract, userId, balanceChanges);
  const all = [...events, ...writes.events.map(({ event }) => event)];
  await recordUsage(ctx, organizationId, { events: all, raised });
  const shown = await withLimitsNow(ctx, leased, parts);
  const usagesAfter = parts.map((part, i) => sum(usages[i] ?? 0, sum(left[i] ?? 0, -part.left)));
  const bounds = parts.map((part, i) => sum(boundOf(part), sum(part.left, -(left[i] ?? 0))));
  const viewDenied = (part: BudgetPart) => viewDenying(contract, part, lease.spender, amounts?.[part.id] ?? 0);
  const decided = denying === undefined ? result : { ...result, eval: false, budget: viewDenied(denying) };
  return reportAnswer(leased, shown, { result: decided, lease: after, usages: usagesAfter, bounds });
}

/** Ends a lease after its end: what its expiry counted, and nobody spent, is taken back. */
async function endLate(ctx: Context, leased: Leased, parts: readonly Part[]): Promise<LeaseAnswer> {
  const { lease, at } = leased;
  const nothing = parts.map(() => 0);
  const after = { ...lease, ...amountsAfter(lease, parts, nothing) };
  const counted = heldParts({ ...leased, at: lease.until }, lease).filter(({ balance, span, fit }) => {
    const last = leased.budgets?.balances.get(fit.key);
    return last?.since === span.since && balance.used > 0;
  });
  const unspentOf = (level: SeenLevel) => parts.find((part) => sameLevel(part.level, level))?.left ?? 0;
  const movements = parts
    .filter(({ left }) => left > 0)
    .map(({ level, left }) => ({
      level,
      delta: -left,
      budgets: counted
        .filter((part) => sameLevel(part.level, level))
        .map(({ fit, span }): BudgetMovement => [fit.budget.id, fit.spender, -left, span.since]),
    }));
  const moved = await takeBack(ctx.db, lease, movements, at);
  const writes = noBudgetWrites();
  for (const part of counted) {
    if (!moved.some((level) => sameLevel(level, part.level))) continue;
    moveBudget(leased, leased, part, { used: -unspentOf(part.level) }, writes);
  }
  await changeLease(ctx.db, lease, { amounts: after.amounts, lease: after.lease });
  await changeBudgetBalances(ctx.db, [...writes.budgets.values()]);
  const usages = parts.map(({ level }) => {
    const { consumed } = moved.find((one) => sameLevel(one, level)) ?? level;
    return sum(consumed, level.held);
  });
  const shown = await withLimitsNow(ctx, leased, parts);
  return reportAnswer(leased, shown, { result: evaluateWithout(leased, usages), lease: after, usages });
}

/** Gives parts of a report the limits after it: what ended blocks kept for the lease leaves them with the lease. */
async function withLimitsNow(ctx: Context, leased: Leased, parts: readonly Part[]): Promise<Part[]> {
  const { contract, evaluation } = await afterHoldEnds(ctx, leased, leased);
  return parts.map((part) => ({ ...part, limit: grantedLimit(contract, evaluation, part.level) ?? null }));
}

/** Columns of a lease after a report. `left` is by position. */
const amountsAfter = (
  { amounts, lease }: LeaseRow,
  parts: readonly Part[],
  left: readonly number[],
): Pick<LeaseRow, "amounts" | "lease"> => ({
  amounts: amounts.map((held, i) => ({ ...held, amount: left[i] ?? 0 })),
  lease: { ...lease, spent: parts.map(({ id, spent }) => ({ id, amount: spent })) },
});

/**
 * Evaluates the feature of a lease over usage without what the lease itself still holds, by position. It is off for a
 * contract whose evaluations are refused.
 */
function evaluateWithout(
  { lease, contract, evaluation, at }: Leased,
  usages: readonly number[],
): Pick<FeatureResult, "eval" | "error"> {
  if (evaluation === undefined || (isOver(contract, at) && !contract.autoRenew)) return { eval: false, error: null };
  const { usage } = usageOf(contract);
  for (const [i, { id }] of lease.amounts.entries()) usage.set(id, usages[i] ?? 0);
  return evaluateFeature(evaluation, lease.featureId, usage, lease.lease);
}

function reportAnswer(
  { userId, at }: Leased,
  parts: readonly Part[],
  {
    result,
    lease,
    usages,
    bounds = [],
  }: {
    result: Pick<DecidedResult, "eval" | "error" | "budget">;
    lease: LeaseRow;
    usages: readonly number[];
    /** Amounts that budgets leave, by position. Default: no bound. */
    bounds?: readonly number[];
  },
): LeaseAnswer {
  const by = <T>(value: (part: Part, usage: number, i: number) => T) =>
    Object.fromEntries(parts.map((part, i) => [part.id, value(part, usages[i] ?? 0, i)]));
  return {
    eval: result.eval,
    limit: by(({ limit }) => limit),
    used: by(({ spent }, usage, i) => Math.max(0, sum(usage, -sum(spent, lease.amounts[i]?.amount ?? 0)))),
    error: result.error,
    ...(result.budget === undefined ? {} : { budget: result.budget }),
    remaining: by(({ limit }, usage, i) => {
      const least = Math.min(remainingOf(limit, usage) ?? Infinity, bounds[i] ?? Infinity);
      return least === Infinity ? null : least;
    }),
    resetAt: by(({ level }) => level.resetAt?.toISOString() ?? null),
    now: at.toISOString(),
    lease: viewLease(lease, userId),
  };
}
