import { sum } from "../../core/exact.ts";
import type { Rollover } from "../../core/pricing/credits.ts";
import {
  closeBlockPeriod,
  keptOver,
  type PeriodClosing,
  type PeriodEnd,
  type ResettingLevel,
  restOf,
} from "../../core/pricing/block-periods.ts";
import {
  drawnFrom,
  endBlocks,
  followUsage,
  inDrawingOrder,
  isOpen,
  type StoredBlockState,
} from "../../core/pricing/blocks.ts";
import { type CountingBlock, readCountingBlocks } from "../../db/queries/blocks.ts";
import {
  type ContractSnapshot,
  type EndUserName,
  type Level,
  NO_BLOCKS,
  type SeenLevel,
} from "../../db/queries/contract-snapshots.ts";
import type { Addressed } from "../../db/queries/outbox.ts";
import { sameLevel } from "../../db/queries/usage.ts";
import { type Context, newId } from "../context.ts";
import { blocksOf, evaluationIfAny, grantedLimit } from "../evaluations.ts";
import { rolloverOf } from "../due-blocks.ts";
import { BlockChanges } from "./block-changes.ts";

/** The level of a block, as far as its draws depend on it. */
type DrawnLevel = Pick<SeenLevel, "serviceId" | "limitName" | "consumed" | "held">;

/** Balance of a level that is gone. */
const NO_USAGE = { consumed: 0, held: 0 };

/** Returns the calendar of a level's resets. */
const resettingLevel = ({ consumed, held, anchor, periodValue, periodUnit }: Level): ResettingLevel => ({
  consumed,
  held,
  anchor,
  period: periodValue === null || periodUnit === null ? null : { value: periodValue, unit: periodUnit },
});

/**
 * Fixes what blocks of one locked contract were drawn: at their ends, and at resets of their levels. Keeps the changes until
 * `write`. Source: contract credits §2.
 */
export class BlockBook {
  readonly #ctx: Context;
  readonly #contract: ContractSnapshot;
  readonly #name: EndUserName;
  readonly #changes: BlockChanges;

  private constructor(ctx: Context, contract: ContractSnapshot, name: EndUserName, blocks: CountingBlock[]) {
    this.#ctx = ctx;
    this.#contract = contract;
    this.#name = name;
    this.#changes = new BlockChanges(contract, name, blocks);
  }

