import { sum, total } from "../../core/exact.ts";
import { MAX_HOLD_MS } from "../../core/holds.ts";
import type { CountedUnits } from "../../core/pricing/credits.ts";
import { isBound } from "../../core/pricing/model.ts";
import { changeBudgetBalances } from "../../db/queries/budgets.ts";
import { reportHold } from "../../db/queries/holds.ts";
import { moveLevels, type Movement, sameLevel } from "../../db/queries/usage.ts";
import type { SeenLevel } from "../../db/queries/contract-snapshots.ts";
import type { Context } from "../context.ts";
import { Failure } from "../errors.ts";
import { evaluationWithoutBlocks } from "../evaluations.ts";
import { usageEvents } from "../usage-events.ts";
import { loadBudgets } from "./budget-book.ts";
import { noBudgetWrites } from "./budget-moves.ts";
import { byLimit, deniedSettlement, moveHeld, settledBudgets } from "./held-budgets.ts";
import { heldRoom, usedInWindow } from "./held-budgets.ts";
import { recordUsage } from "./consumption/record.ts";
import { requireHold, withOpenHold } from "./open-hold.ts";
import { isOver } from "./prepare.ts";
import type { PricedUnits, SettlementAnswer, UnitCosts, Units } from "./request.ts";
import { decideSettlement, viewHold, wrongAmounts } from "./settlement.ts";
import { amountsOf, costOf, priceUnits, ratesAt } from "./units.ts";

/*
 * Usage that is reported of an open hold: each report counts what is new of a total, and changes what the hold has left.
 * Source: contract usage-records §3, tokens-and-leases §6.
 */

type Amounts = Readonly<Record<string, number>>;

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

