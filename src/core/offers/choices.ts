import type { Configuration } from "../change/configuration.ts";
import { entitlementsOf } from "../change/entitlements.ts";
import type { Side } from "../change/entitlements.ts";
import type { CompiledPricing } from "../pricing/compile.ts";
import type { AddOn, Plan } from "../pricing/model.ts";
import { allowsQuantity, checkSubscription, wholeConstraintsOf } from "../pricing/subscription.ts";
import { changesOf } from "./changes.ts";

/*
 * Configurations that a user buys by choosing an item of a price page. Source: contract offers §3, `select`.
 */

export type Scenario = "current" | "contact" | "upgrade" | "downgrade" | "switch";

/** The subscription of the user for whom a page is made. */
export interface Held {
  readonly side: Side;
  readonly configuration: Configuration;
  /** True if the page shows the version that the user has. */
  readonly isShown: boolean;
}

const lower = (names: readonly string[]): Set<string> => new Set(names.map((name) => name.toLowerCase()));

/** Returns true if the contract has this plan on the version that the page shows. */
export function isHeldPlan(plan: Plan, held: Held | undefined): boolean {
  return held?.isShown === true && held.configuration.plan?.toLowerCase() === plan.name.toLowerCase();
}

/** Keys of the add-ons with their quantities. */
function quantitiesOf({ addOns }: Configuration): Map<string, number> {
  const entries = Object.entries(addOns).map(([name, quantity]) => [name.toLowerCase(), quantity] as const);
  return new Map(entries.filter(([, quantity]) => quantity > 0));
}

/** Returns the units of an add-on that the contract has. */
export function heldUnits(addOn: AddOn, held: Held | undefined): number {
  return held === undefined ? 0 : (quantitiesOf(held.configuration).get(addOn.name.toLowerCase()) ?? 0);
}

/** Returns the smallest valid quantity. */
function smallestQuantity(addOn: AddOn): number {
  const { minQuantity, quantityStep } = wholeConstraintsOf(addOn);
  return minQuantity > 0 ? minQuantity : minQuantity + quantityStep;
}

const named = ({ addOns }: CompiledPricing, chosen: ReadonlyMap<string, number>): Record<string, number> =>
  Object.fromEntries([...addOns].flatMap(([key, { name }]) => (chosen.has(key) ? [[name, chosen.get(key) ?? 0]] : [])));

/**
 * Returns what choosing a plan means: the plan with those add-ons of the contract that fit it. `isShown` selects the
 * add-ons that the page shows.
 */
export function choosePlan(
  pricing: CompiledPricing,
  plan: Plan,
  held: Held | undefined,
  isShown: (addOn: AddOn) => boolean,
): Configuration {
  if (held === undefined) return { plan: plan.name, addOns: {} };
  const quantities = quantitiesOf(held.configuration);
  if (isHeldPlan(plan, held)) return { plan: plan.name, addOns: named(pricing, quantities) };
  const fits = (addOn: AddOn | undefined, quantity: number): boolean =>
    addOn !== undefined &&
    isShown(addOn) &&
    lower(addOn.availableFor).has(plan.name.toLowerCase()) &&
    allowsQuantity(addOn, quantity);
  const kept = new Map([...quantities].filter(([key, quantity]) => fits(pricing.addOns.get(key), quantity)));
  for (let size = -1; size !== kept.size;) {
    size = kept.size;
    for (const [key, addOn] of pricing.addOns)
      if (kept.has(key) && ![...lower(addOn.dependsOn)].every((needed) => kept.has(needed))) kept.delete(key);
    dropExcluded(pricing, kept);
  }
  return { plan: plan.name, addOns: named(pricing, kept) };
}

/** Of two add-ons that exclude each other, removes the later one of the pricing. */
function dropExcluded({ addOns }: CompiledPricing, kept: Map<string, number>): void {
  const inOrder = [...addOns].filter(([key]) => kept.has(key));
  for (const [index, [key, addOn]] of inOrder.entries())
    for (const [earlierKey, earlier] of inOrder.slice(0, index)) {
      if (!kept.has(earlierKey)) continue;
      if (lower(addOn.excludes).has(earlierKey) || lower(earlier.excludes).has(key)) kept.delete(key);
    }
}

/**
 * Returns what choosing an add-on means: one more step of it for a contract on the shown version, with what it depends
 * on. Undefined where the rules of the pricing refuse that.
 */
export function chooseAddOn(
  { pricing: compiled, serviceName }: Side,
  addOn: AddOn,
  held: Held | undefined,
): Configuration | undefined {
  const { pricing, addOns } = compiled;
  const isMine = held?.isShown === true;
  if (!isMine && pricing.plans.length > 0) return undefined;
  const chosen = isMine ? quantitiesOf(held.configuration) : new Map<string, number>();
  const units = chosen.get(addOn.name.toLowerCase());
  const extendsNothing = Object.values(addOn.usageLimitsExtensions).every((value) => value === 0);
  if (units === undefined) chosen.set(addOn.name.toLowerCase(), smallestQuantity(addOn));
  else if (!extendsNothing) chosen.set(addOn.name.toLowerCase(), units + wholeConstraintsOf(addOn).quantityStep);
  // Iterating a map includes the keys that the loop adds.
  for (const [key] of chosen)
    for (const needed of lower(addOns.get(key)?.dependsOn ?? [])) {
      const other = addOns.get(needed);
      if (!chosen.has(needed) && other !== undefined) chosen.set(needed, smallestQuantity(other));
    }
  const plan = isMine ? held.configuration.plan : undefined;
  const configuration = { ...(plan === undefined ? {} : { plan }), addOns: named(compiled, chosen) };
  return checkSubscription(compiled, { serviceName, version: pricing.version, ...configuration }).ok
    ? configuration
    : undefined;
}

/** Names what choosing a plan is for the user. Source: contract offers §3, `scenario`. */
export function scenarioOf(side: Side, plan: Plan, select: Configuration, held: Held | undefined): Scenario {
  if (isHeldPlan(plan, held)) return "current";
  if (typeof plan.price === "string") return "contact";
  if (held === undefined) return "upgrade";
  const { gains, losses } = changesOf(entitlementsOf(held.side, held.configuration), entitlementsOf(side, select));
  if (gains.length > 0 && losses.length === 0) return "upgrade";
  return losses.length > 0 && gains.length === 0 ? "downgrade" : "switch";
}
