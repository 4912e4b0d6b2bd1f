import { MAX_RESETS } from "../core/pricing/block-periods.ts";
import { creditTermsOf } from "../core/pricing/credits.ts";
import type { SQL } from "drizzle-orm";
import {
  type ContractSnapshot,
  type EndUserName,
  type Level,
  loadSnapshot,
  type SeenLevel,
} from "../db/queries/contract-snapshots.ts";
import { changeBudgetBalances, levelKey } from "../db/queries/budgets.ts";
import { findBlockHolders } from "../db/queries/block-listing.ts";
import {
  applyDue,
  type CountedEnd,
  findDueHolders,
  listDueVersions,
  type MoveEndedBudgets,
} from "../db/queries/due-holds.ts";
import { type Addressed, recordEvents } from "../db/queries/outbox.ts";
import { isAnyOf } from "../db/postgres/lists.ts";
import { contracts } from "../db/schema.ts";
import { lockContract, sameLevel } from "../db/queries/usage.ts";
import { boundaryAfter, findDueLevels, isDue } from "../db/queries/usage-renewals.ts";
import { rememberRaised } from "../db/queries/usage-alerts.ts";
import { type Context, newId, transaction } from "./context.ts";
import { BlockBook } from "./blocks/block-book.ts";
import { rolloverOf } from "./due-blocks.ts";
import { type BudgetBook, loadBudgets } from "./evaluation/budget-book.ts";
import { noBudgetWrites } from "./evaluation/budget-moves.ts";
import { byLimit, moveHeld, settledBudgets } from "./evaluation/held-budgets.ts";
import { evaluationIfAny, grantedLimit } from "./evaluations.ts";
import { compiledPricings } from "./subscriptions.ts";
import { usageEvents, withRaised } from "./usage-events.ts";

/*
 * Writes the ends of holds that nobody ended, and of blocks. Whoever relies on an expiry writes it first; the sweep of an event server
 * writes the others. Source: contract usage-records §3.4.
 */

/** Contracts that one query of the sweep finds. */
const BATCH = 200;

/**
 * Writes what is due of a locked contract: ends of holds and blocks, and renewals of balances. Records the events, and returns
 * the contract as it is then.
 */
export async function applyDueOf(
  ctx: Context,
  contract: ContractSnapshot,
  name: EndUserName,
  now: Date,
): Promise<ContractSnapshot> {
  const { contract: current, events } = await writeDue(ctx, contract, name, now);
  await recordEvents(ctx.db, events);
  return current;
}

/** Writes what is due of a locked contract. Returns it as it is then, and the events to record. */
async function writeDue(
  ctx: Context,
  before: ContractSnapshot,
  name: EndUserName,
  now: Date,
): Promise<{ contract: ContractSnapshot; events: Addressed[] }> {
  const { organizationId, userId } = name;
  const { levels, counted, blockEvents, budgetEvents } = await writeDueMoments(ctx, before, name, now);
  const changed = blockEvents === undefined ? undefined : await loadSnapshot(ctx.db, organizationId, userId);
  const contract = { ...(changed ?? before), levels };
  if (counted.length === 0) return { contract, events: [...budgetEvents, ...(blockEvents ?? [])] };
  const evaluation = await evaluationIfAny(ctx, contract, now);
  const changes = counted.map(({ level, after }) => ({
    level,
    before: level.consumed,
    after,
    limit: grantedLimit(contract, evaluation, level),
  }));
  const { events, raised } = usageEvents(contract, userId, changes);
  // A renewal that came after an expiry has taken away what that raised.
  const current = raised.filter(({ level }) => levels.some((one) => sameLevel(one, level) && isSamePeriod(one, level)));
  await rememberRaised(ctx.db, current);
  return {
    contract: { ...contract, levels: levels.map((level) => withRaised(level, current)) },
    events: [...events.map((event) => ({ organizationId, event })), ...budgetEvents, ...(blockEvents ?? [])],
  };
}

/**
 * Writes what is due in the order of its moments; in the same millisecond holds end first, then blocks, then periods. The
 * events of blocks are undefined if no block changes.
 */
