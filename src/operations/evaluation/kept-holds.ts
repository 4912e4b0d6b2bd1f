import { sum, total } from "../../core/exact.ts";
import { MAX_HOLD_MS } from "../../core/holds.ts";
import { isBound } from "../../core/pricing/model.ts";
import { changeBudgetBalances } from "../../db/queries/budgets.ts";
import { type HoldRow, reportHold } from "../../db/queries/holds.ts";
import { moveLevels, type Movement, sameLevel } from "../../db/queries/usage.ts";
import type { SeenLevel } from "../../db/queries/contract-snapshots.ts";
import type { Context } from "../context.ts";
import { Failure } from "../errors.ts";
import { evaluationWithoutBlocks } from "../evaluations.ts";
import { usageEvents } from "../usage-events.ts";
import { loadBudgets } from "./budget-book.ts";
import { type BudgetWrites, noBudgetWrites } from "./budget-moves.ts";
import {
  byLimit,
  deniedSettlement,
  type HeldChange,
  heldRoom,
  moveHeld,
  settledBudgets,
  usedInWindow,
  withHeldBudgets,
} from "./held-budgets.ts";
import { recordUsage } from "./consumption/record.ts";
import { requireHold, withOpenHold } from "./open-hold.ts";
import { afterHoldEnds } from "./prepare.ts";
import { isOver } from "./renewal.ts";
import type { PricedUnits, SettlementAnswer, UnitCosts, Units } from "./request.ts";
import { type Amounts, hasFewer, newCosts, newUnits, unitsAfter } from "./reported-units.ts";
import { decideSettlement, viewHold, withLimitsNow, wrongAmounts } from "./settlement.ts";
import { amountsOf, costOf, priceUnits, ratesAt } from "./units.ts";

/*
 * Usage that is reported of an open hold: each report counts what is new of a total, and changes what the hold has left.
 * Source: contract usage-records §3, tokens-and-leases §6.
 */

/** Amounts, of which units count at the rates with which the hold was taken. */
interface Priced {
  amounts: Amounts;
  units?: Units | undefined;
}

/** Report of what the work of a hold took so far. */
export interface HoldReport {
  id: string;
  /** Totals since the hold was taken. */
  spent: Priced;
  /** Amounts to be left after the call. Default: what is left. */
  left: Priced | undefined;
  /** New duration from now. Default: the end stays. */
  durationMs: number | undefined;
  /** True for totals that the caller estimated. */
  estimated: boolean;
  /** False decides about more than the held amounts as if there were no blocks. */
  blocks: boolean;
}

/**
 * Counts what is new of the totals of an open hold, and keeps holding: less at once, more as far as it fits. A report that
 * arrives late changes nothing. More than fits is refused whole.
 * @throws Failure notFound; conflict if the hold has ended; unprocessable for a missing or an unknown limit.
 */
export async function keepHold(ctx: Context, report: HoldReport): Promise<SettlementAnswer> {
  const { id } = report;
  const { hold } = await requireHold(ctx, id);
  // Drops the cached hold, which the report changes.
  ctx.resources.snapshots.keptHold(id);
  const { units: spentUnits } = report.spent;
  const rates =
    spentUnits === undefined && report.left?.units === undefined
      ? undefined
      : await ratesAt(ctx, hold.contractId, hold.createdAt);
  const ratesOf = rates ?? (() => undefined);
  const units = spentUnits && priceUnits(spentUnits, ratesOf);
  const spent = units === undefined ? report.spent.amounts : { ...report.spent.amounts, ...costOf(units) };
  const left = report.left?.units
    ? { ...report.left.amounts, ...amountsOf(report.left.units, ratesOf) }
    : report.left?.amounts;
  const answer = await withOpenHold(ctx, id, (ctx, opened) =>
    countOpened(ctx, opened, { ...report, spent, units, left }),
  );
  return spentUnits === undefined ? answer : { ...answer, amounts: spent };
}

/** Totals of a report, priced. */
interface Totals extends Omit<HoldReport, "spent" | "left"> {
  spent: Amounts;
  /** Undefined: what is left. */
  left: Amounts | undefined;
  /** Units that the totals stand for, by limit id. */
  units?: PricedUnits | undefined;
  /** Ends the hold: what it has left is given back. */
  isEnd?: boolean;
}

type Opened = Parameters<Parameters<typeof withOpenHold>[2]>[1];

/** Differences between the totals of a report and what was reported before. */
interface Difference {
  /** True for a report that arrives late, which changes nothing. */
  isLate: boolean;
  /** By limit id; below 0 where fewer were used than reported. */
  amounts: Amounts;
  /** Amounts that count now, by limit id. */
  added: Amounts;
  units: PricedUnits;
  costs: UnitCosts | undefined;
}

type Held = Opened["hold"]["amounts"][number];
type Subject = Parameters<typeof moveHeld>[0];

