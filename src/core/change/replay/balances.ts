import { sum } from "../../exact.ts";
import { nextBoundary } from "../../period.ts";
import { closeBlockPeriod, MAX_RESETS, type PeriodBlock } from "../../pricing/block-periods.ts";
import { endBlocks, followUsage } from "../../pricing/blocks.ts";
import type { Rollover } from "../../pricing/credits.ts";
import type { Period } from "../../pricing/model.ts";

/** A balance of the replay, with the calendar of its resets. */
export interface ReplayedLevel {
  readonly serviceId: string;
  readonly limitName: string;
  consumed: number;
  /** Sum of what open holds hold. */
  held: number;
  readonly anchor: Date | null;
  readonly period: Period | null;
  resetAt: Date | null;
  /** Start of the running period: usage before it is late. */
  runningSince: number;
  /** Number of resets so far: what was counted before the last one cannot be given back. */
  resets: number;
}

export interface ReplayedBlock extends PeriodBlock {
  readonly serviceId: string;
  readonly limitName: string;
}

/** Terms that ends of periods and blocks depend on. */
export interface LevelTerms {
  /** Value of the limit without blocks at that moment. */
  granted(level: ReplayedLevel, at: Date): unknown;
  /** Amount that resets of the limit carry over. Undefined for nothing. */
  rollover(level: ReplayedLevel): Rollover | undefined;
}

/** Balance of a level that is gone. */
const NO_USAGE = { consumed: 0, held: 0 };

const keyOf = ({ serviceId, limitName }: Pick<ReplayedLevel, "serviceId" | "limitName">) => `${serviceId} ${limitName}`;

/** Balances and blocks of one contract. Applies resets and ends of blocks in the order of their moments. */
export class Balances {
  readonly levels = new Map<string, ReplayedLevel>();
  #blocks: readonly ReplayedBlock[] = [];
  /** Rises with every change of blocks, for caches of what they add. */
  version = 0;
  /** Nothing is due up to this moment. */
  #quietUntil = -Infinity;
  #carried = 0;
  /** True if ended blocks keep something for open holds. */
  #keeps = false;

  get blocks(): readonly ReplayedBlock[] {
    return this.#blocks;
  }

  level(serviceId: string, limitName: string): ReplayedLevel | undefined {
    return this.levels.get(keyOf({ serviceId, limitName }));
  }

  put(level: ReplayedLevel): void {
    this.levels.set(keyOf(level), level);
    this.#quietUntil = -Infinity;
  }

