import type { AddOn } from "../../pricing/model.ts";
import { Quantities } from "./quantities.ts";
import type { AddOnGroup } from "./quantities.ts";
import { compareFeature, compareLimit } from "../compare.ts";
import type { FeatureComparison, LimitComparison } from "../compare.ts";
import { configurationOf } from "../configuration.ts";
import type { Configuration } from "../configuration.ts";
import { entitlementsOf, planEntitlements } from "../entitlements.ts";
import type { Entitlements, Side } from "../entitlements.ts";
import { compareRanks, costsOf, lossOf, measuresOf } from "../loss.ts";
import type { Loss, Offer, Rank, Touching } from "../loss.ts";
import type { Space } from "../space.ts";
import type { IsOver, Steps } from "../../steps.ts";

/** Maximum selections tried per group of add-ons. Larger groups are searched only in part. */
const MAX_TRIED = 8_192;
/** Maximum cached comparisons per plan, at about 1 kB each when add-ons are many. */
const MAX_REMEMBERED = 10_000;

/** The best target on one plan. */
export interface Found {
  readonly target: Configuration;
  readonly loss: Loss;
  readonly rank: Rank;
  readonly complete: boolean;
}

/** The best selection of one group of add-ons. */
interface FoundGroup {
  readonly addOns: Readonly<Record<string, number>>;
  readonly loss: Loss;
  readonly rank: Rank;
  readonly complete: boolean;
}

/** Searches the best target on one plan. */
export class PlanSearch {
  readonly #current: Entitlements;
  readonly #after: Side;
  readonly #plan: string | undefined;
  readonly #space: Space;
  readonly #isOver: IsOver;
  readonly #closed = new Map<string, ReadonlySet<string> | undefined>();
  readonly #quantities: Quantities;
  readonly #features = new Map<string, FeatureComparison>();
  readonly #limits = new Map<string, LimitComparison>();
  readonly #touching: Touching;

  constructor(current: Entitlements, after: Side, plan: string | undefined, offer: Offer, isOver: IsOver) {
    this.#isOver = isOver;
    this.#current = current;
    this.#after = after;
    this.#plan = plan;
    this.#space = offer.space;
    this.#touching = offer.touching(plan);
    this.#quantities = new Quantities(current, after, plan);
    for (const key of this.#space.addOnKeys) this.#closed.set(key, this.#space.closure(plan, [key]));
  }

  #addOn(key: string): AddOn | undefined {
    return this.#after.pricing.addOns.get(key);
  }

