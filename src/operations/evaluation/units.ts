import { MAX_AMOUNT, sumOfProducts, TOO_LARGE, total } from "../../core/exact.ts";
import { type CountedUnits, creditTermsOf, type Rates } from "../../core/pricing/credits.ts";
import type { Evaluation } from "../../core/pricing/evaluate.ts";
import { readRecord } from "../../db/queries/contract-states.ts";
import type { Context } from "../context.ts";
import { Failure } from "../errors.ts";
import { compiledPricings } from "../subscriptions.ts";
import type { PricedUnits, UnitCosts, Units } from "./request.ts";

/*
 * Amounts by unit: a call may name units of a limit instead of an amount, and the rates of the pricing say what they cost.
 * Source: contract credits §4.
 */

/** Returns the rates of a limit by its id; undefined if it has none. */
export type RatesOf = (id: string) => Rates | undefined;

/** Returns the rates of the versions that an evaluation uses. Of services that share an id, the later one decides. */
export const ratesIn =
  ({ services }: Evaluation): RatesOf =>
  (id) => {
    for (const { layout, pricing } of services.toReversed()) {
      const limit = pricing.pricing.usageLimits[layout.limits.get(id) ?? -1];
      if (limit !== undefined) return creditTermsOf(pricing.pricing).rates.get(limit.name);
    }
    return undefined;
  };

/** Returns the rates of the versions that a contract had at a past moment; undefined without a record of it. */
export async function ratesAt(ctx: Context, contractId: string, at: Date): Promise<RatesOf | undefined> {
  const services = (await readRecord(ctx.db, contractId, at))?.state?.services;
  if (services === undefined) return undefined;
  const compiled = await compiledPricings(ctx, services);
  return (id) => {
    const service = services.findLast(({ key }) => id.startsWith(`${key}-`));
    const pricing = service && compiled.get(service.hash)?.pricing;
    return pricing && creditTermsOf(pricing).rates.get(id.slice((service?.key.length ?? 0) + 1));
  };
}

/**
 * Returns what each unit costs, as exact decimals.
 * @throws Failure unprocessable for a limit without rates, and for an unknown unit.
 */
export function priceUnits(units: Units, ratesOf: RatesOf): Record<string, CountedUnits> {
  const priced: Record<string, CountedUnits> = {};
  for (const [id, numbers] of Object.entries(units)) {
    const rates = ratesOf(id);
    if (rates === undefined) throw new Failure("unprocessable", `${id} has no rates`);
    priced[id] = Object.fromEntries(
      Object.entries(numbers).map(([unit, number]) => {
        const rate = rates.get(unit);
        if (rate === undefined) throw new Failure("unprocessable", `Unknown unit of ${id}: ${unit}`);
        return [unit, [number, sumOfProducts([[number, rate]])] as const];
      }),
    );
  }
  return priced;
}

/**
 * Returns the amounts that units cost, as exact decimal sums.
 * @throws Failure as priceUnits and costOf.
 */
export const amountsOf = (units: Units, ratesOf: RatesOf): Record<string, number> => costOf(priceUnits(units, ratesOf));

/**
 * Sums what units of each limit cost.
 * @throws Failure unprocessable for a sum above the largest amount of a call.
 */
export const costOf = (priced: PricedUnits): Record<string, number> =>
  Object.fromEntries(
    Object.entries(priced).map(([id, units]) => {
      const costs = Object.values(units).map(([, cost]) => cost);
      const amount = costs.includes(Infinity) ? Infinity : total(costs);
      if (amount > MAX_AMOUNT) throw new Failure("unprocessable", TOO_LARGE);
      return [id, amount];
    }),
  );

/** Returns what each unit costs, by limit id. Limits and units must have been checked by priceUnits. */
export function costsOf(units: Units, ratesOf: RatesOf): UnitCosts {
  const costs: Record<string, Record<string, number>> = {};
  for (const [id, numbers] of Object.entries(units)) {
    const ofLimit: [string, number][] = Object.entries(numbers).map(([unit, number]) => [
      unit,
      sumOfProducts([[number, ratesOf(id)?.get(unit) ?? 0]]),
    ]);
    costs[id] = Object.fromEntries(ofLimit);
  }
  return costs;
}

/** Splits a body into amounts and units. Limits with units get the amount 0 until the units are priced. */
export function splitUnits(body: Readonly<Record<string, number | Readonly<Record<string, number>>>>): {
  amounts: Record<string, number>;
  units: Units | undefined;
} {
  const amounts: Record<string, number> = {};
  let units: Record<string, Readonly<Record<string, number>>> | undefined;
  for (const [id, value] of Object.entries(body)) {
    amounts[id] = typeof value === "number" ? value : 0;
    if (typeof value !== "number") (units ??= {})[id] = value;
  }
  return { amounts, units };
}
