import { emptyRecord, UNLIMITED } from "../pricing/model.ts";
import type { Pricing } from "../pricing/model.ts";
import { pricingToWire } from "../pricing/wire.ts";
import { dateOf, entriesOf, isRecord, itemsOf, type SpaceDocument } from "./documents.ts";

/*
 * A pricing as SPACE stores it, as the server answers it, and as Pricing2Yaml 3.0. Source: contract pricing2yaml §9,
 * files-and-migration §5.
 */

/** The parts of a pricing that its answer shows and that do not depend on where it is stored. */
export type WirePricing = Record<string, unknown>;

const COMPARED = ["currency", "createdAt", "features", "usageLimits", "plans", "addOns"] as const;

/** Numbers above the limit are stored as the limit, infinity included. */
const capped = (value: unknown): unknown => (typeof value === "number" ? Math.min(value, UNLIMITED) : value);

const present = (fields: Readonly<Record<string, unknown>>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined && value !== null));

function mapOf(value: unknown, each: (item: SpaceDocument, name: string) => unknown): Record<string, unknown> {
  const result = emptyRecord<unknown>();
  for (const [name, item] of entriesOf(value)) result[name] = each(isRecord(item) ? item : {}, name);
  return result;
}

function valuesOf(value: unknown): Record<string, unknown> {
  const result = emptyRecord<unknown>();
  for (const [name, each] of entriesOf(value)) result[name] = capped(each);
  return result;
}

const listOf = (value: unknown): readonly unknown[] => [...itemsOf(value)];

const featureOf = (item: SpaceDocument, name: string) =>
  present({
    name: item["name"] ?? name,
    description: item["description"],
    valueType: item["valueType"],
    defaultValue: capped(item["defaultValue"]),
    value: capped(item["value"]),
    type: item["type"],
    integrationType: item["integrationType"],
    pricingUrls: listOf(item["pricingUrls"]),
    automationType: item["automationType"],
    docUrl: item["docUrl"],
    expression: item["expression"],
    serverExpression: item["serverExpression"],
    render: typeof item["render"] === "string" ? item["render"].toUpperCase() : "AUTO",
    tag: item["tag"],
  });

const limitOf = (item: SpaceDocument, name: string) =>
  present({
    name: item["name"] ?? name,
    description: item["description"],
    valueType: item["valueType"],
    defaultValue: capped(item["defaultValue"]),
    value: capped(item["value"]),
    type: item["type"],
    trackable: item["type"] !== "RENEWABLE" && item["trackable"] === true,
    period: isRecord(item["period"]) ? { value: item["period"]["value"], unit: item["period"]["unit"] } : undefined,
    linkedFeatures: listOf(item["linkedFeatures"]),
  });

const planOf = (item: SpaceDocument, name: string) =>
  present({
    name: item["name"] ?? name,
    description: item["description"],
    price: item["price"],
    private: item["private"] === true,
    features: valuesOf(item["features"]),
    usageLimits: valuesOf(item["usageLimits"]),
  });

const addOnOf = (item: SpaceDocument, name: string) =>
  present({
    name: item["name"] ?? name,
    description: item["description"],
    private: item["private"] === true,
    price: item["price"],
    availableFor: listOf(item["availableFor"]),
    dependsOn: listOf(item["dependsOn"]),
    excludes: listOf(item["excludes"]),
    features: valuesOf(item["features"]),
    usageLimits: valuesOf(item["usageLimits"]),
    usageLimitsExtensions: valuesOf(item["usageLimitsExtensions"]),
    subscriptionConstraints: constraintsOf(item["subscriptionConstraints"]),
  });

/** Unlimited is `null` in answers; SPACE stores infinity, or null after an export. */
function constraintsOf(value: unknown): Record<string, unknown> | undefined {
  if (!isRecord(value)) return undefined;
  const { minQuantity, maxQuantity, quantityStep } = value;
  return {
    minQuantity: minQuantity ?? 1,
    maxQuantity: maxQuantity === Infinity || maxQuantity === undefined ? null : maxQuantity,
    quantityStep: quantityStep ?? 1,
  };
}

/** Shows a stored pricing as the server must answer it. */
export function storedAsWire(document: SpaceDocument): WirePricing {
  return {
    currency: document["currency"],
    createdAt: dateOf(document["createdAt"])?.toISOString(),
    features: mapOf(document["features"], featureOf),
    usageLimits: mapOf(document["usageLimits"], limitOf),
    plans: mapOf(document["plans"], planOf),
    addOns: mapOf(document["addOns"], addOnOf),
  };
}

/** Shows a parsed pricing as the server answers it. Leaves out what its place and custom fields decide. */
export function parsedAsWire(pricing: Pricing): WirePricing {
  const wire = pricingToWire({ ...pricing, custom: {} }, { organizationId: "", version: "" });
  return Object.fromEntries(COMPARED.map((part) => [part, wire[part]]));
}

/** Path of the first difference, such as `plans.PRO.price`; undefined if both are equal. Order of keys does not matter. */
export function firstDifference(one: unknown, other: unknown, path = ""): string | undefined {
  if (Object.is(one, other) || (one === 0 && other === 0)) return undefined;
  if (Array.isArray(one) && Array.isArray(other)) {
    if (one.length !== other.length) return path;
    return firstOf(one.keys(), (index) => firstDifference(one[index], other[index], `${path}.${index}`));
  }
  if (!isRecord(one) || !isRecord(other)) return path === "" ? "everything" : path;
  const keys = new Set([...Object.keys(one), ...Object.keys(other)]);
  return firstOf(keys, (key) => {
    const below = path === "" ? key : `${path}.${key}`;
    return Object.hasOwn(one, key) && Object.hasOwn(other, key) ? firstDifference(one[key], other[key], below) : below;
  });
}

