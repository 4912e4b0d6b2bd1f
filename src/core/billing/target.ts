import { addPeriod } from "../period.ts";
import type { Period } from "../pricing/model.ts";
import type { BillingProvider, SubscriptionStatus } from "./message.ts";
import { endOf, isGranting, type SubscriptionRegister } from "./register.ts";
import { entryOf, type ServiceTerms } from "./terms.ts";

/*
 * From the subscriptions of a user to the contract that they buy. A pure function of registers, terms and moment.
 * Source: contract billing §3, "Effect".
 */

/** Terms of a connection that decide on its subscriptions. */
export interface ConnectionTerms {
  readonly graceDays: number;
  /** Plan that an ended subscription leaves, by service key. Null or none: the service goes. */
  readonly ended: Readonly<Record<string, string | null>>;
}

/** A subscription of a user. */
export interface Followed {
  readonly provider: BillingProvider;
  readonly register: SubscriptionRegister;
  readonly terms: ConnectionTerms;
}

/** Target of one service: bought terms, the plan that an ended subscription leaves, or null, which takes the service away. */
export type ServiceTarget = ServiceTerms | null;

/** Billing period of a contract. Moments are milliseconds since 1970. */
export interface BillingTarget {
  readonly start: number;
  /** Null: one period after `start`. */
  readonly end: number | null;
  readonly autoRenew: boolean;
  readonly renewalPeriod: Period | null;
}

/** The contract that subscriptions buy. */
export interface ContractTarget {
  /** By service key, in byte order. Services that no subscription ever bought are not named. */
  readonly services: Readonly<Record<string, ServiceTarget>>;
  /** Terms of services that leave, which a contract that ends keeps. */
  readonly last: Readonly<Record<string, ServiceTerms>>;
  /** Period while something is bought. Null: no subscription tells one. */
  readonly period: BillingTarget | null;
  /** Set while nothing is bought: since when, and the period of what is left or ends. */
  readonly stopped: { readonly at: number; readonly start: number; readonly renewalPeriod: Period | null } | null;
}

/** The subscription that a contract shows. `since`: milliseconds since 1970. */
export interface ShownSubscription {
  readonly provider: BillingProvider;
  readonly subscription: string;
  readonly customer: string | null;
  readonly status: SubscriptionStatus;
  readonly since: number;
}

/** Newest first: by start, then by id. */
const byAge = (a: Followed, b: Followed) =>
  b.register.startedAt - a.register.startedAt || (a.register.subscription < b.register.subscription ? 1 : -1);

const granting = (followed: readonly Followed[], at: number) =>
  followed.filter(({ register, terms }) => isGranting(register, terms.graceDays, at)).toSorted(byAge);

/** Calendar months that periods of subscriptions have. */
const USUAL_MONTHS = [1, 3, 6, 12, 24, 36] as const;

/** Returns the period on the calendar from one moment to another; null if there is none of a usual length. */
export function calendarPeriod(start: number, end: number): Period | null {
  const months = USUAL_MONTHS.find((value) => addPeriod(new Date(start), { value, unit: "MONTH" }).getTime() === end);
  if (months === undefined) return null;
  return months % 12 === 0 ? { value: months / 12, unit: "YEAR" } : { value: months, unit: "MONTH" };
}

const periodOf = ({ periodStart, periodEnd, renewalPeriod }: SubscriptionRegister["newest"]): Period | null =>
  renewalPeriod ?? (periodStart === null || periodEnd === null ? null : calendarPeriod(periodStart, periodEnd));

function billingOf(register: SubscriptionRegister): BillingTarget | null {
  const { newest } = register;
  const { periodStart: start, periodEnd: end, endsAt } = newest;
  if (start === null || end === null) return null;
  const isLast = endsAt !== null && endsAt <= end;
  return { start, end: isLast ? Math.max(start, endsAt) : end, autoRenew: !isLast, renewalPeriod: periodOf(newest) };
}

/** Returns what these subscriptions of one user buy at a moment. */
export function targetAt(followed: readonly Followed[], at: number): ContractTarget {
  const granted = granting(followed, at);
  const aged = followed.toSorted(byAge);
  const targets: [string, ServiceTarget][] = [];
  const had: [string, ServiceTerms][] = [];
  const firstOf = (all: readonly Followed[], key: string) =>
    all.map(({ register }) => entryOf(register.newest.services, key)).find((terms) => terms !== undefined);
  for (const key of [...new Set(followed.flatMap(({ register }) => register.everServices))].sort()) {
    const bought = firstOf(granted, key);
    const newest = aged.find(({ register }) => register.everServices.includes(key));
    const plan = entryOf(newest?.terms.ended ?? {}, key) ?? null;
    targets.push([key, bought ?? (plan === null ? null : { plan, addOns: {} })]);
    const lost = firstOf(aged, key);
    if (bought === undefined && plan === null && lost !== undefined) had.push([key, lost]);
  }
  const services = Object.fromEntries(targets);
  const last = Object.fromEntries(had);
  const [leading] = granted;
  const period = granted.map(({ register }) => billingOf(register)).find((each) => each !== null) ?? null;
  if (leading !== undefined) return { services, last, period, stopped: null };
  return { services, last, period: null, stopped: stoppedOf(aged, at) };
}

/** Since when nothing is bought: the latest end of a subscription. */
function stoppedOf(aged: readonly Followed[], at: number): ContractTarget["stopped"] {
  const ends = aged.map(({ register, terms }) => ({
    register,
    at: Math.min(endOf(register, terms.graceDays) ?? register.newest.createdAt, at),
  }));
  const latest = ends.reduce((a, b) => (b.at > a.at ? b : a), ends[0] ?? { register: undefined, at });
  if (latest.register === undefined) return null;
  const start = Math.min(latest.register.newest.periodStart ?? latest.at, latest.at);
  return { at: latest.at, start, renewalPeriod: periodOf(latest.register.newest) };
}

/** Returns the next moment at which the target changes by itself: the end of days of grace, or of a subscription. */
export function nextChangeAt(followed: readonly Followed[], at: number): number | null {
  const ends = granting(followed, at).flatMap(({ register, terms }) => endOf(register, terms.graceDays) ?? []);
  return ends.length === 0 ? null : Math.min(...ends);
}

/** Returns the subscription that a contract follows: the newest that gives something, else the newest that has not ended. */
export function shownAt(followed: readonly Followed[], at: number): ShownSubscription | null {
  const open = followed.filter(({ register }) => register.newest.status !== "ended").toSorted(byAge);
  const shown = granting(followed, at)[0] ?? open[0];
  if (shown === undefined) return null;
  const { provider, register } = shown;
  const { subscription, customer, startedAt } = register;
  return { provider, subscription, customer, status: register.newest.status, since: startedAt };
}
