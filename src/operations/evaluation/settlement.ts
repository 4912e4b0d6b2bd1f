import { sum } from "../../core/exact.ts";
import type { Evaluation } from "../../core/pricing/evaluate.ts";
import { isBound } from "../../core/pricing/model.ts";
import type { ContractSnapshot } from "../../db/queries/contract-snapshots.ts";
import type { HoldEnd, HoldRow } from "../../db/queries/holds.ts";
import { Failure } from "../errors.ts";
import { grantedLimit } from "../evaluations.ts";
import type { BalanceChange } from "../usage-events.ts";
import { remainingOf } from "./decision.ts";
import type { BudgetView, HoldView, SettlementAnswer, SettlementRequest } from "./request.ts";

/**
 * Returns the hold as it is at that moment: past its end it has expired, whether or not that is written. `end`: its end if
 * that is not in the row yet.
 */
export function viewHold(
  hold: HoldRow,
  userId: string,
  now: Date,
  end: Pick<HoldRow, "state" | "endedAt" | "counted"> = hold,
): HoldView {
  const amounts: Record<string, number> = {};
  for (const { id, amount } of hold.amounts) amounts[id] = amount;
  const isOver = end.state === "open" && hold.until.getTime() <= now.getTime();
  const until = hold.until.toISOString();
  return {
    id: hold.id,
    userId,
    featureId: hold.featureId,
    amounts,
    state: isOver ? "expired" : end.state,
    onExpiry: hold.onExpiry,
    createdAt: hold.createdAt.toISOString(),
    until,
    endedAt: isOver ? until : (end.endedAt?.toISOString() ?? null),
    counted: isOver && hold.onExpiry === "consume" ? withReported(hold, amounts) : end.counted,
  };
}

/** Returns what an expiry counts, with what was reported of the hold before. */
function withReported({ kept, counted }: HoldRow, amounts: Record<string, number>): Record<string, number> {
  if (!kept || counted === null) return amounts;
  return Object.fromEntries(Object.entries(amounts).map(([id, left]) => [id, sum(left, counted[id] ?? 0)]));
}

/** Returns the failure of a settlement whose amounts are not those of exactly the hold's limits. */
export function wrongAmounts(
  hold: Pick<HoldRow, "amounts">,
  amounts: Readonly<Record<string, number>>,
): Failure | undefined {
  const missing = hold.amounts.find(({ id }) => !Object.hasOwn(amounts, id));
  if (missing !== undefined) return new Failure("unprocessable", `The ${missing.id} field is required`);
  const unknown = Object.keys(amounts).find((name) => !hold.amounts.some(({ id }) => id === name));
  return unknown === undefined ? undefined : new Failure("unprocessable", `Unknown field: ${unknown}`);
}

/** Answer of a settlement, and its writes; `end` is undefined if it is refused. */
export interface SettlementDecision {
  answer: SettlementAnswer;
  end: HoldEnd | undefined;
  /** Changes of balances by what it counts. */
  changes: BalanceChange[];
}

/**
 * Decides a settlement over the levels of its contract, which must be current, as must be the hold, open. Amounts up to the
 * held ones are always granted; more only within numeric limits. Source: contract usage-records §3.2.
 */
export function decideSettlement(
  {
    levels,
    services,
    evaluation,
    decidedBy = evaluation,
    denying,
  }: Pick<ContractSnapshot, "levels" | "services"> & {
    evaluation: Evaluation | undefined;
    /** Evaluation whose limits decide and are shown. Alerts are about those of `evaluation`. */
    decidedBy?: Evaluation | undefined;
    /** Budget that denies it. */
    denying?: BudgetView | undefined;
  },
  { userId, hold, amounts, units }: SettlementRequest,
  now: Date,
): SettlementDecision {
  const limits = hold.amounts.map(({ serviceId, limitName, id, amount: held }) => {
    const level = levels.find((one) => one.serviceId === serviceId && one.limitName === limitName);
    if (level === undefined) throw new Error(`the open hold ${hold.id} holds a level that is not there`);
    const amount = amounts[id] ?? 0;
    const limit = grantedLimit({ services }, decidedBy, level) ?? null;
    const before = sum(level.consumed, level.held);
    const after = sum(before, sum(amount, -held));
    const isRefused = isBound(limit) && amount > held && after > limit;
    return { id, level, amount, limit, before, after, isRefused };
  });
  const fits = !limits.some(({ isRefused }) => isRefused);
  const granted = fits && denying === undefined;
  const byLimit: Pick<SettlementAnswer, "limit" | "used" | "remaining" | "resetAt"> = {
    limit: {},
    used: {},
    remaining: {},
    resetAt: {},
  };
  const amountsCounted: Record<string, number> = {};
  const changes: BalanceChange[] = [];
  for (const { id, level, amount, limit, before, after } of limits) {
    byLimit.limit[id] = limit;
    byLimit.used[id] = after;
    byLimit.remaining[id] = remainingOf(limit, granted ? after : before);
    byLimit.resetAt[id] = level.resetAt?.toISOString() ?? null;
    amountsCounted[id] = amount;
    const alerted = decidedBy === evaluation ? limit : grantedLimit({ services }, evaluation, level);
    changes.push({ level, before: level.consumed, after: sum(level.consumed, amount), limit: alerted });
  }
  const isCounted = limits.some(({ amount }) => amount > 0);
  const end: HoldEnd = {
    hold,
    state: isCounted ? "settled" : "released",
    endedAt: now,
    counted: isCounted ? amountsCounted : null,
    units,
  };
  const { limit, used, remaining, resetAt } = byLimit;
  return {
    answer: {
      eval: granted,
      limit,
      used,
      error: null,
      remaining,
      resetAt,
      ...(fits && denying !== undefined ? { budget: denying } : {}),
      hold: viewHold(hold, userId, now, granted ? end : hold),
    },
    end: granted ? end : undefined,
    changes: granted ? changes : [],
  };
}

/** Gives a settlement that is written the limits after it: what ended blocks kept for its hold leaves them with the hold. */
export function withLimitsNow(
  { answer, changes }: Pick<SettlementDecision, "answer" | "changes">,
  { amounts }: Pick<HoldRow, "amounts">,
  {
    contract,
    evaluation,
    decidedBy = evaluation,
  }: { contract: ContractSnapshot; evaluation: Evaluation | undefined; decidedBy?: Evaluation | undefined },
): Pick<SettlementDecision, "answer" | "changes"> {
  const limit = Object.fromEntries(
    amounts.map(({ id, ...held }) => [id, grantedLimit(contract, decidedBy, held) ?? null]),
  );
  const remaining = Object.fromEntries(
    amounts.map(({ id }) => [id, remainingOf(limit[id] ?? null, answer.used[id] ?? 0)]),
  );
  return {
    answer: { ...answer, limit, remaining },
    changes: changes.map((change) => ({ ...change, limit: grantedLimit(contract, evaluation, change.level) })),
  };
}
