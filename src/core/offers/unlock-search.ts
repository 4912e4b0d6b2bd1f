import { findPlan } from "../pricing/compile.ts";
import type { AddOn } from "../pricing/model.ts";
import type { Grant } from "../pricing/subscription.ts";
import type { Entitlements, Mode, Side } from "../change/entitlements.ts";
import { configurationKey, configurationOf } from "../change/configuration.ts";
import type { Configuration } from "../change/configuration.ts";
import {
  choiceKey,
  groupsOf,
  namedAddOns,
  PlanComparisons,
  remembered,
  searchGroup,
  ungrouped,
  withInfluences,
} from "../change/best-fit/groups.ts";
import type { Chosen } from "../change/best-fit/groups.ts";
import { Quantities } from "../change/best-fit/quantities.ts";
import type { AddOnGroup, Demands } from "../change/best-fit/quantities.ts";
import { differencesFrom } from "../change/loss.ts";
import type { Offer, Rank, Touching } from "../change/loss.ts";
import { leastRecentlyUsed } from "../least-recently-used.ts";
import type { IsOver, Steps } from "../steps.ts";
import { judge } from "./changes.ts";
import type { Compared, Outcome } from "./changes.ts";

/** The feature that a purchase must turn on. */
export interface Goal {
  readonly feature: string;
  readonly mode: Mode;
  /** Returns the consumption of a limit that must have room: as it is, and with the amount asked for. */
  demanded(limit: string): readonly number[];
  /** True if the contract could use the feature with these values. */
  unlocks(grant: Grant): boolean;
}

/** Returns a text that is equal for equal configurations, and breaks ties. Source: contract offers §2, measure 9. */
export function tieText({ plan, addOns }: Configuration): string {
  const named = Object.entries(addOns).map(([name, quantity]) => [name.toLowerCase(), quantity] as const);
  named.sort(([one], [other]) => (one < other ? -1 : 1));
  return JSON.stringify([plan?.toLowerCase() ?? null, named]);
}

/** Returns true if the target has a part with a text price that the contract does not have yet. */
export function needsContact({ pricing }: Side, current: Configuration, { plan, addOns }: Configuration): boolean {
  const isText = (price: number | string | undefined): boolean => typeof price === "string";
  const held = new Map(Object.entries(current.addOns).map(([name, quantity]) => [name.toLowerCase(), quantity]));
  const isNewPlan = plan !== undefined && plan.toLowerCase() !== current.plan?.toLowerCase();
  if (isNewPlan && isText(findPlan(pricing, plan)?.price)) return true;
  return Object.entries(addOns).some(([name, quantity]) => {
    const key = name.toLowerCase();
    return isText(pricing.addOns.get(key)?.price) && (held.get(key) ?? 0) < quantity;
  });
}

/** Maximum cached comparisons of a configuration with a plan, and maximum entries of each, at about 100 bytes. */
const MAX_CACHED = { plans: 256, entries: 2_000 };
const cachedComparisons = leastRecentlyUsed<PlanComparisons>(MAX_CACHED.plans);
const offerNumbers = new WeakMap<Offer, number>();
let offersSoFar = 0;

/** Returns comparisons that earlier questions of contracts with the same configuration have filled. */
function comparisonsOf(current: Entitlements, after: Side, plan: string | undefined, offer: Offer): PlanComparisons {
  const number = offerNumbers.get(offer) ?? (offersSoFar += 1);
  offerNumbers.set(offer, number);
  const key = `${number} ${plan ?? ""}\n${configurationKey(current.configuration)}`;
  const cached = cachedComparisons.get(key);
  if (cached !== undefined && cached.size <= MAX_CACHED.entries) return cached;
  return cachedComparisons.put(key, new PlanComparisons(current, after, plan, offer.touching(plan)));
}

/** The best selection of one group of add-ons. */
interface FoundGroup {
  readonly chosen: ReadonlyMap<string, number>;
  readonly rank: Rank;
}

/**
 * Searches the best configuration of one plan that unlocks the feature, in the order of contract offers §2. Add-ons that do
 * not influence each other are searched apart: every measure but the first is a sum over them.
 */
