import { sum } from "../../../core/exact.ts";
import { OPEN_LEASES_PER_CONTRACT } from "../../../core/leases.ts";
import { checkExpectedConsumption, evaluateFeature, type FeatureResult } from "../../../core/pricing/evaluate.ts";
import { countOpenLeases, insertLease } from "../../../db/queries/leases.ts";
import { type Context, newId } from "../../context.ts";
import { Failure } from "../../errors.ts";
import { explained, involvedLevels } from "../decision.ts";
import { evaluatedOrganization, type Prepared, withLockedContract } from "../prepare.ts";
import type { FeatureAnswer, LeaseAnswer, Mode } from "../request.ts";
import { refuseSeats } from "../seats.ts";
import { type Amounts, availableOf, endOf, viewLease } from "./lease.ts";

/** A lease to open. */
export interface LeaseRequest {
  userId: string;
  featureId: string;
  mode: Mode;
  amounts: Amounts;
  durationMs: number;
}

/**
 * Opens a lease of as much as is available of the requested amounts. `lease` is null if the feature is off, if nothing is
 * available, or if the lease would end at once. Blocks on the contract's lock.
 * @throws Failure notFound without a contract; invalid when it has expired; unprocessable for an amount of an unknown
 * limit; conflict with too many open leases.
 */
export async function openLease(ctx: Context, request: LeaseRequest): Promise<LeaseAnswer> {
  const { userId, featureId, mode, amounts, durationMs } = request;
  const name = { organizationId: evaluatedOrganization(ctx), userId };
  return withLockedContract(ctx, name, async (ctx, prepared) => {
    const { evaluation, usage, contract, at } = prepared;
    const result = evaluateFeature(evaluation, featureId, usage, mode);
    const answer = (of: FeatureResult) => notLeased(prepared, of, request);
    if (result.error !== null) return answer(result);
    refuseSeats(evaluation, amounts);
    const involved = involvedLevels(prepared, request);
    const unknown = Object.keys(amounts).find((name) => !involved.some(({ id }) => id === name));
    if (unknown !== undefined) throw new Failure("unprocessable", `Unknown limit in amounts: ${unknown}`);
    const incomplete = checkExpectedConsumption(evaluation, featureId, amounts, mode);
    if (incomplete !== undefined) return answer(incomplete);
    const limits = involved.map(({ id, level }) => {
      const amount = amounts[id] ?? 0;
      return { id, level, amount, granted: Math.min(amount, availableOf(result.limit?.[id], usage.get(id) ?? 0)) };
    });
    const isUsedUp = limits.some(({ amount, granted }) => amount > 0 && granted <= 0);
    if (!result.eval || isUsedUp) return answer({ ...result, eval: false });
    if ((await countOpenLeases(ctx.db, contract.contractId)) >= OPEN_LEASES_PER_CONTRACT) {
      const sentence = `CONFLICT: The contract of ${userId} has ${OPEN_LEASES_PER_CONTRACT} open leases`;
      throw new Failure("conflict", sentence);
    }
    const levels = limits.map(({ level }) => level);
    const until = endOf(contract, levels, { at, durationMs });
    if (until.getTime() <= at.getTime()) return answer(result);
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
    };
    await insertLease(ctx.db, lease);
    for (const { id, granted } of limits) usage.set(id, sum(usage.get(id) ?? 0, granted));
    return { ...answer(result), lease: viewLease({ ...lease, state: "open" }, userId) };
  });
}

/** Answer without a lease. `usage` of `prepared` decides what remains. */
function notLeased(prepared: Prepared, result: FeatureResult, { featureId, mode }: LeaseRequest): LeaseAnswer {
  const request = { featureId, mode, explain: false, strict: true, dryRun: false };
  const {
    remaining = null,
    resetAt = null,
    ...rest
  }: FeatureAnswer = explained(prepared, result, request, prepared.usage);
  return { ...rest, remaining, resetAt, now: prepared.at.toISOString(), lease: null };
}
