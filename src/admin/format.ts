import { UNLIMITED, type FeatureValue, type LimitValue, type Period } from "../core/pricing/model.ts";
import { texts } from "./texts.ts";

/** Language of the page; tests have none. */
const LANGUAGE = globalThis.document?.documentElement.lang || "en";
const MINUTE_MS = 60_000;
const WEEK_MS = 7 * 86_400_000;
const numbers = new Intl.NumberFormat(LANGUAGE, { maximumFractionDigits: 2 });
/** Day before month, as a number can be read both ways. */
const DATE_LANGUAGE = LANGUAGE === "en" ? "en-GB" : LANGUAGE;
const changes = new Intl.NumberFormat(LANGUAGE, { maximumFractionDigits: 2, signDisplay: "exceptZero" });
const shares = new Intl.NumberFormat(LANGUAGE, { style: "percent", maximumFractionDigits: 1 });
const shareChanges = new Intl.NumberFormat(LANGUAGE, {
  style: "percent",
  maximumFractionDigits: 1,
  signDisplay: "exceptZero",
});
const days = new Intl.DateTimeFormat(DATE_LANGUAGE, { dateStyle: "medium", timeZone: "UTC" });
const localDays = new Intl.DateTimeFormat(DATE_LANGUAGE, { dateStyle: "medium" });
const moments = new Intl.DateTimeFormat(DATE_LANGUAGE, { dateStyle: "medium", timeStyle: "short" });
const relative = new Intl.RelativeTimeFormat(LANGUAGE, { numeric: "auto" });

export const formatNumber = (value: number): string => numbers.format(value);

const lists = new Intl.ListFormat(LANGUAGE, { type: "conjunction" });

/** Formats a list: "user, seat and month". */
export const formatList = (words: readonly string[]): string => lists.format(words);

/** Formats a part of 1 as percent, with one decimal. */
export const formatShare = (share: number): string => shares.format(share);

/** Formats a change by a part of 1 as percent, with its sign. */
export const formatShareChange = (share: number): string => shareChanges.format(share);

/** Formats an amount with its sign. */
export const formatChange = (value: number): string => changes.format(value);

/** Formats a day that is one in UTC, independent of the reader's time zone: the date of a pricing, a day of a chart. */
export const formatDay = (iso: string): string => days.format(new Date(iso));

/** Formats the day of a moment in the reader's time zone, in which date fields are written. */
export const formatLocalDay = (iso: string): string => localDays.format(new Date(iso));

export const formatMoment = (iso: string): string => moments.format(new Date(iso));

/** Units with their lengths in seconds, and the number from which on each is used: "next month" would name no day. */
const STEPS: readonly (readonly [Intl.RelativeTimeFormatUnit, number, number])[] = [
  ["year", 31_536_000, 2],
  ["month", 2_592_000, 2],
  ["day", 86_400, 1],
  ["hour", 3600, 1],
  ["minute", 60, 1],
];

/** Formats a relative time: "in 3 days", "2 hours ago". */
export function formatDistance(iso: string, now: number): string {
  const seconds = (Date.parse(iso) - now) / 1000;
  const step = STEPS.find(([, length, from]) => Math.abs(seconds) >= length * from);
  const [unit, length] = step ?? (["second", 1] as const);
  return relative.format(Math.trunc(seconds / length), unit);
}

/** Formats a feature's or limit's value for people. */
export function formatValue(value: FeatureValue | LimitValue | undefined): string {
  if (value === undefined) return "–";
  if (typeof value === "boolean") return value ? texts.common.yes : texts.common.no;
  if (typeof value === "number") return value >= UNLIMITED ? texts.common.unlimited : formatNumber(value);
  return typeof value === "string" ? value : value.join(", ");
}

/**
 * Formats any value of a pricing, objects as `name value, …`; missing values get a placeholder text.
 * `capped`: numbers from 100,000,000 on are unlimited.
 */