/** Counts totals of an open hold whose contract is locked, and changes or ends it. */
export async function countOpened(ctx: Context, opened: Opened, totals: Totals): Promise<SettlementAnswer> {
  const { hold, userId, organizationId, contract, evaluation, at } = opened;
  const { spent, isEnd = false } = totals;
  checkLimits(hold, totals);
  const reported = (id: string) => hold.counted?.[id] ?? 0;
  const isLate =
    !isEnd && hold.amounts.some(({ id }) => (spent[id] ?? 0) < reported(id) || hasFewer(totals.units?.[id], hold, id));
  const effective = isLate ? { ...totals, spent: {}, left: undefined, durationMs: undefined } : totals;
  const news = Object.fromEntries(hold.amounts.map(({ id }) => [id, Math.max(0, newly(id))]));
  function newly(id: string): number {
    return isLate ? 0 : sum(spent[id] ?? 0, -reported(id));
  }
  const plain = totals.blocks === false && evaluation !== undefined;
  const decidedBy = plain ? await evaluationWithoutBlocks(ctx, contract, at) : evaluation;
  const budgets = await loadBudgets(ctx, { contract, evaluation, at }, [], hold.budgets ?? []);
  const subject = { contract, evaluation, at, budgets };
  const units = isLate ? {} : newUnits(totals.units, hold);
  const costs = isLate ? undefined : newCosts(totals.units, units, { spent, news });
  const counted = settledBudgets(subject, hold, news, costs);
  const denying = deniedSettlement(subject, hold, counted);
  const { levels, services } = contract;
  const decision = decideSettlement(
    { levels, services, evaluation, decidedBy, denying },
    { userId, hold, amounts: news },
    at,
  );
  const { answer } = decision;
  if (!answer.eval) return answer;

  const mayGrow = evaluation !== undefined && !(isOver(contract, at) && !contract.autoRenew);
  const after = hold.amounts.map((held) => {
    const left = Math.max(0, sum(held.amount, -(news[held.id] ?? 0)));
    const wanted = isEnd ? 0 : (effective.left?.[held.id] ?? left);
    if (wanted <= left) return { ...held, amount: wanted };
    const limit = answer.limit[held.id];
    const room = isBound(limit) ? sum(limit, -(answer.used[held.id] ?? 0)) : Infinity;
    const fits = mayGrow ? Math.min(wanted, room, heldRoom(subject, counted, held)) : left;
    return { ...held, amount: Math.max(left, fits) };
  });
  const amountAfter = (held: { serviceId: string; limitName: string }) =>
    after.find((one) => sameLevel(one, held))?.amount ?? 0;
  const changes = counted.map((change) => {
    const { held } = change;
    const unit = budgets?.budgets.find(({ id }) => id === held.budget)?.unit ?? null;
    const rest = Math.max(0, sum(held.amount, -change.counted));
    const heldAfter = unit === null ? amountAfter(held) : Math.min(rest, amountAfter(held));
    return { ...change, heldAfter };
  });
  const takenBack = isEnd ? takenBackOf(opened, newly) : [];
  const writes = noBudgetWrites();
  const name = { organizationId, userId };
  const moved = byLimit(hold, moveHeld(subject, name, changes, writes));
  const given = takenBack.map(({ level, delta }) => ({
    level,
    delta,
    budgets: giveBack(opened, subject, { level, delta }, writes),
  }));
  const entry = { operationId: hold.id, now: at, featureId: hold.featureId, spender: hold.spender };
  const consumed = hold.amounts.flatMap(({ id, ...held }): Movement<SeenLevel>[] => {
    const level = levels.find((one) => sameLevel(one, held));
    const delta = news[id] ?? 0;
    return level === undefined || delta === 0 ? [] : [{ level, delta, budgets: moved[id], units: units[id] }];
  });
  const estimated = totals.estimated || undefined;
  await moveLevels(ctx.db, contract.contractId, consumed, { ...entry, kind: "consume", estimated });
  await moveLevels(ctx.db, contract.contractId, given, { ...entry, kind: "revert", estimated });

  const totalOf = (id: string) => {
    const back = given.find(({ level }) => hold.amounts.some((one) => one.id === id && sameLevel(one, level)));
    return total([reported(id), news[id] ?? 0, back?.delta ?? 0]);
  };
  const totalsAfter = Object.fromEntries(hold.amounts.map(({ id }) => [id, totalOf(id)]));
  const isCounted = Object.values(totalsAfter).some((amount) => amount > 0);
  const { durationMs } = effective;
  const wantedEnd = durationMs === undefined ? 0 : Math.min(at.getTime() + durationMs, +hold.createdAt + MAX_HOLD_MS);
  const changed = {
    ...hold,
    kept: true,
    amounts: isEnd ? hold.amounts : after,
    counted: isEnd && !isCounted ? null : totalsAfter,
    countedUnits: isLate ? hold.countedUnits : unitsAfter(totals.units, hold, news),
    until: new Date(Math.max(hold.until.getTime(), wantedEnd)),
    budgets: hold.budgets?.map((held, i) => ({ ...held, amount: changes[i]?.heldAfter ?? 0 })) ?? null,
    ...(isEnd ? ({ state: isCounted ? "settled" : "released", endedAt: at } as const) : {}),
  };
  await reportHold(ctx.db, changed);
  await changeBudgetBalances(ctx.db, [...writes.budgets.values()]);
  const { events, raised } = usageEvents(contract, userId, decision.changes);
  await recordUsage(ctx, organizationId, { events: [...events, ...writes.events.map(({ event }) => event)], raised });

  const used: Record<string, number> = {};
  const remaining: Record<string, number | null> = {};
  for (const held of after) {
    const back = given.find(({ level }) => sameLevel(level, held))?.delta ?? 0;
    const usage = total([answer.used[held.id] ?? 0, held.amount, back]);
    const limit = answer.limit[held.id];
    used[held.id] = usage;
    remaining[held.id] = typeof limit === "number" ? Math.max(0, sum(limit, -usage)) : null;
  }
  return { ...answer, used, remaining, hold: viewHold(changed, userId, at) };
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

type Reported = Pick<Opened["hold"], "counted" | "countedUnits">;

/** Returns the units of what was reported of a limit; undefined if a part was reported without them. */
function knownUnits({ counted, countedUnits }: Reported, id: string): CountedUnits | undefined {
  return (counted?.[id] ?? 0) === 0 ? {} : countedUnits?.[id];
}

/** True for totals with less of one unit than known: a report that arrives late. */
function hasFewer(units: CountedUnits | undefined, hold: Reported, id: string): boolean {
  if (units === undefined) return false;
  const known = knownUnits(hold, id) ?? {};
  return Object.entries(known).some(([unit, [number]]) => (units[unit]?.[0] ?? 0) < number);
}

/** Returns the units that are new of each limit. Without a limit whose earlier units are unknown, or more than these. */
function newUnits(units: PricedUnits | undefined, hold: Reported): PricedUnits {
  const byLimitId = Object.entries(units ?? {}).flatMap(([id, totals]) => {
    const known = knownUnits(hold, id);
    if (known === undefined || hasFewer(totals, hold, id)) return [];
    const fresh = Object.entries(totals).flatMap(([unit, [number, cost]]) => {
      const [numberBefore, costBefore] = known[unit] ?? [0, 0];
      return number === numberBefore ? [] : [[unit, [sum(number, -numberBefore), sum(cost, -costBefore)]] as const];
    });
    return [[id, Object.fromEntries(fresh)] as const];
  });
  return Object.fromEntries(byLimitId);
}

/** Returns the cost of each new unit. Where the earlier units are unknown, each has its share of the new amount. */
function newCosts(
  units: PricedUnits | undefined,
  fresh: PricedUnits,
  { spent, news }: { spent: Amounts; news: Amounts },
): UnitCosts | undefined {
  if (units === undefined) return undefined;
  const costs = Object.entries(units).map(([id, totals]) => {
    const [all, some] = [spent[id] ?? 0, news[id] ?? 0];
    const share = all === 0 ? 0 : some / all;
    const given = fresh[id];
    const ofLimit = Object.entries(given ?? totals).map(
      ([unit, [, cost]]) => [unit, given === undefined ? cost * share : cost] as const,
    );
    return [id, Object.fromEntries(ofLimit)] as const;
  });
  return Object.fromEntries(costs);
}

/** Returns the units of all that is reported now, of limits whose totals name them. */
function unitsAfter(units: PricedUnits | undefined, hold: Reported, news: Amounts): PricedUnits | null {
  const kept = Object.entries(hold.countedUnits ?? {}).filter(([id]) => (news[id] ?? 0) === 0);
  const all = { ...Object.fromEntries(kept), ...units };
  return Object.keys(all).length === 0 ? null : all;
}

/** Returns what the end of a hold takes back: less was used than reported. Nothing of a level that was reset since. */
function takenBackOf({ hold, contract }: Opened, newly: (id: string) => number): { level: SeenLevel; delta: number }[] {
  return hold.amounts.flatMap((held) => {
    const delta = newly(held.id);
    const level = contract.levels.find((one) => sameLevel(one, held));
    if (delta >= 0 || level === undefined) return [];
    const isReset = level.runningSince !== null && level.runningSince > hold.createdAt;
    return isReset ? [] : [{ level, delta: Math.max(delta, -level.consumed) }];
  });
}

/** Gives the budgets of a hold back what its end takes back of a level. Returns their movements. */
function giveBack(
  { hold, organizationId, userId }: Opened,
  subject: Parameters<typeof moveHeld>[0],
  { level, delta }: { level: SeenLevel; delta: number },
  writes: Parameters<typeof moveHeld>[3],
) {
  const held = (hold.budgets ?? []).filter((one) => sameLevel(one, level));
  const changes = held.map((one) => ({
    held: { ...one, amount: 0 },
    counted: -Math.min(-delta, usedInWindow(subject, one, hold.createdAt)),
  }));
  return [...moveHeld(subject, { organizationId, userId }, changes, writes).values()].flat();
}
