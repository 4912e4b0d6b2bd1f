import type { CompiledPricing } from "./compile.ts";
import { type Feature, type FeatureValue, PAYMENT_METHODS, UNLIMITED, type UsageLimit } from "./model.ts";
import { type Grant, inOrderOf } from "./subscription.ts";

/*
 * Overrides: exceptions of one contract to what its plan and add-ons grant. Each sets or adds to the value of one feature or
 * usage limit, before any expression reads it. Source: contract custom-terms §3.
 */

export const OVERRIDE_KINDS = ["features", "usageLimits"] as const;
export type OverrideKind = (typeof OVERRIDE_KINDS)[number];

export const OVERRIDE_MODES = ["set", "add"] as const;
export type OverrideMode = (typeof OVERRIDE_MODES)[number];

/** The value that an override gives an element of one service. `add` is for numeric usage limits. */
export interface Override {
  readonly kind: OverrideKind;
  readonly name: string;
  readonly mode: OverrideMode;
  readonly value: FeatureValue;
}

/** An override that holds from `from` until just before `until`; null: forever. */
export interface TimedOverride extends Override {
  readonly from: Date;
  readonly until: Date | null;
}

export const OVERRIDE_STATES = ["active", "inapplicable", "upcoming", "ended"] as const;
export type OverrideState = (typeof OVERRIDE_STATES)[number];

/** A feature or usage limit that a pricing declares. */
export type PricingElement = Feature | UsageLimit;

export function findElement(
  { pricing }: CompiledPricing,
  { kind, name }: Pick<Override, "kind" | "name">,
): PricingElement | undefined {
  return pricing[kind].find((element) => element.name === name);
}

/** The JSON types of an element's values. */
type ElementType = "boolean" | "number" | "string" | "list";

const typeOfValue = (value: FeatureValue): ElementType =>
  typeof value === "object" ? "list" : (typeof value as "boolean" | "number" | "string");

const typeOf = ({ defaultValue }: PricingElement): ElementType => typeOfValue(defaultValue);

/** Returns true if the pricing has an element of the override's name and type. */
export function isApplicable(pricing: CompiledPricing, override: Override): boolean {
  const element = findElement(pricing, override);
  return element !== undefined && typeOf(element) === typeOfValue(override.value);
}

/** Returns true if the override holds at that moment. */
export function holdsAt({ from, until }: Pick<TimedOverride, "from" | "until">, at: Date): boolean {
  return from.getTime() <= at.getTime() && !hasEnded({ until }, at);
}

/** Returns true if the override no longer holds at that moment, and never will again. */
export function hasEnded({ until }: Pick<TimedOverride, "until">, at: Date): boolean {
  return until !== null && until.getTime() <= at.getTime();
}

/** Returns the override's state at that moment, on a contract with this pricing. */
export function stateOf(pricing: CompiledPricing, override: TimedOverride, at: Date): OverrideState {
  if (hasEnded(override, at)) return "ended";
  if (!isApplicable(pricing, override)) return "inapplicable";
  return override.from.getTime() > at.getTime() ? "upcoming" : "active";
}

const EXPECTED: Readonly<Record<ElementType, string>> = {
  boolean: "a boolean",
  number: "a number",
  string: "a text",
  list: "a list of payment methods",
};

/**
 * Returns why the element cannot have this override; undefined if it can. `value` is a boolean, a finite number, a text
 * or a list of texts.
 */
export function refuseOverride(element: PricingElement, { kind, name, mode, value }: Override): string | undefined {
  const type = typeOf(element);
  const isNumericLimit = kind === "usageLimits" && type === "number";
  if (mode === "add" && !isNumericLimit) return "Mode add is for numeric usage limits";
  const noun = kind === "features" ? "feature" : "usage limit";
  const refused = (what: string) => `The value of ${noun} ${name} must be ${what}`;
  if (mode === "add") {
    const fits = typeof value === "number" && Math.abs(value) <= UNLIMITED;
    return fits ? undefined : refused(`a number between ${-UNLIMITED} and ${UNLIMITED}`);
  }
  if (isNumericLimit) return typeof value === "number" && value >= 0 ? undefined : refused("a number of at least 0");
  const isOfType = typeOfValue(value) === type;
  return isOfType && (typeof value !== "object" || value.every(isPaymentMethod)) ? undefined : refused(EXPECTED[type]);
}

const isPaymentMethod = (text: string) => (PAYMENT_METHODS as readonly string[]).includes(text);

/** Returns the value as it is stored: larger numbers than "unlimited" become that. */
export function storedValue(value: FeatureValue): FeatureValue {
  return typeof value === "number" ? Math.min(value, UNLIMITED) : value;
}

/**
 * Applies overrides to granted values: after replacements and extensions by add-ons. Ignores overrides that do not apply
 * to the pricing. An element that only an override brings stands at its place in the file.
 */
export function withOverrides(pricing: CompiledPricing, grant: Grant, overrides: readonly Override[]): Grant {
  const applicable = overrides.filter((override) => isApplicable(pricing, override));
  if (applicable.length === 0) return grant;
  const features = new Map(grant.features);
  const usageLimits = new Map(grant.usageLimits);
  for (const { kind, name, mode, value } of applicable) {
    if (kind === "features") features.set(name, value);
    else if (mode === "add") {
      const base = usageLimits.get(name) ?? pricing.usageLimits.get(name)?.defaultValue ?? 0;
      usageLimits.set(name, increased(Number(base), Number(value)));
    } else usageLimits.set(name, value as number | boolean);
  }
  return {
    features: inOrderOf(pricing.pricing.features, features),
    usageLimits: inOrderOf(pricing.pricing.usageLimits, usageLimits),
  };
}

/** Adds within 0 and "unlimited", without binary rounding noise. */
function increased(base: number, by: number): number {
  if (base >= UNLIMITED) return base;
  return Math.min(UNLIMITED, Math.max(0, Number((base + by).toPrecision(15))));
}
