import { sum } from "../../../core/exact.ts";
import type { Spender } from "../../../core/pricing/budgets.ts";
import { OPEN_LEASES_PER_CONTRACT } from "../../../core/leases.ts";
import { checkExpectedConsumption, evaluateFeature } from "../../../core/pricing/evaluate.ts";
import { changeBudgetBalances } from "../../../db/queries/budgets.ts";
import { countOpenLeases, insertLease } from "../../../db/queries/leases.ts";
import { type Context, newId } from "../../context.ts";
import { Failure } from "../../errors.ts";
import { moveBudget, noBudgetWrites } from "../budget-moves.ts";
import { viewDenying } from "../budget-denials.ts";
import { boundOfPart, type BudgetPart, budgetParts } from "../budget-parts.ts";
import { recordedSpender } from "../spenders.ts";
import { heldBudget } from "../consumption/take.ts";
import { explained, involvedLevels } from "../decision.ts";
import { evaluatedOrganization, type Prepared, withLockedContract } from "../prepare.ts";
import type { DecidedResult, FeatureAnswer, LeaseAnswer, Mode } from "../request.ts";
import { refuseSeats } from "../seats.ts";
import { refuseStranger, withSpenders } from "../spenders.ts";
import { type Amounts, availableOf, endOf, viewLease } from "./lease.ts";

/** A lease to open. */
export interface LeaseRequest {
  userId: string;
  featureId: string;
  mode: Mode;
  amounts: Amounts;
  durationMs: number;
  /** The one who spends it. Default: nobody. */
  spender?: Spender | undefined;
}

/**
 * Opens a lease of as much as is available of the requested amounts. `lease` is null if the feature is off, if nothing is
 * available, or if the lease would end at once. Blocks on the contract's lock.
 * @throws Failure notFound without a contract; invalid when it has expired; unprocessable for an amount of an unknown
 * limit; conflict with too many open leases.
 */
export async function openLease(ctx: Context, request: LeaseRequest): Promise<LeaseAnswer> {
  const { userId, featureId, mode, amounts, durationMs, spender } = request;
  const name = { organizationId: evaluatedOrganization(ctx), userId };
  return withLockedContract(ctx, name, async (ctx, locked) => {
    const prepared = await withSpenders(ctx, locked, [request.spender ?? []]);
    refuseStranger(prepared, request);
    const { evaluation, usage, contract, at } = prepared;
    const result = evaluateFeature(evaluation, featureId, usage, mode);
    const answer = (of: DecidedResult) => notLeased(prepared, of, request);
    if (result.error !== null) return answer(result);
    refuseSeats(evaluation, amounts);
    const involved = involvedLevels(prepared, request);
    const unknown = Object.keys(amounts).find((name) => !involved.some(({ id }) => id === name));
    if (unknown !== undefined) throw new Failure("unprocessable", `Unknown limit in amounts: ${unknown}`);
    const incomplete = checkExpectedConsumption(evaluation, featureId, amounts, mode);
    if (incomplete !== undefined) return answer(incomplete);
    const parts = budgetParts(prepared, involved, { spender, expected: amounts });
    const limits = involved.map(({ id, level }) => {
      const amount = amounts[id] ?? 0;
      const ofBudgets = parts.flatMap((part) => (part.id === id ? (boundOfPart(part) ?? []) : []));
      const available = Math.min(availableOf(result.limit?.[id], usage.get(id) ?? 0), ...ofBudgets);
      return { id, level, amount, granted: Math.min(amount, available) };
    });
    const viewDenied = (part: BudgetPart) => viewDenying(contract, part, recordedSpender(spender));
    const isUsedUp = limits.some(({ amount, granted }) => amount > 0 && granted <= 0);
    const denying = result.eval ? parts.find((part) => boundOfPart(part) === 0) : undefined;
    if (!result.eval || isUsedUp || denying !== undefined) {
      return answer({ ...result, eval: false, ...(denying === undefined ? {} : { budget: viewDenied(denying) }) });
    }
    if ((await countOpenLeases(ctx.db, contract.contractId)) >= OPEN_LEASES_PER_CONTRACT) {
      const sentence = `CONFLICT: The contract of ${userId} has ${OPEN_LEASES_PER_CONTRACT} open leases`;
      throw new Failure("conflict", sentence);
    }
    const levels = limits.map(({ level }) => level);
    const until = endOf(contract, levels, { at, durationMs, spans: parts.map(({ span }) => span) });
    if (until.getTime() <= at.getTime()) return answer(result);
    const held = parts
      .filter(({ fit }) => fit.budget.unit === null)
      .map((part) => ({ ...part, amount: limits.find(({ id }) => id === part.id)?.granted ?? 0 }));
    const lease = {
      id: newId(at),
      contractId: contract.contractId,
      organizationId: name.organizationId,
      featureId,
      amounts: limits.map(({ id, level: { serviceId, limitName }, granted }) => ({
        serviceId,
        limitName,
        id,
        amount: granted,
      })),
      createdAt: at,
      until,
      lease: { featureId, server: mode.server, spent: limits.map(({ id }) => ({ id, amount: 0 })) },
      spender: recordedSpender(spender),
      budgets: held.length === 0 ? null : held.map(heldBudget),
    };
    await insertLease(ctx.db, lease);
    const writes = noBudgetWrites();
    for (const part of held) moveBudget(prepared, { ...name }, part, { held: part.amount }, writes);
    await changeBudgetBalances(ctx.db, [...writes.budgets.values()]);
    for (const { id, granted } of limits) usage.set(id, sum(usage.get(id) ?? 0, granted));
    return { ...answer(result), lease: viewLease({ ...lease, state: "open" }, userId) };
  });
}

/** Answer without a lease. `usage` of `prepared` decides what remains. */
function notLeased(prepared: Prepared, result: DecidedResult, { featureId, mode, spender }: LeaseRequest): LeaseAnswer {
  const request = { featureId, mode, explain: false, strict: true, dryRun: false, spender };
  const {
    remaining = null,
    resetAt = null,
    ...rest
  }: FeatureAnswer = explained(prepared, result, request, prepared.usage);
  return { ...rest, remaining, resetAt, now: prepared.at.toISOString(), lease: null };
}
