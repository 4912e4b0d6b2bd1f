import type { Offer, Shown } from "../client/offer.ts";
import { PERIOD_UNITS, UNLIMITED } from "../core/pricing/model.ts";
import { formatList, formatNumber, formatPriceShort } from "./format.ts";
import { texts } from "./texts.ts";

const t = texts.pricePage;

type Item = Pick<Offer["plans"][number], "price" | "unit">;
type Limit = Offer["limits"][number];
type Values<T> = Readonly<Record<string, Shown<T>>>;

/** Returns the same offer with texts in the console's language. The server's are English, with units as in the file. */
export function localOffer(offer: Offer): Offer {
  const { currency, limits } = offer;
  const limitOf = (name: string) => limits.find((each) => each.name === name);
  const priced = <T extends Item>(item: T) => ({
    ...item,
    price: { ...item.price, text: withUnit(priceText(item, currency), unitOf(item)) },
  });
  const plans = offer.plans.map((plan) => ({
    ...priced(plan),
    features: plan.features.map(localFeature),
    limits: plan.limits.map((shown, index) => ({ ...shown, text: limitText(shown, limits[index]) })),
  }));
  const addOns = offer.addOns.map((addOn) => ({
    ...priced(addOn),
    features: each(addOn.features, localFeature),
    limits: each(addOn.limits, (shown, name) => ({ ...shown, text: limitText(shown, limitOf(name)) })),
    extensions: each(addOn.extensions, (shown, name) => ({
      ...shown,
      text: extensionText(shown.value, limitOf(name)),
    })),
  }));
  return { ...offer, plans, addOns };
}

function each<T>(values: Values<T>, change: (shown: Shown<T>, name: string) => Shown<T>): Values<T> {
  return Object.fromEntries(Object.entries(values).map(([name, shown]) => [name, change(shown, name)]));
}

/** Formats a price without its unit: "Free", "€6", or the text of the file. */
export function priceText({ price: { value } }: Item, currency: string): string {
  if (value === 0) return t.free;
  return value === "" ? t.onRequest : formatPriceShort(value, currency);
}

/** Formats the unit of a price, "user and month" for `user/month`. Undefined for prices that have none. */
export function unitOf({ price, unit }: Item): string | undefined {
  const parts = unit.split("/").flatMap((part) => (part.trim() === "" ? [] : [timeWord(part.trim())]));
  return typeof price.value === "string" || price.value === 0 || parts.length === 0 ? undefined : formatList(parts);
}

const ENGLISH_UNITS = ["second", "minute", "hour", "day", "month", "year"];

/** Translates units of time, as pricings of every language write them in English. */
function timeWord(word: string): string {
  const unit = PERIOD_UNITS[ENGLISH_UNITS.indexOf(word.toLowerCase())];
  return unit === undefined ? word : texts.pricing.units[unit];
}

const withUnit = (price: string, unit: string | undefined): string =>
  unit === undefined ? price : t.priceWithUnit(price, unit);

function localFeature(shown: Shown): Shown {
  const { value, text } = shown;
  if (value === true) return { value, text: t.included };
  if (value === false || value === "" || (Array.isArray(value) && value.length === 0))
    return { value, text: t.notIncluded };
  return typeof value === "number" ? { value, text: amountText(value, "") } : { value, text };
}

const amountText = (value: number, unit: string): string =>
  value >= UNLIMITED ? texts.common.unlimited : `${formatNumber(value)} ${pluralOf(unit, value)}`.trim();

function limitText(shown: Shown, limit: Limit | undefined): string {
  const { value } = shown;
  if (typeof value !== "number" || limit === undefined) return localFeature(shown).text;
  const amount = amountText(value, limit.unit);
  const unit = PERIOD_UNITS.find((name) => name === limit.period?.unit);
  const isRenewed = limit.type === "RENEWABLE" && !limit.unit.includes("/") && value < UNLIMITED;
  if (!isRenewed || limit.period === null || unit === undefined) return amount;
  const count = limit.period.value;
  return t.perPeriod(amount, formatNumber(count), texts.pricing.units[unit], count === 1);
}

const extensionText = (value: number, limit: Limit | undefined): string =>
  `${value < 0 ? "" : "+"}${amountText(value, limit?.unit ?? "")}`;

/** English words that have no plural. */
const UNCOUNTED = new Set(["bandwidth", "data", "storage", "support", "traffic"]);

/**
 * Returns the plural that a number needs of a unit. Only words that are written as English nouns change: `GB`, `Aufgabe`
 * and `tasks` stay as written.
 */
export function pluralOf(unit: string, count: number): string {
  const [, before = "", noun = "", after = ""] = /^(.*\s)?([a-z]{3,})(\/.*)?$/.exec(unit) ?? [];
  if (Math.abs(count) === 1 || noun === "" || noun.endsWith("s") || UNCOUNTED.has(noun)) return unit;
  const plural = noun === "person" ? "people" : regularPlural(noun);
  return before + plural + after;
}

function regularPlural(noun: string): string {
  if (/[^aeiou]y$/.test(noun)) return `${noun.slice(0, -1)}ies`;
  return /(?:x|z|ch|sh)$/.test(noun) ? `${noun}es` : `${noun}s`;
}