function firstOf<Key>(keys: Iterable<Key>, find: (key: Key) => string | undefined): string | undefined {
  for (const key of keys) {
    const found = find(key);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Parts of a pricing file that SPACE does not store. */
export const NOT_STORED = "units, billing, variables, custom fields, tags without features and comments";

/** Writes a pricing as Pricing2Yaml 3.0 that parses to the same answer. */
export function writePricingText(wire: WirePricing, { saasName, version }: { saasName: string; version: string }) {
  const variables: Record<string, unknown> = {};
  const features = entriesOf(wire["features"]);
  const limits = entriesOf(wire["usageLimits"]);
  const inherited = { features: inheritedOf(features), usageLimits: inheritedOf(limits) };
  const tags = [...new Set(features.flatMap(([, feature]) => (isRecord(feature) ? (feature["tag"] ?? []) : [])))];
  const plans = entriesOf(wire["plans"]).map(([name, plan]) => [name, planText(plan, inherited, variables)] as const);
  const addOns = entriesOf(wire["addOns"]).map(([name, addOn]) => [name, addOnText(addOn, variables)] as const);
  return yamlOf({
    saasName,
    syntaxVersion: "3.0",
    version,
    createdAt: dateOf(wire["createdAt"]),
    currency: wire["currency"],
    ...(tags.length === 0 ? {} : { tags }),
    ...(Object.keys(variables).length === 0 ? {} : { variables }),
    features: Object.fromEntries(features.map(([name, feature]) => [name, withoutName(feature)])),
    usageLimits: Object.fromEntries(limits.map(([name, limit]) => [name, withoutName(limit)])),
    plans: Object.fromEntries(plans),
    addOns: Object.fromEntries(addOns),
  });
}

function withoutName(item: unknown): Record<string, unknown> {
  const kept = entriesOf(item).filter(
    ([key, value]) => key !== "name" && !(key === "pricingUrls" && itemsOf(value).length === 0),
  );
  return Object.fromEntries(kept);
}

const inheritedOf = (items: readonly [string, unknown][]): Map<string, unknown> =>
  new Map(items.map(([name, item]) => [name, isRecord(item) ? (item["value"] ?? item["defaultValue"]) : undefined]));

/** A negative price can only come from a formula. */
function priceText(price: unknown, variables: Record<string, unknown>): unknown {
  if (typeof price !== "number" || price >= 0) return price;
  const name = `price${Object.keys(variables).length + 1}`;
  variables[name] = price;
  return `#${name}`;
}

/** Writes the values of a plan that differ from those that it inherits. */
function planText(
  plan: unknown,
  inherited: Record<"features" | "usageLimits", Map<string, unknown>>,
  variables: Record<string, unknown>,
): Record<string, unknown> {
  const item = isRecord(plan) ? plan : {};
  const overrides = (part: "features" | "usageLimits") =>
    Object.fromEntries(
      entriesOf(item[part])
        .filter(([name, value]) => firstDifference(value, inherited[part].get(name)) !== undefined)
        .map(([name, value]) => [name, { value }]),
    );
  return {
    ...withoutName(item),
    price: priceText(item["price"], variables),
    features: overrides("features"),
    usageLimits: overrides("usageLimits"),
  };
}

function addOnText(addOn: unknown, variables: Record<string, unknown>): Record<string, unknown> {
  const item = isRecord(addOn) ? addOn : {};
  const replaced = (part: string) =>
    Object.fromEntries(entriesOf(item[part]).map(([name, value]) => [name, { value }]));
  const constraints = item["subscriptionConstraints"];
  return {
    ...withoutName(item),
    price: priceText(item["price"], variables),
    features: replaced("features"),
    usageLimits: replaced("usageLimits"),
    usageLimitsExtensions: replaced("usageLimitsExtensions"),
    ...(isRecord(constraints)
      ? { subscriptionConstraints: { ...constraints, maxQuantity: constraints["maxQuantity"] ?? Infinity } }
      : {}),
  };
}

/** Prints plain data as block YAML. Texts are quoted as in JSON, which YAML reads alike. */
function yamlOf(value: Readonly<Record<string, unknown>>, indent = ""): string {
  return Object.entries(value)
    .map(([key, each]) => {
      const start = `${indent}${/^[A-Za-z_][\w-]*$/.test(key) ? key : JSON.stringify(key)}:`;
      if (!isRecord(each)) return `${start} ${inlineOf(each)}\n`;
      return Object.keys(each).length === 0 ? `${start} {}\n` : `${start}\n${yamlOf(each, `${indent}  `)}`;
    })
    .join("");
}

function inlineOf(value: unknown): string {
  if (value instanceof Date) {
    const text = value.toISOString();
    return text.endsWith("T00:00:00.000Z") ? text.slice(0, 10) : text;
  }
  if (value === Infinity) return ".inf";
  if (Array.isArray(value)) return `[${value.map(inlineOf).join(", ")}]`;
  return JSON.stringify(value) ?? "null";
}
