import { total } from "../exact.ts";
import { type CompiledPricing, trackedLimits } from "./compile.ts";
import { isBound } from "./model.ts";
import type { Grant } from "./subscription.ts";

/*
 * Blocks: amounts of one limit that a contract may use beyond what its plan grants. The plan is drawn first, then blocks. What is
 * drawn follows from the granted value and the consumption; a reset, an expiry, a revocation and the end of the level fix
 * it. Source: contract credits §2.
 */

/** Largest amount of a block. */
export const MAX_BLOCK_AMOUNT = 100_000_000;

/** `rollover`: carried over by a reset. `billing`: bought. */
export const BLOCK_ORIGINS = ["given", "rollover", "billing"] as const;
export type BlockOrigin = (typeof BLOCK_ORIGINS)[number];

export const BLOCK_STATES = ["upcoming", "open", "spent", "expired", "revoked"] as const;
export type BlockState = (typeof BLOCK_STATES)[number];

/** State in the database. An open block may still be upcoming, or have nothing left. */
export type StoredBlockState = Exclude<BlockState, "upcoming">;

/** A block as it counts in the running period of its level. */
export interface Block {
  readonly id: string;
  /** Rest at the start of the period. */
  readonly left: number;
  readonly from: Date;
  /** Null: it never ends. */
  readonly expiresAt: Date | null;
  readonly createdAt: Date;
  /** Draw in the period in which it ended. Null: it has not ended. */
  readonly drawn: number | null;
}

/** True if the block can be drawn from at that moment. */
export function isOpen({ from, expiresAt, drawn }: Omit<Block, "id">, at: Date): boolean {
  return drawn === null && from <= at && (expiresAt === null || at < expiresAt);
}

/** Order in which blocks are drawn: by end, those without one last, then by creation and id. */
export function inDrawingOrder(a: Block, b: Block): number {
  const ends = (a.expiresAt?.getTime() ?? Infinity) - (b.expiresAt?.getTime() ?? Infinity);
  // Infinity − Infinity is NaN, for two that never end.
  return ends || a.createdAt.getTime() - b.createdAt.getTime() || (a.id < b.id ? -1 : 1);
}

/** Returns what blocks add to the granted value at that moment. */
export function addedBy(blocks: readonly Block[], at: Date): number {
  return total(blocks.map((block) => block.drawn ?? (isOpen(block, at) ? block.left : 0)));
}

/**
 * Adds what blocks add to granted values. Ignores amounts of limits that are not tracked, have no bound, are no numbers or are
 * not granted: their blocks rest.
 */
export function withBlocks(
  pricing: CompiledPricing,
  grant: Grant,
  added: readonly { readonly limitName: string; readonly amount: number }[],
): Grant {
  if (added.length === 0) return grant;
  const tracked = new Set(trackedLimits(pricing).map(({ name }) => name));
  const usageLimits = new Map(grant.usageLimits);
  for (const { limitName, amount } of added) {
    const granted = usageLimits.get(limitName);
    if (tracked.has(limitName) && isBound(granted)) usageLimits.set(limitName, total([granted, amount]));
  }
  return { features: grant.features, usageLimits };
}

/**
 * Returns the limit with its blocks at that moment. A limit without bound, and one that is no number, stays as granted: its
 * blocks rest.
 */
export function limitWith<Value>(granted: Value, blocks: readonly Block[], at: Date): Value | number {
  return isBound(granted) ? total([granted, addedBy(blocks, at)]) : granted;
}

/** Returns what is drawn from each open block at that moment, by id. Blocks that are not drawn are missing. */
export function drawnFrom(
  granted: unknown,
  consumed: number,
  blocks: readonly Block[],
  at: Date,
): ReadonlyMap<string, number> {
  const drawn = new Map<string, number>();
  if (!isBound(granted)) return drawn;
  const ended = blocks.map((block) => -(block.drawn ?? 0));
  let beyond = total([consumed, -granted, ...ended]);
  for (const block of blocks.filter((each) => isOpen(each, at)).toSorted(inDrawingOrder)) {
    if (beyond <= 0) break;
    const amount = Math.min(beyond, block.left);
    if (amount > 0) drawn.set(block.id, amount);
    beyond = total([beyond, -amount]);
  }
  return drawn;
}

/** A block with what was drawn from it. */
export interface Drawn<B extends Block> {
  readonly block: B;
  readonly amount: number;
}

/** Fixes what was drawn from blocks that end at that moment: what they were drawn until just before. */
export function endBlocks<B extends Block>(
  granted: unknown,
  consumed: number,
  blocks: readonly B[],
  { ending, at }: { ending: ReadonlySet<string>; at: Date },
): { blocks: B[]; ended: Drawn<B>[] } {
  const drawn = drawnFrom(granted, consumed, blocks, new Date(at.getTime() - 1));
  const ended: Drawn<B>[] = [];
  const after = blocks.map((block) => {
    if (!ending.has(block.id)) return block;
    const amount = drawn.get(block.id) ?? 0;
    ended.push({ block, amount });
    return { ...block, drawn: amount };
  });
  return { blocks: after, ended };
}

/**
 * Fixes the draws of a period that ends at that moment, and takes them off the blocks. Blocks that ended in the period, and
 * those that are spent, no longer count.
 */
export function closePeriod<B extends Block>(
  granted: unknown,
  consumed: number,
  blocks: readonly B[],
  at: Date,
): { blocks: B[]; drawn: Drawn<B>[]; spent: B[] } {
  const amounts = drawnFrom(granted, consumed, blocks, at);
  const drawn: Drawn<B>[] = [];
  const spent: B[] = [];
  const after: B[] = [];
  for (const block of blocks) {
    if (block.drawn !== null) continue;
    const amount = amounts.get(block.id) ?? 0;
    const left = total([block.left, -amount]);
    if (amount > 0) drawn.push({ block, amount });
    if (left > 0) after.push({ ...block, left });
    else spent.push(block);
  }
  return { blocks: after, drawn, spent };
}

/**
 * Returns what a reset carries over: what was not used of the granted value, at most so much that rollover blocks stay within
 * `max`. `open`: what open rollover blocks have left.
 */
export function carriedOver(granted: unknown, consumed: number, open: number, max: number | null): number {
  if (!isBound(granted)) return 0;
  const unused = total([granted, -consumed]);
  return Math.max(0, max === null ? unused : Math.min(unused, total([max, -open])));
}
