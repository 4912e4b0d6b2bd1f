import { isMultipleOf } from "../../exact.ts";
import { emptyRecord, UNLIMITED } from "../model.ts";
import type { AddOn, FeatureValue, LimitValue, SubscriptionConstraints } from "../model.ts";
import { featureShape, limitShape, readOverrides, readPrice, readPrivate } from "./plan.ts";
import type { Catalogue } from "./plan.ts";
import { nameFault, readDescription, readLimitValue, readUnit, readValue } from "./value.ts";
import type { NamedItem } from "./value.ts";
import type { Section } from "./problems.ts";
import { isList, isMap, shown, isNested } from "./tree.ts";

/** A reference to another add-on. Checked after all add-ons have been read. */
export interface PendingName {
  readonly section: Section;
  readonly field: "dependsOn" | "excludes";
  readonly name: string;
  /** True for a list or map, which is no name even if its text is. */
  readonly isNested: boolean;
  readonly index: number;
  readonly at: number;
}

function readAvailableFor(
  section: Section,
  plans: ReadonlySet<string>,
  everyPlan: readonly string[],
): readonly string[] {
  const value = section.value("availableFor");
  if (value === null) return everyPlan;
  if (!isList(value)) {
    section.fail(
      "availableFor",
      `The availableFor field must be an array of the plan names for which the addon can be contracted. Received: ${shown(value)}`,
    );
    return [];
  }
  return value.items.map((item, index) => {
    const plan = shown(item.value);
    if (!plans.has(plan) || isNested(item.value))
      section.failAt(`availableFor.${index}`, item.at, `The plan ${plan} is not defined in the pricing.`);
    return plan;
  });
}

function readAddOnNames(section: Section, field: "dependsOn" | "excludes", pending: PendingName[]): readonly string[] {
  const value = section.value(field);
  if (value === null) return [];
  if (!isList(value)) {
    section.fail(
      field,
      `The ${field} field must be an array of the addons required to contract the addon. Received: ${shown(value)}`,
    );
    return [];
  }
  for (const [index, item] of value.items.entries())
    pending.push({ section, field, name: shown(item.value), isNested: isNested(item.value), index, at: item.at });
  return value.items.map((item) => shown(item.value));
}

function readFeatures(section: Section, addOn: string, catalogue: Catalogue): Record<string, FeatureValue> {
  const values = emptyRecord<FeatureValue>();
  for (const [name, entry] of readOverrides(section, "features")?.entries ?? []) {
    // The reference implementation says "plan" here too.
    const prefix = `Error while parsing the feature ${name} of the plan ${addOn}. Error: `;
    const feature = catalogue.features.get(name);
    if (feature === undefined) {
      if (!catalogue.featureNames.has(name))
        section.failAt(`features.${name}`, entry.at, `${prefix}Feature ${name} is not defined in the global features.`);
    } else if (isMap(entry.value)) {
      const override = section.below(entry.value, `features.${name}`, entry.at, prefix);
      if (override.value("value") !== null) values[name] = readValue(override, "value", featureShape(feature));
    }
  }
  return values;
}

function readLimits(
  section: Section,
  addOn: string,
  field: "usageLimits" | "usageLimitsExtensions",
  catalogue: Catalogue,
): Record<string, LimitValue> {
  const values = emptyRecord<LimitValue>();
  for (const [name, entry] of readOverrides(section, field)?.entries ?? []) {
    const prefix = `Error while parsing the usage limit ${name} of the add-on ${addOn}. Error: `;
    const limit = catalogue.usageLimits.get(name);
    const override = isMap(entry.value) ? section.below(entry.value, `${field}.${name}`, entry.at, prefix) : undefined;
    if (limit === undefined) {
      if (!catalogue.limitNames.has(name))
        section.failAt(
          `${field}.${name}`,
          entry.at,
          `${prefix}Usage limit ${name} is not defined in the global usage limits.`,
        );
    } else if (override === undefined || override.value("value") === null) {
      section.failAt(
        `${field}.${name}`,
        entry.at,
        `${prefix}When declaring a new value for an usage limit or a usage limit extension within an add-on, it must be provided through the 'value' field`,
      );
    } else if (field === "usageLimitsExtensions") {
      // Only numbers can be extended, so reject an extension of a BOOLEAN limit.
      if (limit.valueType === "NUMERIC" || override.value("value") === null)
        values[name] = readLimitValue(override, "value", limitShape(limit));
      else
        override.fail(
          "value",
          `The value field of a usage limit must be a number when its valueType is NUMERIC. Received: ${shown(override.value("value"))}`,
        );
    } else {
      values[name] = readLimitValue(override, "value", limitShape(limit));
    }
  }
  return values;
}