async function writeDueMoments(
  ctx: Context,
  contract: ContractSnapshot,
  name: EndUserName,
  now: Date,
): Promise<{
  levels: SeenLevel[];
  counted: CountedEnd<SeenLevel>[];
  blockEvents: Addressed[] | undefined;
  budgetEvents: Addressed[];
}> {
  const { contractId } = contract;
  const operationId = newId(now);
  const budgets = endedBudgets(ctx, contract, name);
  if (contract.blocks.length === 0 && !(await carriesOver(ctx, contract, contract.levels, now))) {
    const applied = await applyDue(ctx.db, contractId, contract.levels, {
      operationId,
      now,
      moveBudgets: budgets.move,
    });
    return { ...applied, blockEvents: undefined, budgetEvents: await budgets.write() };
  }
  const book = await BlockBook.open(ctx, contract, name);
  const beforeRenewal = async (due: readonly SeenLevel[], until: Date) => {
    for (const level of due) await closePeriods(book, level, until);
  };
  let levels = contract.levels;
  const counted: CountedEnd<SeenLevel>[] = [];
  for (let moment = nextMoment(book, levels, undefined, now); ; moment = nextMoment(book, levels, moment, now)) {
    const applied = await applyDue(ctx.db, contractId, levels, {
      operationId,
      now: moment,
      beforeRenewal,
      moveBudgets: budgets.move,
    });
    levels = applied.levels;
    counted.push(...applied.counted);
    await book.follow(levels, moment, new Date(moment.getTime() - 1));
    await book.expire(levels, moment);
    if (moment.getTime() === now.getTime()) break;
  }
  await book.follow(levels, now);
  book.endSpent(now);
  return { levels, counted, blockEvents: await book.write(now), budgetEvents: await budgets.write() };
}

/** Returns the next moment up to `now` at which a block ends. Stops at ends of holds, too, while ended blocks keep something. */
function nextMoment(book: BlockBook, levels: readonly SeenLevel[], last: Date | undefined, now: Date): Date {
  const dues = levels.flatMap((level) => (level.holdDue !== null && book.keeps(level) ? [level.holdDue] : []));
  const moments = [...book.endsUntil(now), ...dues]
    .map(Number)
    .filter((moment) => moment > (last?.getTime() ?? -Infinity));
  return new Date(Math.min(now.getTime(), ...moments));
}

/** Moves the balances of budgets by ends of holds that are due, and writes them at the end. */
function endedBudgets(ctx: Context, contract: ContractSnapshot, name: EndUserName) {
  const writes = noBudgetWrites();
  let book: BudgetBook | undefined;
  const move: MoveEndedBudgets<SeenLevel> = async (hold, amounts, { until, levels }) => {
    const evaluation = await evaluationIfAny(ctx, contract, until);
    const loaded = await loadBudgets(ctx, { contract, evaluation, at: until }, [], hold.budgets ?? []);
    if (loaded === undefined) return undefined;
    const periods = new Map(levels.map((level) => [levelKey(level), level.runningSince]));
    // Balances that earlier ends have moved are not written yet.
    book = { ...loaded, periods, balances: new Map([...loaded.balances, ...(book?.balances ?? [])]) };
    const subject = { contract: { ...contract, levels: [...levels] }, evaluation, at: until, budgets: book };
    return byLimit(hold, moveHeld(subject, name, settledBudgets(subject, hold, amounts), writes));
  };
  const write = async (): Promise<Addressed[]> => {
    await changeBudgetBalances(ctx.db, [...writes.budgets.values()]);
    return writes.events;
  };
  return { move, write };
}

/**
 * Goes through the ends of a due level's periods up to `until`, one by one. Nothing is consumed after the first. Includes an end at
 * `until` itself: the renewal, whose next end is after `until`, passes it.
 */
async function closePeriods(book: BlockBook, level: SeenLevel, until: Date): Promise<void> {
  let current = level;
  let at = level.resetAt ?? undefined;
  for (let resets = 1; at !== undefined && at <= until; resets += 1) {
    const isLast = resets > MAX_RESETS;
    const startsAt = new Date(Math.min(at.getTime() + 1, until.getTime()));
    const end = { at, startsAt, after: at, isLast };
    if (!(await book.closePeriod(current, end)) || isLast) return;
    current = { ...current, consumed: 0 };
    at = boundaryAfter(level, at);
  }
}

/** True if the contracted version carries over something of one of these levels whose period is over. */
async function carriesOver(
  ctx: Context,
  contract: ContractSnapshot,
  levels: readonly Level[],
  now: Date,
): Promise<boolean> {
  const due = levels.filter((level) => isDue(level, now));
  if (due.length === 0) return false;
  const evaluation = await evaluationIfAny(ctx, contract, now);
  return due.some((level) => rolloverOf(contract, evaluation, level) !== undefined);
}

