import { evaluateFormula } from "../language/formula.ts";
import { emptyRecord, UNLIMITED } from "../model.ts";
import type { Feature, FeatureValue, JsonValue, LimitValue, Plan, UsageLimit } from "../model.ts";
import { nameFault, readDescription, readLimitValue, readUnit, readValue } from "./value.ts";
import type { NamedItem, ValueShape } from "./value.ts";
import type { Section } from "./problems.ts";
import { isMap, shown } from "./tree.ts";
import type { TreeMap } from "./tree.ts";

/**
 * Definitions that plans and add-ons refer to. The sets also contain rejected names, so that one mistake yields one
 * problem.
 */
export interface Catalogue {
  readonly features: ReadonlyMap<string, Feature>;
  readonly usageLimits: ReadonlyMap<string, UsageLimit>;
  readonly featureNames: ReadonlySet<string>;
  readonly limitNames: ReadonlySet<string>;
  readonly variables: Readonly<Record<string, JsonValue>>;
}

/** Replaces Infinity, which JSON cannot represent. */
function finite(price: number): number {
  return price === Infinity ? UNLIMITED : price;
}

/** Reads the `price` of a plan or add-on: a number, a text, or the result of a formula. Source: pricing2yaml.md §8. */
export function readPrice(section: Section, variables: Readonly<Record<string, JsonValue>>): number | string {
  const value = section.value("price");
  if (value === null) {
    section.fail(
      "price",
      "The price field must not be null or undefined. Please ensure that the price field is present and it's a number",
    );
  } else if (typeof value === "number" && !Number.isNaN(value)) {
    if (value >= 0) return finite(value);
    section.fail("price", `The price field must be a positive number. Received: ${value} `);
  } else if (typeof value !== "string") {
    section.fail(
      "price",
      `The price field must be a number or a string (which can contain a formula). Received: ${shown(value)}`,
    );
  } else if (value.includes("#")) {
    const result = evaluateFormula(value, variables);
    if ("price" in result) return result.price;
    section.fail("price", result.message);
  } else {
    return /^\d+(?:\.\d+)?$/.test(value) ? finite(Number(value)) : value;
  }
  return 0;
}

export function readPrivate(section: Section): boolean {
  const value = section.value("private");
  if (value === null || typeof value === "boolean") return value ?? false;
  section.fail("private", `The private field must be a boolean. Received: ${shown(value)}`);
  return false;
}

/** Reads the mapping of overrides under `key`; undefined when absent or invalid. */
export function readOverrides(section: Section, key: string): TreeMap | undefined {
  const value = section.value(key);
  if (value === null) return undefined;
  if (isMap(value)) return value;
  section.fail(key, `The ${key} field must be a map of values by name. Received: ${shown(value)}`);
  return undefined;
}

export function featureShape(feature: Feature): ValueShape {
  return { owner: "feature", valueType: feature.valueType, payment: Array.isArray(feature.defaultValue) };
}

export function limitShape(limit: UsageLimit): ValueShape {
  return { owner: "usage limit", valueType: limit.valueType, payment: false };
}

function readPlanFeatures(section: Section, plan: string, catalogue: Catalogue): Record<string, FeatureValue> {
  const values = emptyRecord<FeatureValue>();
  for (const [name, feature] of catalogue.features) values[name] = feature.value ?? feature.defaultValue;
  const overrides = readOverrides(section, "features");
  if (overrides === undefined) return values;
  for (const [name, entry] of overrides.entries) {
    const prefix = `Error while parsing the feature ${name} of the plan ${plan}. Error: `;
    const feature = catalogue.features.get(name);
    if (feature === undefined) {
      if (!catalogue.featureNames.has(name))
        section.failAt(`features.${name}`, entry.at, `${prefix}Feature ${name} is not defined in the global features.`);
    } else if (isMap(entry.value)) {
      const override = section.below(entry.value, `features.${name}`, entry.at, prefix);
      values[name] =
        override.value("value") === null ? feature.defaultValue : readValue(override, "value", featureShape(feature));
    }
  }
  return values;
}

function readPlanLimits(section: Section, plan: string, catalogue: Catalogue): Record<string, LimitValue> {
  const values = emptyRecord<LimitValue>();
  for (const [name, limit] of catalogue.usageLimits) values[name] = limit.value ?? limit.defaultValue;
  const overrides = readOverrides(section, "usageLimits");
  if (overrides === undefined) return values;
  for (const [name, entry] of overrides.entries) {
    const prefix = `Error while parsing the usage limit ${name} of the plan ${plan}. Error: `;
    const limit = catalogue.usageLimits.get(name);
    if (limit === undefined) {
      if (!catalogue.limitNames.has(name))
        section.failAt(
          `usageLimits.${name}`,
          entry.at,
          `${prefix}Usage limit ${name} is not defined in the global usage limits.`,
        );
    } else if (isMap(entry.value)) {
      const override = section.below(entry.value, `usageLimits.${name}`, entry.at, prefix);
      values[name] =
        override.value("value") === null ? limit.defaultValue : readLimitValue(override, "value", limitShape(limit));
    }
  }
  return values;
}

/**
 * Reads one plan with its effective values, with the checks in the order of the reference implementation. An override
 * is a mapping with `value`. A bare scalar changes nothing; a mapping without `value` restores the default. Source:
 * pricing2yaml.md §6.
 */
export function readPlan(section: Section, { name, given }: NamedItem, catalogue: Catalogue): Plan | undefined {
  const fault = section.map.entries.has("features")
    ? nameFault("Plan", given)
    : "The plan must be an object of type Plan";
  if (fault !== undefined) {
    section.fail("", fault);
    return undefined;
  }
  return {
    name,
    ...readDescription(section),
    price: readPrice(section, catalogue.variables),
    unit: readUnit(section),
    private: readPrivate(section),
    features: readPlanFeatures(section, name, catalogue),
    usageLimits: readPlanLimits(section, name, catalogue),
  };
}
