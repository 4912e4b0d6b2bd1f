import { CURRENCIES } from "./currencies.ts";
import { emptyRecord } from "../model.ts";
import type { JsonValue, Pricing } from "../model.ts";
import { invalidKey, RESERVED_KEYS } from "./legal-key.ts";
import { isWebAddress, nameFault, textItems } from "./value.ts";
import type { Section } from "./problems.ts";
import { isDate, isList, isMap, shown } from "./tree.ts";
import type { TreeMap, TreeValue } from "./tree.ts";
import { versionOfDay } from "./upgrade.ts";
import { utcDay } from "./yaml-scalars.ts";

/** Top-level fields of a pricing, without its four maps. */
export type PricingHeader = Omit<Pricing, "syntaxVersion" | "features" | "usageLimits" | "plans" | "addOns">;

/** Equals the limit for names, because versions appear in URLs and database indexes. */
const MAX_VERSION_LENGTH = 255;

/**
 * Names that a formula can reference. Others are typos, or attacks on clients that build regular expressions from
 * names.
 */
const VARIABLE_NAME = /^[\p{L}\p{N}_$-]+$/u;

function readName(section: Section): string {
  const value = section.value("saasName");
  const fault = nameFault("SaaS", value);
  if (fault !== undefined) section.fail("saasName", fault);
  return shown(value).trim();
}

function readUrl(section: Section): { url?: string } {
  const value = section.value("url");
  if (value === null) return {};
  if (typeof value !== "string") section.fail("url", `The url field must be a string. Received: ${shown(value)}`);
  else if (!isWebAddress(value))
    section.fail("url", `The url field must be a valid URL with the http or https protocol. Received: ${value}`);
  else return { url: value };
  return {};
}

function readCreatedAt(section: Section, now: Date): Date {
  const value = section.value("createdAt");
  let time = NaN;
  if (value === null) {
    section.fail(
      "createdAt",
      "The createdAt field must not be null or undefined. Please ensure that the createdAt field is present and correctly formatted (as Date or string)",
    );
    return new Date(0);
  }
  if (isDate(value)) ({ time } = value);
  else if (typeof value === "string") {
    const parts = /^(\d{4})-(\d\d)-(\d\d)$/.exec(value);
    if (parts === null) {
      section.fail("createdAt", "The createdAt field must be a string in the format yyyy-mm-dd or a valid Date object");
      return new Date(0);
    }
    time = utcDay(Number(parts[1]), Number(parts[2]), Number(parts[3]));
  }
  if (Number.isNaN(time)) {
    section.fail(
      "createdAt",
      "The createdAt field must be a valid Date object or a string in a recognized date format",
    );
    return new Date(0);
  }
  if (time > now.getTime()) section.fail("createdAt", "The createdAt field must not be a future date");
  return new Date(time);
}

function readVersion(section: Section, createdAt: Date): string {
  const value = section.value("version");
  if (value === null) return versionOfDay(createdAt);
  if (typeof value === "string" && value.length > MAX_VERSION_LENGTH) {
    section.fail(
      "version",
      `The version field of the pricing must have at most ${MAX_VERSION_LENGTH} characters. Received: ${value.length}`,
    );
    return "";
  }
  if (value === "." || value === "..") {
    section.fail("version", "The version field of the pricing must not be . or ..");
    return "";
  }
  if (typeof value === "string" && value.trim() !== "") return value;
  section.fail(
    "version",
    "The version field of the pricing must be a string. Please ensure that the version field is present and correctly formatted",
  );
  return "";
}

function readCurrency(section: Section): string {
  const value = section.value("currency");
  if (value === null)
    section.fail(
      "currency",
      "The currency field of the pricing must not be null or undefined. Please ensure that the currency field is present and correctly formatted",
    );
  else if (typeof value !== "string") section.fail("currency", "The currency field of the pricing must be a string");
  else if (value.trim() === "") section.fail("currency", "The currency field of the pricing must not be empty");
  else if (!CURRENCIES.has(value.trim().toUpperCase()))
    section.fail("currency", `The currency code ${value} is not a valid ISO 4217 currency code`);
  else return value;
  return "";
}

