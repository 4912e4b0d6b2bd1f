import { MODES } from "../compare.ts";
import { configurationKey } from "../configuration.ts";
import { ConfigurationCount } from "./configuration.ts";
import { COUNTS, emptyCounts } from "./report.ts";
import type { ContractGroup, ImpactOptions, ImpactReport } from "./report.ts";

/**
 * Counts the effects of a pricing change on contracts, group by group. Memory grows only with the number of distinct
 * configurations. Reported feature results equal those that evaluation returns after the change with the same usage.
 */
export class Impact {
  readonly #options: ImpactOptions;
  readonly #configurations = new Map<string, ConfigurationCount>();

  constructor(options: ImpactOptions) {
    this.#options = options;
  }

  add({ configuration, usage, count = 1 }: ContractGroup): void {
    const key = configurationKey(configuration);
    let counted = this.#configurations.get(key);
    if (counted === undefined) {
      counted = new ConfigurationCount(configuration, this.#options);
      this.#configurations.set(key, counted);
    }
    counted.add(usage, count);
  }

  get contracts(): number {
    let sum = 0;
    for (const { counts } of this.#configurations.values()) sum += counts.contracts;
    return sum;
  }

  /** Returns the counts so far. Callable at any time. */
  report(): ImpactReport {
    const counts = emptyCounts();
    const all = [...this.#configurations.values()];
    for (const each of all) for (const key of COUNTS) counts[key] += each.counts[key];
    const sides = [this.#options.before, this.#options.after].filter((side) => side !== undefined);
    const unforeseen = sides.flatMap((side) =>
      [...side.expressions]
        .filter(([, modes]) => MODES.some((mode) => (modes[mode]?.foreign.length ?? 0) > 0))
        .map(([name]) => name),
    );
    return {
      usage: this.#options.usage,
      counts,
      configurations: all
        .sort((one, other) => other.counts.contracts - one.counts.contracts)
        .map((each) => each.report()),
      unforeseen: [...new Set(unforeseen)],
    };
  }
}