  /**
   * Computes the loss of these subjects. Each depends only on the add-ons that touch it, so comparisons are cached per
   * choice of those.
   */
  *#loss(chosen: ReadonlyMap<string, number>, features: readonly string[], limits: readonly string[]): Steps<Loss> {
    let holding: Entitlements | undefined;
    const held = (): Entitlements =>
      (holding ??=
        chosen.size === 0
          ? planEntitlements(this.#after, this.#plan)
          : entitlementsOf(this.#after, configurationOf(this.#plan, this.#named(chosen))));
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
    return lossOf(comparedFeatures, comparedLimits);
  }

  /** Returns the potentially useful add-ons, in groups that do not influence each other. */
  *#groups(): Steps<AddOnGroup[]> {
    const { features, limits } = this.#touching;
    const bare = planEntitlements(this.#after, this.#plan);
    const useful = new Set<string>();
    const include = (keys: Iterable<string>): void => {
      for (const key of keys) for (const each of this.#closed.get(key) ?? []) useful.add(each);
    };
    const isLoss = (effect: string): boolean => effect === "less" || effect === "different";
    for (const [name, keys] of features) {
      if (keys.length === 0) continue;
      yield;
      if (isLoss(compareFeature(this.#current, bare, name).effect)) include(keys);
    }
    for (const [name, keys] of limits)
      if (keys.length > 0 && isLoss(compareLimit(this.#current, bare, name).effect)) include(keys);
    const selectable = new Set([...features.values(), ...limits.values()].flat());
    const discounts = [...selectable].filter((key) => Number(this.#addOn(key)?.price) < 0);
    const held = Object.keys(this.#current.configuration.addOns).map((name) => name.toLowerCase());
    include([...discounts, ...held.filter((key) => this.#closed.get(key) !== undefined)]);
    // Include all add-ons that touch the same subjects: one may compensate a loss that another one causes.
    for (let size = -1; size !== useful.size;) {
      size = useful.size;
      yield;
      for (const keys of [...features.values(), ...limits.values()])
        if (keys.some((key) => useful.has(key))) include(keys);
    }
    return this.#connected(useful);
  }

  #connected(useful: ReadonlySet<string>): AddOnGroup[] {
    const { features, limits } = this.#touching;
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
      const addOn = this.#addOn(key);
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

  /** Finds the best selection of one group by trying all valid ones. */
  *#searchGroup(group: AddOnGroup): Steps<FoundGroup> {
    const choices = group.keys.map((key) => this.#quantities.of(key, group));
    const lists = choices.map((choice) => choice.list);
    const current = this.#currentOf(group);
    let complete = choices.every((choice) => choice.complete);
    let best = yield* this.#start(group, lists, current);
    let tried = 0;
    for (const chosen of this.#choices(group.keys, lists)) {
      if (++tried > MAX_TRIED || this.#isOver()) {
        complete = false;
        break;
      }
      const found = yield* this.#assess(group, chosen, current);
      if (found !== undefined && isBetter(found, best)) best = found;
      yield;
    }
    return { ...best, complete };
  }

  /** Yields every selection without exclusions, each add-on unselected first. Yields the same mutable map each time. */
  *#choices(keys: readonly string[], lists: readonly (readonly number[])[]): Generator<ReadonlyMap<string, number>> {
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
        const isOut = option === 0 && this.#space.closure(this.#plan, [...chosen.keys(), key]) === undefined;
        if (quantity === undefined || isOut) {
          options.pop();
          continue;
        }
        options[last] = option;
        chosen.set(key, quantity);
        break;
      }
    }
  }

  /** Returns the current add-ons of the contract that belong to this group. */
  #currentOf(group: AddOnGroup): Configuration {
    const mine = new Set(group.keys);
    const current = Object.entries(this.#current.configuration.addOns);
    return { addOns: Object.fromEntries(current.filter(([name]) => mine.has(name.toLowerCase()))) };
  }

  /**
   * Finds a good initial selection: adds as many add-ons as are compatible, then drops those that are not worth their
   * cost.
   */
  *#start(group: AddOnGroup, choices: readonly (readonly number[])[], current: Configuration): Steps<FoundGroup> {
    const chosen = new Map<string, number>();
    const mostOf = new Map(group.keys.map((key, index) => [key, choices[index]?.at(-1) ?? 0]));
    const most = (key: string): number => mostOf.get(key) ?? 0;
    for (const key of group.keys) {
      const closed = this.#space.closure(this.#plan, [...chosen.keys(), key]);
      for (const each of closed ?? []) if (most(each) > 0) chosen.set(each, most(each));
    }
    yield;
    const nothing = { addOns: {}, loss: yield* this.#loss(new Map(), group.features, group.limits), complete: true };
    let best: FoundGroup = { ...nothing, rank: [Infinity] };
    for (const selection of [new Map<string, number>(), chosen]) {
      const found = yield* this.#assess(group, selection, current);
      if (found !== undefined && isBetter(found, best)) best = found;
    }
    for (const key of group.keys) {
      if (!chosen.has(key)) continue;
      if (this.#isOver()) break;
      const fewer = new Map([...chosen].filter(([each]) => each !== key));
      const found = yield* this.#assess(group, fewer, current);
      yield;
      if (found === undefined || !isBetter(found, best)) continue;
      best = found;
      chosen.delete(key);
    }
    return best;
  }

  /** Returns undefined when the selection lacks a dependency. */
  *#assess(
    group: AddOnGroup,
    chosen: ReadonlyMap<string, number>,
    current: Configuration,
  ): Steps<FoundGroup | undefined> {
    const closed = this.#space.closure(this.#plan, chosen.keys());
    if (closed === undefined || closed.size !== chosen.size) return undefined;
    const addOns = this.#named(chosen);
    const loss = yield* this.#loss(chosen, group.features, group.limits);
    const costs = costsOf(this.#after.pricing, current, { addOns });
    return { addOns, loss, rank: [...measuresOf(loss), ...costs], complete: true };
  }

  #named(chosen: ReadonlyMap<string, number>): Record<string, number> {
    const entries = [...chosen].sort(([one], [other]) => (one < other ? -1 : 1));
    return Object.fromEntries(entries.map(([key, quantity]) => [this.#addOn(key)?.name ?? key, quantity]));
  }

  /**
   * Returns the best target on this plan. Groups are independent, so their best selections combine to the best target.
   */
  *search(): Steps<Found> {
    const groups = yield* this.#groups();
    const grouped = new Set(
      groups.flatMap((group) => [
        ...group.features.map((name) => `f ${name}`),
        ...group.limits.map((name) => `l ${name}`),
      ]),
    );
    const found: FoundGroup[] = [];
    for (const group of groups) found.push(yield* this.#searchGroup(group));
    const rest = yield* this.#loss(
      new Map(),
      [...this.#touching.features.keys()].filter((name) => !grouped.has(`f ${name}`)),
      [...this.#touching.limits.keys()].filter((name) => !grouped.has(`l ${name}`)),
    );
    const loss = this.#inOrder([rest, ...found.map((each) => each.loss)]);
    const entries = found
      .flatMap((each) => Object.entries(each.addOns))
      .sort(([one], [other]) => (one.toLowerCase() < other.toLowerCase() ? -1 : 1));
    const target = configurationOf(this.#plan, Object.fromEntries(entries));
    const costs = costsOf(this.#after.pricing, this.#current.configuration, target);
    return { target, loss, rank: [...measuresOf(loss), ...costs], complete: found.every((each) => each.complete) };
  }

  /** Merges losses of different subjects, with names in the order of the pricings. */
  #inOrder(losses: readonly Loss[]): Loss {
    const features = [...this.#touching.features.keys()];
    const limits = [...this.#touching.limits.keys()];
    const pick = (names: readonly string[], field: Exclude<keyof Loss, "shortfall">): string[] => {
      const all = new Set(losses.flatMap((loss) => loss[field]));
      return names.filter((name) => all.has(name));
    };
    return {
      lostFeatures: pick(features, "lostFeatures"),
      reducedFeatures: pick(features, "reducedFeatures"),
      reducedLimits: pick(limits, "reducedLimits"),
      differentFeatures: pick(features, "differentFeatures"),
      differentLimits: pick(limits, "differentLimits"),
      shortfall: losses.reduce((sum, loss) => sum + loss.shortfall, 0),
    };
  }
}

/** Builds the cache key of a subject: the quantities of the add-ons that touch it. */
function choiceKey(name: string, keys: readonly string[] = [], chosen: ReadonlyMap<string, number>): string {
  return keys.reduce((text, key) => `${text} ${chosen.get(key) ?? ""}`, name);
}

function remembered<Value>(known: Map<string, Value>, key: string, compute: () => Value): Value {
  const value = known.get(key) ?? compute();
  if (known.size >= MAX_REMEMBERED) known.clear();
  known.set(key, value);
  return value;
}

/** Breaks ties by name: the alphabetically first selection wins. */
function isBetter(one: FoundGroup, other: FoundGroup): boolean {
  const difference = compareRanks(one.rank, other.rank);
  if (difference !== 0) return difference < 0;
  const names = ({ addOns }: FoundGroup): string =>
    Object.keys(addOns)
      .map((name) => name.toLowerCase())
      .sort()
      .join("\n");
  return names(one) < names(other);
}
