import { type HeldAmount, OPEN_HOLDS_PER_CONTRACT } from "../../../core/holds.ts";
import type { Decision } from "../../../db/queries/decision.ts";
import {
  type ContractSnapshot,
  endUserKey,
  type EndUserName,
  NO_HOLDS,
  type SeenLevel,
} from "../../../db/queries/contract-snapshots.ts";
import { sum } from "../../../core/exact.ts";
import { hasKept } from "../../../core/pricing/blocks.ts";
import type { Spender } from "../../../core/pricing/budgets.ts";
import { keepBalances } from "../budget-book.ts";
import { moveBudget } from "../budget-moves.ts";
import type { BudgetPart } from "../budget-parts.ts";
import { byLimit, deniedSettlement, moveHeld, settledBudgets, withHeldBudgets } from "../held-budgets.ts";
import { fitted } from "../partial.ts";
import { withSpenders } from "../spenders.ts";
import { type Context, newId } from "../../context.ts";
import { Failure } from "../../errors.ts";
import { decide, evaluationFor, explained, involvedLevels, priced, withCost } from "../decision.ts";
import { keepsTooMuch } from "../../due-blocks.ts";
import { prepare, type Prepared } from "../prepare.ts";
import { needsRenewal } from "../renewal.ts";
import type { FeatureAnswer, QueuedEvaluation, QueuedRequest, QueuedSettlement, SettlementAnswer } from "../request.ts";
import { decideSettlement } from "../settlement.ts";
import { holdTaken, isTake, newHold, type TakeRequest } from "./take.ts";
import { changeLevel, countGranted, noBalanceWrites, raiseEvents, type Writes } from "./writes.ts";

/** The requests of one batch for one contract. */
export interface ContractRequests {
  key: string;
  endUser: EndUserName;
  /** In order of arrival. */
  requests: QueuedRequest[];
}

export function groupByContract(requests: readonly QueuedRequest[]): ContractRequests[] {
  const groups = new Map<string, ContractRequests>();
  for (const request of requests) {
    const key = endUserKey(request);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, { key, endUser: request, requests: [request] });
    else group.requests.push(request);
  }
  return [...groups.values()];
}

type Answer = FeatureAnswer | SettlementAnswer | "needsOwnTransaction";

/** The answers to all requests for one contract, and what to write for them. */
interface OrderedDecision extends Decision {
  group: ContractRequests;
  answers: Map<QueuedRequest, Answer | Error>;
  /** The snapshot after this consumption; undefined if it cannot be computed exactly. */
  snapshotAfter(version: string): ContractSnapshot | undefined;
}

/** Decides the requests for one contract in order of arrival. Each sees the balances that earlier ones left. */
export async function decideInOrder(
  ctx: Pick<Context, "db" | "resources">,
  contract: ContractSnapshot,
  group: ContractRequests,
  now: Date,
): Promise<OrderedDecision> {
  const { requests } = group;
  const writes: Writes = { ...noBalanceWrites(), takes: [], ends: [] };
  const prepared = await prepareUnlessDue(ctx, contract, now, requests);
  const answers: OrderedDecision["answers"] = new Map();
  for (const request of requests) {
    const isPrepared = prepared !== "needsOwnTransaction" && !(prepared instanceof Failure);
    if (isPrepared) {
      const decideOne =
        "amounts" in request ? settleNext(prepared, request, writes, now) : decideNext(prepared, request, writes, now);
      answers.set(request, decideOne);
    } else {
      // Amounts that are held can be settled whatever the contract has become.
      answers.set(request, "amounts" in request ? "needsOwnTransaction" : prepared);
    }
  }
  const { consumptions, takes, ends, events, raised, levels, budgets } = writes;
  // Listed, because V8 copies the rest of an object in slow code.
  return {
    group,
    organizationId: group.endUser.organizationId,
    contract,
    answers,
    consumptions,
    takes,
    ends,
    events,
    raised,
    budgets: [...budgets.values()],
    snapshotAfter: (version) => {
      // Integer sums match the database's. Fractional sums may differ in double precision.
      const isExact = ({ consumed, held }: SeenLevel) => Number.isSafeInteger(consumed) && Number.isSafeInteger(held);
      if (![...levels.values()].every(isExact)) return undefined;
      const after = (level: SeenLevel) => {
        const changed = levels.get(level);
        return changed === undefined ? level : { ...changed, version };
      };
      const snapshot = { ...contract, levels: contract.levels.map(after) };
      if (typeof prepared === "object" && "budgets" in prepared) keepBalances(contract, snapshot, prepared.budgets);
      return snapshot;
    },
  };
}

const NOBODY: Spender = [];

