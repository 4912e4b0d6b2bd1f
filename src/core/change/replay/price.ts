import { lastBoundary, nextBoundary, renewalPeriodOf } from "../../period.ts";
import type { RecordedTerms } from "./record.ts";

const DAY_MS = 86_400_000;

/** Moments of a billing period. */
interface BillingPeriod {
  readonly start: number;
  readonly end: number;
}

/** Returns the billing period that runs just before `moment`. */
function periodBefore(terms: RecordedTerms, moment: number): BillingPeriod {
  const period = renewalPeriodOf(terms);
  if (period !== undefined) {
    const anchor = new Date(terms.startDate);
    const start = lastBoundary(anchor, period, new Date(moment));
    return { start: start.getTime(), end: nextBoundary(anchor, period, start).getTime() };
  }
  const length = Math.max(1, terms.renewalDays) * DAY_MS;
  // The first period ends at `endDate`, whatever its length: a trial, for example.
  if (moment <= terms.endDate && terms.endDate - length <= terms.startDate) {
    return { start: Math.min(terms.startDate, terms.endDate - 1), end: terms.endDate };
  }
  const ahead = Math.ceil((moment - terms.endDate) / length);
  return { start: terms.endDate + (ahead - 1) * length, end: terms.endDate + ahead * length };
}

/**
 * Returns the number of billing periods between two moments. A part of one counts as its share of time. A contract that does
 * not renew has none after its end.
 */
export function billedPeriods(terms: RecordedTerms, from: number, to: number): number {
  let end = terms.autoRenew ? to : Math.min(to, terms.endDate);
  let periods = 0;
  while (end > from) {
    const period = periodBefore(terms, end);
    const first = Math.max(from, period.start);
    periods += (end - first) / (period.end - period.start);
    end = first;
  }
  return periods;
}

/** Returns the price of these terms between two moments, rounded to hundredths. */
export function priceBetween(terms: RecordedTerms, listPrice: number, from: number, to: number): number {
  return Math.round(listPrice * billedPeriods(terms, from, to) * 100) / 100;
}
