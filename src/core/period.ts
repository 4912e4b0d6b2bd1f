import type { Period } from "./pricing/model.ts";

const MILLISECONDS = { SEC: 1_000, MIN: 60_000, HOUR: 3_600_000, DAY: 86_400_000 } as const;
const MONTHS = { MONTH: 1, YEAR: 12 } as const;

/** Shortest length of each unit. */
const SHORTEST_SECONDS = { SEC: 1, MIN: 60, HOUR: 3_600, DAY: 86_400, MONTH: 28 * 86_400, YEAR: 365 * 86_400 };
/** A pricing with a shorter period is refused. Stored ones, from before that rule, are read as one second. */
const SHORTEST_PERIOD: Period = { value: 1, unit: "SEC" };

/** Latest instant that the database and all ISO 8601 parsers of this project support. */
export const END_OF_TIME = Date.UTC(9999, 11, 31, 23, 59, 59, 999);

/** Returns true if `period` can be shorter than one second, the shortest period that a pricing may have. */
export function isBelowOneSecond({ value, unit }: Period): boolean {
  return !(value * SHORTEST_SECONDS[unit] >= 1);
}

/** Adds whole months in UTC. Clamps the day to the last day of the resulting month. */
function addWholeMonths(from: Date, months: number): number {
  const total = from.getUTCFullYear() * 12 + from.getUTCMonth() + months;
  const year = Math.floor(total / 12);
  if (year > 9999) return END_OF_TIME;
  const month = total - year * 12;
  const lastDay = new Date(Date.UTC(year, month + 1, 0)).getUTCDate();
  const timeOfDay = from.getTime() - Date.UTC(from.getUTCFullYear(), from.getUTCMonth(), from.getUTCDate());
  return Date.UTC(year, month, Math.min(from.getUTCDate(), lastDay)) + timeOfDay;
}

/** Adds months to a date. A fraction is a share of the calendar month that it falls in. */
function addMonths(from: Date, months: number): number {
  const whole = Math.floor(months);
  const start = addWholeMonths(from, whole);
  const share = months - whole;
  return share === 0 ? start : start + Math.round((addWholeMonths(from, whole + 1) - start) * share);
}

/**
 * Adds `times` periods to `from`, on the UTC calendar.
 *
 * Months and years keep the day of `from`, clamped to the last day of the resulting month. 31 January + 1 MONTH is 28
 * or 29 February. With + 2 MONTH or `times` 2 it is 31 March, because multiplication precedes clamping. Never later
 * than the end of the year 9999. Source: contracts.md §2.1.
 */
export function addPeriod(from: Date, period: Period, times = 1): Date {
  const amount = period.value * times;
  const time =
    period.unit === "MONTH" || period.unit === "YEAR"
      ? addMonths(from, amount * MONTHS[period.unit])
      : from.getTime() + Math.round(amount * MILLISECONDS[period.unit]);
  return new Date(time < END_OF_TIME ? time : END_OF_TIME);
}

export const RENEWAL_UNITS = ["DAY", "MONTH", "YEAR"] as const;
export type RenewalUnit = (typeof RENEWAL_UNITS)[number];

/** Period of a billing period on the calendar. */
export interface RenewalPeriod {
  /** 1 to 120. */
  readonly value: number;
  readonly unit: RenewalUnit;
}

/** Returns the renewal period of a row; undefined where days count. */
export function renewalPeriodOf(row: {
  renewalValue: number | null;
  renewalUnit: RenewalUnit | null;
}): RenewalPeriod | undefined {
  const { renewalValue: value, renewalUnit: unit } = row;
  return value === null || unit === null ? undefined : { value, unit };
}

/** Renewal of a billing period: by a period on the calendar, counted from its start, or by days. */
export interface Renewal {
  readonly startDate: Date;
  readonly endDate: Date;
  readonly renewalDays: number;
  readonly renewalValue: number | null;
  readonly renewalUnit: RenewalUnit | null;
}