export class UnlockSearch {
  readonly #current: Entitlements;
  readonly #after: Side;
  readonly #plan: string | undefined;
  readonly #goal: Goal;
  readonly #offer: Offer;
  readonly #touching: Touching;
  readonly #isOver: IsOver;
  readonly #quantities: Quantities;
  readonly #comparisons: PlanComparisons;
  readonly #unlocks = new Map<string, boolean>();

  constructor(
    current: Entitlements,
    after: Side,
    plan: string | undefined,
    { goal, offer, isOver }: { goal: Goal; offer: Offer; isOver: IsOver },
  ) {
    this.#current = current;
    this.#after = after;
    this.#plan = plan;
    this.#goal = goal;
    this.#offer = offer;
    this.#isOver = isOver;
    this.#touching = this.#withConsumption(offer.touching(plan));
    this.#quantities = new Quantities(current, after, plan, this.#demands());
    this.#comparisons = comparisonsOf(current, after, plan, offer);
  }

  /**
   * Adds the add-ons that change the limits whose consumption the feature reads: an amount must fit below those, even if
   * the expression does not read them.
   */
  #withConsumption({ features, limits }: Touching): Touching {
    const { feature, mode } = this.#goal;
    const counted = this.#after.expressions.get(feature)?.[mode]?.usage ?? [];
    const deciding = new Set(
      [feature, ...counted].flatMap((name, index) => (index === 0 ? features : limits).get(name) ?? []),
    );
    return { features: new Map([...features, [feature, [...deciding]]]), limits };
  }

  #demands(): Demands {
    const { feature, mode } = this.#goal;
    const facts = this.#after.expressions.get(feature)?.[mode];
    // An expression may compare the consumption of one limit with another limit.
    const demanded = (facts?.usage ?? []).flatMap((limit) => this.#goal.demanded(limit));
    return {
      of: (limit) => (facts?.limits.includes(limit) === true || facts?.usage.includes(limit) === true ? demanded : []),
      areAll: (limit) =>
        facts === undefined ||
        !facts.limits.includes(limit) ||
        (facts.caps.includes(limit) && facts.thresholds.get(limit) !== null),
    };
  }

  #doesUnlock(chosen: Chosen): boolean {
    const key = choiceKey("", this.#touching.features.get(this.#goal.feature), chosen);
    return remembered(this.#unlocks, key, () => this.#goal.unlocks(this.#comparisons.holding(chosen).grant));
  }

  /** Returns the add-ons that a best target may have, in groups that do not influence each other. */
  *#groups(): Steps<AddOnGroup[]> {
    const { features, limits } = this.#touching;
    const { addOns } = this.#after.pricing;
    const { space } = this.#offer;
    const seeds = [...(features.get(this.#goal.feature) ?? [])];
    const compared = yield* this.#comparisons.steps(new Map(), [...features.keys()], [...limits.keys()]);
    judge(this.#after, compared, (outcome, kind, name) => {
      if (outcome !== "gains") seeds.push(...((kind === "feature" ? features : limits).get(name) ?? []));
    });
    const held = Object.keys(this.#current.configuration.addOns).map((name) => name.toLowerCase());
    seeds.push(...held, ...[...addOns].flatMap(([key, addOn]) => (Number(addOn.price) < 0 ? [key] : [])));
    const useful = yield* withInfluences(seeds, this.#touching, (key) => space.closure(this.#plan, [key]));
    return groupsOf(useful, this.#touching, this.#after.pricing);
  }

  /** Returns the best target with its comparison. Undefined when no offered configuration of this plan unlocks. */
  *search(): Steps<{ best: { target: Configuration; compared: Compared } | undefined; complete: boolean }> {
    const { features, limits } = this.#touching;
    const groups = yield* this.#groups();
    const rest = ungrouped(groups, this.#touching);
    const listed = new Set<string>();
    const fixed = yield* this.#comparisons.steps(new Map(), rest.features, rest.limits);
    judge(this.#after, fixed, (_, kind, name) => kind === "limit" && listed.add(name));
    const { configuration } = this.#current;
    const isContact = needsContact(this.#after, configuration, configurationOf(this.#plan, {}));
    let complete = true;
    // A target without a text price precedes all others. If there is none, text prices do not distinguish targets.
    for (const takesContact of isContact ? [true] : [false, true]) {
      const found = yield* this.#searchGroups(groups, listed, takesContact);
      complete &&= found.complete;
      if (found.chosen === undefined) continue;
      const target = configurationOf(this.#plan, namedAddOns(this.#after.pricing, found.chosen));
      const compared = yield* this.#comparisons.steps(found.chosen, [...features.keys()], [...limits.keys()]);
      return { best: { target, compared }, complete };
    }
    return { best: undefined, complete };
  }

  *#searchGroups(
    groups: readonly AddOnGroup[],
    listed: ReadonlySet<string>,
    takesContact: boolean,
  ): Steps<{ chosen: ReadonlyMap<string, number> | undefined; complete: boolean }> {
    const { addOns } = this.#after.pricing;
    const deciding = new Set(this.#touching.features.get(this.#goal.feature) ?? []);
    const chosen = new Map<string, number>();
    let complete = true;
    let isDecided = false;
    for (const group of groups) {
      const decides = group.keys.some((key) => deciding.has(key));
      isDecided ||= decides;
      const choices = group.keys.map((key) => this.#quantities.of(key, group));
      const found = yield* searchGroup<FoundGroup>({
        keys: group.keys,
        lists: choices.map((choice) => choice.list),
        space: this.#offer.space,
        plan: this.#plan,
        isOver: this.#isOver,
        assess: (picked) => this.#assess(picked, group, { listed, decides, takesContact }),
        tieBreaker: (each) => tieText({ addOns: Object.fromEntries(each.chosen) }),
        ...(group.keys.some((key) => Number(addOns.get(key)?.price) < 0)
          ? {}
          : { floor: (picked) => [0, 0, priceOfAddOns(addOns, picked)] }),
      });
      complete &&= found.complete && choices.every((choice) => choice.complete);
      if (found.best === undefined) return { chosen: undefined, complete };
      for (const [key, quantity] of found.best.chosen) chosen.set(key, quantity);
    }
    if (!isDecided && !this.#doesUnlock(chosen)) return { chosen: undefined, complete };
    return { chosen, complete };
  }

  /** Measures a selection: losses of features and limits, price, differences, changed names, add-ons, units. */
  *#assess(
    chosen: Chosen,
    group: AddOnGroup,
    { listed, decides, takesContact }: { listed: ReadonlySet<string>; decides: boolean; takesContact: boolean },
  ): Steps<FoundGroup | undefined> {
    const { pricing } = this.#after;
    if (decides && !this.#doesUnlock(chosen)) return undefined;
    const { configuration } = this.#current;
    const addOns = namedAddOns(pricing, chosen);
    if (!takesContact && needsContact(this.#after, configuration, { addOns })) return undefined;
    const compared = yield* this.#comparisons.steps(chosen, group.features, group.limits);
    const losses = { feature: 0, limit: 0 };
    let differences = 0;
    const count = (outcome: Outcome, kind: "feature" | "limit"): void => {
      if (outcome === "losses") losses[kind] += 1;
      else if (outcome === "differences") differences += 1;
    };
    judge(this.#after, compared, count, (limit) => listed.has(limit));
    const mine = new Set(group.keys);
    const held = Object.entries(configuration.addOns).filter(([name]) => mine.has(name.toLowerCase()));
    const quantities = [...chosen.values()];
    const rank = [
      losses.feature,
      losses.limit,
      priceOfAddOns(pricing.addOns, chosen),
      differences,
      differencesFrom({ addOns: Object.fromEntries(held) }, { addOns }),
      quantities.length,
      quantities.reduce((sum, quantity) => sum + quantity, 0),
    ];
    return { chosen: new Map(chosen), rank };
  }
}

/** Sums the prices of add-ons. A text price counts as 0. */
function priceOfAddOns(addOns: ReadonlyMap<string, AddOn>, chosen: Chosen): number {
  let price = 0;
  for (const [key, quantity] of chosen) {
    const unit = addOns.get(key)?.price;
    if (typeof unit === "number") price += unit * quantity;
  }
  return price;
}