export function formatUnknown(value: unknown, capped = true): string {
  if (value === undefined || value === null) return texts.compare.nothing;
  if (typeof value === "number" && !capped) return formatNumber(value);
  if (typeof value === "boolean" || typeof value === "number" || typeof value === "string") return formatValue(value);
  if (Array.isArray(value)) return value.map((each) => formatUnknown(each, capped)).join(", ") || texts.compare.nothing;
  return (
    Object.entries(value)
      .map(([name, each]) => `${name} ${formatUnknown(each, capped)}`)
      .join(", ") || texts.compare.nothing
  );
}

/** Formats a price in the pricing's currency. Formulas and words are returned unchanged. */
export function formatPrice(price: number | string, currency: string, options: Intl.NumberFormatOptions = {}): string {
  if (typeof price === "string") return price;
  try {
    return new Intl.NumberFormat(LANGUAGE, { style: "currency", currency, ...options }).format(price);
  } catch {
    return `${formatNumber(price)} ${currency}`;
  }
}

/** Formats a price for a plan's head: without decimals when whole. */
export const formatPriceShort = (price: number | string, currency: string): string =>
  formatPrice(price, currency, Number.isInteger(price) ? { maximumFractionDigits: 0 } : {});

/** Formats the difference of two prices with its sign. */
export const formatPriceChange = (change: number, currency: string): string =>
  formatPrice(change, currency, { signDisplay: "exceptZero" });

/** Words of pricings that are written in capitals, but seldom in keys. */
const ACRONYMS = new Set(
  (
    "AI API AWS CDN CI CPU CRM CSS CSV DNS ERP FAQ GB GDPR GPS GPU HIPAA HR HTML HTTP HTTPS IDE IP ISO JSON JWT KB KPI LDAP " +
    "LLM MB MFA NPS OCR OIDC PDF QA QR RAM RBAC RFID ROI RSS SAML SCIM SDK SEO SFTP SIEM SLA SMS SMTP SOC SQL SSD SSH SSL " +
    "SSO TB TLS UI URL USB UX VAT VIP VM VPN XML ZIP"
  ).split(" "),
);
const WORDS = /\d*[A-Z]{2,}s?(?![a-z])\d*|[A-Z]?[^A-Z]+?(?=\d*[A-Z]{2}|[A-Z]|$)|[A-Z]/g;
/** Whole names up to this length may be acronyms that nobody listed, so they stay as written. */
const MAX_ACRONYM_LENGTH = 3;

/** Turns a key of a pricing into a title: `darkMode` becomes "Dark mode", `apiCalls` "API calls". */
export function formatName(key: string): string {
  if (key.length <= MAX_ACRONYM_LENGTH && !isAcronym(key)) return key;
  const words = key.split(/[\s_-]+/).flatMap((part) => part.match(WORDS) ?? []);
  const title = words.map(formatWord).join(" ");
  return title.charAt(0).toUpperCase() + title.slice(1);
}

const isAcronym = (word: string): boolean => ACRONYMS.has(word.toUpperCase());

function formatWord(word: string): string {
  if (isAcronym(word)) return word.toUpperCase();
  const singular = word.slice(0, -1);
  if (word.endsWith("s") && isAcronym(singular)) return `${singular.toUpperCase()}s`;
  return /[A-Z]{2}/.test(word) ? word : word.toLowerCase();
}

/** Formats a moment: relative within a week, otherwise the date. */
export function formatWhen(iso: string, now: number): string {
  const distance = Math.abs(Date.parse(iso) - now);
  if (distance < MINUTE_MS) return texts.common.justNow;
  return distance < WEEK_MS ? formatDistance(iso, now) : formatLocalDay(iso);
}

/** Formats a period: "a month", "3 days". */
export function formatPeriod({ value, unit }: Period): string {
  return texts.pricing.period(formatNumber(value), texts.pricing.units[unit], value === 1);
}

/** Returns a message of the server or its parser without codes and other words that only programs match on. */
export function readable(message: string): string {
  const text = message
    .replace(/^(?:INVALID DATA|CONFLICT|NOT FOUND|PERMISSION ERROR|Invalid request|Pricing parsing error): /, "")
    .replace(/^Error parsing .+?\. Error: /, "");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Converts the local day of a date field to its first moment. Undefined for an empty field. */
export const momentOf = (day: string): string | undefined =>
  day === "" ? undefined : new Date(`${day}T00:00`).toISOString();
