import type { AddOn } from "../../pricing/model.ts";
import { Quantities } from "./quantities.ts";
import type { AddOnGroup } from "./quantities.ts";
import { compareFeature, compareLimit } from "../compare.ts";
import { configurationOf } from "../configuration.ts";
import type { Configuration } from "../configuration.ts";
import { planEntitlements } from "../entitlements.ts";
import type { Entitlements, Side } from "../entitlements.ts";
import { groupsOf, namedAddOns, PlanComparisons, searchGroup, ungrouped, withInfluences } from "./groups.ts";
import type { Chosen } from "./groups.ts";
import { costsOf, lossOf, measuresOf } from "../loss.ts";
import type { Loss, Offer, Rank, Touching } from "../loss.ts";
import type { Space } from "../space.ts";
import type { IsOver, Steps } from "../../steps.ts";

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
  readonly #comparisons: PlanComparisons;
  readonly #touching: Touching;

  constructor(current: Entitlements, after: Side, plan: string | undefined, offer: Offer, isOver: IsOver) {
    this.#isOver = isOver;
    this.#current = current;
    this.#after = after;
    this.#plan = plan;
    this.#space = offer.space;
    this.#touching = offer.touching(plan);
    this.#quantities = new Quantities(current, after, plan);
    this.#comparisons = new PlanComparisons(current, after, plan, this.#touching);
    for (const key of this.#space.addOnKeys) this.#closed.set(key, this.#space.closure(plan, [key]));
  }

  #addOn(key: string): AddOn | undefined {
    return this.#after.pricing.addOns.get(key);
  }

  *#loss(chosen: Chosen, features: readonly string[], limits: readonly string[]): Steps<Loss> {
    const compared = yield* this.#comparisons.steps(chosen, features, limits);
    return lossOf(compared.features, compared.limits);
  }

  /** Returns the potentially useful add-ons, in groups that do not influence each other. */
  *#groups(): Steps<AddOnGroup[]> {
    const { features, limits } = this.#touching;
    const bare = planEntitlements(this.#after, this.#plan);
    const seeds: string[] = [];
    const isLoss = (effect: string): boolean => effect === "less" || effect === "different";
    for (const [name, keys] of features) {
      if (keys.length === 0) continue;
      yield;
      if (isLoss(compareFeature(this.#current, bare, name).effect)) seeds.push(...keys);
    }
    for (const [name, keys] of limits)
      if (keys.length > 0 && isLoss(compareLimit(this.#current, bare, name).effect)) seeds.push(...keys);
    const selectable = new Set([...features.values(), ...limits.values()].flat());
    const discounts = [...selectable].filter((key) => Number(this.#addOn(key)?.price) < 0);
    const held = Object.keys(this.#current.configuration.addOns).map((name) => name.toLowerCase());
    seeds.push(...discounts, ...held.filter((key) => this.#closed.get(key) !== undefined));
    const useful = yield* withInfluences(seeds, this.#touching, (key) => this.#closed.get(key));
    return groupsOf(useful, this.#touching, this.#after.pricing);
  }

  /** Finds the best selection of one group. There always is one: none of its add-ons. */
  *#searchGroup(group: AddOnGroup): Steps<FoundGroup & { complete: boolean }> {
    const choices = group.keys.map((key) => this.#quantities.of(key, group));
    const current = this.#currentOf(group);
    const { best, complete } = yield* searchGroup<FoundGroup>({
      keys: group.keys,
      lists: choices.map((choice) => choice.list),
      space: this.#space,
      plan: this.#plan,
      isOver: this.#isOver,
      assess: (chosen) => this.#assess(group, chosen, current),
      tieBreaker: ({ addOns }) =>
        Object.keys(addOns)
          .map((name) => name.toLowerCase())
          .sort()
          .join("\n"),
    });
    if (best === undefined) throw new Error("a plan without add-ons is no selection");
    return { ...best, complete: complete && choices.every((choice) => choice.complete) };
  }

  /** Returns the current add-ons of the contract that belong to this group. */
  #currentOf(group: AddOnGroup): Configuration {
    const mine = new Set(group.keys);
    const current = Object.entries(this.#current.configuration.addOns);
    return { addOns: Object.fromEntries(current.filter(([name]) => mine.has(name.toLowerCase()))) };
  }

  *#assess(group: AddOnGroup, chosen: Chosen, current: Configuration): Steps<FoundGroup> {
    const addOns = namedAddOns(this.#after.pricing, chosen);
    const loss = yield* this.#loss(chosen, group.features, group.limits);
    return { addOns, loss, rank: [...measuresOf(loss), ...costsOf(this.#after.pricing, current, { addOns })] };
  }

  /**
   * Returns the best target on this plan. Groups are independent, so their best selections combine to the best target.
   */
  *search(): Steps<Found> {
    const groups = yield* this.#groups();
    const found: (FoundGroup & { complete: boolean })[] = [];
    for (const group of groups) found.push(yield* this.#searchGroup(group));
    const rest = ungrouped(groups, this.#touching);
    const loss = this.#inOrder([
      yield* this.#loss(new Map(), rest.features, rest.limits),
      ...found.map((each) => each.loss),
    ]);
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
