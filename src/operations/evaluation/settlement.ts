import { sum } from "../../core/exact.ts";
import type { Evaluation } from "../../core/pricing/evaluate.ts";
import type { ContractSnapshot } from "../../db/queries/contract-snapshots.ts";
import type { HoldEnd, HoldRow } from "../../db/queries/holds.ts";
import { grantedLimit } from "../due-holds.ts";
import { Failure } from "../errors.ts";
import type { BalanceChange } from "../usage-events.ts";
import { remainingOf } from "./decision.ts";
import type { HoldView, SettlementAnswer, SettlementRequest } from "./request.ts";

/** Returns the hold as it is at that moment: past its end it has expired, whether or not that is written. */
export function viewHold(hold: HoldRow, userId: string, now: Date): HoldView {
  const { id, featureId, onExpiry, createdAt, until } = hold;
  const amounts = Object.fromEntries(hold.amounts.map((held) => [held.id, held.amount]));
  const isOver = hold.state === "open" && until.getTime() <= now.getTime();
  const end = isOver
    ? { state: "expired" as const, endedAt: until, counted: onExpiry === "consume" ? amounts : null }
    : { state: hold.state, endedAt: hold.endedAt, counted: hold.counted };
  const { state, endedAt, counted } = end;
  return { id, userId, featureId, amounts, state, onExpiry, createdAt, until, endedAt, counted };
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
  { contract, evaluation }: { contract: ContractSnapshot; evaluation: Evaluation | undefined },
  { userId, hold, amounts }: SettlementRequest,
  now: Date,
): SettlementDecision {
  const limits = hold.amounts.map(({ serviceId, limitName, id, amount: held }) => {
    const level = contract.levels.find((one) => one.serviceId === serviceId && one.limitName === limitName);
    if (level === undefined) throw new Error(`the open hold ${hold.id} holds a level that is not there`);
    const amount = amounts[id] ?? 0;
    const limit = grantedLimit(contract, evaluation, level) ?? null;
    const before = sum(level.consumed, level.held);
    const after = sum(before, sum(amount, -held));
    const isRefused = typeof limit === "number" && amount > held && after > limit;
    return { id, level, amount, limit, before, after, isRefused };
  });
  const granted = !limits.some(({ isRefused }) => isRefused);
  const by = <T>(value: (limit: (typeof limits)[number]) => T) =>
    Object.fromEntries(limits.map((limit) => [limit.id, value(limit)]));
  const counted = limits.some(({ amount }) => amount > 0) ? by(({ amount }) => amount) : null;
  const end: HoldEnd = { hold, state: counted === null ? "released" : "settled", endedAt: now, counted };
  const ended = granted ? { ...hold, state: end.state, endedAt: now, counted } : hold;
  const changes = limits.map(({ level, amount, limit }): BalanceChange => {
    const { consumed } = level;
    return { level, before: consumed, after: sum(consumed, amount), limit };
  });
  return {
    answer: {
      eval: granted,
      limit: by(({ limit }) => limit),
      used: by(({ after }) => after),
      error: null,
      remaining: by(({ limit, before, after }) => remainingOf(limit, granted ? after : before)),
      resetAt: by(({ level }) => level.resetAt?.toISOString() ?? null),
      hold: viewHold(ended, userId, now),
    },
    end: granted ? end : undefined,
    changes: granted ? changes : [],
  };
}
