import { sum, total } from "../exact.ts";
import { type CompiledPricing, trackedLimits } from "./compile.ts";
import { isBound } from "./model.ts";
import type { Grant } from "./subscription.ts";

/*
 * Blocks: amounts of one limit that a contract may use beyond what its plan grants. The plan is drawn first, then blocks. What is
 * drawn follows from the granted value and the consumption; a reset, an expiry, a revocation and the end of the level fix
 * it. A block that ends while holds are open keeps what they need of it, until they end. Source: contract credits §2.
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
  /** Amount that open holds still need of an ended block, beyond its draw. 0 for a block that has not ended. */
  readonly kept: number;
}

/** Balance of a level: what it has consumed in its period, and what its open holds hold. */
export interface Usage {
  readonly consumed: number;
  readonly held: number;
}

/** True if the block can be drawn from at that moment. */
export function isOpen({ from, expiresAt, drawn }: Pick<Block, "from" | "expiresAt" | "drawn">, at: Date): boolean {
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
  return total(blocks.map((block) => addedByOne(block, at)));
}

function addedByOne(block: Block, at: Date): number {
  const { drawn, kept, left } = block;
  if (drawn === null) return isOpen(block, at) ? left : 0;
  return kept === 0 ? drawn : sum(drawn, kept);
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

/**
 * Returns what is drawn at that moment and not fixed, by block: from open blocks, then from what ended ones keep. Blocks that
 * are not drawn are missing.
 */
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
  const open = blocks.filter((each) => isOpen(each, at)).toSorted(inDrawingOrder);
  for (const block of hasKept(blocks) ? [...open, ...keeping(blocks)] : open) {
    if (beyond <= 0) break;
    const amount = Math.min(beyond, block.drawn === null ? block.left : block.kept);
    if (amount > 0) drawn.set(block.id, amount);
    beyond = total([beyond, -amount]);
  }
  return drawn;
}

/** True if ended blocks keep something for open holds. */
export const hasKept = (blocks: readonly Block[]): boolean => blocks.some(({ kept }) => kept > 0);

/** Returns the ended blocks that keep something, in the order in which they are drawn. */
const keeping = <B extends Block>(blocks: readonly B[]): B[] =>
  blocks.filter(({ kept }) => kept > 0).toSorted(inDrawingOrder);

/** Shares an amount out among blocks in the order in which they are drawn. `mostOf`: most that a block gets. */
export function sharedOut<B extends Block>(
  amount: number,
  blocks: readonly B[],
  mostOf: (block: B) => number,
): ReadonlyMap<string, number> {
  const shares = new Map<string, number>();
  let left = amount;
  for (const block of blocks.toSorted(inDrawingOrder)) {
    const share = Math.max(0, Math.min(left, mostOf(block)));
    if (share > 0) shares.set(block.id, share);
    left = sum(left, -share);
  }
  return shares;
}

/** A block with what was drawn from it. */
export interface Drawn<B extends Block> {
  readonly block: B;
  readonly amount: number;
}

/** A block that ends, with what was drawn from it and what it keeps for open holds. */
export interface EndedBlock<B extends Block> extends Drawn<B> {
  readonly kept: number;
}

/**
 * Fixes what was drawn from blocks that end at that moment: what they were drawn until just before. They keep what open holds
 * need of them: usage beyond the limit that is left.
 */
export function endBlocks<B extends Block>(
  granted: unknown,
  { consumed, held }: Usage,
  blocks: readonly B[],
  { ending, at }: { ending: ReadonlySet<string>; at: Date },
): { blocks: B[]; ended: EndedBlock<B>[] } {
  const before = new Date(at.getTime() - 1);
  const drawn = drawnFrom(granted, consumed, blocks, before);
  const fixed = blocks.map((block) =>
    ending.has(block.id) ? { ...block, drawn: drawn.get(block.id) ?? 0, kept: 0 } : block,
  );
  const lacking = held > 0 && isBound(granted) ? total([consumed, held, -granted, -addedBy(fixed, before)]) : 0;
  const shares = sharedOut(
    lacking,
    fixed.filter(({ id }) => ending.has(id)),
    (block) => sum(block.left, -(block.drawn ?? 0)),
  );
  const after = fixed.map((block) => (ending.has(block.id) ? { ...block, kept: shares.get(block.id) ?? 0 } : block));
  const ended = blocks
    .filter(({ id }) => ending.has(id))
    .map((block) => ({ block, amount: drawn.get(block.id) ?? 0, kept: shares.get(block.id) ?? 0 }));
  return { blocks: after, ended };
}

/**
 * Makes what ended blocks keep follow the balance: it only shrinks, to what open holds still need. Once nothing is held, what was
 * consumed of it is drawn, and the rest leaves the limit. Returns only blocks that change, with what is newly drawn.
 */
export function followUsage<B extends Block>(
  granted: unknown,
  { consumed, held }: Usage,
  blocks: readonly B[],
  at: Date,
): EndedBlock<B>[] {
  const those = keeping(blocks);
  if (those.length === 0) return [];
  if (held === 0) {
    const drawn = drawnFrom(granted, consumed, blocks, at);
    return those.map((block) => ({ block, amount: drawn.get(block.id) ?? 0, kept: 0 }));
  }
  if (!isBound(granted)) return [];
  const others = blocks.map((block) => ({ ...block, kept: 0 }));
  const lacking = total([consumed, held, -granted, -addedBy(others, at)]);
  const shares = sharedOut(lacking, those, ({ kept }) => kept);
  return those
    .map((block) => ({ block, amount: 0, kept: shares.get(block.id) ?? 0 }))
    .filter(({ block, kept }) => kept < block.kept);
}

/**
 * Fixes the draws of a period that ends at that moment, and takes them off the blocks. Blocks that are spent no longer count.
 * `ended`: those that ended in the period, with what was drawn of what they kept.
 */
export function closePeriod<B extends Block>(
  granted: unknown,
  consumed: number,
  blocks: readonly B[],
  at: Date,
): { blocks: B[]; drawn: Drawn<B>[]; spent: B[]; ended: Drawn<B>[] } {
  const amounts = drawnFrom(granted, consumed, blocks, at);
  const drawn: Drawn<B>[] = [];
  const spent: B[] = [];
  const ended: Drawn<B>[] = [];
  const after: B[] = [];
  for (const block of blocks) {
    const amount = amounts.get(block.id) ?? 0;
    if (block.drawn !== null) {
      ended.push({ block, amount });
      continue;
    }
    const left = total([block.left, -amount]);
    if (amount > 0) drawn.push({ block, amount });
    if (left > 0) after.push({ ...block, left });
    else spent.push(block);
  }
  return { blocks: after, drawn, spent, ended };
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
