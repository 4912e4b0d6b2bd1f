import { instantIn } from "../instant.ts";
import { areThresholds, DEFAULT_THRESHOLDS, THRESHOLDS_RULE } from "../usage-alerts.ts";
import {
  type Budget,
  BUDGET_ANCHORS,
  BUDGET_MODES,
  BUDGET_UNITS,
  type BudgetMode,
  type BudgetWindow,
  parsePattern,
  patternText,
} from "./budgets.ts";
import { type CreditProblem, isUnitName } from "./credits.ts";
import type { Pricing } from "./model.ts";

/*
 * Budgets of a pricing, for every contract of its version: `custom.faregate.budgets`. Source: contract budgets §2.
 */

/** A budget of a pricing, which names its limit without the service. */
export type BudgetTerms = Omit<Budget, "id" | "origin" | "serviceId">;

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const isOneOf = <T extends string>(all: readonly T[], value: unknown): value is T =>
  (all as readonly unknown[]).includes(value);

const FIELDS = ["limit", "spender", "unit", "amount", "window", "mode", "until", "thresholds"];

function windowOf(value: unknown): BudgetWindow | undefined {
  if (value === "period" || value === "life") return value;
  if (!isRecord(value)) return undefined;
  const { value: length, unit, anchor } = value;
  const isWhole = Number.isInteger(length) && Number(length) >= 1 && Number(length) <= 1000;
  if (!isWhole || !isOneOf(BUDGET_UNITS, unit) || !isOneOf(BUDGET_ANCHORS, anchor)) return undefined;
  return { value: Number(length), unit, anchor };
}

/** Reads the value of a field; null for an absent one, undefined for a wrong one. */
function instantOrNull(value: unknown): number | null | undefined {
  if (value === undefined || value === null) return null;
  return typeof value === "string" ? instantIn(value)?.getTime() : undefined;
}

/** Reads the budgets of a pricing, and what is wrong with them. Ignores budgets that are wrong. */
export function readBudgetTerms({ custom }: Pick<Pricing, "custom">): {
  budgets: readonly BudgetTerms[];
  problems: CreditProblem[];
} {
  const own = Object.hasOwn(custom, "faregate") ? custom["faregate"] : undefined;
  const written = isRecord(own) && Object.hasOwn(own, "budgets") ? own["budgets"] : undefined;
  const problems: CreditProblem[] = [];
  const root = ["faregate", "budgets"];
  if (written === undefined) return { budgets: [], problems };
  if (!isRecord(written)) {
    problems.push({ path: root, message: "custom.faregate.budgets must be an object" });
    return { budgets: [], problems };
  }
  const budgets = Object.entries(written).flatMap(([name, value]): BudgetTerms[] => {
    const before = problems.length;
    const fail = (field: string, must: string) =>
      problems.push({
        path: [...root, name, field],
        message: `custom.faregate.budgets.${name}.${field} must be ${must}`,
      });
    if (!isRecord(value)) {
      problems.push({ path: [...root, name], message: `custom.faregate.budgets.${name} must be an object` });
      return [];
    }
    for (const field of Object.keys(value)) {
      if (!FIELDS.includes(field)) fail(field, `one of ${FIELDS.join(", ")}`);
    }
    const { limit, spender, unit, amount, mode = "stop", thresholds = DEFAULT_THRESHOLDS } = value;
    const pattern = spender === undefined || spender === null ? [] : parsePattern(String(spender));
    const window = windowOf(value["window"] ?? "period");
    const until = instantOrNull(value["until"]);
    const isNamed = typeof amount === "string" && amount !== "" && amount !== limit;
    const isAmount = isNamed || (typeof amount === "number" && amount >= 0 && Number.isFinite(amount));
    if (typeof limit !== "string" || limit === "") fail("limit", "the name of a usage limit");
    if (pattern === undefined) fail("spender", "a path of 1 to 4 ids, or null");
    if (unit !== undefined && unit !== null && (typeof unit !== "string" || !isUnitName(unit))) {
      fail("unit", "the beginning of a unit's name, or null");
    }
    if (!isAmount) fail("amount", "a number of at least 0, or the name of another limit");
    if (window === undefined) fail("window", "period, life, or an object of value, unit and anchor");
    if (!isOneOf(BUDGET_MODES, mode)) fail("mode", "stop or warn");
    if (until === undefined) fail("until", "an ISO 8601 date or null");
    const isList = Array.isArray(thresholds) && areThresholds(thresholds as number[]);
    if (!isList) fail("thresholds", THRESHOLDS_RULE.replace("must be ", ""));
    if (problems.length > before || pattern === undefined || window === undefined || until === undefined) return [];
    return [
      {
        name,
        limitName: limit as string,
        spender: pattern,
        unit: (unit as string | undefined) ?? null,
        amount: amount as number | string,
        window,
        mode: mode as BudgetMode,
        until,
        thresholds: thresholds as number[],
      },
    ];
  });
  return { budgets, problems };
}

const NO_TERMS: readonly BudgetTerms[] = [];
const known = new WeakMap<Pricing, readonly BudgetTerms[]>();

/** Returns the budgets of a pricing, which is immutable. */
export function budgetTermsOf(pricing: Pricing): readonly BudgetTerms[] {
  let terms = known.get(pricing);
  if (terms === undefined) {
    const { budgets } = readBudgetTerms(pricing);
    terms = budgets.length === 0 ? NO_TERMS : budgets;
    known.set(pricing, terms);
  }
  return terms;
}

/** Text of what makes the balances of a budget: those of another limit, spender, unit or window are others. */
export function identityOf({
  limitName,
  spender,
  unit,
  window,
}: Pick<BudgetTerms, "limitName" | "spender" | "unit" | "window">): string {
  const span = typeof window === "string" ? window : `${window.value} ${window.unit} ${window.anchor}`;
  return JSON.stringify([limitName, patternText(spender), unit, span]);
}

/** Returns the budget as it counts for a contract with this service. Its id contains no space. */
export function budgetOfPricing(terms: BudgetTerms, serviceId: string): Budget {
  const id = `pricing:${serviceId}:${encodeURIComponent(`${terms.name} ${identityOf(terms)}`)}`;
  return { ...terms, id, origin: "pricing", serviceId };
}