function readQuantity(section: Section, key: string, fallback: number): number {
  const value = section.value(key);
  if (value === null) return fallback;
  if (typeof value === "number" && !Number.isNaN(value)) return value;
  const field = `subscriptionConstraint${key.slice(0, 1).toUpperCase()}${key.slice(1)}`;
  section.fail(key, `The ${field} field must be a number. Received: ${shown(value)}`);
  return fallback;
}

/** Reads the quantities. `unlimited` is the default of `maxQuantity`. Source: pricing2yaml.md §7. */
function readConstraints(section: Section, unlimited: number): SubscriptionConstraints {
  const minQuantity = readQuantity(section, "minQuantity", 1);
  if (minQuantity < 0 || minQuantity === Infinity)
    section.fail(
      "minQuantity",
      `The subscriptionConstraintMinQuantity field must be a positive number. Received: ${minQuantity}`,
    );
  const maxQuantity = readQuantity(section, "maxQuantity", unlimited);
  if (maxQuantity < minQuantity)
    section.fail(
      "maxQuantity",
      `The subscriptionConstraintMaxQuantity field must be greater than or equal to the min quantity. Received: ${maxQuantity}`,
    );
  const quantityStep = readQuantity(section, "quantityStep", 1);
  if (!(quantityStep > 0) || !isMultipleOf(minQuantity, quantityStep))
    section.fail(
      "quantityStep",
      `The subscriptionConstraintQuantityStep field must be a divisor of, at least, the min quantity. Received: ${quantityStep}`,
    );
  return { minQuantity, maxQuantity: maxQuantity === Infinity ? null : maxQuantity, quantityStep };
}

function readSubscriptionConstraints(section: Section, scalable: boolean): SubscriptionConstraints | undefined {
  const value = section.value("subscriptionConstraints");
  const entry = section.map.entries.get("subscriptionConstraints");
  if (isMap(value) && entry !== undefined)
    return readConstraints(section.below(value, "subscriptionConstraints", entry.at), scalable ? UNLIMITED : Infinity);
  if (value !== null)
    section.fail(
      "subscriptionConstraints",
      `The subscriptionConstraintMinQuantity field must be a number. Received: ${shown(value)}`,
    );
  return scalable ? { minQuantity: 1, maxQuantity: UNLIMITED, quantityStep: 1 } : undefined;
}

/** Returns the number of entries of a mapping; 0 for any other value. */
function sizeOf(section: Section, key: string): number {
  const value = section.value(key);
  return isMap(value) ? value.entries.size : 0;
}

/**
 * Reads one add-on, with the checks in the order of the reference implementation. Appends the names in `dependsOn` and
 * `excludes` to `pending`. Source: pricing2yaml.md §7.
 */
export function readAddOn(
  section: Section,
  { name, given }: NamedItem,
  catalogue: Catalogue,
  plans: { readonly names: ReadonlySet<string>; readonly inOrder: readonly string[] },
  pending: PendingName[],
): AddOn | undefined {
  const fault = nameFault("Addon", given);
  if (fault !== undefined) {
    section.fail("", fault);
    return undefined;
  }
  const description = readDescription(section);
  const availableFor = readAvailableFor(section, plans.names, plans.inOrder);
  const dependsOn = readAddOnNames(section, "dependsOn", pending);
  const excludes = readAddOnNames(section, "excludes", pending);
  const price = readPrice(section, catalogue.variables);
  const unit = readUnit(section);
  const isPrivate = readPrivate(section);
  const features = readFeatures(section, name, catalogue);
  const usageLimits = readLimits(section, name, "usageLimits", catalogue);
  const extensions = readLimits(section, name, "usageLimitsExtensions", catalogue);
  const replaced = sizeOf(section, "features") + sizeOf(section, "usageLimits");
  const extended = sizeOf(section, "usageLimitsExtensions");
  if (replaced + extended === 0)
    section.fail(
      "",
      "An add-on cannot be empty. It must have at least one feature, usage limit or usage limit extension",
    );
  const subscriptionConstraints = readSubscriptionConstraints(section, replaced === 0 && extended > 0);
  const usageLimitsExtensions = emptyRecord<number>();
  for (const [limit, value] of Object.entries(extensions)) usageLimitsExtensions[limit] = Number(value);
  return {
    name,
    ...description,
    private: isPrivate,
    price,
    unit,
    availableFor,
    dependsOn,
    excludes,
    features,
    usageLimits,
    usageLimitsExtensions,
    ...(subscriptionConstraints === undefined ? {} : { subscriptionConstraints }),
  };
}
