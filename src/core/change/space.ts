import type { CompiledPricing } from "../pricing/compile.ts";
import { UNLIMITED } from "../pricing/model.ts";
import type { AddOn } from "../pricing/model.ts";
import type { Side } from "./entitlements.ts";
import { finish } from "../steps.ts";
import type { Steps } from "../steps.ts";
import { allowsQuantity, wholeConstraintsOf } from "../pricing/subscription.ts";

/** Maximum selections of add-ons per query. Results report when it cuts them off. */
export const MAX_SELECTIONS = 4_096;
/** Less than a millisecond, unless add-ons depend on many others. */
const LOOKED_PER_STEP = 64;
/** Maximum steps to search a quantity that satisfies several sets of constraints. */
const MAX_STEPS = 1_000;

/** Maximum quantities of one add-on that are tried one by one. */
const MAX_QUANTITIES = 64;

/** Per limit, the numbers with which expressions compare it; null for other forms. See {@link ExpressionFacts}. */
type Thresholds = ReadonlyMap<string, readonly number[] | null>;

/** Computed once per side, because every best fit creates a space. */
const thresholdsOfSide = new WeakMap<Side, Thresholds>();

function merge(all: Iterable<readonly [string, readonly number[] | null]>): Thresholds {
  const merged = new Map<string, readonly number[] | null>();
  for (const [limit, found] of all) {
    const known = merged.get(limit);
    merged.set(limit, found === null || known === null ? null : [...new Set([...(known ?? []), ...found])]);
  }
  return merged;
}

/** Merges the thresholds of all expressions of the sides. */
function thresholdsOf(sides: readonly Side[]): Thresholds {
  const each = sides.map((side) => {
    const known = thresholdsOfSide.get(side);
    if (known !== undefined) return known;
    const modes = [...side.expressions.values()].flatMap(({ client, server }) => [client, server]);
    const found = merge(modes.flatMap((facts) => [...(facts?.thresholds ?? [])]));
    thresholdsOfSide.set(side, found);
    return found;
  });
  return each.length === 1 && each[0] !== undefined ? each[0] : merge(each.flatMap((found) => [...found]));
}

/** A valid combination of a plan and add-ons with quantities. */
export interface Selection {
  readonly plan: string | undefined;
  /** The selected add-ons among those queried. */
  readonly chosen: Readonly<Record<string, number>>;
  /** `chosen` plus the add-ons that it depends on. */
  readonly whole: Readonly<Record<string, number>>;
}

export interface Selections {
  readonly list: readonly Selection[];
  /** False when there are more than {@link MAX_SELECTIONS}, or when other quantities may make a difference. */
  readonly complete: boolean;
}

/** Rules of one add-on, merged over all pricings of the space. */
interface Rules {
  readonly name: string;
  readonly dependsOn: readonly string[];
  readonly excludes: readonly string[];
  readonly quantities: readonly number[];
  /** False when other quantities may make a difference. */
  readonly areQuantitiesComplete: boolean;
  isAvailableFor(planKey: string): boolean;
}

/** Picks one of several spellings, independent of the order of the pricings. */
function spelling(names: readonly string[]): string {
  return names.toSorted()[0] ?? "";
}

/** Returns the first quantity from `start` that all add-ons allow. `step` is negative to search downwards. */
function nextAllowed(addOns: readonly AddOn[], start: number, step: number): number | undefined {
  for (let tries = 0, quantity = start; tries < MAX_STEPS && quantity >= 0; tries++, quantity += step)
    if (quantity > 0 && addOns.every((addOn) => allowsQuantity(addOn, quantity))) return quantity;
  return undefined;
}

/**
 * Returns the quantities at which grants may behave differently. These are the smallest, the next one, the largest, and
 * the last one before every extended limit becomes unlimited. Between them, grants grow linearly. Add-ons that extend
 * nothing need only the smallest.
 *
 * `addOns` are the versions of one add-on in several pricings. Each returned quantity is valid in all of them.
 */
export function edgeQuantities(addOns: readonly AddOn[]): number[] {
  const rules = addOns.map(wholeConstraintsOf);
  const coarsest = rules.reduce((one, other) => (other.quantityStep > one.quantityStep ? other : one));
  const { minQuantity, quantityStep: step } = coarsest;
  const lowest = Math.max(...rules.map((rule) => rule.minQuantity));
  const aligned = (bound: number): number => minQuantity + Math.floor((bound - minQuantity) / step) * step;
  const smallest = nextAllowed(addOns, Math.max(minQuantity, aligned(lowest)), step);
  if (smallest === undefined) return [];
  const extensions = addOns.flatMap((addOn) => Object.values(addOn.usageLimitsExtensions)).filter((each) => each !== 0);
  if (extensions.length === 0) return [smallest];
  const largest = Math.min(...rules.map((rule) => rule.maxQuantity ?? UNLIMITED), UNLIMITED);
  const saturations = extensions.map((each) =>
    Math.min(largest, Math.max(smallest, UNLIMITED / Math.abs(each) - step)),
  );
  const candidates = [
    nextAllowed(addOns, smallest + step, step),
    ...[largest, ...saturations].map((bound) => nextAllowed(addOns, aligned(bound), -step)),
  ].filter((quantity) => quantity !== undefined && quantity >= smallest && quantity <= largest);
  return [...new Set([smallest, ...candidates.filter((quantity) => quantity !== undefined)])].sort((a, b) => a - b);
}