/** Returns the mapping under `key`; undefined when absent. Reports `message` for any other value. */
function readMap(section: Section, key: string, message: string): TreeMap | undefined {
  const value = section.value(key);
  if (value === null) return undefined;
  if (isMap(value)) return value;
  section.fail(key, message);
  return undefined;
}

function readBilling(section: Section): Record<string, number> {
  const billing = emptyRecord<number>();
  const map = readMap(section, "billing", "The billing field must be an object of type {[key: string]: number}");
  if (map === undefined) {
    billing["monthly"] = 1;
    return billing;
  }
  for (const [key, { value, at }] of map.entries) {
    if (refuseReserved(section, "billing", key, at)) continue;
    if (typeof value !== "number")
      section.failAt(`billing.${key}`, at, `The billing entry for ${key} must be a number. Received: ${shown(value)}`);
    else if (!(value > 0 && value <= 1))
      section.failAt(
        `billing.${key}`,
        at,
        `The billing entry for ${key} must be a value in the range (0,1]. Received: ${value}`,
      );
    else billing[key] = value;
  }
  return billing;
}

function refuseReserved(section: Section, map: string, key: string, at: number): boolean {
  if (!RESERVED_KEYS.has(key)) return false;
  section.failAt(`${map}.${key}`, at, invalidKey(map, key));
  return true;
}

/**
 * Converts a value to plain data: dates as written, without reserved keys. Infinity stays; it becomes null when stored.
 */
function asData(value: TreeValue): JsonValue {
  if (isList(value)) return value.items.map((item) => asData(item.value));
  if (isDate(value)) return value.text;
  if (!isMap(value)) return value;
  const record = emptyRecord<JsonValue>();
  for (const [key, entry] of value.entries) if (!RESERVED_KEYS.has(key)) record[key] = asData(entry.value);
  return record;
}

/**
 * Reads `variables`. Lists and maps are valid only if the syntax version allows them. Source: pricing2yaml.md §3,
 * README.md decision 14.
 */
function readVariables(section: Section, nested: boolean): Record<string, JsonValue> {
  const variables = emptyRecord<JsonValue>();
  const map = readMap(
    section,
    "variables",
    "The billing field must be an object of type {[key: string]: number | string | boolean}",
  );
  for (const [key, { value, at }] of map?.entries ?? []) {
    if (refuseReserved(section, "variables", key, at)) continue;
    if (!VARIABLE_NAME.test(key)) {
      section.failAt(
        `variables.${key}`,
        at,
        `The name of the variable ${key} must consist of letters, digits, underscores and hyphens`,
      );
      continue;
    }
    const simple = typeof value === "string" || typeof value === "boolean" || typeof value === "number";
    if (simple || (nested && (isMap(value) || isList(value)))) variables[key] = asData(value);
    else
      section.failAt(
        `variables.${key}`,
        at,
        `The billing entry for ${key} must be either a number, a string or a boolean. Received: ${shown(value)}`,
      );
  }
  return variables;
}

function readTags(section: Section): readonly string[] {
  const value = section.value("tags");
  if (value === null) return [];
  const tags = textItems(value);
  if (tags === undefined) section.fail("tags", "The tags field must be an array of strings.");
  return tags ?? [];
}

function readCustom(section: Section): Record<string, JsonValue> {
  const custom = emptyRecord<JsonValue>();
  const map = readMap(section, "custom", "The custom field must be an object of type {[key: string]: any}");
  for (const [key, { value, at }] of map?.entries ?? [])
    if (!refuseReserved(section, "custom", key, at)) custom[key] = asData(value);
  return custom;
}

/**
 * Reads the top-level fields, with the checks in the order of the reference implementation. Source: pricing2yaml.md §3.
 */
export function readHeader(section: Section, now: Date, nestedVariables: boolean): PricingHeader {
  const saasName = readName(section);
  const url = readUrl(section);
  const createdAt = readCreatedAt(section, now);
  const version = readVersion(section, createdAt);
  const currency = readCurrency(section);
  const billing = readBilling(section);
  const variables = readVariables(section, nestedVariables);
  const tags = readTags(section);
  const custom = readCustom(section);
  return { saasName, version, currency, createdAt: createdAt.toISOString(), ...url, tags, billing, variables, custom };
}
