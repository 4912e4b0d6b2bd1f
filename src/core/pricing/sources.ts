import { sum } from "../exact.ts";
import { type CompiledPricing, findPlan } from "./compile.ts";
import type { LimitValue } from "./model.ts";
import { isApplicable, type Override, withOverrides } from "./overrides.ts";
import { activeAddOns } from "./subscription.ts";

/**
 * One step of a limit's value. From left to right a step with `value` sets it and one with `adds` adds to it. Source:
 * contract usage-records §7.
 */
export type LimitStep =
  | { readonly from: "plan"; readonly name: string; readonly value: LimitValue }
  | { readonly from: "default"; readonly value: LimitValue }
  | { readonly from: "addOn"; readonly name: string; readonly quantity: number; readonly value: LimitValue }
  | { readonly from: "addOn"; readonly name: string; readonly quantity: number; readonly adds: number }
  | { readonly from: "override"; readonly value: LimitValue }
  | { readonly from: "override"; readonly adds: number }
  | { readonly from: "blocks"; readonly adds: number };

/** The subscription to one service that grants a limit. */
export interface GrantedBy {
  readonly pricing: CompiledPricing;
  readonly plan: string | null;
  readonly addOns: Readonly<Record<string, number>> | null;
  /** The overrides that hold. */
  readonly overrides: readonly Override[];
}

/** Returns the steps that make the value of a usage limit, in the order in which they apply; none if it has no value. */
export function limitSteps({ pricing, plan, addOns, overrides }: GrantedBy, name: string): LimitStep[] {
  const steps: LimitStep[] = [];
  const defaultValue = pricing.usageLimits.get(name)?.defaultValue ?? 0;
  let value: LimitValue | undefined;
  const set = (step: Extract<LimitStep, { value: LimitValue }>) => {
    steps.push(step);
    value = step.value;
  };
  const base = plan === null ? undefined : findPlan(pricing, plan);
  if (base !== undefined) {
    const own = Object.hasOwn(base.usageLimits, name) ? base.usageLimits[name] : undefined;
    set({ from: "plan", name: base.name, value: own ?? defaultValue });
  }
  const active = activeAddOns(pricing, addOns ?? {});
  for (const { addOn, quantity } of active) {
    const replaced = Object.hasOwn(addOn.usageLimits, name) ? addOn.usageLimits[name] : undefined;
    if (replaced !== undefined) set({ from: "addOn", name: addOn.name, quantity, value: replaced });
  }
  for (const { addOn, quantity } of active) {
    if (!Object.hasOwn(addOn.usageLimitsExtensions, name)) continue;
    if (value === undefined) set({ from: "default", value: defaultValue });
    if (typeof value !== "number") continue;
    const adds = (addOn.usageLimitsExtensions[name] ?? 0) * quantity;
    steps.push({ from: "addOn", name: addOn.name, quantity, adds });
    value += adds;
  }
  for (const override of overrides) {
    if (override.kind !== "usageLimits" || override.name !== name || !isApplicable(pricing, override)) continue;
    if (override.mode === "set") set({ from: "override", value: override.value as LimitValue });
    else {
      if (value === undefined) set({ from: "default", value: defaultValue });
      steps.push({ from: "override", adds: addedBy(pricing, override, Number(value)) });
    }
  }
  return steps;
}

/** Returns the amount that an override of mode `add` really adds: the sum stays between 0 and unlimited. */
function addedBy(pricing: CompiledPricing, override: Override, base: number): number {
  const granted = { features: new Map(), usageLimits: new Map([[override.name, base]]) };
  const after = withOverrides(pricing, granted, [override]).usageLimits.get(override.name);
  return sum(Number(after), -base);
}
