import {
  compareHoldings,
  type FeatureComparison,
  type HoldingComparison,
  type LimitComparison,
} from "../core/change/compare.ts";
import { configurationOf } from "../core/change/configuration.ts";
import type { Effect } from "../core/change/effect.ts";
import {
  createSide,
  type Entitlements,
  entitlementsOf,
  type Side,
  withOverridesOf,
} from "../core/change/entitlements.ts";
import type { CompiledPricing } from "../core/pricing/compile.ts";
import type { FeatureValue, LimitValue } from "../core/pricing/model.ts";
import type { Choice } from "./pricing.ts";

/** One feature or limit that differs between two subscriptions. */
export interface Difference {
  name: string;
  kind: "feature" | "limit";
  before: FeatureValue | LimitValue | null;
  after: FeatureValue | LimitValue | null;
  effect: Exclude<Effect, "same">;
}

const ORDER = { less: 0, different: 1, more: 2 } as const;

/** Lists the differences of a comparison, losses first because they matter most. */
export function differencesOf({ features, limits }: HoldingComparison): Difference[] {
  const all = [
    ...features.map((each: FeatureComparison) => ({ ...each, name: each.feature, kind: "feature" as const })),
    ...limits.map((each: LimitComparison) => ({ ...each, name: each.limit, kind: "limit" as const })),
  ];
  return all
    .flatMap(({ name, kind, before, after, effect }) =>
      effect === "same" ? [] : [{ name, kind, before, after, effect }],
    )
    .sort((one, other) => ORDER[one.effect] - ORDER[other.effect]);
}

/** A pricing with one chosen configuration. */
export interface Chosen {
  pricing: CompiledPricing;
  choice: Choice;
}

const sides = new WeakMap<CompiledPricing, Side>();

function sideOf(pricing: CompiledPricing): Side {
  const side = sides.get(pricing) ?? createSide(pricing);
  sides.set(pricing, side);
  return side;
}

function held({ pricing, choice }: Chosen): Entitlements {
  const side = withOverridesOf(sideOf(pricing), choice.overrides ?? []);
  return entitlementsOf(side, configurationOf(choice.plan, choice.addOns));
}

/** Compares two configurations of one service; undefined stands for "not contracted". */
export function differencesBetween(before: Chosen | undefined, after: Chosen | undefined): Difference[] {
  const any = before ?? after;
  if (any === undefined) return [];
  const nothing = { pricing: any.pricing, choice: { plan: undefined, addOns: {} } };
  return differencesOf(compareHoldings(held(before ?? nothing), held(after ?? nothing)));
}
