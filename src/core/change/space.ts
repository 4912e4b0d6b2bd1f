import type { CompiledPricing } from "../pricing/compile.ts";
import { UNLIMITED } from "../pricing/model.ts";
import type { AddOn } from "../pricing/model.ts";
import { allowsQuantity, constraintsOf } from "../pricing/subscription.ts";

/** How many selections of add-ons one question may look at; what is left out is reported. */
export const MAX_SELECTIONS = 4_096;
/** How many steps may be tried to find a quantity that suits two sets of constraints. */
const MAX_STEPS = 1_000;

/** Add-ons with quantities that may be subscribed to together, and the plan that they go with. */
export interface Selection {
  readonly plan: string | undefined;
  /** Of the add-ons asked about, those selected. */
  readonly chosen: Readonly<Record<string, number>>;
  /** The same and what it depends on. */
  readonly whole: Readonly<Record<string, number>>;
}

export interface Selections {
  readonly list: readonly Selection[];
  /** False when there are more than {@link MAX_SELECTIONS}. */
  readonly complete: boolean;
}

/** The rules for one add-on that hold in every pricing of the space. */
interface Rules {
  readonly name: string;
  readonly dependsOn: readonly string[];
  readonly excludes: readonly string[];
  readonly quantities: readonly number[];
  isAvailableFor(planKey: string): boolean;
}

/** The spelling that does not depend on the order of the pricings. */
function spelling(names: readonly string[]): string {
  return names.toSorted()[0] ?? "";
}

/** Quantities from `start` in the add-on's steps, up (1) or down (-1), until all of the add-ons allow one. */
function nextAllowed(addOns: readonly AddOn[], start: number, step: number): number | undefined {
  for (let tries = 0, quantity = start; tries < MAX_STEPS && quantity >= 0; tries++, quantity += step)
    if (quantity > 0 && addOns.every((addOn) => allowsQuantity(addOn, quantity))) return quantity;
  return undefined;
}

/**
 * The quantities at which something may differ: the smallest, the one after it, the largest, and the largest before
 * everything that the add-on extends is unlimited. One is enough for add-ons that extend nothing. Between them grants
 * grow evenly. `addOns` are one add-on as several pricings have it; a quantity suits them all.
 */
export function edgeQuantities(addOns: readonly AddOn[]): number[] {
  const rules = addOns.map(constraintsOf);
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
 * The configurations that may be subscribed to in every one of some pricings, without listing them all: each question
 * names the add-ons that matter to it and gets what can be selected of them, everything else left aside. Names match
 * ignoring case; results are independent of the order of the pricings and of what is in them.
 */
export class Space {
  readonly #rules = new Map<string, Rules>();
  readonly #step: () => void;
  /** Plans of all the pricings; `undefined` alone where none of them has plans. */
  readonly plans: readonly (string | undefined)[];

  /** `isOffered` leaves add-ons out, and with them what depends on them; `step` is called all the time, and may throw. */
  constructor(
    pricings: readonly CompiledPricing[],
    isOffered: (addOn: AddOn) => boolean = () => true,
    step: () => void = () => {},
  ) {
    this.#step = step;
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
      const available = addOns.map((addOn) => new Set(lower(addOn.availableFor)));
      this.#rules.set(key, {
        name: spelling(addOns.map((addOn) => addOn.name)),
        dependsOn: lower(addOns.flatMap((addOn) => addOn.dependsOn)),
        excludes: lower(addOns.flatMap((addOn) => addOn.excludes)),
        quantities: edgeQuantities(addOns),
        isAvailableFor: (planKey) => available.every((set) => set.has(planKey)),
      });
    }
  }

  /** Keys of the add-ons, in a fixed order. */
  get addOnKeys(): readonly string[] {
    return [...this.#rules.keys()];
  }

  /** The smallest set with everything that these add-ons depend on; undefined when it cannot be subscribed to. */
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
   * What can be selected of the add-ons in `keys` with this plan, fewest add-ons first. Whatever else is selected beside
   * them does not matter to who asks about these; what they depend on is added with its smallest quantity.
   */
  selections(plan: string | undefined, keys: Iterable<string>): Selections {
    const wanted = [...new Set(keys)].filter((key) => this.closure(plan, [key]) !== undefined).sort();
    const asked = new Set(wanted);
    const list: Selection[] = [];
    let level: (readonly (readonly [number, number])[])[] = [[]];
    let looked = 0;
    while (level.length > 0) {
      const next: (readonly (readonly [number, number])[])[] = [];
      for (const picks of level) {
        if (++looked > MAX_SELECTIONS) return { list, complete: false };
        const closed = this.closure(
          plan,
          picks.map(([index]) => wanted[index] ?? ""),
        );
        // Nothing that is added takes an exclusion away; a missing dependency may still come.
        if (closed === undefined) continue;
        const selection = this.#select(plan, wanted, asked, picks, closed);
        if (selection !== undefined) list.push(selection);
        for (let index = (picks.at(-1)?.[0] ?? -1) + 1; index < wanted.length; index++)
          for (const quantity of this.#rules.get(wanted[index] ?? "")?.quantities ?? [])
            if (next.length <= MAX_SELECTIONS) next.push([...picks, [index, quantity]]);
      }
      level = next;
    }
    return { list, complete: true };
  }

  /** Undefined when the closure brings in an add-on that was asked about and is not among the picks. */
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