/**
 * Returns the quantities from `first` to `last`, which callers bound. Counts steps, because adding a step to a number
 * beyond 2^53 may leave it as it is.
 */
export function everyQuantity(first: number, last: number, step: number): number[] {
  const count = Math.floor((last - first) / step) + 1;
  return Array.from({ length: Math.max(0, count) }, (_, index) => first + index * step);
}

/** Returns every value that a pricing gives a limit before extensions. */
function basesOf({ pricing }: CompiledPricing, limit: string): number[] {
  const definition = pricing.usageLimits.find((each) => each.name === limit);
  const owned = [...pricing.plans, ...pricing.addOns].map((owner) =>
    Object.hasOwn(owner.usageLimits, limit) ? owner.usageLimits[limit] : undefined,
  );
  return [definition?.defaultValue, definition?.value, ...owned].filter((value) => typeof value === "number");
}

/**
 * Returns the quantities of an add-on at which a grant or an expression may behave differently: the edges, and those at
 * which an extended limit reaches a threshold. `complete` is false when others may matter too.
 */
function quantitiesOf(
  addOns: readonly AddOn[],
  pricings: readonly CompiledPricing[],
  thresholds: Thresholds,
): { readonly list: readonly number[]; readonly complete: boolean } {
  const edges = edgeQuantities(addOns);
  const [smallest, largest] = [edges[0], edges.at(-1)];
  const extended = addOns
    .flatMap((addOn) => Object.entries(addOn.usageLimitsExtensions))
    .filter(([limit, each]) => each !== 0 && thresholds.has(limit));
  if (smallest === undefined || largest === undefined || extended.length === 0) return { list: edges, complete: true };
  const step = Math.max(...addOns.map((addOn) => wholeConstraintsOf(addOn).quantityStep));
  const found = new Set(edges);
  let complete = true;
  for (const [limit, extension] of extended) {
    const numbers = thresholds.get(limit);
    const bases = [...new Set(pricings.flatMap((pricing) => basesOf(pricing, limit)))];
    const others = pricings
      .flatMap(({ pricing }) => pricing.addOns)
      .filter((other) => !addOns.includes(other) && (other.usageLimitsExtensions[limit] ?? 0) !== 0);
    const crossings = (numbers ?? []).flatMap((number) => bases.map((base) => (number - base) / extension));
    const isAlone = others.length === 0;
    const onlyGrows = extension > 0 && others.every((other) => (other.usageLimitsExtensions[limit] ?? 0) > 0);
    if (numbers !== null && isAlone) {
      for (const crossing of crossings.filter((each) => each >= smallest - step && each <= largest + step)) {
        const below = smallest + Math.floor((crossing - smallest) / step) * step;
        for (const quantity of [below - step, below, below + step, below + 2 * step]) found.add(quantity);
      }
      continue;
    }
    // With other add-ons, the limit reaches a threshold at the latest where this one alone would.
    const last = numbers !== null && onlyGrows ? Math.min(largest, Math.max(...crossings, smallest) + step) : largest;
    if ((last - smallest) / step >= MAX_QUANTITIES) complete = false;
    else for (const quantity of everyQuantity(smallest, last, step)) found.add(quantity);
  }
  const list = [...found].filter(
    (quantity) =>
      quantity >= smallest && quantity <= largest && addOns.every((addOn) => allowsQuantity(addOn, quantity)),
  );
  return { list: list.sort((one, other) => one - other), complete };
}

/**
 * Space of the configurations that are valid in every one of several pricings. Enumerating all is infeasible, so each
 * query names the relevant add-ons and gets only their selections. Names are case-insensitive. Results do not depend on
 * the order of the pricings or of their items.
 */
export class Space {
  readonly #rules = new Map<string, Rules>();
  readonly #step: () => void;
  /** Plans that all pricings have. Contains only `undefined` when no pricing has plans. */
  readonly plans: readonly (string | undefined)[];

