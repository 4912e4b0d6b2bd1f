/* Reference of blocks, unit by unit: each unit beyond the plan takes the first open block with a unit left. */

export interface ReferenceBlock {
  id: string;
  amount: number;
  from: number;
  expiresAt: number;
  createdAt: number;
  /** Units fixed before the running period, and in it at the end. */
  before: number;
  fixed: number | null;
  /** No longer counts: it ended before the running period. */
  isGone: boolean;
}

export class Reference {
  granted = 0;
  consumed = 0;
  blocks: ReferenceBlock[] = [];

  #open(now: number): ReferenceBlock[] {
    const isOpen = ({ isGone, fixed, from, expiresAt }: ReferenceBlock) =>
      !isGone && fixed === null && from <= now && now < expiresAt;
    return this.blocks.filter(isOpen).toSorted((a, b) => {
      if (a.expiresAt !== b.expiresAt) return a.expiresAt < b.expiresAt ? -1 : 1;
      return a.createdAt - b.createdAt || Number(a.id) - Number(b.id);
    });
  }

  drawn(now: number): Map<string, number> {
    const units = new Map<string, number>();
    const fixed = this.blocks.reduce((sum, block) => sum + (block.isGone ? 0 : (block.fixed ?? 0)), 0);
    for (let unit = this.granted + fixed; unit < this.consumed; unit += 1) {
      const block = this.#open(now).find(({ id, amount, before }) => before + (units.get(id) ?? 0) < amount);
      if (block !== undefined) units.set(block.id, (units.get(block.id) ?? 0) + 1);
    }
    return units;
  }

  limit(now: number): number {
    const counting = this.blocks.filter(({ isGone }) => !isGone);
    const ended = counting.reduce((sum, { fixed }) => sum + (fixed ?? 0), 0);
    return this.granted + ended + this.#open(now).reduce((sum, { amount, before }) => sum + amount - before, 0);
  }

  end(id: string, now: number): void {
    const units = this.drawn(now).get(id) ?? 0;
    for (const block of this.blocks) if (block.id === id) block.fixed = units;
  }

  reset(now: number): void {
    const units = this.drawn(now);
    for (const block of this.blocks) {
      if (block.fixed === null) block.before += units.get(block.id) ?? 0;
      if (block.fixed !== null || block.before === block.amount) block.isGone = true;
    }
    this.consumed = 0;
  }
}
