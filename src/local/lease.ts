import type { Consumption } from "../client/back/evaluation-options.ts";
import { sum } from "../core/exact.ts";
import type { LimitedFeature } from "./answers.ts";
import type { LeaseAnswer } from "../client/back/leases.ts";

/** Terms that a lease is spent under. A contract that changes gets another version. */
export interface LeaseTerms {
  readonly version: string;
  readonly feature: LimitedFeature;
}

/** Amount per limit, in the order of `feature.limitIds`. */
export type Amounts = readonly number[];

/** Refill below this part of what was left after the last grant. */
const REFILL_BELOW = 0.5;
/** Part of what others may still take that one grant asks for at most. */
const SHARE = 1 / 4;
/** A grant asks for what this long takes at the present rate. */
const RATE_FOR_SECONDS = 4;
/** The first grant, in amounts at hand. */
const FIRST_AMOUNTS = 10;

/** Reads the amounts of a consumption; undefined unless it names exactly the feature's limits, with something to spend. */
export function amountsOf({ limitIds }: LimitedFeature, consumption: Consumption): Amounts | undefined {
  if (Object.keys(consumption).length !== limitIds.length) return undefined;
  const amounts = limitIds.map((id) => {
    const amount = consumption[id];
    return typeof amount === "number" ? amount : NaN;
  });
  const areValid = amounts.every((amount) => Number.isFinite(amount) && amount >= 0);
  return areValid && amounts.some((amount) => amount > 0) ? amounts : undefined;
}

/** Names amounts by their limits. Those that are missing are 0. */
export function byLimit({ limitIds }: LimitedFeature, amounts: Amounts): Record<string, number> {
  return Object.fromEntries(limitIds.map((id, index) => [id, amounts[index] ?? 0]));
}

/**
 * Returns the amounts that are to be left after a grant: those at hand, or more for the time to come. `remaining` is what
 * others may still take; null without a number, undefined if unknown.
 */
export function amountsToAsk(input: {
  atHand: Amounts;
  remaining: readonly (number | null)[] | undefined;
  perSecond: Amounts;
  isFirst: boolean;
}): Amounts {
  const { atHand, remaining, perSecond, isFirst } = input;
  return atHand.map((amount, index) => {
    const others = remaining === undefined ? 0 : remaining[index];
    const cap = others == null ? Infinity : others * SHARE;
    const atRate = (perSecond[index] ?? 0) * RATE_FOR_SECONDS;
    const more = Math.min(Math.max(atRate, isFirst ? amount * FIRST_AMOUNTS : 0), cap);
    // A part of one unit would be held for nothing.
    return Math.max(amount, Number.isInteger(amount) ? Math.floor(more) : Number(more.toPrecision(15)));
  });
}

/** A lease that this process spends from. Moments are of `performance.now()`. Source: contract tokens-and-leases §6, §7. */
export class HeldLease {
  readonly id: string;
  readonly terms: LeaseTerms;
  /** Totals since it began. */
  readonly spent: number[];
  /** The service ends it here, or up to a round trip later. */
  until = -Infinity;
  /** From here on a report makes it last longer; Infinity if the service does not grant more time. */
  renewAt = Infinity;
  /** Amounts that others may still take, by the last answer. */
  remaining: readonly (number | null)[] = [];
  private granted: Amounts;
  private used: Amounts;
  private refillBelow: Amounts = [];
  private readonly totals: number[];
  private readonly usage = new Map<string, number>();

  constructor(id: string, terms: LeaseTerms) {
    this.id = id;
    this.terms = terms;
    const zeros = terms.feature.limitIds.map(() => 0);
    this.granted = zeros;
    this.used = zeros;
    this.spent = [...zeros];
    this.totals = [...zeros];
  }

  /** Applies the answer to a call. Counted from `askedAt`, its first attempt, the lease ends early rather than late. */
  update(answer: LeaseAnswer, askedAt: number, leaseMs: number): void {
    const { lease, used, remaining } = answer;
    if (lease === null) return;
    const { limitIds } = this.terms.feature;
    this.granted = limitIds.map((id, index) => Math.max(this.granted[index] ?? 0, lease.granted[id] ?? 0));
    this.used = limitIds.map((id) => used?.[id] ?? 0);
    this.remaining = limitIds.map((id) => remaining?.[id] ?? null);
    const lastsMs = Date.parse(lease.until) - Date.parse(answer.now);
    this.until = askedAt + lastsMs;
    this.renewAt = lastsMs < leaseMs ? Infinity : askedAt + leaseMs / 2;
    this.lowerRefill();
  }

  /** Spends all of it, or nothing. Units are not spent from a lease. */
  spend(consumption: Consumption): boolean {
    const { limitIds } = this.terms.feature;
    let names = 0;
    for (const _ in consumption) names += 1;
    if (names !== limitIds.length) return false;
    for (let index = 0; index < names; index += 1) {
      const amount = consumption[limitIds[index] ?? ""];
      if (typeof amount !== "number" || !(amount >= 0)) return false;
      const total = sum(this.spent[index] ?? 0, amount);
      if (!(total <= (this.granted[index] ?? 0))) return false;
      this.totals[index] = total;
    }
    if (!this.isOn()) return false;
    for (let index = 0; index < names; index += 1) this.spent[index] = this.totals[index] ?? 0;
    return true;
  }

  /** Evaluates the feature as if nobody else had used anything since the last answer. */
  isOn(): boolean {
    const { feature } = this.terms;
    for (let index = 0; index < feature.limitIds.length; index += 1) {
      this.usage.set(feature.limitIds[index] ?? "", this.usedAt(index));
    }
    return feature.isOn(this.usage);
  }

  /** Usage per limit: of others by the last answer, and what was spent from this lease. */
  usedByLimit(): Record<string, number> {
    const { limitIds } = this.terms.feature;
    const used: Record<string, number> = {};
    for (let index = 0; index < limitIds.length; index += 1) used[limitIds[index] ?? ""] = this.usedAt(index);
    return used;
  }

  hasSomethingLeft(): boolean {
    return this.spent.some((spent, index) => spent < (this.granted[index] ?? 0));
  }

  /** True once so much is spent that it is time for a refill. */
  isLow(): boolean {
    for (let index = 0; index < this.spent.length; index += 1) {
      if (this.leftOf(index) < (this.refillBelow[index] ?? 0)) return true;
    }
    return false;
  }

  /** True if asking for these amounts would add something. */
  hasLess(amounts: Amounts): boolean {
    return amounts.some((amount, index) => this.leftOf(index) < amount);
  }

  /** Waits with the next refill until another half is spent. */
  lowerRefill(): void {
    this.refillBelow = this.spent.map((_, index) => this.leftOf(index) * REFILL_BELOW);
  }

  leftOf(index: number): number {
    return sum(this.granted[index] ?? 0, -(this.spent[index] ?? 0));
  }

  private usedAt(index: number): number {
    return sum(this.used[index] ?? 0, this.spent[index] ?? 0);
  }
}