/** Returns those of these contracts of which a reset that is due carries something over. */
async function findCarrying(ctx: Context, contractIds: readonly string[], now: Date) {
  const due = await listDueVersions(ctx.db, contractIds, now);
  if (due.length === 0) return [];
  const compiled = await compiledPricings(ctx, due);
  const carrying = due.filter(({ hash }) => {
    const pricing = compiled.get(hash);
    return pricing !== undefined && creditTermsOf(pricing.pricing).rollover.size > 0;
  });
  return carrying.map(({ contractId: id, organizationId, userId }) => ({ id, organizationId, userId }));
}

/**
 * Writes what is due of locked contracts that have blocks. Also writes the current draw of each block, because the change
 * that follows may end its level. Returns the events.
 */
export async function stageBlocksOf(ctx: Context, contractIds: readonly string[], now: Date): Promise<Addressed[]> {
  const events: Addressed[] = [];
  const found = [...(await findBlockHolders(ctx.db, contractIds)), ...(await findCarrying(ctx, contractIds, now))];
  for (const name of new Map(found.map((one) => [one.id, one])).values()) {
    const contract = await loadSnapshot(ctx.db, name.organizationId, name.userId);
    if (contract === undefined) continue;
    const due = await writeDue(ctx, contract, name, now);
    const book = await BlockBook.open(ctx, due.contract, name);
    await book.stage(due.contract.levels, now);
    events.push(...due.events, ...((await book.write(now)) ?? []));
  }
  return events;
}

/** Ends the running period of these levels of a locked contract now, because they are reset. Returns the events. */
export async function closeBlockPeriods(
  ctx: Context,
  name: EndUserName,
  levels: readonly Level[],
  now: Date,
): Promise<Addressed[]> {
  const contract = await loadSnapshot(ctx.db, name.organizationId, name.userId);
  if (contract === undefined) return [];
  const evaluation = contract.blocks.length === 0 ? await evaluationIfAny(ctx, contract, now) : undefined;
  const isConcerned = (level: Level) => rolloverOf(contract, evaluation, level) !== undefined;
  if (contract.blocks.length === 0 && !levels.some(isConcerned)) return [];
  const book = await BlockBook.open(ctx, contract, name);
  for (const level of levels) {
    await book.closePeriod(level, { at: now, startsAt: now, after: level.resetAt ?? now });
  }
  return (await book.write(now)) ?? [];
}

const isSamePeriod = (one: Level, other: Level): boolean => one.resetAt?.getTime() === other.resetAt?.getTime();

/**
 * Writes what is due of those of these locked contracts that have blocks, or a hold that is due. Call it before a change of levels,
 * while the contracts still have the limits that their holds counted against. Returns the events, which must be recorded
 * last in the transaction.
 */
export async function expireHoldsOf(ctx: Context, contractIds: readonly string[], now: Date): Promise<Addressed[]> {
  if (contractIds.length === 0) return [];
  const where = isAnyOf(contracts.id, contractIds);
  const events = await stageBlocksOf(ctx, contractIds, now);
  for (const name of await findDueHolders(ctx.db, now, { where, limit: contractIds.length })) {
    const contract = await loadSnapshot(ctx.db, name.organizationId, name.userId);
    if (contract !== undefined) events.push(...(await writeDue(ctx, contract, name, now)).events);
  }
  return events;
}

/**
 * Writes the ends of holds and blocks that are due, of the matching contracts; of all without a condition. Each contract has its own
 * transaction. Returns their number. Safe to run in several processes at once. Costs one query on a partial index if
 * nothing is due.
 */
export function expireDueHolds(ctx: Context, where?: SQL): Promise<number> {
  return applyDueOfFound(ctx, (now) => findDueHolders(ctx.db, now, { where, limit: BATCH }));
}

/** Renews the balances that are due, of the matching contracts, as expireDueHolds ends holds. */
export function renewDueLevels(ctx: Context, where: SQL | undefined): Promise<number> {
  return applyDueOfFound(ctx, (now) => findDueLevels(ctx.db, now, { where, limit: BATCH }));
}

async function applyDueOfFound(ctx: Context, find: (now: Date) => Promise<EndUserName[]>): Promise<number> {
  for (let applied = 0; ;) {
    const found = await find(ctx.resources.now());
    for (const name of found) {
      await transaction(ctx, async (ctx) => {
        if (!(await lockContract(ctx.db, name.organizationId, name.userId))) return;
        const contract = await loadSnapshot(ctx.db, name.organizationId, name.userId);
        if (contract !== undefined) await applyDueOf(ctx, contract, name, ctx.resources.now());
      });
    }
    applied += found.length;
    if (found.length < BATCH) return applied;
  }
}
