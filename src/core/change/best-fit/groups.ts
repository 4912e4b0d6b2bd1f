import type { CompiledPricing } from "../../pricing/compile.ts";
import type { IsOver, Steps } from "../../steps.ts";
import { compareFeature, compareLimit } from "../compare.ts";
import type { FeatureComparison, LimitComparison } from "../compare.ts";
import { configurationOf } from "../configuration.ts";
import { entitlementsOf, planEntitlements } from "../entitlements.ts";
import type { Entitlements, Side } from "../entitlements.ts";
import { compareRanks } from "../loss.ts";
import type { Rank, Touching } from "../loss.ts";
import type { Space } from "../space.ts";
import type { AddOnGroup } from "./quantities.ts";

/*
 * Splits the add-ons of one plan into groups that do not influence each other, and searches each group alone. Their
 * best selections combine to the best selection of all.
 */

/** Maximum selections tried per group of add-ons. Larger groups are searched only in part. */
const MAX_TRIED = 8_192;
/** Maximum cached comparisons per plan, at about 1 kB each when add-ons are many. */
const MAX_REMEMBERED = 10_000;

/** Selected add-ons of one plan: lower-case name -> quantity. */
export type Chosen = ReadonlyMap<string, number>;

/** Returns the selection with the names of the pricing, in alphabetical order. */
export function namedAddOns({ addOns }: CompiledPricing, chosen: Chosen): Record<string, number> {
  const entries = [...chosen].sort(([one], [other]) => (one < other ? -1 : 1));
  return Object.fromEntries(entries.map(([key, quantity]) => [addOns.get(key)?.name ?? key, quantity]));
}

/** Builds the cache key of a subject: the quantities of the add-ons that touch it. */
export function choiceKey(name: string, keys: readonly string[] = [], chosen: Chosen): string {
  return keys.reduce((text, key) => `${text} ${chosen.get(key) ?? ""}`, name);
}

export function remembered<Value>(known: Map<string, Value>, key: string, compute: () => Value): Value {
  const cached = known.get(key);
  if (cached !== undefined) return cached;
  if (known.size >= MAX_REMEMBERED) known.clear();
  const value = compute();
  known.set(key, value);
  return value;
}

/**
 * Compares a holding with selections of add-ons on one plan. Each subject depends only on the add-ons that touch it, so
 * comparisons are cached per choice of those.
 */
export class PlanComparisons {
  readonly #current: Entitlements;
  readonly #after: Side;
  readonly #plan: string | undefined;
  readonly #touching: Touching;
  readonly #features = new Map<string, FeatureComparison>();
  readonly #limits = new Map<string, LimitComparison>();
  /** The last holding: callers often need one twice in a row. */
  #last: { readonly key: string; readonly holding: Entitlements } | undefined;

  constructor(current: Entitlements, after: Side, plan: string | undefined, touching: Touching) {
    this.#current = current;
    this.#after = after;
    this.#plan = plan;
    this.#touching = touching;
  }