  get #blocks(): readonly CountingBlock[] {
    return this.#changes.blocks;
  }

  /** Opens the blocks of a locked contract. */
  static async open(ctx: Context, contract: ContractSnapshot, name: EndUserName): Promise<BlockBook> {
    const blocks = contract.blocks.length === 0 ? [] : await readCountingBlocks(ctx.db, contract.contractId);
    return new BlockBook(ctx, contract, name, blocks);
  }

  /** Moments up to `now` at which blocks end, in order. */
  endsUntil(now: Date): Date[] {
    const ends = this.#blocks.flatMap(({ drawn, expiresAt }) =>
      drawn === null && expiresAt !== null && expiresAt <= now ? [expiresAt.getTime()] : [],
    );
    return [...new Set(ends)].toSorted((a, b) => a - b).map((moment) => new Date(moment));
  }

  /** Returns what the contract grants of a level at that moment, without blocks. */
  async #granted(level: DrawnLevel, at: Date): Promise<number | boolean | undefined> {
    const contract = { ...this.#contract, blocks: NO_BLOCKS };
    return grantedLimit(contract, await evaluationIfAny(this.#ctx, contract, at), level);
  }

  /** Ends the blocks whose end that moment is, over the balances that their levels have then. */
  async expire(levels: readonly DrawnLevel[], at: Date): Promise<void> {
    await this.#end(levels, ({ expiresAt }) => expiresAt?.getTime() === at.getTime(), { at, state: "expired" });
  }

  /** Revokes what is left of a block now. */
  async revoke(levels: readonly DrawnLevel[], id: string, now: Date): Promise<void> {
    await this.#end(levels, (block) => block.id === id, {
      at: new Date(now.getTime() + 1),
      state: "revoked",
      endedAt: now,
    });
  }

  async #end(
    levels: readonly DrawnLevel[],
    isEnding: (block: CountingBlock) => boolean,
    { at, state, endedAt = at }: { at: Date; state: StoredBlockState; endedAt?: Date },
  ): Promise<void> {
    let left = this.#blocks.filter((block) => block.drawn === null && isEnding(block));
    for (let [first] = left; first !== undefined; [first] = left) {
      const of = first;
      const ending = new Set(blocksOf(left, of).map(({ id }) => id));
      left = left.filter(({ id }) => !ending.has(id));
      const level = levels.find((one) => sameLevel(one, of));
      const granted = level === undefined ? undefined : await this.#granted(level, new Date(at.getTime() - 1));
      const { ended } = endBlocks(granted, level ?? NO_USAGE, blocksOf(this.#blocks, of), { ending, at });
      for (const { block, amount, kept } of ended) {
        const isSpent = block.left === amount;
        this.#changes.fix(block, amount, "end", endedAt);
        this.#changes.keep(block, kept, endedAt);
        this.#changes.close(block.id, {
          state: isSpent ? "spent" : state,
          endedAt,
          settledAt: level === undefined ? endedAt : null,
          drawn: amount,
        });
      }
    }
    this.#changes.settle();
  }

  /**
   * Makes what ended blocks keep for open holds follow the balances. `before`: last moment at which it counted, with the blocks
   * that were open then.
   */
  async follow(levels: readonly DrawnLevel[], at: Date, before = at): Promise<void> {
    for (const level of levels) {
      const those = blocksOf(this.#blocks, level);
      if (!those.some(({ kept }) => kept > 0)) continue;
      for (const { block, amount, kept } of followUsage(await this.#granted(level, before), level, those, before)) {
        this.#changes.fix(block, amount, "end", at);
        this.#changes.keep(block, kept, at);
        this.#changes.change(block.id, { drawn: sum(block.drawn ?? 0, amount) });
      }
    }
  }

  /** True if an ended block of the level keeps something. */
  keeps(level: DrawnLevel): boolean {
    return blocksOf(this.#blocks, level).some(({ kept }) => kept > 0);
  }

  /**
   * Ends the running period of a level, and carries over what was not used of it. Returns false if no later period of the
   * level can change anything, as long as nothing is consumed.
   */
  async closePeriod(level: Level, end: PeriodEnd): Promise<boolean> {
    const { at, startsAt } = end;
    const those = blocksOf(this.#blocks, level);
    const terms = await this.#rollover(level, at);
    if (those.length === 0 && terms === undefined) return false;
    const granted = await this.#granted(level, at);
    const closing = closeBlockPeriod(resettingLevel(level), those, { granted, terms }, end);
    for (const draw of closing.drawn) {
      this.#changes.fix(draw.block, draw.amount, "period", startsAt);
      this.#changes.change(draw.block.id, { left: restOf(draw) });
    }
    for (const { id } of closing.spent)
      this.#changes.close(id, { state: "spent", endedAt: startsAt, settledAt: startsAt });
    for (const { block, amount, kept } of closing.settled) {
      const drawn = block.drawn ?? 0;
      if (kept > 0) this.#changes.fix(block, -drawn, "end", startsAt);
      this.#changes.fix(block, kept > 0 ? sum(drawn, amount) : amount, "period", startsAt);
      this.#changes.keep(block, kept, startsAt);
      this.#changes.change(block.id, kept > 0 ? keptOver(block, amount, kept) : { settledAt: startsAt });
    }
    for (const { block, resetsLeft, expiresAt } of closing.extended)
      this.#changes.change(block.id, { resetsLeft, expiresAt });
    for (const { block, kept } of closing.expired) {
      this.#changes.keep(block, kept, startsAt);
      const settledAt = kept > 0 ? null : startsAt;
      this.#changes.close(block.id, { state: "expired", endedAt: startsAt, settledAt, drawn: 0 });
    }
    this.#changes.settle();
    if (closing.carried !== undefined) this.#carryOver(level, closing.carried, startsAt);
    return terms !== undefined || blocksOf(this.#blocks, level).some(({ resetsLeft }) => resetsLeft !== null);
  }

  #carryOver(level: Level, carried: NonNullable<PeriodClosing<CountingBlock>["carried"]>, startsAt: Date): void {
    const { serviceId, limitName } = level;
    const { organizationId } = this.#name;
    const { contractId } = this.#contract;
    const { amount, resetsLeft, expiresAt } = carried;
    const block: CountingBlock = {
      id: newId(startsAt),
      contractId,
      organizationId,
      serviceId,
      limitName,
      origin: "rollover",
      amount,
      used: 0,
      left: amount,
      kept: 0,
      pendingDraw: 0,
      from: startsAt,
      expiresAt,
      resetsLeft,
      reason: "Carried over",
      key: null,
      request: null,
      createdAt: startsAt,
      state: "open",
      endedAt: null,
      settledAt: null,
      actorKind: "anonymous",
      actorId: null,
      drawn: null,
    };
    this.#changes.add(block);
  }

  /** Returns what resets of a level carry over; undefined for nothing. */
  async #rollover({ serviceId, limitName, resetAt }: Level, at: Date): Promise<Rollover | undefined> {
    if (resetAt === null) return undefined;
    const evaluation = await evaluationIfAny(this.#ctx, { ...this.#contract, blocks: NO_BLOCKS }, at);
    return rolloverOf(this.#contract, evaluation, { serviceId, limitName });
  }

  /** Writes to each block what it is drawn now, for a change that may end its level. */
  async stage(levels: readonly DrawnLevel[], now: Date): Promise<void> {
    const drawn = await this.drawnNow(levels, now);
    for (const { id, pendingDraw } of this.#blocks) {
      const amount = drawn.get(id) ?? 0;
      if (amount !== pendingDraw) this.#changes.change(id, { pendingDraw: amount });
    }
  }

  /** Returns what is drawn now from each block, by id, and is not fixed yet. */
  async drawnNow(levels: readonly DrawnLevel[], now: Date): Promise<Map<string, number>> {
    const all = new Map<string, number>();
    for (const level of levels) {
      const those = blocksOf(this.#blocks, level);
      if (those.length === 0) continue;
      for (const [id, amount] of drawnFrom(await this.#granted(level, now), level.consumed, those, now))
        all.set(id, amount);
    }
    return all;
  }

  /** Ends blocks that have nothing left, such as those of a level that is gone. */
  endSpent(now: Date): void {
    for (const { id, drawn, left } of this.#blocks) {
      if (drawn === null && left === 0) this.#changes.close(id, { state: "spent", endedAt: now, settledAt: now });
    }
    this.#changes.settle();
  }

  /** Returns the open blocks with something left, in the order in which they are drawn. */
  async openNow(levels: readonly DrawnLevel[], now: Date): Promise<(CountingBlock & { remaining: number })[]> {
    const drawn = await this.drawnNow(levels, now);
    return this.#blocks
      .filter((block) => isOpen(block, now))
      .toSorted(inDrawingOrder)
      .map((block) => ({ ...block, remaining: sum(block.left, -(drawn.get(block.id) ?? 0)) }))
      .filter(({ remaining }) => remaining > 0);
  }

  /** Writes all changes. Returns undefined without any, else the events to record. */
  async write(now: Date): Promise<Addressed[] | undefined> {
    return this.#changes.write(this.#ctx.db, now);
  }
}

/** Returns what is drawn from blocks of a contract and not fixed yet, by id. */
export async function drawnOf(
  ctx: Context,
  contract: ContractSnapshot,
  name: { organizationId: string; userId: string },
  now: Date,
): Promise<ReadonlyMap<string, number>> {
  if (contract.blocks.length === 0) return new Map();
  return (await BlockBook.open(ctx, contract, name)).drawnNow(contract.levels, now);
}
