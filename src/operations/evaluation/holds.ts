import { HOLD_STATES, type HoldState, MAX_HOLD_MS } from "../../core/holds.ts";
import { changeBudgetBalances } from "../../db/queries/budgets.ts";
import { endHolds, extendHold } from "../../db/queries/holds.ts";
import { type FoundHold, listHolds } from "../../db/queries/hold-listing.ts";
import { clampPageSize, type Context, isInTransaction } from "../context.ts";
import { type ContractAddress, findContract } from "../contract-address.ts";
import { loadBudgets } from "./budget-book.ts";
import { noteDenial } from "./budget-denials.ts";
import { noBudgetWrites } from "./budget-moves.ts";
import { moveHeld, settledBudgets } from "./held-budgets.ts";
import { settleSerially } from "./consumption/serial.ts";
import { afterHoldEnds, evaluatedOrganization } from "./prepare.ts";
import { holdEnded, requireHold, withOpenHold } from "./open-hold.ts";
import type { HoldView, PricedUnits, SettlementAnswer, UnitCosts, Units } from "./request.ts";
import { viewHold, wrongAmounts } from "./settlement.ts";
import { costOf, costsOf, priceUnits, ratesAt } from "./units.ts";

/**
 * Counts amounts of a hold and ends it, all or none. Amounts up to the held ones are always counted; more only within the
 * limits, else the hold stays open. Source: contract usage-records §3.2.
 * @throws Failure notFound; conflict if the hold has ended; unprocessable for a missing or an unknown limit.
 */
export async function settleHold(ctx: Context, asked: Settlement): Promise<SettlementAnswer> {
  const { id, units, ...rest } = asked;
  if (units === undefined) return settle(ctx, { id, ...rest });
  const { hold } = await requireHold(ctx, id);
  const then = await ratesAt(ctx, hold.contractId, hold.createdAt);
  const ratesOf = then ?? (() => undefined);
  const priced = priceUnits(units, ratesOf);
  const amounts = { ...asked.amounts, ...costOf(priced) };
  const unitCosts = hold.budgets === null ? undefined : costsOf(units, ratesOf);
  return { ...(await settle(ctx, { ...rest, id, amounts, units: priced, unitCosts })), amounts };
}

/** Amounts to settle a hold with. Units count at the rates with which it was taken. */
interface Settlement {
  id: string;
  amounts: Readonly<Record<string, number>>;
  units?: Units | undefined;
  blocks: boolean;
  /** Cost of each unit. */
  unitCosts?: UnitCosts | undefined;
  /** True for amounts that the caller estimated. */
  estimated: boolean;
}

async function settle(
  ctx: Context,
  { id, ...asked }: Omit<Settlement, "units"> & { units?: PricedUnits | undefined },
): Promise<SettlementAnswer> {
  const { amounts, estimated } = asked;
  const kept = estimated ? undefined : keptHold(ctx, id, amounts);
  if (kept !== undefined) {
    const answer = await ctx.resources.consume({ ...kept, ...asked });
    // A refusal writes nothing, so the hold may have ended meanwhile.
    if (answer.eval) return answer;
  }
  const request = { ...(await requireOpenHold(ctx, id, amounts)), ...asked };
  // Reports of a hold are current under the contract's lock only.
  const isAlone = isInTransaction(ctx) || estimated || request.hold.kept;
  return isAlone ? settleSerially(ctx, request) : ctx.resources.consume(request);
}

async function requireOpenHold(
  ctx: Context,
  id: string,
  amounts: Readonly<Record<string, number>>,
): Promise<FoundHold> {
  const found = await requireHold(ctx, id);
  const view = viewHold(found.hold, found.userId, ctx.resources.now());
  if (view.state !== "open") throw holdEnded(view);
  const wrong = wrongAmounts(found.hold, amounts);
  if (wrong !== undefined) throw wrong;
  return found;
}

/**
 * Returns the hold as this process took it, which saves the read. Undefined where only a read tells what is wrong. Whether it is
 * still open, the write of its end decides.
 */
function keptHold(ctx: Context, id: string, amounts: Readonly<Record<string, number>>): FoundHold | undefined {
  if (isInTransaction(ctx)) return undefined;
  const found = ctx.resources.snapshots.keptHold(id);
  if (found?.organizationId !== evaluatedOrganization(ctx)) return undefined;
  const isOpen = found.hold.until.getTime() > ctx.resources.now().getTime();
  return isOpen && wrongAmounts(found.hold, amounts) === undefined ? found : undefined;
}

/** Counts a settlement for metrics, and notes the budget that denies it. */
export function countSettlement(ctx: Context, { eval: granted, hold, budget }: SettlementAnswer): void {
  noteDenial(ctx.resources, budget);
  const { totals } = ctx.resources.callCounter;
  if (!granted) totals.denied += 1;
  else if (hold.state === "settled") totals.granted += 1;
}

/** Extends an open hold, at most to 24 hours from its creation. An extension never shortens it. */
export async function extendOpenHold(
  ctx: Context,
  { id, durationMs }: { id: string; durationMs: number },
): Promise<HoldView> {
  return withOpenHold(ctx, id, async (ctx, { hold, userId, at }) => {
    const wanted = Math.min(at.getTime() + durationMs, hold.createdAt.getTime() + MAX_HOLD_MS);
    const until = new Date(Math.max(hold.until.getTime(), wanted));
    await extendHold(ctx.db, hold, until);
    return viewHold({ ...hold, until }, userId, at);
  });
}

/** Gives back what a hold holds. Does nothing for a hold that was released, or expired without counting. */
export async function releaseHold(ctx: Context, id: string): Promise<void> {
  await withOpenHold(
    ctx,
    id,
    async (ctx, opened) => {
      const { hold, at } = opened;
      const budgets = await loadBudgets(ctx, opened, [], hold.budgets ?? []);
      const writes = noBudgetWrites();
      moveHeld({ ...opened, budgets }, opened, settledBudgets({ budgets }, hold, {}), writes);
      await endHolds(ctx.db, [{ hold, state: "released", endedAt: at, counted: hold.counted }]);
      await changeBudgetBalances(ctx.db, [...writes.budgets.values()]);
      await afterHoldEnds(ctx, opened, opened);
    },
    ({ state, onExpiry }) => {
      const isGivenBack = state === "released" || (state === "expired" && onExpiry === "release");
      return isGivenBack ? { answer: undefined } : undefined;
    },
  );
}

/** One page of a contract's holds, newest first. */
export interface HoldPage {
  data: HoldView[];
  /** The `before` of the next page; null for the last one. */
  next: string | null;
}

/**
 * Lists a contract's holds. Source: contract usage-records §3.3.
 * @throws Failure invalid for an unknown state; notFound without the contract.
 */
export async function listContractHolds(
  ctx: Context,
  query: ContractAddress & { state: string; before: string | undefined; limit: number },
): Promise<HoldPage> {
  const row = await findContract(ctx, query);
  const limit = clampPageSize(ctx, query.limit);
  const now = ctx.resources.now();
  const state = HOLD_STATES.find((each) => each === query.state);
  const found = await listHolds(ctx.db, { contractId: row.id, state, before: query.before, limit: limit + 1, now });
  const data = found.slice(0, limit).map((hold) => viewHold(hold, row.userId, now));
  return { data, next: found.length > limit ? (data.at(-1)?.id ?? null) : null };
}

/** Returns true for a state of holds, and for all of them. */
export const isListedState = (text: string): text is HoldState | "all" =>
  text === "all" || (HOLD_STATES as readonly string[]).includes(text);