  /**
   * `isOffered` excludes add-ons and everything that depends on them. The space calls `step` frequently; it may throw
   * to abort.
   */
  constructor(sides: readonly Side[], isOffered: (addOn: AddOn) => boolean = () => true, step: () => void = () => {}) {
    this.#step = step;
    const pricings = sides.map((side) => side.pricing);
    const thresholds = thresholdsOf(sides);
    const [first] = pricings;
    const common = (maps: readonly ReadonlyMap<string, { readonly name: string }>[]): string[] =>
      [...(maps[0]?.keys() ?? [])].filter((key) => maps.every((map) => map.has(key)));
    const planMaps = pricings.map((pricing) => pricing.plans);
    const plans = common(planMaps).map((key) => spelling(planMaps.map((map) => map.get(key)?.name ?? "")));
    this.plans = first !== undefined && planMaps.every((map) => map.size === 0) ? [undefined] : plans;
    for (const key of common(pricings.map((pricing) => pricing.addOns)).sort()) {
      const addOns = pricings.map((pricing) => pricing.addOns.get(key)).filter((addOn) => addOn !== undefined);
      if (!addOns.every(isOffered)) continue;
      const lower = (names: readonly string[]): string[] => names.map((name) => name.toLowerCase());
      const quantities = quantitiesOf(addOns, pricings, thresholds);
      const available = addOns.map((addOn) => new Set(lower(addOn.availableFor)));
      this.#rules.set(key, {
        name: spelling(addOns.map((addOn) => addOn.name)),
        dependsOn: lower(addOns.flatMap((addOn) => addOn.dependsOn)),
        excludes: lower(addOns.flatMap((addOn) => addOn.excludes)),
        quantities: quantities.list,
        areQuantitiesComplete: quantities.complete,
        isAvailableFor: (planKey) => available.every((set) => set.has(planKey)),
      });
    }
  }

  /** Keys of the add-ons, in a deterministic order. */
  get addOnKeys(): readonly string[] {
    return [...this.#rules.keys()];
  }

  /** Returns the add-ons in `keys` plus all their dependencies. Undefined when that set is not a valid subscription. */
  closure(plan: string | undefined, keys: Iterable<string>): ReadonlySet<string> | undefined {
    this.#step();
    const closed = new Set<string>(keys);
    for (const key of closed) for (const needed of this.#rules.get(key)?.dependsOn ?? []) closed.add(needed);
    for (const key of closed) {
      const rules = this.#rules.get(key);
      if (rules === undefined || rules.quantities.length === 0) return undefined;
      if (plan !== undefined && !rules.isAvailableFor(plan.toLowerCase())) return undefined;
      if (rules.excludes.some((other) => closed.has(other))) return undefined;
    }
    return closed;
  }

  /**
   * Returns the valid selections of the add-ons in `keys` with this plan, fewest add-ons first. Ignores all other
   * add-ons, except dependencies, which it adds with their smallest quantity.
   */
  selections(plan: string | undefined, keys: Iterable<string>): Selections {
    return finish(this.selectionSteps(plan, keys));
  }

  /** Runs {@link selections} in steps. */
  *selectionSteps(plan: string | undefined, keys: Iterable<string>): Steps<Selections> {
    const wanted = [...new Set(keys)].filter((key) => this.closure(plan, [key]) !== undefined).sort();
    const asked = new Set(wanted);
    const list: Selection[] = [];
    let level: (readonly (readonly [number, number])[])[] = [[]];
    let looked = 0;
    while (level.length > 0) {
      const next: (readonly (readonly [number, number])[])[] = [];
      for (const picks of level) {
        if (++looked > MAX_SELECTIONS) return { list, complete: false };
        if (looked % LOOKED_PER_STEP === 0) yield;
        const closed = this.closure(
          plan,
          picks.map(([index]) => wanted[index] ?? ""),
        );
        // Prune: further add-ons cannot resolve an exclusion. Do not prune for an unpicked dependency, which may still
        // be picked.
        if (closed === undefined) continue;
        const selection = this.#select(plan, wanted, asked, picks, closed);
        if (selection !== undefined) list.push(selection);
        for (let index = (picks.at(-1)?.[0] ?? -1) + 1; index < wanted.length; index++)
          for (const quantity of this.#rules.get(wanted[index] ?? "")?.quantities ?? [])
            if (next.length <= MAX_SELECTIONS) next.push([...picks, [index, quantity]]);
      }
      level = next;
    }
    return { list, complete: wanted.every((key) => this.#rules.get(key)?.areQuantitiesComplete === true) };
  }

  /** Builds a selection. Returns undefined when the closure adds a queried add-on that is not among the picks. */
  #select(
    plan: string | undefined,
    wanted: readonly string[],
    asked: ReadonlySet<string>,
    picks: readonly (readonly [number, number])[],
    closed: ReadonlySet<string>,
  ): Selection | undefined {
    const quantities = new Map(picks.map(([index, quantity]) => [wanted[index] ?? "", quantity]));
    if ([...closed].some((key) => asked.has(key) && !quantities.has(key))) return undefined;
    const chosen: Record<string, number> = {};
    const whole: Record<string, number> = {};
    for (const key of [...closed].sort()) {
      const rules = this.#rules.get(key);
      const quantity = quantities.get(key);
      if (rules === undefined) continue;
      if (quantity !== undefined) chosen[rules.name] = quantity;
      whole[rules.name] = quantity ?? rules.quantities[0] ?? 1;
    }
    return { plan, chosen, whole };
  }
}
