import { renameContexts } from "../language/expression.ts";
import { namedItems } from "./value.ts";
import type { NamedItem } from "./value.ts";
import { MAX_TEXT_LENGTH } from "../language/syntax-tree.ts";
import { isDate, isMap, setValue, shown, valueOf } from "./tree.ts";
import type { TreeMap, TreeValue } from "./tree.ts";
import { utcDay } from "./yaml-scalars.ts";

/** Supported syntax versions, oldest first. 3.1 only extends the values that variables may hold. */
export const SYNTAX_VERSIONS = ["1.0", "1.1", "2.0", "2.1", "3.0", "3.1"] as const;
export type SyntaxVersion = (typeof SYNTAX_VERSIONS)[number];

/** Reports that an upgrade step failed. `at` is an offset into the text. */
export type StepReport = (message: string, path: string, at: number) => void;

const MISSING =
  "The syntaxVersion field of the pricing must not be null or undefined. Please ensure that the syntaxVersion field is present and correctly formatted";
const CONTEXT = /planContext|userContext/;
const MISSHAPEN =
  "The syntaxVersion field of the pricing does not follow the required structure: X.Y (being X and Y numbers). Please ensure it is a string in the format X.Y";

/**
 * Returns the syntax version of a document. Documents before 3.0 may store it in `version`. Source: pricing2yaml.md §2.
 */
export function detectSyntaxVersion(root: TreeMap): { version: SyntaxVersion } | { message: string; path: string } {
  const given = valueOf(root, "syntaxVersion");
  const path = given === null && valueOf(root, "version") !== null ? "version" : "syntaxVersion";
  const value = valueOf(root, path);
  if (value === null) return { message: MISSING, path };
  if (typeof value !== "string" || !/^\d+\.\d+$/.test(value)) return { message: MISSHAPEN, path };
  const version = SYNTAX_VERSIONS.find((each) => each === value);
  if (version === undefined)
    return {
      message: `Unsupported version: ${value}. Please, visit the changelogs of Pricing2Yaml to check the supported versions.`,
      path,
    };
  // Since 3.0, `version` is always the version of the pricing.
  if (path === "version" && (version === "3.0" || version === "3.1"))
    return { message: MISSING, path: "syntaxVersion" };
  return { version };
}

/** Upgrades 1.0: joins the three numbers of the creation date. */
function joinDate(root: TreeMap, report: StepReport): void {
  const faults: string[] = [];
  const numbers = ["day", "month", "year"].map((field) => {
    const value = valueOf(root, field);
    if (value === null) faults.push(`${field} field is mandatory`);
    else if (typeof value !== "number" || !Number.isInteger(value)) faults.push(`${field} field must be an integer`);
    return typeof value === "number" ? value : 0;
  });
  const field = ["day", "month", "year"].find((name) => typeof valueOf(root, name) !== "number") ?? "day";
  const entry = root.entries.get(field) ?? root.entries.get("version");
  if (faults.length > 0) report(faults.join("\n"), field, entry?.at ?? root.at);
  const [day, month, year] = numbers.map((number) => String(number).padStart(2, "0"));
  // Report an invalid date only once: a valid placeholder silences the later checks.
  const createdAt = faults.length > 0 ? "1970-01-01" : `${(year ?? "").padStart(4, "0")}-${month}-${day}`;
  setValue(root, "createdAt", createdAt, entry);
}

/** Upgrades 1.1: replaces prices per billing period by one price and the ratios between periods. */
function mergePrices(root: TreeMap, report: StepReport): void {
  const plans = valueOf(root, "plans");
  const old = valueOf(root, "billing");
  const billing: TreeMap =
    plans === null && isMap(old)
      ? old
      : { kind: "map", at: root.entries.get("billing")?.at ?? root.at, entries: new Map() };
  const offer = (period: string, ratio: number): void => {
    if (!billing.entries.has(period)) setValue(billing, period, ratio);
  };
  for (const item of namedItems(plans)) if (item.map !== undefined) mergePlanPrices(item, item.map, offer, report);
  for (const item of namedItems(valueOf(root, "addOns"))) {
    if (item.map === undefined || valueOf(item.map, "price") !== null) continue;
    const period = valueOf(item.map, "monthlyPrice") === null ? "annual" : "monthly";
    const price = valueOf(item.map, `${period}Price`);
    if (price === null)
      report("Monthly or annual price is required for each addon", `addOns.${item.key}.price`, item.entry.at);
    setPrice(item.map, price);
    offer(period, 1);
  }
  if (plans !== null || billing.entries.size > 0) setValue(root, "billing", billing);
}

function mergePlanPrices(
  item: NamedItem,
  plan: TreeMap,
  offer: (period: string, ratio: number) => void,
  report: StepReport,
): void {
  const monthly = valueOf(plan, "monthlyPrice");
  const annual = valueOf(plan, "annualPrice");
  const fail = (message: string): void => report(message, `plans.${item.key}.price`, item.entry.at);
  if (monthly === null && annual === null) fail("Monthly or annual price is required for each plan");
  else if (Boolean(monthly) && Boolean(annual) && typeof monthly !== typeof annual)
    fail("Monthly and annual prices of plans must be numbers");
  if (monthly === null) {
    setPrice(plan, annual);
    offer("annual", 1);
    return;
  }
  setPrice(plan, monthly);
  offer("monthly", 1);
  if (typeof monthly === "number" && typeof annual === "number" && monthly !== 0 && annual !== 0)
    offer("annual", annual > monthly ? annual / (monthly * 12) : annual / monthly);
}