/** Counts totals of an open hold whose contract is locked, and changes or ends it. */
export async function countOpened(ctx: Context, opened: Opened, totals: Totals): Promise<SettlementAnswer> {
  const { hold, userId, organizationId, contract, evaluation, at } = opened;
  checkLimits(hold, totals);
  const difference = differenceOf(hold, totals);
  const { added } = difference;
  const budgets = await loadBudgets(ctx, { contract, evaluation, at }, [], hold.budgets ?? []);
  const subject = { contract, evaluation, at, budgets };
  const counted = settledBudgets(subject, hold, added, difference.costs);
  const { levels, services } = contract;
  const plain = totals.blocks === false && evaluation !== undefined;
  const decidedBy = plain ? await evaluationWithoutBlocks(ctx, contract, at, evaluation) : evaluation;
  const denying = deniedSettlement(subject, hold, counted);
  const decision = decideSettlement(
    { levels, services, evaluation, decidedBy, denying },
    { userId, hold, amounts: added },
    at,
  );
  const { answer } = decision;
  if (!answer.eval) return withHeldBudgets(answer, subject, hold, counted);

  const left = amountsLeft(opened, totals, difference, { answer, subject, counted });
  const writes = noBudgetWrites();
  const changes = budgetChanges(subject, counted, left);
  const moved = byLimit(hold, moveHeld(subject, { organizationId, userId }, changes, writes));
  const given = takenBackOf(opened, totals, difference).map(({ level, delta }) => ({
    level,
    delta,
    budgets: giveBack(opened, subject, { level, delta }, writes),
  }));
  const consumed = hold.amounts.flatMap(({ id, ...held }): Movement<SeenLevel>[] => {
    const level = levels.find((one) => sameLevel(one, held));
    const delta = added[id] ?? 0;
    return level === undefined || delta === 0
      ? []
      : [{ level, delta, budgets: moved[id], units: difference.units[id] }];
  });
  const estimated = totals.estimated || undefined;
  const entry = { operationId: hold.id, now: at, featureId: hold.featureId, spender: hold.spender, estimated };
  await moveLevels(ctx.db, contract.contractId, consumed, { ...entry, kind: "consume" });
  await moveLevels(ctx.db, contract.contractId, given, { ...entry, kind: "revert" });
  const changed = changedHold(opened, totals, difference, { left, given, changes });
  await reportHold(ctx.db, changed);
  await changeBudgetBalances(ctx.db, [...writes.budgets.values()]);
  const after = await afterHoldEnds(ctx, { organizationId, userId }, opened);
  const shown = withLimitsNow(decision, hold, plain ? { ...after, decidedBy } : after);
  const { events, raised } = usageEvents(contract, userId, shown.changes);
  await recordUsage(ctx, organizationId, { events: [...events, ...writes.events.map(({ event }) => event)], raised });
  const used = { ...shown.answer, ...usageWith(shown.answer, left, given), hold: viewHold(changed, userId, at) };
  return withHeldBudgets(used, subject, hold, counted);
}

/** Compares the totals of a report with what is known. Only the end of a hold takes less than that for its totals. */
function differenceOf(hold: Opened["hold"], { spent, units, isEnd = false }: Totals): Difference {
  const reported = (id: string) => hold.counted?.[id] ?? 0;
  const isLate =
    !isEnd && hold.amounts.some(({ id }) => (spent[id] ?? 0) < reported(id) || hasFewer(units?.[id], hold, id));
  const byId = hold.amounts.map(({ id }) => [id, isLate ? 0 : sum(spent[id] ?? 0, -reported(id))] as const);
  const added = Object.fromEntries(byId.map(([id, amount]) => [id, Math.max(0, amount)]));
  const fresh = isLate ? {} : newUnits(units, hold);
  const costs = isLate ? undefined : newCosts(units, fresh, { spent, news: added });
  return { isLate, amounts: Object.fromEntries(byId), added, units: fresh, costs };
}

/** Returns what the hold has left of each limit: less as asked, more as far as the limit and its budgets let it. */
function amountsLeft(
  { hold, contract, evaluation, at }: Opened,
  { left: asked, isEnd = false }: Totals,
  { added, isLate }: Difference,
  { answer, subject, counted }: { answer: SettlementAnswer; subject: Subject; counted: readonly HeldChange[] },
): Held[] {
  const mayGrow = evaluation !== undefined && !(isOver(contract, at) && !contract.autoRenew);
  return hold.amounts.map((held) => {
    const rest = Math.max(0, sum(held.amount, -(added[held.id] ?? 0)));
    const wanted = isEnd ? 0 : ((isLate ? undefined : asked?.[held.id]) ?? rest);
    if (wanted <= rest) return { ...held, amount: wanted };
    const limit = answer.limit[held.id];
    const room = isBound(limit) ? sum(limit, -(answer.used[held.id] ?? 0)) : Infinity;
    const fits = mayGrow ? Math.min(wanted, room, heldRoom(subject, counted, held)) : rest;
    return { ...held, amount: Math.max(rest, fits) };
  });
}

