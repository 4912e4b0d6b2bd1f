import { compareAccess } from "../access.ts";
import { MODES, newCapEffect } from "../compare.ts";
import { configurationOf, type Configuration } from "../configuration.ts";
import { memoizeEntitlements, type Entitlements, type Side } from "../entitlements.ts";
import { Space } from "../space.ts";
import type { Steps } from "../../steps.ts";
import { addOnsOfFeature, addOnsOfLimit } from "../add-on-index.ts";

/** Subjects that only one pricing has. Builds the pricing's space lazily, once. */
export class OneSidedGrants {
  readonly #side: Side;
  readonly #other: Side;
  #space: Space | undefined;
  #holdings:
    | [(configuration: Configuration) => Entitlements, (configuration: Configuration) => Entitlements]
    | undefined;

  constructor(side: Side, other: Side) {
    this.#side = side;
    this.#other = other;
  }

  /** Returns true if any plan or add-on grants anything of a feature or limit that the other pricing lacks. */
  *isWorth(subject: "feature" | "usageLimit", name: string, isOver: () => boolean): Steps<boolean> {
    const space = (this.#space ??= new Space([this.#side]));
    const [holding, none] = (this.#holdings ??= [memoizeEntitlements(this.#side), memoizeEntitlements(this.#other)]);
    const keys = subject === "feature" ? addOnsOfFeature(this.#side, name) : addOnsOfLimit(this.#side, name);
    for (const plan of space.plans)
      for (const { whole } of space.selections(plan, keys).list) {
        if (isOver()) return false;
        const configuration = configurationOf(plan, whole);
        const held = holding(configuration);
        if (subject === "usageLimit") {
          if (newCapEffect(none(configuration), held, name) === "less") return true;
        } else if (
          MODES.some((mode) => compareAccess(none(configuration), held, name, mode).after) ||
          isTruthy(held, name)
        )
          return true;
        yield;
      }
    return false;
  }
}

function isTruthy({ grant, side }: Entitlements, name: string): boolean {
  const value = grant.features.get(name);
  return side.expressions.get(name)?.server === undefined && value !== undefined && value !== false;
}
