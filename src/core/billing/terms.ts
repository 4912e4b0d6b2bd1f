import type { BilledItem } from "./message.ts";
import { sumOfProducts } from "../exact.ts";
import { serviceKey } from "../pricing/names.ts";

/** Meaning of a provider's price. */
export type MappedPrice =
  | { readonly service: string; readonly plan: string }
  /** `quantity`: units of the add-on per unit of the price. Default: 1. */
  | { readonly service: string; readonly addOn: string; readonly quantity?: number | undefined }
  /** A block of credits on top of a plan. */
  | {
      readonly service: string;
      readonly limit: string;
      readonly amount: number;
      readonly expiresInDays?: number | undefined;
    };

export type PriceMap = Readonly<Record<string, MappedPrice>>;

/** Terms of one service that a subscription buys. Null: no plan. */
export interface ServiceTerms {
  readonly plan: string | null;
  readonly addOns: Readonly<Record<string, number>>;
}

const MAX_QUANTITY = 1_000_000;

/** Reads an own property: keys are names that users chose, such as `constructor`. */
export const entryOf = <T>(record: Readonly<Record<string, T>>, key: string): T | undefined =>
  Object.hasOwn(record, key) ? record[key] : undefined;

/** Result of reading items by a map. */
export type MappedItems =
  | { readonly services: Readonly<Record<string, ServiceTerms>> }
  | { readonly unmapped: string }
  | { readonly problem: string };

const quantityProblem = ({ price, quantity }: BilledItem) =>
  Number.isInteger(quantity) && quantity >= 1 && quantity <= MAX_QUANTITY
    ? undefined
    : `The quantity of ${price} must be a whole number from 1 to ${MAX_QUANTITY}`;

const NO_PRICE = "must be a text of 1 to 255 characters";

/** Reads what the items of a subscription buy. Of two plans of one service the later item counts. */
export function mapItems(items: readonly BilledItem[], prices: PriceMap): MappedItems {
  const unnamed = items.findIndex(({ price }) => price === "");
  if (unnamed >= 0) return { problem: `items[${unnamed}].price ${NO_PRICE}` };
  const unmapped = items.find(({ price }) => entryOf(prices, price) === undefined);
  if (unmapped !== undefined) return { unmapped: unmapped.price };
  const services = new Map<string, { plan: string | null; addOns: Map<string, number> }>();
  for (const item of items) {
    const mapped = entryOf(prices, item.price);
    if (mapped === undefined) continue;
    const problem = quantityProblem(item);
    if (problem !== undefined) return { problem };
    if ("limit" in mapped) return { problem: `${item.price} is a block of ${mapped.limit}, which no subscription has` };
    const key = serviceKey(mapped.service);
    const terms = services.get(key) ?? { plan: null, addOns: new Map<string, number>() };
    services.set(key, terms);
    if ("plan" in mapped) terms.plan = mapped.plan;
    else {
      const units = item.quantity * (mapped.quantity ?? 1);
      terms.addOns.set(mapped.addOn, (terms.addOns.get(mapped.addOn) ?? 0) + units);
    }
  }
  return {
    services: Object.fromEntries(
      [...services].map(([key, { plan, addOns }]) => [key, { plan, addOns: Object.fromEntries(addOns) }]),
    ),
  };
}

/** Reads what the known items of an ended subscription bought, so that a price without a map keeps nothing alive. */
export function mapKnownItems(items: readonly BilledItem[], prices: PriceMap): Readonly<Record<string, ServiceTerms>> {
  const known = items
    .filter(({ price }) => entryOf(prices, price) !== undefined)
    .filter((item) => quantityProblem(item) === undefined && !("limit" in (entryOf(prices, item.price) ?? {})));
  const mapped = mapItems(known, prices);
  return "services" in mapped ? mapped.services : {};
}

/** Largest block. */
const MAX_BLOCK = 100_000_000;

/** A block that a payment buys. */
export interface BoughtBlock {
  readonly service: string;
  readonly limit: string;
  readonly amount: number;
  readonly expiresInDays: number | null;
}

/** Reads the blocks that a payment buys. */
export function mapBlocks(
  items: readonly BilledItem[],
  prices: PriceMap,
): { readonly blocks: readonly BoughtBlock[] } | { readonly unmapped: string } | { readonly problem: string } {
  const blocks: BoughtBlock[] = [];
  for (const item of items) {
    if (item.price === "") return { problem: `The price of a payment ${NO_PRICE}` };
    const mapped = entryOf(prices, item.price);
    if (mapped === undefined) return { unmapped: item.price };
    const problem = quantityProblem(item);
    if (problem !== undefined) return { problem };
    if (!("limit" in mapped)) return { problem: `${item.price} is no block, which a payment can only buy` };
    const { service, limit, expiresInDays = null } = mapped;
    const amount = sumOfProducts([[mapped.amount, item.quantity]]);
    if (amount > MAX_BLOCK) return { problem: `A block of ${item.price} must be at most ${MAX_BLOCK}` };
    blocks.push({ service, limit, amount, expiresInDays });
  }
  return { blocks };
}
