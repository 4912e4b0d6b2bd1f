import { sum } from "../core/exact.ts";
import { creditTermsOf, type Rollover } from "../core/pricing/credits.ts";
import type { Evaluation } from "../core/pricing/evaluate.ts";
import { hasKept } from "../core/pricing/blocks.ts";
import { isBound } from "../core/pricing/model.ts";
import type { ContractSnapshot, SnapshotBlock } from "../db/queries/contract-snapshots.ts";
import { sameLevel } from "../db/queries/usage.ts";
import { grantedLimit } from "./evaluations.ts";

/** Milliseconds since 1970 from which an end is to be written, by the immutable list of blocks. */
const firstEnds = new WeakMap<readonly SnapshotBlock[], number>();

/** True if the end of one of the blocks is to be written: its end has passed, or nothing is left of it. */
export function hasDueBlock(blocks: readonly SnapshotBlock[], now: Date): boolean {
  if (blocks.length === 0) return false;
  let first = firstEnds.get(blocks);
  if (first === undefined) {
    const ends = blocks.filter(({ drawn }) => drawn === null);
    first = Math.min(
      ...ends.map(({ left, expiresAt }) => (left === 0 ? -Infinity : (expiresAt?.getTime() ?? Infinity))),
    );
    firstEnds.set(blocks, first);
  }
  return first <= now.getTime();
}

/**
 * True if ended blocks keep more than open holds need, which is to be written before anything is decided. What they keep is what
 * usage lacks, so a limit above usage is too high.
 */
export function keepsTooMuch(
  contract: Pick<ContractSnapshot, "blocks" | "levels" | "services">,
  evaluation: Evaluation | undefined,
): boolean {
  if (!hasKept(contract.blocks)) return false;
  return contract.blocks.some((block) => {
    const level = block.kept > 0 ? contract.levels.find((one) => sameLevel(one, block)) : undefined;
    if (level === undefined) return false;
    const limit = grantedLimit(contract, evaluation, level);
    return level.held === 0 || (isBound(limit) && sum(level.consumed, level.held) < limit);
  });
}

/** Returns what the contracted version carries over of a limit; undefined for nothing. */
export function rolloverOf(
  { services }: Pick<ContractSnapshot, "services">,
  evaluation: Evaluation | undefined,
  { serviceId, limitName }: { serviceId: string; limitName: string },
): Rollover | undefined {
  const key = services.find((service) => service.serviceId === serviceId)?.key;
  const pricing = evaluation?.services.find(({ serviceName }) => serviceName === key)?.pricing;
  return pricing && creditTermsOf(pricing.pricing).rollover.get(limitName);
}
