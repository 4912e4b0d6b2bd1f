import { serviceKey } from "../pricing/names.ts";
import type { BilledItem, BillingProvider } from "./message.ts";
import { entryOf, type MappedPrice, type PriceMap } from "./terms.ts";

/** Prices that a checkout of a configuration has to buy, by provider. */
export type BilledPrices = Partial<Record<BillingProvider, readonly BilledItem[]>>;

/** The map of a connection. */
export interface ConnectedPrices {
  readonly provider: BillingProvider;
  readonly prices: PriceMap;
}

type Configuration = {
  readonly plan: string | null;
  readonly addOns: Readonly<Record<string, number>>;
};

/** Finds the first price of a map that stands for a part of this service. */
function priceFor(
  prices: PriceMap,
  key: string,
  isPart: (mapped: MappedPrice) => boolean,
): [string, MappedPrice] | undefined {
  return Object.entries(prices).find(([, mapped]) => serviceKey(mapped.service) === key && isPart(mapped));
}

const sameName = (one: string, other: string) => one.toLowerCase() === other.toLowerCase();

function itemsOf(prices: PriceMap, key: string, { plan, addOns }: Configuration): BilledItem[] | undefined {
  const items: BilledItem[] = [];
  if (plan !== null) {
    const found = priceFor(prices, key, (mapped) => "plan" in mapped && sameName(mapped.plan, plan));
    if (found === undefined) return undefined;
    items.push({ price: found[0], quantity: 1 });
  }
  for (const [name, units] of Object.entries(addOns)) {
    const divides = (mapped: MappedPrice) =>
      "addOn" in mapped && sameName(mapped.addOn, name) && units % (mapped.quantity ?? 1) === 0;
    const found = priceFor(prices, key, divides);
    if (found === undefined) return undefined;
    const [price] = found;
    const mapped = entryOf(prices, price);
    const perUnit = mapped !== undefined && "addOn" in mapped ? (mapped.quantity ?? 1) : 1;
    items.push({ price, quantity: units / perUnit });
  }
  return items.length === 0 ? undefined : items;
}

/**
 * Returns the prices that a checkout of a configuration has to buy, by connected provider. Providers without price ids for
 * all of it are absent; undefined if none has them. Of several prices for one part, such as per month and per year, the first in the map counts. Source: contract
 * billing §4.
 */
export function pricesOf(
  connected: readonly ConnectedPrices[],
  service: string,
  configuration: Configuration | null,
): BilledPrices | undefined {
  if (configuration === null) return undefined;
  const key = serviceKey(service);
  const found = connected.flatMap(({ provider, prices }) => {
    const items = itemsOf(prices, key, configuration);
    return items === undefined ? [] : [[provider, items] as const];
  });
  return found.length === 0 ? undefined : Object.fromEntries(found);
}