/** Adds what each budget holds afterwards. Budgets of a unit only shrink: what is left names no units. */
function budgetChanges(
  { budgets: book }: Subject,
  counted: readonly HeldChange[],
  left: readonly Held[],
): Required<HeldChange>[] {
  return counted.map((change) => {
    const { held } = change;
    const unit = book?.budgets.find(({ id }) => id === held.budget)?.unit ?? null;
    const rest = Math.max(0, sum(held.amount, -change.counted));
    const after = left.find((one) => sameLevel(one, held))?.amount ?? 0;
    return { ...change, heldAfter: unit === null ? after : Math.min(rest, after) };
  });
}

type GivenBack = Pick<Movement<SeenLevel>, "level" | "delta">;

/** Returns the row of the hold after its report, or after its end. */
function changedHold(
  { hold, at }: Opened,
  { units, durationMs, isEnd = false }: Totals,
  { isLate, added }: Difference,
  after: { left: Held[]; given: readonly GivenBack[]; changes: readonly Required<HeldChange>[] },
): HoldRow {
  const backOf = (held: Held) => after.given.find(({ level }) => sameLevel(held, level))?.delta ?? 0;
  const totals = Object.fromEntries(
    hold.amounts.map((held) => [held.id, total([hold.counted?.[held.id] ?? 0, added[held.id] ?? 0, backOf(held)])]),
  );
  const isCounted = Object.values(totals).some((amount) => amount > 0);
  const wantedEnd =
    isLate || durationMs === undefined ? 0 : Math.min(at.getTime() + durationMs, +hold.createdAt + MAX_HOLD_MS);
  return {
    ...hold,
    kept: true,
    amounts: isEnd ? hold.amounts : after.left,
    counted: isEnd && !isCounted ? null : totals,
    countedUnits: isLate ? hold.countedUnits : unitsAfter(units, hold, added),
    until: new Date(Math.max(hold.until.getTime(), wantedEnd)),
    budgets: hold.budgets?.map((held, i) => ({ ...held, amount: after.changes[i]?.heldAfter ?? 0 })) ?? null,
    ...(isEnd ? ({ state: isCounted ? "settled" : "released", endedAt: at } as const) : {}),
  };
}

/** Returns usage with what is left of the hold, less what its end gives back. */
function usageWith(
  { used: before, limit: limits }: SettlementAnswer,
  left: readonly Held[],
  given: readonly GivenBack[],
): Pick<SettlementAnswer, "used" | "remaining"> {
  const used: Record<string, number> = {};
  const remaining: Record<string, number | null> = {};
  for (const held of left) {
    const back = given.find(({ level }) => sameLevel(level, held))?.delta ?? 0;
    const usage = total([before[held.id] ?? 0, held.amount, back]);
    const limit = limits[held.id];
    used[held.id] = usage;
    remaining[held.id] = typeof limit === "number" ? Math.max(0, sum(limit, -usage)) : null;
  }
  return { used, remaining };
}

/** @throws Failure unprocessable for a limit of the hold that is missing, or another one. */
function checkLimits({ amounts }: Opened["hold"], { spent, left, isEnd }: Totals): void {
  if (isEnd) {
    const wrong = wrongAmounts({ amounts }, spent);
    if (wrong !== undefined) throw wrong;
    return;
  }
  for (const [field, given] of Object.entries({ spent, amounts: left })) {
    if (given === undefined) continue;
    const missing = amounts.find(({ id }) => !Object.hasOwn(given, id));
    if (missing !== undefined) throw new Failure("unprocessable", `The ${field}.${missing.id} field is required`);
    const unknown = Object.keys(given).find((name) => !amounts.some(({ id }) => id === name));
    if (unknown !== undefined) throw new Failure("unprocessable", `Unknown limit in ${field}: ${unknown}`);
  }
}

/** Returns what the end of a hold takes back: less was used than reported. Nothing of a level that was reset since. */
function takenBackOf({ hold, contract }: Opened, { isEnd }: Totals, { amounts }: Difference): GivenBack[] {
  if (!isEnd) return [];
  return hold.amounts.flatMap((held) => {
    const delta = amounts[held.id] ?? 0;
    const level = contract.levels.find((one) => sameLevel(one, held));
    if (delta >= 0 || level === undefined) return [];
    const isReset = level.runningSince !== null && level.runningSince > hold.createdAt;
    return isReset ? [] : [{ level, delta: Math.max(delta, -level.consumed) }];
  });
}

/** Gives the budgets of a hold back what its end takes back of a level. Returns their movements. */
function giveBack(
  { hold, organizationId, userId }: Opened,
  subject: Subject,
  { level, delta }: GivenBack,
  writes: BudgetWrites,
) {
  const held = (hold.budgets ?? []).filter((one) => sameLevel(one, level));
  const changes = held.map((one) => ({
    held: { ...one, amount: 0 },
    counted: -Math.min(-delta, usedInWindow(subject, one, hold.createdAt)),
  }));
  return [...moveHeld(subject, { organizationId, userId }, changes, writes).values()].flat();
}
