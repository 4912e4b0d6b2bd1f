import { sum } from "../../core/exact.ts";
import type { CountedUnits } from "../../core/pricing/credits.ts";
import type { HoldRow } from "../../db/queries/holds.ts";
import type { PricedUnits, UnitCosts } from "./request.ts";

/* Units of the totals that are reported of an open hold, and which of them are new. Source: contract credits §4. */

/** Amounts by limit id. */
export type Amounts = Readonly<Record<string, number>>;

/** Totals and units that were reported of a hold. */
type Reported = Pick<HoldRow, "counted" | "countedUnits">;

/** Returns the units of what was reported of a limit; undefined if a part was reported without them. */
function knownUnits({ counted, countedUnits }: Reported, id: string): CountedUnits | undefined {
  return (counted?.[id] ?? 0) === 0 ? {} : countedUnits?.[id];
}

/** True for totals with less of one unit than known: a report that arrives late. */
export function hasFewer(units: CountedUnits | undefined, hold: Reported, id: string): boolean {
  if (units === undefined) return false;
  const known = knownUnits(hold, id) ?? {};
  return Object.entries(known).some(([unit, [number]]) => (units[unit]?.[0] ?? 0) < number);
}

/** Returns the units that are new of each limit. Without a limit whose earlier units are unknown, or more than these. */
export function newUnits(units: PricedUnits | undefined, hold: Reported): PricedUnits {
  const byLimitId = Object.entries(units ?? {}).flatMap(([id, totals]) => {
    const known = knownUnits(hold, id);
    if (known === undefined || hasFewer(totals, hold, id)) return [];
    const fresh = Object.entries(totals).flatMap(([unit, [number, cost]]) => {
      const [numberBefore, costBefore] = known[unit] ?? [0, 0];
      return number === numberBefore ? [] : [[unit, [sum(number, -numberBefore), sum(cost, -costBefore)]] as const];
    });
    return [[id, Object.fromEntries(fresh)] as const];
  });
  return Object.fromEntries(byLimitId);
}

/** Returns the cost of each new unit. Where the earlier units are unknown, each has its share of the new amount. */
export function newCosts(
  units: PricedUnits | undefined,
  fresh: PricedUnits,
  { spent, news }: { spent: Amounts; news: Amounts },
): UnitCosts | undefined {
  if (units === undefined) return undefined;
  const costs = Object.entries(units).map(([id, totals]) => {
    const [all, some] = [spent[id] ?? 0, news[id] ?? 0];
    const share = all === 0 ? 0 : some / all;
    const given = fresh[id];
    const ofLimit = Object.entries(given ?? totals).map(
      ([unit, [, cost]]) => [unit, given === undefined ? cost * share : cost] as const,
    );
    return [id, Object.fromEntries(ofLimit)] as const;
  });
  return Object.fromEntries(costs);
}

/** Returns the units of all that is reported now, of limits whose totals name them. */
export function unitsAfter(units: PricedUnits | undefined, hold: Reported, news: Amounts): PricedUnits | null {
  const kept = Object.entries(hold.countedUnits ?? {}).filter(([id]) => (news[id] ?? 0) === 0);
  const all = { ...Object.fromEntries(kept), ...units };
  return Object.keys(all).length === 0 ? null : all;
}
