import { isBelowOneSecond } from "../../period.ts";
import { PERIOD_UNITS } from "../model.ts";
import type { LimitType, LimitValue, Period, PeriodUnit, UsageLimit } from "../model.ts";
import { LIMIT_TYPES } from "../model.ts";
import { hasValueFields, readRender, readValues, readValueType } from "./feature.ts";
import { nameFault, oneOf, readDescription, readUnit } from "./value.ts";
import type { NamedItem } from "./value.ts";
import type { Section } from "./problems.ts";
import { isList, isMap, shown, isNested } from "./tree.ts";

const UNITS_IN_WORDS = PERIOD_UNITS.map((unit) => `"${unit}"`).join(" | ");

function readType(section: Section): LimitType | undefined {
  const value = section.value("type");
  if (value === null) {
    section.fail(
      "type",
      "The type field of a usage limit must not be null or undefined. Please ensure that the type field is present and it's value correspond to either RENEWABLE or NON_RENEWABLE",
    );
    return undefined;
  }
  const known = typeof value === "string" ? oneOf(LIMIT_TYPES, value) : undefined;
  if (known === undefined)
    section.fail(
      "type",
      `The type field of a usage limit must be one of RENEWABLE or NON_RENEWABLE. Received: ${shown(value).toUpperCase()}`,
    );
  return known;
}

function readPeriodUnit(section: Section): PeriodUnit {
  const value = section.value("unit");
  if (value === null) return "MONTH";
  if (typeof value !== "string") {
    section.fail(
      "unit",
      `The periodUnit field must be one of the following string values: ${UNITS_IN_WORDS}. Received: ${shown(value)}`,
    );
    return "MONTH";
  }
  const known = oneOf(PERIOD_UNITS, value);
  if (known === undefined)
    section.fail("unit", `The periodUnit field must be one of ${UNITS_IN_WORDS}. Received: ${value.toUpperCase()}`);
  return known ?? "MONTH";
}

function readPeriodValue(section: Section): number {
  const value = section.value("value");
  if (value === null) return 1;
  if (typeof value !== "number" || Number.isNaN(value))
    section.fail("value", `The periodValue field must be a number. Received: ${shown(value)}`);
  // Reject Infinity: the date of the next reset would not be representable.
  else if (value <= 0 || value === Infinity)
    section.fail("value", `The periodValue field must be a positive number. Received: ${value}`);
  else return value;
  return 1;
}

/** Reads `period`, with a default for each part. Undefined when absent or invalid. */
function readPeriod(section: Section): Period | undefined {
  const value = section.value("period");
  if (value === null) return undefined;
  const entry = section.map.entries.get("period");
  if (isMap(value) && entry !== undefined) {
    const below = section.below(value, "period", entry.at);
    const unit = readPeriodUnit(below);
    const period = { value: readPeriodValue(below), unit };
    if (isBelowOneSecond(period))
      below.fail("value", `The period of a usage limit must be at least one second. Received: ${period.value} ${unit}`);
    return period;
  }
  section.fail("period", `The periodValue field must be a number. Received: ${shown(value)}`, 2);
  return undefined;
}

function readTrackable(section: Section): boolean {
  const value = section.value("trackable");
  if (value === null || typeof value === "boolean") return value ?? false;
  if (typeof value === "string") return value.toLowerCase() === "true";
  section.fail("trackable", `The trackable field must be a boolean. Received: ${shown(value)}`);
  return false;
}

function readLinkedFeatures(section: Section, features: ReadonlySet<string>): readonly string[] | undefined {
  const value = section.value("linkedFeatures");
  if (value === null) return undefined;
  if (!isList(value)) {
    section.fail(
      "linkedFeatures",
      `The linkedFeatures field of a usage limit must be an array of feature names. Received: ${shown(value)}`,
    );
    return undefined;
  }
  return value.items.map((item, index) => {
    const feature = shown(item.value);
    if (!features.has(feature) || isNested(item.value) || item.value === null)
      section.failAt(
        `linkedFeatures.${index}`,
        item.at,
        `The feature ${feature}, declared as a linked feature for an usage limit, is not defined in the global features`,
      );
    return feature;
  });
}

/**
 * Reads one usage limit, with the checks in the order of the reference implementation. `features` are the names that
 * `linkedFeatures` may contain.
 */
export function readUsageLimit(
  section: Section,
  { name, given }: NamedItem,
  features: ReadonlySet<string>,
): UsageLimit | undefined {
  const fault = hasValueFields(section)
    ? nameFault("Usage Limit", given)
    : "The usage limit must be an object of type UsageLimit";
  if (fault !== undefined) {
    section.fail("", fault);
    return undefined;
  }
  const description = readDescription(section);
  const valueType = readValueType(section);
  if (valueType === "TEXT") {
    section.fail(
      "valueType",
      "The valueType field of a usage limit must be either BOOLEAN or NUMERIC. Received: TEXT",
      // The reference implementation detects this last, when it stores the pricing.
      2,
    );
    return undefined;
  }
  const shape = { owner: "usage limit", valueType: valueType ?? "NUMERIC", payment: false } as const;
  const values = valueType === undefined ? { defaultValue: 0 } : readValues(section, shape);
  const unit = readUnit(section);
  const type = readType(section);
  const period = readPeriod(section);
  const trackable = type !== "RENEWABLE" && readTrackable(section);
  const linkedFeatures = readLinkedFeatures(section, features);
  const render = readRender(section);
  const renews: Period | undefined = type === "RENEWABLE" ? (period ?? { value: 1, unit: "MONTH" }) : period;
  return {
    name,
    ...description,
    valueType: valueType === "BOOLEAN" ? "BOOLEAN" : "NUMERIC",
    defaultValue: asLimit(values.defaultValue),
    ...(values.value === undefined ? {} : { value: asLimit(values.value) }),
    unit,
    type: type ?? "NON_RENEWABLE",
    trackable,
    ...(renews === undefined ? {} : { period: renews }),
    ...(linkedFeatures === undefined ? {} : { linkedFeatures }),
    render,
  };
}

/** Narrows the value of a limit. Texts occur only in rejected limits. */
function asLimit(value: unknown): LimitValue {
  return typeof value === "boolean" || typeof value === "number" ? value : 0;
}
