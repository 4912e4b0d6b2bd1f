/** The rate is that of this long. */
const WINDOW_MS = 2_000;

/** Rate of spending over the last two seconds, from totals that are sampled now and then. */
export class SpendRate {
  /** In order; of those older than the window only the newest. */
  private samples: { at: number; totals: readonly number[] }[] = [];

  sample(at: number, totals: readonly number[]): void {
    this.samples.push({ at, totals: [...totals] });
    while ((this.samples[1]?.at ?? Infinity) <= at - WINDOW_MS) this.samples.shift();
  }

  /** Returns what was spent per second, by limit. Before the first sample nothing was. */
  perSecond(now: number, totals: readonly number[]): number[] {
    const before = this.samples.findLast(({ at }) => at <= now - WINDOW_MS) ?? this.samples[0];
    const seconds = Math.max(WINDOW_MS, now - (before?.at ?? now)) / 1000;
    return totals.map((total, index) => (total - (before?.totals[index] ?? 0)) / seconds);
  }
}
