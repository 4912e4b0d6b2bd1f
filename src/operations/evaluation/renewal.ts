import { renewedBillingEnd } from "../../core/period.ts";
import type { Evaluation } from "../../core/pricing/evaluate.ts";
import type { ContractSnapshot } from "../../db/queries/contract-snapshots.ts";
import { isHoldDue } from "../../db/queries/due-holds.ts";
import { boundaryAfter, isDue } from "../../db/queries/usage-renewals.ts";
import { hasDueBlock, rolloverOf } from "../due-blocks.ts";
import { Failure } from "../errors.ts";
import { blocksOf } from "../evaluations.ts";

/** Sentence about a contract that has ended and does not renew. */
export const EXPIRED =
  "Invalid subscription: Your susbcription has expired and it is not set to renew automatically. To continue accessing the features, please purchase any subscription.";

/**
 * True if a scheduled change is due, or the contract or a balance has reached the end of its period.
 * @throws Failure invalid for an expired contract that does not renew.
 */
export function needsRenewal(contract: ContractSnapshot, now: Date): boolean {
  return isChangeDue(contract, now) || isExpired(contract, now) || hasDue(contract, now);
}

/** True if the contract's scheduled change is to be applied before anything else. */
export function isChangeDue({ changeAt }: ContractSnapshot, now: Date): boolean {
  return changeAt !== null && changeAt.getTime() <= now.getTime();
}

/** True if a balance, hold or block has reached its end. */
export function hasDue(contract: ContractSnapshot, now: Date): boolean {
  const { levels, blocks } = contract;
  return levels.some((level) => isDue(level, now) || isHoldDue(level, now)) || hasDueBlock(blocks, now);
}

/** True after the end of the billing period. */
export function isOver(contract: Pick<ContractSnapshot, "endDate">, now: Date): boolean {
  return now.getTime() > contract.endDate.getTime();
}

/**
 * Returns the last millisecond before time alone changes what decides about a contract; undefined if it never does. Without an
 * evaluation, ignores resets that carry over for the first time.
 */
export function validUntilOf(
  contract: ContractSnapshot,
  now: Date,
  evaluation?: Evaluation | undefined,
): Date | undefined {
  const { endDate, changeAt, overrides, blocks, levels } = contract;
  // A reset takes draws off the blocks of its level and may carry over, so it changes the limit.
  const resets = levels
    .filter((level) => blocksOf(blocks, level).length > 0 || rolloverOf(contract, evaluation, level) !== undefined)
    .map(({ resetAt }) => resetAt);
  const changes = [
    changeAt,
    ...overrides.flatMap(({ from, until }) => [from, until]),
    ...blocks.flatMap(({ from, expiresAt }) => [from, expiresAt]),
    ...resets.map((reset) => reset && new Date(reset.getTime() + 1)),
  ]
    .filter((moment) => moment !== null && moment > now)
    .map((moment) => Number(moment) - 1);
  const end = endDate < now ? Infinity : endDate.getTime();
  const first = Math.min(end, ...changes);
  return first === Infinity ? undefined : new Date(first);
}

/**
 * True if the contract is to be renewed before anything else.
 * @throws Failure invalid for an expired contract that does not renew.
 */
export function isExpired(contract: ContractSnapshot, now: Date): boolean {
  if (!isOver(contract, now)) return false;
  if (!contract.autoRenew) throw new Failure("invalid", EXPIRED);
  return true;
}

/**
 * Computes the contract as renewed at that moment, without writing.
 * @throws Failure invalid when it had expired.
 */
export function asRenewed(contract: ContractSnapshot, at: Date): ContractSnapshot {
  return {
    ...contract,
    endDate: isExpired(contract, at) ? renewedBillingEnd(contract, at) : contract.endDate,
    levels: contract.levels.map((level) =>
      isDue(level, at) ? { ...level, consumed: 0, resetAt: boundaryAfter(level, at) ?? null } : level,
    ),
  };
}