  /** Returns the entitlements of the plan with these add-ons. */
  holding(chosen: Chosen): Entitlements {
    if (chosen.size === 0) return planEntitlements(this.#after, this.#plan);
    const key = [...chosen].join(" ");
    if (this.#last?.key !== key) {
      const configuration = configurationOf(this.#plan, namedAddOns(this.#after.pricing, chosen));
      this.#last = { key, holding: entitlementsOf(this.#after, configuration) };
    }
    return this.#last.holding;
  }

  /** Number of cached comparisons. */
  get size(): number {
    return this.#features.size + this.#limits.size;
  }

  *steps(
    chosen: Chosen,
    features: readonly string[],
    limits: readonly string[],
  ): Steps<{ features: FeatureComparison[]; limits: LimitComparison[] }> {
    let holding: Entitlements | undefined;
    const held = (): Entitlements => (holding ??= this.holding(chosen));
    const { features: byFeature, limits: byLimit } = this.#touching;
    const [comparedFeatures, comparedLimits]: [FeatureComparison[], LimitComparison[]] = [[], []];
    for (const name of features) {
      const key = choiceKey(name, byFeature.get(name), chosen);
      if (!this.#features.has(key)) yield;
      comparedFeatures.push(remembered(this.#features, key, () => compareFeature(this.#current, held(), name)));
    }
    for (const name of limits) {
      const key = choiceKey(name, byLimit.get(name), chosen);
      comparedLimits.push(remembered(this.#limits, key, () => compareLimit(this.#current, held(), name)));
    }
    return { features: comparedFeatures, limits: comparedLimits };
  }
}

/**
 * Adds dependencies to the useful add-ons, and all add-ons that touch the same subjects: one may compensate a loss that
 * another one causes.
 */
export function* withInfluences(
  seeds: Iterable<string>,
  { features, limits }: Touching,
  closureOf: (key: string) => ReadonlySet<string> | undefined,
): Steps<ReadonlySet<string>> {
  const useful = new Set<string>();
  const include = (keys: Iterable<string>): void => {
    for (const key of keys) for (const each of closureOf(key) ?? []) useful.add(each);
  };
  include(seeds);
  for (let size = -1; size !== useful.size;) {
    size = useful.size;
    yield;
    for (const keys of [...features.values(), ...limits.values()])
      if (keys.some((key) => useful.has(key))) include(keys);
  }
  return useful;
}

/** Splits add-ons into groups that neither touch the same subjects nor name each other in their rules. */
export function groupsOf(
  useful: ReadonlySet<string>,
  { features, limits }: Touching,
  { addOns }: CompiledPricing,
): AddOnGroup[] {
  const parent = new Map([...useful].map((key) => [key, key]));
  const root = (key: string): string => {
    const above = parent.get(key) ?? key;
    return above === key ? key : root(above);
  };
  const join = (keys: readonly string[]): void => {
    const known = keys.filter((key) => useful.has(key));
    for (const key of known) parent.set(root(key), root(known[0] ?? key));
  };
  for (const keys of [...features.values(), ...limits.values()]) join(keys);
  for (const key of useful) {
    const addOn = addOns.get(key);
    for (const other of [...(addOn?.dependsOn ?? []), ...(addOn?.excludes ?? [])]) join([key, other.toLowerCase()]);
  }
  const groups = new Map<string, { keys: string[]; features: string[]; limits: string[] }>();
  for (const key of useful) {
    const group = groups.get(root(key)) ?? { keys: [], features: [], limits: [] };
    group.keys.push(key);
    groups.set(root(key), group);
  }
  // All add-ons that touch a subject are in one group.
  const share = (subjects: ReadonlyMap<string, readonly string[]>, kind: "features" | "limits"): void => {
    for (const [name, keys] of subjects) {
      const key = keys.find((each) => useful.has(each));
      if (key !== undefined) groups.get(root(key))?.[kind].push(name);
    }
  };
  share(features, "features");
  share(limits, "limits");
  const inOrder = [...groups].sort(([one], [other]) => (one < other ? -1 : 1));
  return inOrder.map(([, group]) => ({ ...group, keys: group.keys.sort() }));
}

/** Returns the subjects that no group contains. */
export function ungrouped(groups: readonly AddOnGroup[], { features, limits }: Touching): Omit<AddOnGroup, "keys"> {
  const inGroups = (kind: "features" | "limits") => new Set(groups.flatMap((group) => group[kind]));
  const [grouped, capped] = [inGroups("features"), inGroups("limits")];
  return {
    features: [...features.keys()].filter((name) => !grouped.has(name)),
    limits: [...limits.keys()].filter((name) => !capped.has(name)),
  };
}

/** Searches the selections of one group. */
export interface GroupSearch<Found extends { readonly rank: Rank }> {
  readonly keys: readonly string[];
  /** Quantities to try, per key. */
  readonly lists: readonly (readonly number[])[];
  readonly space: Space;
  readonly plan: string | undefined;
  readonly isOver: IsOver;
  /** Assesses a valid selection. Undefined rejects it. */
  assess(chosen: Chosen): Steps<Found | undefined>;
  /** Breaks ties: of equal ranks, the smaller text wins. */
  tieBreaker(found: Found): string;
  /**
   * Returns a lower bound for the first measures of a selection and of everything that adds to it. The search skips what
   * cannot rank before the best. Without it, the search tries everything.
   */
  floor?(chosen: Chosen): Rank;
}

/** Finds the best selection of one group by trying all valid ones. `complete` is false when there are too many. */
export function* searchGroup<Found extends { readonly rank: Rank }>(
  search: GroupSearch<Found>,
): Steps<{ best: Found | undefined; complete: boolean }> {
  const isBetter = (one: Found, other: Found | undefined): boolean => {
    if (other === undefined) return true;
    const difference = compareRanks(one.rank, other.rank);
    return difference === 0 ? search.tieBreaker(one) < search.tieBreaker(other) : difference < 0;
  };
  function* assess(chosen: Chosen): Steps<Found | undefined> {
    const closed = search.space.closure(search.plan, chosen.keys());
    // A selection without a dependency is not valid.
    return closed?.size === chosen.size ? yield* search.assess(chosen) : undefined;
  }
  let best = yield* startOf(search, assess, isBetter);
  const isHopeless = (chosen: Chosen): boolean => {
    const floor = best === undefined ? undefined : search.floor?.(chosen);
    return floor !== undefined && compareRanks(floor, best?.rank ?? []) > 0;
  };
  let tried = 0;
  for (const chosen of choicesOf(search, isHopeless)) {
    if (++tried > MAX_TRIED || search.isOver()) return { best, complete: false };
    const found = yield* assess(chosen);
    if (found !== undefined && isBetter(found, best)) best = found;
    yield;
  }
  return { best, complete: true };
}

/** Yields every selection without exclusions, each add-on unselected first. Yields the same mutable map each time. */
function* choicesOf<Found extends { readonly rank: Rank }>(
  { keys, lists, space, plan }: GroupSearch<Found>,
  isHopeless: (chosen: Chosen) => boolean,
): Generator<Chosen> {
  const chosen = new Map<string, number>();
  /** Index of the chosen quantity per decided add-on; -1 for none. */
  const options: number[] = [];
  for (;;) {
    while (options.length < keys.length) options.push(-1);
    yield chosen;
    for (;;) {
      const last = options.length - 1;
      if (last < 0) return;
      const key = keys[last] ?? "";
      chosen.delete(key);
      const option = (options[last] ?? 0) + 1;
      const quantity = lists[last]?.[option];
      // Prune: add-ons that are added later cannot resolve an exclusion.
      const isOut = option === 0 && space.closure(plan, [...chosen.keys(), key]) === undefined;
      if (quantity === undefined || isOut) {
        options.pop();
        continue;
      }
      chosen.set(key, quantity);
      if (isHopeless(chosen)) {
        // Lists ascend: more units cost more.
        chosen.delete(key);
        options.pop();
        continue;
      }
      options[last] = option;
      break;
    }
  }
}

/**
 * Finds a good initial selection: adds as many add-ons as are compatible, then drops those that are not worth their
 * cost.
 */
function* startOf<Found extends { readonly rank: Rank }>(
  { keys, lists, space, plan, isOver }: GroupSearch<Found>,
  assess: (chosen: Chosen) => Steps<Found | undefined>,
  isBetter: (one: Found, other: Found | undefined) => boolean,
): Steps<Found | undefined> {
  const chosen = new Map<string, number>();
  const mostOf = new Map(keys.map((key, index) => [key, lists[index]?.at(-1) ?? 0]));
  const most = (key: string): number => mostOf.get(key) ?? 0;
  for (const key of keys) {
    const closed = space.closure(plan, [...chosen.keys(), key]);
    for (const each of closed ?? []) if (most(each) > 0) chosen.set(each, most(each));
  }
  yield;
  let best: Found | undefined;
  for (const selection of [new Map<string, number>(), chosen]) {
    const found = yield* assess(selection);
    if (found !== undefined && isBetter(found, best)) best = found;
  }
  for (const key of keys) {
    if (!chosen.has(key)) continue;
    if (isOver()) break;
    const fewer = new Map([...chosen].filter(([each]) => each !== key));
    const found = yield* assess(fewer);
    yield;
    if (found === undefined || !isBetter(found, best)) continue;
    best = found;
    chosen.delete(key);
  }
  return best;
}
