import { sum, total } from "../exact.ts";
import { nextBoundary } from "../period.ts";
import {
  type Block,
  type BlockOrigin,
  carriedOver,
  closePeriod,
  type Drawn,
  type EndedBlock,
  sharedOut,
  type Usage,
} from "./blocks.ts";
import type { Rollover } from "./credits.ts";
import { isBound, type Period } from "./model.ts";

/** Maximum resets that are passed one by one. Those after them are passed at once. */
export const MAX_RESETS = 1000;

/** A block that resets may carry over. */
export interface PeriodBlock extends Block {
  readonly origin: BlockOrigin;
  /** Number of resets until the block ends, including the last one. Null: no reset carries it over. */
  readonly resetsLeft: number | null;
}

/** A level's balance and the calendar of its resets. `anchor` and `period` are null if it never resets. */
export interface ResettingLevel extends Usage {
  readonly anchor: Date | null;
  readonly period: Period | null;
}

/** End of a running period. */
export interface PeriodEnd {
  /** Last moment of the period. */
  at: Date;
  /** First moment of the next one. */
  startsAt: Date;
  /** The next reset is the first boundary after this moment. */
  after: Date;
  /** True if later resets are passed at once: nothing is carried over, and what was carried before ends. */
  isLast?: boolean;
}

/** The end of a block at a later reset. */
interface CarriedEnd {
  readonly resetsLeft: number;
  readonly expiresAt: Date | null;
}

/** Effects of the end of a period on the blocks of a level. */
export interface PeriodClosing<B extends PeriodBlock> {
  /** Draws that the end fixes. */
  readonly drawn: readonly Drawn<B>[];
  /** Blocks with nothing left. */
  readonly spent: readonly B[];
  /**
   * Blocks that ended within the period, with what was drawn of what they kept. They no longer count, unless open holds still
   * need something of them in the next period.
   */
  readonly settled: readonly EndedBlock<B>[];
  /** Blocks that later resets carry over, with their new end. */
  readonly extended: readonly (CarriedEnd & { readonly block: B })[];
  /** Blocks that no later reset carries over, with what they keep for open holds. */
  readonly expired: readonly { readonly block: B; readonly kept: number }[];
  /** New block of what was not used. Undefined for nothing. */
  readonly carried: (CarriedEnd & { readonly amount: number }) | undefined;
  /** Blocks that count in the next period, without `carried`: also those that only keep something for open holds. */
  readonly left: readonly B[];
}

/** Returns the first moment after that many resets of a level; null if it never resets. */
export function endOfReset({ anchor, period }: ResettingLevel, after: Date, resets: number): Date | null {
  if (anchor === null || period === null) return null;
  let boundary = after;
  for (let i = 0; i < resets; i += 1) boundary = nextBoundary(anchor, period, boundary);
  return new Date(boundary.getTime() + 1);
}

/**
 * Computes the effects of the end of a period on the blocks of its level. `granted`: value of the limit without blocks.
 * `terms`: what resets of the limit carry over; undefined for nothing.
 */
export function closeBlockPeriod<B extends PeriodBlock>(
  level: ResettingLevel,
  blocks: readonly B[],
  { granted, terms }: { granted: unknown; terms: Rollover | undefined },
  { at, after, isLast = false }: PeriodEnd,
): PeriodClosing<B> {
  const { blocks: open, drawn, spent, ended } = closePeriod(granted, level.consumed, blocks, at);
  const extended: (CarriedEnd & { block: B })[] = [];
  const expired: B[] = [];
  const left: B[] = [];
  for (const block of open) {
    const { resetsLeft } = block;
    if (resetsLeft === null) left.push(block);
    else if (resetsLeft > 1 && !isLast) {
      const end = { resetsLeft: resetsLeft - 1, expiresAt: endOfReset(level, after, resetsLeft - 1) };
      extended.push({ block, ...end });
      left.push({ ...block, ...end });
    } else expired.push(block);
  }
  const carries = terms !== undefined && !isLast;
  const rollover = total(left.filter(({ origin }) => origin === "rollover").map((block) => block.left));
  const amount = carries ? carriedOver(granted, level.consumed, rollover, terms.max) : 0;
  // Holds go on over the reset, and may hold more than the next period grants.
  const restById = new Map<string, number>([
    ...ended.map((each) => [each.block.id, sum(each.block.kept, -each.amount)] as const),
    ...expired.map((block) => [block.id, block.left] as const),
  ]);
  const added = left.map((block) => -(block.from <= at ? block.left : 0));
  const lacking = level.held > 0 && isBound(granted) ? total([level.held, -granted, -amount, ...added]) : 0;
  const shares = sharedOut(
    lacking,
    [...ended.map(({ block }) => block), ...expired],
    ({ id }) => restById.get(id) ?? 0,
  );
  const settled = ended.map((each) => ({ ...each, kept: shares.get(each.block.id) ?? 0 }));
  const over = expired.map((block) => ({ block, kept: shares.get(block.id) ?? 0 }));
  return {
    drawn,
    spent,
    settled,
    extended,
    expired: over,
    left: [
      ...left,
      ...settled.flatMap(({ block, amount, kept }) =>
        kept > 0 ? [{ ...block, ...keptOver(block, amount, kept) }] : [],
      ),
      ...over.flatMap(({ block, kept }) => (kept > 0 ? [{ ...block, drawn: 0, kept }] : [])),
    ],
    carried:
      carries && amount > 0
        ? { amount, resetsLeft: terms.periods, expiresAt: endOfReset(level, after, terms.periods) }
        : undefined,
  };
}

/** Returns what an ended block counts with in the next period, in which it only keeps something for open holds. */
export const keptOver = (
  { left, drawn }: Block,
  amount: number,
  kept: number,
): Pick<Block, "left" | "drawn" | "kept"> => ({
  left: total([left, -(drawn ?? 0), -amount]),
  drawn: 0,
  kept,
});

/** Takes what was drawn off the rest of a block. */
export const restOf = ({ block, amount }: Drawn<Block>): number => sum(block.left, -amount);
