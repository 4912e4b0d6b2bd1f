import { Reference } from "./blocks.reference.ts";

/*
 * Reference of blocks that end while holds are open: each unit of usage beyond the limit that is left stays, and goes as soon as
 * usage or other amounts no longer need it. Once nothing is held, units that were consumed are drawn.
 */

export class HeldReference extends Reference {
  held = 0;
  /** Units that stay, by block. */
  kept = new Map<string, number>();

  #units(): number {
    return [...this.kept.values()].reduce((sum, units) => sum + units, 0);
  }

  override limit(now: number): number {
    return super.limit(now) + this.#units();
  }

  override drawn(now: number): Map<string, number> {
    const units = super.drawn(now);
    let beyond = this.consumed - this.without(now);
    for (const block of this.#staying()) {
      const drawn = Math.min(this.kept.get(block.id) ?? 0, beyond);
      if (drawn > 0) units.set(block.id, drawn);
      beyond -= Math.max(0, drawn);
    }
    return units;
  }

  #staying() {
    return this.blocks.toSorted((a, b) => {
      if (a.expiresAt !== b.expiresAt) return a.expiresAt < b.expiresAt ? -1 : 1;
      return a.createdAt - b.createdAt || Number(a.id) - Number(b.id);
    });
  }

  /** Limit without what stays. */
  without(now: number): number {
    return super.limit(now);
  }

  override end(id: string, now: number): void {
    super.end(id, now);
    const block = this.blocks.find((one) => one.id === id);
    if (block === undefined || this.held === 0) return;
    const rest = block.amount - block.before - (block.fixed ?? 0);
    const units = Math.min(rest, this.consumed + this.held - this.limit(now));
    if (units > 0) this.kept.set(id, units);
  }

  /** Follows what has changed by that moment. */
  follow(now: number): void {
    if (this.held === 0) this.#draw(now);
    else this.#shrinkTo(this.consumed + this.held - this.without(now));
  }

  /** Draws what was consumed of the units that stay. The others go. */
  #draw(now: number): void {
    const drawn = this.drawn(now);
    for (const block of this.blocks) {
      if (this.kept.has(block.id)) block.fixed = (block.fixed ?? 0) + (drawn.get(block.id) ?? 0);
    }
    this.kept.clear();
  }

  #shrinkTo(most: number): void {
    let left = Math.max(0, most);
    for (const { id } of this.#staying()) {
      const units = Math.min(this.kept.get(id) ?? 0, left);
      if (units === 0) this.kept.delete(id);
      else this.kept.set(id, units);
      left -= units;
    }
  }

  /** Passes what holds may still need of ended blocks on to the next period. */
  override reset(now: number): void {
    const drawn = this.drawn(now);
    const rest = [...this.kept].map(([id, units]) => [id, units - (drawn.get(id) ?? 0)] as const);
    super.reset(now);
    this.keepOver(rest);
  }

  /** Lets ended blocks keep these units in the next period, as far as holds need them. */
  keepOver(rest: readonly (readonly [id: string, units: number])[]): void {
    for (const [id, units] of rest) {
      const block = this.blocks.find((one) => one.id === id);
      if (block !== undefined && units > 0) Object.assign(block, { isGone: false, fixed: 0 });
      this.kept.set(id, units);
    }
  }
}
