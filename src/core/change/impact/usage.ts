import { evaluateBoolean } from "../../pricing/evaluate.ts";
import { idOf } from "../../pricing/evaluation.ts";
import { edgesOf, factsOf } from "../access.ts";
import { MODES } from "../compare.ts";
import type { Entitlements, Mode } from "../entitlements.ts";

/** Number of contracts for which a feature's result flips, per evaluation mode. */
export interface Flips {
  readonly turnedOff: Readonly<Record<Mode, number>>;
  readonly turnedOn: Readonly<Record<Mode, number>>;
}

export const NO_FLIPS: Flips = { turnedOff: { client: 0, server: 0 }, turnedOn: { client: 0, server: 0 } };

/** A feature whose result may change. `always` has the results that do not depend on consumption, before and after. */
interface Asked {
  readonly feature: string;
  readonly mode: Mode;
  readonly always: readonly [boolean | undefined, boolean | undefined];
}

/** Contracts whose consumption lies between the same edges, and the features that flip for all of them. */
interface Cell {
  contracts: number;
  readonly off: readonly Asked[];
  readonly on: readonly Asked[];
}

/** Features that read the consumption of the same limits. */
interface AskedGroup {
  readonly limits: readonly string[];
  readonly asked: Asked[];
  /** Sorted consumptions per limit at which a result may change; undefined when they cannot be determined. */
  readonly edges: (readonly number[] | undefined)[];
  readonly cells: Map<string | number, Cell>;
}

type Levels = Readonly<Record<string, number>>;

function levelOf(levels: Levels, limit: string): number {
  return Object.hasOwn(levels, limit) ? (levels[limit] ?? 0) : 0;
}

/** Returns the cell of a consumption: twice the number of lower edges, plus one when it is on an edge. */
function cellOf(edges: readonly number[], used: number): number {
  let [low, high] = [0, edges.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((edges[middle] ?? 0) < used) low = middle + 1;
    else high = middle;
  }
  return edges[low] === used ? 2 * low + 1 : 2 * low;
}

/**
 * Finds the features whose result flips for contracts of one configuration, by consumption. Evaluates once per cell
 * between edges, so each further contract costs only one look-up per limit.
 */
export class UsageAnswers {
  readonly #before: Entitlements;
  readonly #after: Entitlements | undefined;
  readonly #keepsUsage: boolean;
  readonly #groups: readonly AskedGroup[];

  /**
   * `after` is undefined when the contracts end up with nothing. `usage` states if the change keeps or resets
   * consumption.
   */
  constructor(before: Entitlements, after: Entitlements | undefined, usage: "kept" | "reset") {
    this.#before = before;
    this.#after = after;
    this.#keepsUsage = usage === "kept";
    this.#groups = this.#group();
  }

  #group(): AskedGroup[] {
    const holdings = [this.#before, this.#after];
    const groups = new Map<string, AskedGroup>();
    for (const feature of new Set(holdings.flatMap((each) => [...(each?.side.expressions.keys() ?? [])])))
      for (const mode of MODES) {
        const facts = holdings.map((holding) => (holding === undefined ? undefined : factsOf(holding, feature, mode)));
        const [was, is] = holdings.map((holding, side) =>
          (facts[side]?.usage.length ?? 0) > 0 ? undefined : this.#ask(holding, feature, mode, new Map()),
        );
        if (was !== undefined && was === is) continue;
        const limits = [...new Set(facts.flatMap((each) => each?.usage ?? []))].sort();
        const key = limits.join("\n");
        const fresh: AskedGroup = { limits, asked: [], edges: limits.map(() => []), cells: new Map() };
        const group = groups.get(key) ?? fresh;
        groups.set(key, group);
        group.asked.push({ feature, mode, always: [was, is] });
        for (const [side, holding] of holdings.entries()) {
          if (holding === undefined) continue;
          const found = edgesOf(holding, facts[side]);
          for (const [index, limit] of limits.entries()) {
            const known = group.edges[index];
            const more = found === undefined ? undefined : (found.get(limit) ?? []);
            group.edges[index] = known === undefined || more === undefined ? undefined : [...known, ...more];
          }
        }
      }
    for (const { edges } of groups.values())
      for (const [index, each] of edges.entries())
        if (each !== undefined) edges[index] = [...new Set(each)].sort((one, other) => one - other);
    return [...groups.values()];
  }

  #ask(holding: Entitlements | undefined, feature: string, mode: Mode, usage: ReadonlyMap<string, number>): boolean {
    if (holding === undefined) return false;
    const id = idOf(holding.side.serviceName, feature);
    return evaluateBoolean(holding.evaluation, id, usage, { server: mode === "server" });
  }

  /** Builds the input of evaluation for one side, limited to one group. */
  #usage(holding: Entitlements | undefined, limits: readonly string[], levels: Levels): Map<string, number> {
    const usage = new Map<string, number>();
    if (holding === undefined) return usage;
    const { tracked, serviceName } = holding.side;
    for (const limit of limits) {
      if (!tracked.has(limit)) continue;
      const counts = holding === this.#before || (this.#keepsUsage && this.#before.side.tracked.has(limit));
      usage.set(idOf(serviceName, limit), counts ? levelOf(levels, limit) : 0);
    }
    return usage;
  }

  #askAll({ limits, asked }: AskedGroup, levels: Levels): Cell {
    const [before, after] = [this.#before, this.#after].map((holding) => this.#usage(holding, limits, levels));
    const [off, on]: [Asked[], Asked[]] = [[], []];
    for (const each of asked) {
      const was = each.always[0] ?? this.#ask(this.#before, each.feature, each.mode, before ?? new Map());
      const is = each.always[1] ?? this.#ask(this.#after, each.feature, each.mode, after ?? new Map());
      if (was !== is) (was ? off : on).push(each);
    }
    return { contracts: 0, off, on };
  }

  /** Counts contracts with this consumption. Returns whether any feature turns off or on for them. */
  add(levels: Levels, count: number): { off: boolean; on: boolean } {
    let [off, on] = [false, false];
    for (const group of this.#groups) {
      let key: string | number = 0;
      for (const [index, limit] of group.limits.entries()) {
        const edges = group.edges[index];
        const used = levelOf(levels, limit);
        if (edges === undefined) key = `${key},${used}`;
        else if (typeof key === "string") key = `${key},${cellOf(edges, used)}`;
        else key = key * (2 * edges.length + 2) + cellOf(edges, used);
      }
      let cell = group.cells.get(key);
      if (cell === undefined) {
        cell = this.#askAll(group, levels);
        group.cells.set(key, cell);
      }
      cell.contracts += count;
      off ||= cell.off.length > 0;
      on ||= cell.on.length > 0;
    }
    return { off, on };
  }

  /** Returns the features that flipped for at least one contract, in the order of the pricings. */
  flips(): Map<string, Flips> {
    const flips = new Map<string, { turnedOff: Record<Mode, number>; turnedOn: Record<Mode, number> }>();
    for (const { cells } of this.#groups)
      for (const { contracts, off, on } of cells.values())
        for (const [way, asked] of [
          ["turnedOff", off],
          ["turnedOn", on],
        ] as const)
          for (const { feature, mode } of asked) {
            const known = flips.get(feature) ?? structuredFlips();
            known[way][mode] += contracts;
            flips.set(feature, known);
          }
    return flips;
  }
}

function structuredFlips(): { turnedOff: Record<Mode, number>; turnedOn: Record<Mode, number> } {
  return { turnedOff: { client: 0, server: 0 }, turnedOn: { client: 0, server: 0 } };
}
