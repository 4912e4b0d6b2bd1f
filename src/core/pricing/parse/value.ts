import { PAYMENT_METHODS, UNLIMITED } from "../model.ts";
import type { FeatureValue, LimitValue, ValueType } from "../model.ts";
import type { Section } from "./problems.ts";
import { isList, isMap, shown, valueOf } from "./tree.ts";
import type { TreeEntry, TreeMap, TreeValue } from "./tree.ts";

/**
 * Readers for fields that features, limits, plans and add-ons share. Each reports problems and returns a placeholder.
 */

const WEB_ADDRESS = /^https?:\/\/(?!\.|[^/?#]*\.\.)[^\s/?#]+(?:[/?#]\S*)?$/i;
/** Maximum entries in a list of payment methods, more than exist. Keeps comparisons of lists cheap. */
const MAX_PAYMENT_METHODS = 64;

export function isWebAddress(text: string): boolean {
  return WEB_ADDRESS.test(text);
}

/** Returns the items of a list of strings; undefined for any other value. */
export function textItems(value: TreeValue): readonly string[] | undefined {
  if (!isList(value)) return undefined;
  const texts: string[] = [];
  for (const item of value.items) {
    if (typeof item.value !== "string") return undefined;
    texts.push(item.value);
  }
  return texts;
}

/**
 * Checks a name as the reference implementation does. `owner` is the subject of the message (`SaaS`, `Feature`, …).
 * Source: pricing2yaml.md §3.
 */
export function nameFault(owner: string, name: TreeValue): string | undefined {
  if (name === null) return `The ${owner} must have a name`;
  if (typeof name !== "string") return `The ${owner} name must be a string`;
  const { length } = name.trim();
  if (length === 0) return `The ${owner} name must not be empty`;
  if (length < 3) return `The ${owner} name must have at least 3 characters`;
  return length > 255 ? `The ${owner} name must have at most 255 characters` : undefined;
}

/** Reads `description`: any scalar as text, absent when null. */
export function readDescription(section: Section): { description?: string } {
  const value = section.value("description");
  if (value === null) return {};
  if (typeof value === "string") return { description: value };
  // The parser of the reference implementation accepts this value, but its storage rejects it.
  if (isMap(value) || isList(value)) section.fail("description", "The description field must be a string", 2);
  return { description: shown(value) };
}

/** Reads the `unit` of a limit, plan or add-on; empty when absent. The message says "usage limit" for every owner. */
export function readUnit(section: Section): string {
  const value = section.value("unit");
  if (value === null || typeof value === "string") return value ?? "";
  section.fail("unit", `The unit field of a usage limit must be a string. Received: ${shown(value)} `);
  return "";
}

/** Required shape of a value. `owner` appears in messages; `payment` requires a list of payment methods. */
export interface ValueShape {
  readonly owner: "feature" | "usage limit";
  readonly valueType: ValueType;
  readonly payment: boolean;
}

function readPaymentMethods(section: Section, key: string, value: TreeValue): readonly string[] {
  if (!isList(value) || value.items.length > MAX_PAYMENT_METHODS) {
    section.fail(key, "Payment method value must be an array of payment methods");
    return [];
  }
  const known: readonly string[] = PAYMENT_METHODS;
  return value.items.map((item, index) => {
    const method = shown(item.value);
    if (typeof item.value !== "string" || !known.includes(method))
      section.failAt(
        `${key}.${index}`,
        item.at,
        `Invalid payment method: ${method}. Please provide one of the following: ${PAYMENT_METHODS.join(", ")}`,
      );
    return method;
  });
}

/**
 * Reads the value under `key` (`defaultValue` or `value`, not null) and checks its shape. Numbers above 100,000,000
 * become that number; NaN and -Infinity are rejected. Source: pricing2yaml.md §4, §10.
 */
export function readValue(section: Section, key: "defaultValue" | "value", shape: ValueShape): FeatureValue {
  const value = section.value(key);
  if (shape.payment) return readPaymentMethods(section, key, value);
  const { valueType } = shape;
  if (valueType === "BOOLEAN" && typeof value === "boolean") return value;
  if (valueType === "TEXT" && typeof value === "string") return value;
  if (valueType === "NUMERIC" && typeof value === "number" && value > -Infinity) return Math.min(value, UNLIMITED);
  const wanted = valueType === "NUMERIC" ? "number" : valueType === "BOOLEAN" ? "boolean" : "string";
  section.fail(
    key,
    `The ${key} field of a ${shape.owner} must be a ${wanted} when its valueType is ${valueType}. Received: ${shown(value)}`,
  );
  return valueType === "NUMERIC" ? 0 : valueType === "BOOLEAN" ? false : "";
}

/** Runs {@link readValue} for limits, which are never texts. */
export function readLimitValue(section: Section, key: "defaultValue" | "value", shape: ValueShape): LimitValue {
  const value = readValue(section, key, shape);
  return typeof value === "boolean" ? value : Number(value);
}

/** Finds `text` in `allowed`, ignoring case and surrounding whitespace. */
export function oneOf<Word extends string>(allowed: readonly Word[], text: string): Word | undefined {
  const word = text.trim().toUpperCase();
  return allowed.find((each) => each === word);
}

/** An item of one of the four maps, with its name and its mapping. */
export interface NamedItem {
  readonly name: string;
  /** The raw value of the name, valid or not. */
  readonly given: TreeValue;
  readonly entry: TreeEntry;
  readonly map: TreeMap | undefined;
  /** The item's key, for use in paths. */
  readonly key: string;
}

/**
 * Returns the items of a map, or of a list of items with a `name`. Keeps the order of the file. An item without a
 * usable name gets its index. Names are trimmed here and validated by the reader of the item. Source: pricing2yaml.md
 * §3.
 */
export function namedItems(value: TreeValue): NamedItem[] {
  if (isMap(value))
    return [...value.entries].map(([key, entry]) => {
      return { name: key.trim(), given: key, entry, key, map: isMap(entry.value) ? entry.value : undefined };
    });
  if (!isList(value)) return [];
  return value.items.map((entry, index) => {
    const map = isMap(entry.value) ? entry.value : undefined;
    const given = map === undefined ? null : valueOf(map, "name");
    const name = typeof given === "string" ? given.trim() : String(index);
    return { name, given, entry, key: String(index), map };
  });
}