/**
 * Returns the end of a renewed billing period, after `now`. On the calendar the n-th end is `startDate` + n periods, so that
 * month ends never drift. Source: contract billing §1.
 */
export function renewedBillingEnd(renewal: Renewal, now: Date): Date {
  const period = renewalPeriodOf(renewal);
  const { startDate, endDate, renewalDays } = renewal;
  if (period === undefined) return renewedEnd(endDate, renewalDays, now);
  return nextBoundary(startDate, period, new Date(Math.max(now.getTime(), endDate.getTime())));
}

/**
 * Returns the length of the running period in whole days, which clients without `renewalPeriod` read. A subscription's own
 * period need not end on the calendar, such as 28 February to 31 March: its length is in `renewalDays`.
 */
export function runningDays({ startDate, endDate, renewalDays, ...row }: Renewal): number {
  const period = renewalPeriodOf(row);
  const daysSince = (from: Date) => Math.max(1, Math.round((endDate.getTime() - from.getTime()) / MILLISECONDS.DAY));
  if (period === undefined) return daysSince(startDate);
  const boundary = nextBoundary(startDate, period, new Date(endDate.getTime() - 1));
  const isOnCalendar = boundary.getTime() === endDate.getTime();
  if (!isOnCalendar && daysSince(startDate) === renewalDays) return renewalDays;
  return daysSince(lastBoundary(startDate, period, endDate));
}

/**
 * Extends a billing period by whole periods of `days` until it ends after `now`. Never later than the end of the year
 * 9999, which a sum of valid periods can exceed.
 */
export function renewedEnd(end: Date, days: number, now: Date): Date {
  const period = Math.max(1, days) * MILLISECONDS.DAY;
  const periods = Math.floor((now.getTime() - end.getTime()) / period) + 1;
  return new Date(Math.min(end.getTime() + periods * period, END_OF_TIME));
}

/**
 * Returns the smallest `anchor + n × period` with n ≥ 1 that is strictly after `after`. Returns the end of the year
 * 9999 if there is none before it.
 *
 * Counts from the anchor each time, so month ends never drift: 31 January, 28 February, 31 March. The cost does not
 * depend on the time between `anchor` and `after`. Source: features-events.md §5.
 */
export function nextBoundary(anchor: Date, period: Period, after: Date): Date {
  const safe = isBelowOneSecond(period) ? SHORTEST_PERIOD : period;
  return addPeriod(anchor, safe, periodsUntil(anchor, safe, after));
}

/** Returns the largest `anchor + n × period` with n ≥ 0 that is strictly before `before`; the anchor if there is none. */
export function lastBoundary(anchor: Date, period: Period, before: Date): Date {
  const safe = isBelowOneSecond(period) ? SHORTEST_PERIOD : period;
  return addPeriod(anchor, safe, periodsUntil(anchor, safe, new Date(before.getTime() - 1)) - 1);
}

/**
 * Returns the smallest n ≥ 1 with `anchor + n × period` after `after`, or at the end of time. A period of at least one
 * second reaches the end of time within 2^39 steps, so that the searches below end and their sums stay exact.
 */
function periodsUntil(anchor: Date, period: Period, after: Date): number {
  const elapsed = after.getTime() - anchor.getTime();
  const longest =
    period.unit === "MONTH" || period.unit === "YEAR"
      ? period.value * MONTHS[period.unit] * 31 * MILLISECONDS.DAY
      : period.value * MILLISECONDS[period.unit];
  // Lower bound on the number of elapsed periods. The loop searches upwards from here.
  let below = Math.max(0, Math.floor(elapsed / longest) - 1);
  let step = 1;
  const reached = (times: number): boolean => {
    const time = addPeriod(anchor, period, times).getTime();
    return time > after.getTime() || time >= END_OF_TIME;
  };
  while (!reached(below + step)) {
    below += step;
    step *= 2;
  }
  let above = below + step;
  while (above - below > 1) {
    const middle = Math.floor((below + above) / 2);
    if (reached(middle)) above = middle;
    else below = middle;
  }
  return above;
}
