import type { BudgetTerms } from "../pricing/budget-terms.ts";
import { type BudgetWindow, patternText } from "../pricing/budgets.ts";
import type { FeatureValue, LimitValue, Period, PeriodUnit, UsageLimit } from "../pricing/model.ts";
import { UNLIMITED } from "../pricing/model.ts";

/*
 * Texts of a price page. English, and equal on every runtime: no locale data is involved. Source: contract offers §3.
 */

/** A value of a price page, with the text that shows it. */
export interface Shown<Value> {
  readonly value: Value;
  readonly text: string;
}

const METHODS: Readonly<Record<string, string>> = {
  CARD: "Card",
  GATEWAY: "Payment gateway",
  INVOICE: "Invoice",
  ACH: "ACH",
  WIRE_TRANSFER: "Wire transfer",
  OTHER: "Other",
};

const PERIODS: Readonly<Record<PeriodUnit, string>> = {
  SEC: "second",
  MIN: "minute",
  HOUR: "hour",
  DAY: "day",
  MONTH: "month",
  YEAR: "year",
};

const DECIMALS = 6;

/** Formats a number with a comma per thousand, between `least` and six decimals. */
function formatted(value: number, least: number): string {
  const [whole = "", decimals = ""] = Math.abs(value).toFixed(DECIMALS).split(".");
  const shown = decimals.replace(/0+$/, "");
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  const sign = value < 0 && (/[1-9]/.test(whole) || shown !== "") ? "-" : "";
  return sign + grouped + (shown === "" ? "" : `.${shown.padEnd(least, "0")}`);
}

const numberText = (value: number): string => formatted(value, 1);

const withUnit = (text: string, unit: string): string => (unit === "" ? text : `${text} ${unit}`);

/** Formats a price: `Free`, `12.50 EUR / user/month`, or the text of the file. */
export function priceText(price: number | string, currency: string, unit: string): string {
  if (typeof price === "string") return price === "" ? "On request" : price;
  if (price === 0) return "Free";
  const per = unit.replace(/^\//, "").trim();
  return `${formatted(price, 2)} ${currency}${per === "" ? "" : ` / ${per}`}`;
}

/** Formats the cost of a unit: `0.01 credits per large.output`. */
export function rateText(value: number, limit: { unit: string }, of: string): string {
  return `${withUnit(numberText(value), limit.unit)} per ${of}`;
}

/** Formats the value of a feature. */
export function featureText(value: FeatureValue): string {
  if (typeof value === "boolean") return value ? "Included" : "Not included";
  if (typeof value === "number") return value >= UNLIMITED ? "Unlimited" : numberText(value);
  if (typeof value === "string") return value === "" ? "Not included" : value;
  return value.length === 0 ? "Not included" : value.map((method) => METHODS[method] ?? method).join(", ");
}

function periodText({ value, unit }: Period): string {
  return value === 1 ? ` per ${PERIODS[unit]}` : ` per ${numberText(value)} ${PERIODS[unit]}s`;
}

/** Formats the value of a limit: `200 task per month`. */
export function limitText(value: LimitValue, { unit, type, period }: UsageLimit): string {
  if (typeof value === "boolean") return featureText(value);
  if (value >= UNLIMITED) return "Unlimited";
  const renews = type === "RENEWABLE" && period !== undefined && !unit.includes("/");
  return withUnit(numberText(value), unit) + (renews ? periodText(period) : "");
}

/** Formats a budget: `20 task per day for each spender`, `5 credit of large. in all for research`. */
export function budgetText(
  { amount, unit, window, spender }: Pick<BudgetTerms, "amount" | "unit" | "window" | "spender">,
  limit: UsageLimit,
): string {
  const most = typeof amount === "string" ? `As much as ${amount}` : withUnit(numberText(amount), limit.unit);
  const path = patternText(spender);
  const who =
    path === "" ? "" : spender.includes(null) ? ` for each ${path === "*" ? "spender" : path}` : ` for ${path}`;
  return `${most}${unit === null ? "" : ` of ${unit}`}${windowText(window, limit)}${who}`;
}

function windowText(window: BudgetWindow, { type, period }: UsageLimit): string {
  if (window === "period" && type === "RENEWABLE" && period !== undefined) return periodText(period);
  if (typeof window === "string") return " in all";
  const unit = window.unit.toLowerCase();
  return window.value === 1 ? ` per ${unit}` : ` per ${numberText(window.value)} ${unit}s`;
}

/** Formats what one unit of an add-on adds to a limit: `+100 task`. */
export function extensionText(value: number, { unit }: UsageLimit): string {
  return withUnit(`${value < 0 ? "" : "+"}${numberText(value)}`, unit);
}
