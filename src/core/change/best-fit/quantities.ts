import { findPlan } from "../../pricing/compile.ts";
import { UNLIMITED } from "../../pricing/model.ts";
import type { AddOn, LimitValue } from "../../pricing/model.ts";
import { allowsQuantity, wholeConstraintsOf } from "../../pricing/subscription.ts";
import { MODES } from "../compare.ts";
import type { Entitlements, Side } from "../entitlements.ts";
import { edgeQuantities, everyQuantity } from "../space.ts";

/** Maximum quantities of an add-on that are tried exhaustively. */
const MAX_QUANTITIES = 64;

/** Keys of add-ons that influence each other, and the subjects that only they can change. */
export interface AddOnGroup {
  readonly keys: readonly string[];
  readonly features: readonly string[];
  readonly limits: readonly string[];
}

/** Amounts that a target should reach beside those of the current holding. */
export interface Demands {
  /** Amounts that a limit should reach, or exceed by any amount. */
  readonly of: (limit: string) => readonly number[];
  /** True if no other amounts matter. */
  readonly areAll: (limit: string) => boolean;
}

/** Selects the quantities of an add-on that are worth trying on one plan, given the current holding. */
export class Quantities {
  readonly #current: Entitlements;
  readonly #after: Side;
  readonly #plan: string | undefined;
  readonly #demands: Demands | undefined;

  constructor(current: Entitlements, after: Side, plan: string | undefined, demands?: Demands) {
    this.#current = current;
    this.#after = after;
    this.#plan = plan;
    this.#demands = demands;
  }

  #addOn(key: string): AddOn | undefined {
    return this.#after.pricing.addOns.get(key);
  }

  /**
   * Returns candidate quantities of an add-on for a best target. `complete` is true when no other quantity can be
   * better. Units beyond those that cover a limit only cost money, unless an expression reads the limit as more than an
   * allowance.
   */
  of(key: string, group: AddOnGroup): { readonly list: readonly number[]; readonly complete: boolean } {
    const addOn = this.#addOn(key);
    if (addOn === undefined) return { list: [], complete: true };
    const { minQuantity, quantityStep: step } = wholeConstraintsOf(addOn);
    const edges = edgeQuantities([addOn]);
    const [smallest = 1, largest = smallest] = [edges[0], edges.at(-1)];
    const held = Object.entries(this.#current.configuration.addOns).find(([name]) => name.toLowerCase() === key)?.[1];
    const exact = [smallest, ...(held !== undefined && held > 0 && allowsQuantity(addOn, held) ? [held] : [])];
    const extended = Object.entries(addOn.usageLimitsExtensions).filter(([, value]) => value !== 0);
    if (extended.length === 0) return { list: unique(exact), complete: true };
    const plain = extended.every(
      ([limit, value]) => value > 0 && this.#isPlainAllowance(limit, group) && this.#demands?.areAll(limit) !== false,
    );
    let enough = smallest;
    for (const [limit, value] of extended)
      for (const units of this.#unitsFor(limit, value, group)) {
        const quantity = Math.min(largest, minQuantity + Math.ceil((units - minQuantity) / step) * step);
        if (quantity > smallest) exact.push(quantity);
        enough = Math.max(enough, quantity);
      }
    // If no other add-on extends these limits, only the sufficient quantity or the largest one can be best.
    const alone = extended.every(
      ([limit]) =>
        group.keys.filter((other) => Object.hasOwn(this.#addOn(other)?.usageLimitsExtensions ?? {}, limit)).length ===
        1,
    );
    const few = unique([...exact, Math.min(largest, enough)]).filter((each) => allowsQuantity(addOn, each));
    if (plain && alone) return { list: few, complete: true };
    const bound = plain ? Math.min(enough, largest) : largest;
    if ((bound - smallest) / step < MAX_QUANTITIES) {
      const every = everyQuantity(smallest, bound, step);
      return { list: unique([...every, ...exact]).filter((each) => allowsQuantity(addOn, each)), complete: true };
    }
    return { list: unique([...few, largest]), complete: false };
  }

  /** Returns the units that reach the current grant, and those that reach or exceed each demand. */
  #unitsFor(limit: string, extension: number, group: AddOnGroup): number[] {
    const value = this.#current.grant.usageLimits.get(limit);
    const granted = typeof value === "number" ? Math.min(value, UNLIMITED) : 0;
    const demands = [...(this.#demands?.of(limit) ?? []), ...this.#thresholds(limit, group)];
    return this.#bases(limit, group).flatMap((base) => [
      ...[granted, ...demands].map((amount) => Math.ceil((amount - base) / extension)),
      ...demands.map((amount) => Math.floor((amount - base) / extension) + 1),
    ]);
  }

  /** Returns the numbers with which expressions compare a limit: what they answer may change there. */
  #thresholds(limit: string, group: AddOnGroup): number[] {
    return group.features.flatMap((feature) =>
      MODES.flatMap((mode) => [...(this.#after.expressions.get(feature)?.[mode]?.thresholds.get(limit) ?? [])]),
    );
  }

  /** Returns the possible values of a limit before extensions. */
  #bases(limit: string, group: AddOnGroup): number[] {
    const plan = this.#plan === undefined ? undefined : findPlan(this.#after.pricing, this.#plan);
    const own = plan !== undefined && Object.hasOwn(plan.usageLimits, limit) ? plan.usageLimits[limit] : undefined;
    const fallback = this.#after.pricing.usageLimits.get(limit)?.defaultValue;
    const replaced = group.keys.map((key): LimitValue | undefined => {
      const values = this.#addOn(key)?.usageLimits ?? {};
      return Object.hasOwn(values, limit) ? values[limit] : undefined;
    });
    // An override adds to what extensions give, so it shifts the start.
    const added = this.#after.overrides?.find(({ mode, name }) => mode === "add" && name === limit)?.value ?? 0;
    return [own ?? fallback, ...replaced]
      .filter((value) => typeof value === "number")
      .map((value) => (value >= UNLIMITED ? value : value + Number(added)));
  }

  #isPlainAllowance(limit: string, group: AddOnGroup): boolean {
    const others = group.keys.map((key) => this.#addOn(key)?.usageLimitsExtensions ?? {});
    if (others.some((values) => Object.hasOwn(values, limit) && (values[limit] ?? 0) < 0)) return false;
    return group.features.every((feature) =>
      MODES.every((mode) => {
        const facts = this.#after.expressions.get(feature)?.[mode];
        if (facts === undefined || !facts.limits.includes(limit)) return true;
        // A different expression may need more than the previous limit. Values above UNLIMITED compare as equal, but an
        // expression that uses a fraction of the limit can still distinguish them.
        const sameText = this.#current.side.expressions.get(feature)?.[mode]?.shape === facts.shape;
        const had = this.#current.grant.usageLimits.get(limit);
        return sameText && facts.caps.includes(limit) && !(typeof had === "number" && had > UNLIMITED);
      }),
    );
  }
}

function unique(quantities: readonly number[]): number[] {
  return [...new Set(quantities)].sort((one, other) => one - other);
}
