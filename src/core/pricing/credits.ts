import type { Pricing } from "./model.ts";

/*
 * Terms of credits, which a pricing has below `custom.faregate`: rollover by resets, and the cost of units of a limit.
 * Source: contract credits §3, §4.
 */

/** Amounts that a reset of a limit carries over. */
export interface Rollover {
  /** Most that carried blocks have left together. Null: no maximum. */
  readonly max: number | null;
  /** Resets until a carried block ends. */
  readonly periods: number;
}

/** Cost of one unit of a limit, by the name of the unit. */
export type Rates = ReadonlyMap<string, number>;

/** Number of units of a limit and their cost, by the name of the unit. */
export type CountedUnits = Readonly<Record<string, readonly [number: number, cost: number]>>;

export interface CreditTerms {
  /** By the name of the limit. */
  readonly rollover: ReadonlyMap<string, Rollover>;
  /** By the name of the limit. */
  readonly rates: ReadonlyMap<string, Rates>;
}

export const MAX_ROLLOVER_PERIODS = 12;

const UNIT = /^[A-Za-z0-9._:/-]{1,100}$/;

export const isUnitName = (name: string): boolean => UNIT.test(name);

/** A value below `custom.faregate` that is not as it must be. */
export interface CreditProblem {
  /** Keys below `custom`. */
  readonly path: readonly string[];
  readonly message: string;
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const isAmount = (value: unknown): value is number => typeof value === "number" && Number.isFinite(value) && value >= 0;

/** Reads the terms, and what is wrong with them. Ignores values that are wrong. */
export function readCreditTerms({ custom }: Pick<Pricing, "custom">): CreditTerms & { problems: CreditProblem[] } {
  const problems: CreditProblem[] = [];
  const rollover = new Map<string, Rollover>();
  const rates = new Map<string, Rates>();
  const sectionOf = (holder: Readonly<Record<string, unknown>>, path: readonly string[]) => {
    const name = path.at(-1) ?? "";
    const value = Object.hasOwn(holder, name) ? holder[name] : undefined;
    if (isRecord(value)) return value;
    if (value !== undefined) problems.push({ path, message: `custom.${path.join(".")} must be an object` });
    return {};
  };
  const own = sectionOf(custom, ["faregate"]);
  const carried = sectionOf(own, ["faregate", "rollover"]);
  for (const limit of Object.keys(carried)) {
    const path = ["faregate", "rollover", limit];
    const { max, periods } = sectionOf(carried, path) as { max?: unknown; periods?: unknown };
    const fail = (field: string, must: string) =>
      problems.push({ path: [...path, field], message: `custom.${path.join(".")}.${field} must be ${must}` });
    const isBounded = isAmount(max);
    if (!isBounded && max !== null) fail("max", "a number of at least 0, or null");
    const isWhole = Number.isInteger(periods) && Number(periods) >= 1 && Number(periods) <= MAX_ROLLOVER_PERIODS;
    if (!isWhole) fail("periods", `a whole number from 1 to ${MAX_ROLLOVER_PERIODS}`);
    if ((isBounded || max === null) && isWhole) rollover.set(limit, { max, periods: Number(periods) });
  }
  const priced = sectionOf(own, ["faregate", "rates"]);
  for (const limit of Object.keys(priced)) {
    const path = ["faregate", "rates", limit];
    const units = sectionOf(priced, path);
    const costs = new Map<string, number>();
    for (const [unit, cost] of Object.entries(units)) {
      const fail = (must: string) =>
        problems.push({ path: [...path, unit], message: `custom.${path.join(".")}.${unit} must be ${must}` });
      if (!isUnitName(unit)) fail("named with 1 to 100 characters of A-Z a-z 0-9 . _ : / -");
      else if (!isAmount(cost)) fail("a number of at least 0");
      else costs.set(unit, cost);
    }
    if (costs.size > 0) rates.set(limit, costs);
  }
  return { rollover, rates, problems };
}

/** One object for all pricings that say nothing about credits. */
const NO_TERMS: CreditTerms = { rollover: new Map(), rates: new Map() };

const known = new WeakMap<Pricing, CreditTerms>();

/** Returns the terms of a pricing, which is immutable. */
export function creditTermsOf(pricing: Pricing): CreditTerms {
  let terms = known.get(pricing);
  if (terms === undefined) {
    const { rollover, rates } = readCreditTerms(pricing);
    terms = rollover.size + rates.size === 0 ? NO_TERMS : { rollover, rates };
    known.set(pricing, terms);
  }
  return terms;
}