  /** Drops the levels that are not kept, with their blocks. */
  keepOnly(isKept: (level: ReplayedLevel) => boolean): void {
    for (const [key, level] of this.levels) if (!isKept(level)) this.levels.delete(key);
    const left = this.#blocks.filter((block) => this.levels.has(keyOf(block)));
    if (left.length < this.#blocks.length) this.#setBlocks(left);
  }

  addBlock(block: ReplayedBlock): void {
    this.#setBlocks([...this.#blocks, block]);
  }

  /** Revokes what is left of a block. */
  revoke(id: string, at: Date, terms: LevelTerms): void {
    this.#endBlocks((block) => block.id === id, new Date(at.getTime() + 1), terms);
  }

  /** Applies what is due at `now`: ends of blocks until then, and periods that ended before. Returns false if nothing was. */
  advance(now: Date, terms: LevelTerms): boolean {
    const moment = now.getTime();
    if (moment <= this.#quietUntil) return false;
    let changed = false;
    const passed = new Map<ReplayedLevel, number>();
    for (;;) {
      const blockEnd = this.#firstBlockEnd();
      const due = this.#firstReset();
      const reset = due?.resetAt?.getTime() ?? Infinity;
      if (blockEnd <= Math.min(reset, moment)) {
        this.#endBlocks(({ expiresAt }) => expiresAt?.getTime() === blockEnd, new Date(blockEnd), terms);
      } else if (due !== undefined && reset < moment) {
        const resets = (passed.get(due) ?? 0) + 1;
        passed.set(due, resets);
        this.#reset(due, new Date(reset), { now, isLast: resets > MAX_RESETS, terms });
      } else {
        this.#quietUntil = Math.min(reset, blockEnd - 1);
        return changed;
      }
      changed = true;
    }
  }

  /** Makes what ended blocks keep for open holds follow the balances. Call it after changes of balances. */
  follow(now: Date, terms: LevelTerms): void {
    if (!this.#keeps) return;
    for (const level of this.levels.values()) {
      const those = this.#blocks.filter((block) => keyOf(block) === keyOf(level));
      const changes = followUsage(terms.granted(level, now), level, those, now);
      if (changes.length === 0) continue;
      const changed = changes.map(({ block, amount, kept }) => ({
        ...block,
        drawn: sum(block.drawn ?? 0, amount),
        kept,
      }));
      const ids = new Set(changed.map(({ id }) => id));
      this.#setBlocks([...this.#blocks.filter(({ id }) => !ids.has(id)), ...changed]);
    }
  }

  /** Ends the running period now, because somebody resets the level. Its next boundary is skipped. */
  resetByHand(level: ReplayedLevel, now: Date, terms: LevelTerms): void {
    this.#closePeriod(level, { at: now, startsAt: now, after: level.resetAt ?? now }, terms);
    const { anchor, period, resetAt } = level;
    this.#start(level, now.getTime());
    if (anchor !== null && period !== null && resetAt !== null) level.resetAt = nextBoundary(anchor, period, resetAt);
    this.#quietUntil = -Infinity;
  }

  #reset(level: ReplayedLevel, at: Date, { now, isLast, terms }: { now: Date; isLast: boolean; terms: LevelTerms }) {
    const { anchor, period } = level;
    if (anchor === null || period === null) return;
    const matters = this.#closePeriod(level, { at, startsAt: new Date(at.getTime() + 1), after: at, isLast }, terms);
    // Nothing is consumed after the first of several resets: without blocks, the others change nothing.
    const next = nextBoundary(anchor, period, matters && !isLast ? at : new Date(now.getTime() - 1));
    this.#start(level, at.getTime() + 1);
    level.resetAt = next;
  }

  #start(level: ReplayedLevel, since: number): void {
    level.consumed = 0;
    level.resets += 1;
    level.runningSince = since;
  }

  /** Returns false if no later period of the level can change a block. */
  #closePeriod(
    level: ReplayedLevel,
    end: { at: Date; startsAt: Date; after: Date; isLast?: boolean },
    terms: LevelTerms,
  ): boolean {
    const rollover = level.resetAt === null ? undefined : terms.rollover(level);
    const those = this.#blocks.filter((block) => keyOf(block) === keyOf(level));
    if (those.length === 0 && rollover === undefined) return false;
    const granted = terms.granted(level, end.at);
    const closing = closeBlockPeriod(level, those, { granted, terms: rollover }, end);
    const { startsAt } = end;
    const left = [...closing.left];
    if (closing.carried !== undefined) {
      const { amount, resetsLeft, expiresAt } = closing.carried;
      const { serviceId, limitName } = level;
      const id = `carried ${(this.#carried += 1)}`;
      const block = { id, serviceId, limitName, origin: "rollover" as const, left: amount, from: startsAt };
      left.push({ ...block, expiresAt, resetsLeft, createdAt: startsAt, drawn: null, kept: 0 });
    }
    this.#setBlocks([...this.#blocks.filter((block) => keyOf(block) !== keyOf(level)), ...left]);
    return rollover !== undefined || left.some(({ resetsLeft }) => resetsLeft !== null);
  }

  #endBlocks(isEnding: (block: ReplayedBlock) => boolean, at: Date, terms: LevelTerms): void {
    const ending = this.#blocks.filter((block) => block.drawn === null && isEnding(block));
    let blocks = this.#blocks;
    for (const key of new Set(ending.map(keyOf))) {
      const level = this.levels.get(key);
      const those = blocks.filter((block) => keyOf(block) === key);
      const ids = new Set(ending.filter((block) => keyOf(block) === key).map(({ id }) => id));
      const granted = level === undefined ? undefined : terms.granted(level, new Date(at.getTime() - 1));
      const { blocks: after } = endBlocks(granted, level ?? NO_USAGE, those, { ending: ids, at });
      blocks = [...blocks.filter((block) => keyOf(block) !== key), ...after];
    }
    this.#setBlocks(blocks);
  }

  #setBlocks(blocks: readonly ReplayedBlock[]): void {
    this.#blocks = blocks;
    this.#keeps = blocks.some(({ kept }) => kept > 0);
    this.version += 1;
    this.#quietUntil = -Infinity;
  }

  #firstBlockEnd(): number {
    const ends = this.#blocks.map(({ drawn, expiresAt }) =>
      drawn === null ? (expiresAt?.getTime() ?? Infinity) : Infinity,
    );
    return Math.min(Infinity, ...ends);
  }

  #firstReset(): ReplayedLevel | undefined {
    let first: ReplayedLevel | undefined;
    for (const level of this.levels.values()) {
      if (
        level.resetAt !== null &&
        (first?.resetAt === undefined || first.resetAt === null || level.resetAt < first.resetAt)
      )
        first = level;
    }
    return first;
  }
}

/** Adds to a balance, which never drops below zero. */
export const add = (level: ReplayedLevel, amount: number): void => {
  level.consumed = Math.max(0, sum(level.consumed, amount));
};
