import { sum } from "../../../core/exact.ts";
import { OPEN_HOLDS_PER_CONTRACT } from "../../../core/holds.ts";
import { changeBudgetBalances } from "../../../db/queries/budgets.ts";
import { countOpenHolds, endHolds, takeHolds } from "../../../db/queries/holds.ts";
import { moveLevels } from "../../../db/queries/usage.ts";
import { type Context, newId } from "../../context.ts";
import { Failure } from "../../errors.ts";
import { loadBudgets } from "../budget-book.ts";
import { moveBudget, noBudgetWrites } from "../budget-moves.ts";
import { type BudgetPart, movementsOf } from "../budget-parts.ts";
import { byLimit, deniedSettlement, moveHeld, settledBudgets, withHeldBudgets } from "../held-budgets.ts";
import { recordedSpender } from "../spenders.ts";
import { balanceChanges, decide, explained, involvedLevels, mapValues, priced, withCost } from "../decision.ts";
import { evaluationWithoutBlocks } from "../../evaluations.ts";
import { usageEvents } from "../../usage-events.ts";
import { fitted } from "../partial.ts";
import { withSpenders } from "../spenders.ts";
import { withOpenHold } from "../open-hold.ts";
import { afterHoldEnds, evaluatedOrganization, type Prepared, withLockedContract } from "../prepare.ts";
import type {
  EvaluationRequest,
  FeatureAnswer,
  QueuedEvaluation,
  SettlementAnswer,
  SettlementRequest,
} from "../request.ts";
import { decideSettlement, withLimitsNow, wrongAmounts } from "../settlement.ts";
import { countOpened } from "../kept-holds.ts";
import { recordUsage } from "./record.ts";
import { holdTaken, isTake, newHold, type TakeRequest } from "./take.ts";

/**
 * Consumes, or takes a hold, in its own transaction or in the caller's. Blocks on the contract's lock, and writes what is
 * due first.
 */
export async function consumeSerially(ctx: Context, asked: EvaluationRequest): Promise<FeatureAnswer> {
  const organizationId = evaluatedOrganization(ctx);
  return withLockedContract(ctx, { organizationId, userId: asked.userId }, async (ctx, locked) => {
    const prepared = await withSpenders(ctx, locked, [asked.spender ?? []]);
    const whole = priced(prepared, asked);
    const request = fitted(prepared, whole);
    const { result, counts, parts } = decide(prepared, request);
    if (!counts) return withCost(explained(prepared, result, request, prepared.usage), request);
    if (isTake(request)) {
      const taken = await takeSerially(ctx, prepared, { ...request, organizationId }, { result, parts });
      return withCost(taken, whole);
    }
    const { held } = prepared;
    const now = ctx.resources.now();
    const involved = involvedLevels(prepared, request);
    const levels = await moveLevels(
      ctx.db,
      prepared.contract.contractId,
      involved.map(({ id, level }) => ({
        level,
        delta: request.expected[id] ?? 0,
        budgets: movementsOf(parts, level),
        units: request.pricedUnits?.[id],
      })),
      {
        kind: "consume",
        operationId: newId(now),
        now,
        featureId: request.featureId,
        spender: recordedSpender(request.spender),
      },
    );
    const usageAfter = (id: string, consumed: number) => {
      const heldOfIt = held.get(id);
      return heldOfIt === undefined ? consumed : sum(consumed, heldOfIt);
    };
    const usage = new Map(involved.map(({ id }, i) => [id, usageAfter(id, levels[i]?.consumed ?? 0)]));
    // Taken from the rows: their sums are exact where sums in JavaScript round.
    const answer = { ...result, used: mapValues(result.used ?? {}, (id, computed) => usage.get(id) ?? computed) };
    const changes = balanceChanges(prepared, involved, answer);
    const { events, raised } = usageEvents(prepared.contract, request.userId, changes);
    const writes = noBudgetWrites();
    for (const part of parts) moveBudget(prepared, { ...request, organizationId }, part, { used: part.amount }, writes);
    await changeBudgetBalances(ctx.db, [...writes.budgets.values()]);
    await recordUsage(ctx, organizationId, { events: [...events, ...writes.events.map(({ event }) => event)], raised });
    return withCost(explained(prepared, answer, request, usage), request);
  });
}

async function takeSerially(
  ctx: Context,
  prepared: Prepared,
  request: TakeRequest & QueuedEvaluation,
  { result, parts }: { result: FeatureAnswer; parts: readonly BudgetPart[] },
): Promise<FeatureAnswer> {
  const open = await countOpenHolds(ctx.db, prepared.contract.contractId);
  if (open >= OPEN_HOLDS_PER_CONTRACT) {
    throw new Failure(
      "conflict",
      `CONFLICT: The contract has ${OPEN_HOLDS_PER_CONTRACT} open holds: settle or release some first`,
    );
  }
  const taken = newHold(prepared, request, parts, ctx.resources.now());
  await takeHolds(ctx.db, [taken]);
  const writes = noBudgetWrites();
  for (const part of parts) moveBudget(prepared, request, part, { held: part.amount }, writes);
  await changeBudgetBalances(ctx.db, [...writes.budgets.values()]);
  return holdTaken(prepared, request, result, taken);
}

/** Settles a hold in its own transaction, or in the caller's. Blocks on the contract's lock. */
export async function settleSerially(
  ctx: Context,
  {
    hold: { id },
    amounts,
    blocks = true,
    unitCosts,
    units,
    estimated = false,
  }: Pick<SettlementRequest, "hold" | "amounts" | "blocks" | "unitCosts" | "units" | "estimated">,
): Promise<SettlementAnswer> {
  return withOpenHold(ctx, id, async (ctx, opened) => {
    const { hold, userId, organizationId, contract, evaluation, at } = opened;
    if (hold.kept || estimated) {
      const total = { id, spent: amounts, left: undefined, durationMs: undefined, estimated, blocks, units };
      return countOpened(ctx, opened, { ...total, isEnd: true });
    }
    const wrong = wrongAmounts(hold, amounts);
    if (wrong !== undefined) throw wrong;
    const { levels, services } = contract;
    const request = { userId, hold, amounts, units };
    const plain = blocks === false && evaluation !== undefined;
    const decidedBy = plain ? await evaluationWithoutBlocks(ctx, contract, at, evaluation) : evaluation;
    const subject = {
      contract,
      evaluation,
      at,
      budgets: await loadBudgets(ctx, { contract, evaluation, at }, [], hold.budgets ?? []),
    };
    const heldChanges = settledBudgets(subject, hold, amounts, unitCosts);
    const denying = deniedSettlement(subject, hold, heldChanges);
    const of = { levels, services, evaluation, decidedBy, denying };
    const decision = decideSettlement(of, request, at);
    const { answer, end } = decision;
    if (end !== undefined) {
      const writes = noBudgetWrites();
      const moved = moveHeld(subject, { organizationId, userId }, heldChanges, writes);
      await endHolds(ctx.db, [{ ...end, budgets: byLimit(hold, moved) }]);
      await changeBudgetBalances(ctx.db, [...writes.budgets.values()]);
      const after = await afterHoldEnds(ctx, { organizationId, userId }, opened);
      const shown = withLimitsNow(decision, hold, plain ? { ...after, decidedBy } : after);
      const { events, raised } = usageEvents(contract, userId, shown.changes);
      await recordUsage(ctx, organizationId, {
        events: [...events, ...writes.events.map(({ event }) => event)],
        raised,
      });
      return withHeldBudgets(shown.answer, subject, hold, heldChanges);
    }
    return withHeldBudgets(answer, subject, hold, heldChanges);
  });
}