function setPrice(item: TreeMap, price: TreeValue): void {
  setValue(item, "price", price, item.entries.get("monthlyPrice") ?? item.entries.get("annualPrice"));
}

/** Derives a version from the creation date, as older files do: without leading zeros, in UTC. */
function dateVersion(createdAt: TreeValue): string {
  let time = NaN;
  if (isDate(createdAt)) time = createdAt.time;
  else if (typeof createdAt === "string") {
    const [year, month, day] = createdAt.split("-").map(Number);
    time = utcDay(year ?? NaN, month ?? NaN, day ?? NaN);
  }
  return Number.isNaN(time) ? "latest" : versionOfDay(new Date(time));
}

/** Formats a day as a version: `2024-1-15`. Source: pricing2yaml.md §2, §3. */
export function versionOfDay(day: Date): string {
  return `${day.getUTCFullYear()}-${day.getUTCMonth() + 1}-${day.getUTCDate()}`;
}

/** Upgrades 2.0: moves the syntax version out of `version`, which becomes the version of the pricing. */
function separateVersions(root: TreeMap): void {
  const syntax = root.entries.get("syntaxVersion") ?? root.entries.get("version");
  const hasBoth = valueOf(root, "syntaxVersion") !== null && valueOf(root, "version") !== null;
  if (!hasBoth) setValue(root, "version", dateVersion(valueOf(root, "createdAt")));
  setValue(root, "syntaxVersion", "2.1", syntax);
}

/** Upgrades 2.1: adds renewal to limits and quantities to add-ons, and renames the contexts in expressions. */
function renameAndComplete(root: TreeMap, report: StepReport): void {
  for (const { key, entry, map } of namedItems(valueOf(root, "usageLimits"))) {
    const type = map?.entries.get("type");
    if (map === undefined || type === undefined || type.value === null) continue;
    const old = typeof type.value === "string" ? type.value.trim().toUpperCase() : shown(type.value);
    if (old === "TIME_DRIVEN") {
      setValue(map, "type", "RENEWABLE");
      const period: TreeMap = { kind: "map", at: type.at, entries: new Map() };
      setValue(period, "value", 1);
      setValue(period, "unit", "MONTH");
      setValue(map, "period", period, type);
    } else if (old === "RESPONSE_DRIVEN") {
      setValue(map, "type", "NON_RENEWABLE");
      setValue(map, "trackable", false, type);
    } else if (old !== "RENEWABLE" && old !== "NON_RENEWABLE") {
      report(
        `Unsupported usage limit type: ${shown(type.value)}. Valid types are: RENEWABLE, NON_RENEWABLE, TIME_DRIVEN, RESPONSE_DRIVEN.`,
        `usageLimits.${key}.type`,
        type.at ?? entry.at,
      );
    }
  }
  for (const { map } of namedItems(valueOf(root, "addOns"))) if (map !== undefined) completeAddOn(map);
  for (const { map } of namedItems(valueOf(root, "features"))) {
    for (const field of ["expression", "serverExpression"]) {
      const text = map?.entries.get(field)?.value;
      // Skip texts that are too long; reading the feature rejects them.
      if (map !== undefined && typeof text === "string" && text.length <= MAX_TEXT_LENGTH && CONTEXT.test(text))
        setValue(map, field, renameContexts(text));
    }
  }
}

function completeAddOn(addOn: TreeMap): void {
  if (valueOf(addOn, "subscriptionConstraints") !== null) return;
  const extensions = valueOf(addOn, "usageLimitsExtensions");
  if (!isMap(extensions) || extensions.entries.size === 0) return;
  const constraints: TreeMap = { kind: "map", at: addOn.at, entries: new Map() };
  setValue(constraints, "minQuantity", 1);
  setValue(constraints, "maxQuantity", Infinity);
  setValue(constraints, "quantityStep", 1);
  setValue(addOn, "subscriptionConstraints", constraints);
}

const STEPS: readonly {
  readonly from: SyntaxVersion;
  readonly to: SyntaxVersion;
  readonly run: (root: TreeMap, report: StepReport) => void;
}[] = [
  { from: "1.0", to: "1.1", run: joinDate },
  { from: "1.1", to: "2.0", run: mergePrices },
  { from: "2.0", to: "2.1", run: separateVersions },
  { from: "2.1", to: "3.0", run: renameAndComplete },
];

/**
 * Upgrades a document of `version` to 3.0, step by step, by mutating the tree. The stored text stays as uploaded.
 *
 * Preserves everything in the text, including `false`, `0` and empty overrides. A failing step is reported with the
 * sentence of the contract. Later steps still run, so one upload shows every problem. Source: pricing2yaml.md §2.
 */
export function upgrade(root: TreeMap, version: SyntaxVersion, report: StepReport): void {
  const first = STEPS.findIndex((step) => step.from === version);
  if (first < 0) return;
  for (const { from, to, run } of STEPS.slice(first)) {
    run(root, (message, path, at) =>
      report(
        `An error occurred while updating from version ${from} to ${to}. Your Pricing2Yaml model has been saved at version ${from}. Please resolve the issues and try again. Error details: ${message}.`,
        path,
        at,
      ),
    );
  }
}
