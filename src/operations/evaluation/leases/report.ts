import { sum } from "../../../core/exact.ts";
import type { BudgetMovement } from "../../../core/pricing/budgets.ts";
import { evaluateFeature, type FeatureResult } from "../../../core/pricing/evaluate.ts";
import type { SeenLevel } from "../../../db/queries/contract-snapshots.ts";
import { changeBudgetBalances, levelKey } from "../../../db/queries/budgets.ts";
import { changeLease, type LeaseRow, takeBack } from "../../../db/queries/leases.ts";
import { moveLevels, sameLevel } from "../../../db/queries/usage.ts";
import { type Context, newId } from "../../context.ts";
import { Failure } from "../../errors.ts";
import { grantedLimit } from "../../evaluations.ts";
import { usageEvents } from "../../usage-events.ts";
import { moveBudget, noBudgetWrites } from "../budget-moves.ts";
import { viewDenying } from "../budget-denials.ts";
import { boundOfPart, type BudgetPart } from "../budget-parts.ts";
import { heldParts, moveHeld } from "../held-budgets.ts";
import { recordUsage } from "../consumption/record.ts";
import { afterHoldEnds, usageOf } from "../prepare.ts";
import { isOver } from "../renewal.ts";
import type { LeaseAnswer } from "../request.ts";
import { type Amounts, availableOf, endOf } from "./lease.ts";
import { type Leased, withLease } from "./leased.ts";
import { reportAnswer } from "./report-answer.ts";
import { amountsAfter, checkReport, type Part, partsOf } from "./report-parts.ts";

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

/** @throws Failure unprocessable for a limit of the lease that is missing, or another one. */
function checkLimits({ lease: { spent } }: LeaseRow, field: "spent" | "amounts", given: Amounts): void {
  const missing = spent.find(({ id }) => !Object.hasOwn(given, id));
  if (missing !== undefined) throw new Failure("unprocessable", `The ${field}.${missing.id} field is required`);
  const unknown = Object.keys(given).find((name) => !spent.some(({ id }) => id === name));
  if (unknown !== undefined) throw new Failure("unprocessable", `Unknown limit in ${field}: ${unknown}`);
}

type ReportedAmounts = Omit<LeaseReport, "id">;

async function applyReport(ctx: Context, leased: Leased, report: ReportedAmounts): Promise<LeaseAnswer> {
  const parts = partsOf(leased, report.spent);
  const isEnd = report.amounts !== undefined && Object.values(report.amounts).every((amount) => amount === 0);
  checkReport(leased, parts, isEnd);
  return leased.lease.state === "open"
    ? reportOpen(ctx, leased, parts, { ...report, isEnd })
    : endLate(ctx, leased, parts);
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