/** Returns a Failure that applies to each request, such as an expired contract. */
async function prepareUnlessDue(
  ctx: Pick<Context, "db" | "resources">,
  contract: ContractSnapshot,
  now: Date,
  requests: readonly QueuedRequest[],
): Promise<Prepared | "needsOwnTransaction" | Failure> {
  try {
    if (needsRenewal(contract, now)) return "needsOwnTransaction";
    const prepared = await prepare(ctx, contract, now);
    if (keepsTooMuch(contract, prepared.evaluation)) return "needsOwnTransaction";
    const spenders = requests.map((request) => ("amounts" in request ? NOBODY : (request.spender ?? NOBODY)));
    const held = requests.flatMap((request) => ("amounts" in request ? (request.hold.budgets ?? []) : []));
    return await withSpenders(ctx, prepared, spenders, held);
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    return error;
  }
}

/** Decides one request, and adds its consumption or hold to the balances that the next request sees. */
function decideNext(prepared: Prepared, asked: QueuedEvaluation, writes: Writes, now: Date): Answer | Failure {
  let whole = asked;
  try {
    whole = priced(prepared, asked);
  } catch (error) {
    if (error instanceof Failure) return error;
    throw error;
  }
  const request = fitted(prepared, whole);
  const { result, counts, parts, involved } = decide(prepared, request);
  const { usage } = prepared;
  if (!counts) return withCost(explained(prepared, result, request, usage), request);
  if (isTake(request)) return takeNext(prepared, request, { result, parts, whole }, writes, now);
  countGranted(prepared, request, { result, parts, involved }, writes, { operationId: newId(now) });
  return withCost(explained(prepared, result, request, usage), request);
}

function takeNext(
  prepared: Prepared,
  request: TakeRequest & QueuedEvaluation,
  {
    result,
    parts,
    whole,
  }: {
    result: FeatureAnswer;
    parts: readonly BudgetPart[];
    /** The request before it was fitted. */
    whole: QueuedEvaluation;
  },
  writes: Writes,
  now: Date,
): Answer {
  const open = prepared.contract.levels.reduce((total, { openHolds }) => total + openHolds, 0);
  // A hold of two limits counts twice here, so this is the most that may be open.
  if (open + writes.takes.length >= OPEN_HOLDS_PER_CONTRACT) return "needsOwnTransaction";
  const taken = newHold(prepared, request, parts, now);
  const { until } = taken;
  writes.takes.push(taken);
  for (const { id, level } of involvedLevels(prepared, request)) {
    changeLevel(writes, level, (now) => ({
      ...now,
      held: sum(now.held, request.expected[id] ?? 0),
      openHolds: now.openHolds + 1,
      holdDue: now.holdDue === null || until < now.holdDue ? until : now.holdDue,
    }));
  }
  for (const part of parts) moveBudget(prepared, request, part, { held: part.amount }, writes);
  return withCost(holdTaken(prepared, request, result, taken), whole);
}

/** Decides one settlement, and takes its hold off the balances that the next request sees. */
function settleNext(prepared: Prepared, request: QueuedSettlement, writes: Writes, now: Date): Answer {
  const { hold } = request;
  if (hold.kept || writes.ends.some((end) => end.hold.id === hold.id)) return "needsOwnTransaction";
  const { contract, evaluation, usage, held } = prepared;
  // Its end changes the limits that the next requests see.
  if (hasKept(contract.blocks)) return "needsOwnTransaction";
  const levels = contract.levels.map((level) => writes.levels.get(level) ?? level);
  // The hold was read before the contract, which may have lost a level or renamed a service since.
  const isThere = ({ serviceId, limitName, id }: HeldAmount) =>
    usage.has(id) && levels.some((level) => level.serviceId === serviceId && level.limitName === limitName);
  if (!hold.amounts.every(isThere)) return "needsOwnTransaction";
  const decidedBy = evaluationFor(prepared, request);
  const heldChanges = settledBudgets(prepared, hold, request.amounts, request.unitCosts);
  const denying = deniedSettlement(prepared, hold, heldChanges);
  const of = { levels, services: contract.services, evaluation, decidedBy, denying };
  const { answer, end, changes } = decideSettlement(of, request, now);
  if (end === undefined) return withHeldBudgets(answer, prepared, hold, heldChanges);
  const moved = moveHeld(prepared, request, heldChanges, writes);
  writes.ends.push(moved.size === 0 ? end : { ...end, budgets: byLimit(hold, moved) });
  raiseEvents(prepared, request, writes, changes);
  for (const { id, serviceId, limitName, amount } of hold.amounts) {
    const level = contract.levels.find((one) => one.serviceId === serviceId && one.limitName === limitName);
    if (level === undefined) continue;
    changeLevel(writes, level, (now) => {
      const consumed = sum(now.consumed, request.amounts[id] ?? 0);
      const openHolds = now.openHolds - 1;
      return openHolds > 0
        ? { ...now, consumed, held: sum(now.held, -amount), openHolds }
        : { ...now, consumed, ...NO_HOLDS };
    });
    const { held: heldNow, consumed } = writes.levels.get(level) ?? level;
    if (heldNow > 0) held.set(id, heldNow);
    else held.delete(id);
    usage.set(id, sum(consumed, heldNow));
  }
  return withHeldBudgets(answer, prepared, hold, heldChanges);
}
