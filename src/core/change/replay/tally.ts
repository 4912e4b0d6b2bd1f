import { sum } from "../../exact.ts";
import type { Findings } from "./contract.ts";
import type { DenialReason } from "./decision.ts";
import { priceBetween } from "./price.ts";
import { type ContractRecord, type Placement, placementKey } from "./record.ts";
import type { DayPercentiles, DeniedCalls, ReplayedDay, ReplayedPrice, ReplayedUser } from "./report.ts";

const DAY_MS = 86_400_000;

interface GroupPart {
  contracts: number;
  denied: DeniedCalls;
  /** Contracts by whole days to their first denial. */
  firstDenials: number[];
  price: { then: number; replayed: number };
}

/** Counts of some contracts, as plain data. Counts of several parts add up. */
export interface ReplayPart {
  contracts: number;
  movements: number;
  denied: DeniedCalls;
  reasons: Record<DenialReason, number>;
  revenue: { then: number; replayed: number };
  unpriced: number;
  paying: { more: number; less: number; same: number };
  /** By whole days since the first day of the range. */
  days: { denied: number; contracts: number }[];
  /** By the number of their group. */
  groups: Record<number, GroupPart>;
  top: ReplayedUser[];
  complete: boolean;
  /** Keys of configurations without a placement. */
  missing: string[];
}

const noDenials = (): DeniedCalls => ({ contracts: 0, movements: 0, amounts: {} });

export const emptyPart = (): ReplayPart => ({
  contracts: 0,
  movements: 0,
  denied: noDenials(),
  reasons: { LIMIT_REACHED: 0, NOT_GRANTED: 0, BUDGET_REACHED: 0, gone: 0 },
  revenue: { then: 0, replayed: 0 },
  unpriced: 0,
  paying: { more: 0, less: 0, same: 0 },
  days: [],
  groups: {},
  top: [],
  complete: true,
  missing: [],
});

const groupOf = (part: ReplayPart, group: number): GroupPart =>
  (part.groups[group] ??= {
    contracts: 0,
    denied: noDenials(),
    firstDenials: [],
    price: { then: 0, replayed: 0 },
  });

function addAmounts(to: Record<string, number>, amounts: Readonly<Record<string, number>>): void {
  for (const [id, amount] of Object.entries(amounts)) if (amount !== 0) to[id] = sum(to[id] ?? 0, amount);
}

function addDenied(to: DeniedCalls, from: DeniedCalls): void {
  to.contracts += from.contracts;
  to.movements += from.movements;
  addAmounts(to.amounts, from.amounts);
}

function addPrice(to: { then: number; replayed: number }, from: { then: number; replayed: number }): void {
  to.then = sum(to.then, from.then);
  to.replayed = sum(to.replayed, from.replayed);
}

/** Order of the most affected users: by denials, then by user id. */
const mostDenied = (one: ReplayedUser, other: ReplayedUser): number =>
  other.denied - one.denied || (one.userId < other.userId ? -1 : 1);

/** Adds the counts of `from` to `to`. */
export function addPart(to: ReplayPart, from: ReplayPart, top: number): void {
  to.contracts += from.contracts;
  to.movements += from.movements;
  addDenied(to.denied, from.denied);
  for (const reason of ["LIMIT_REACHED", "NOT_GRANTED", "BUDGET_REACHED", "gone"] as const)
    to.reasons[reason] += from.reasons[reason];
  addPrice(to.revenue, from.revenue);
  to.unpriced += from.unpriced;
  for (const side of ["more", "less", "same"] as const) to.paying[side] += from.paying[side];
  for (const [index, { denied, contracts }] of from.days.entries()) {
    const day = dayOf(to, index);
    day.denied += denied;
    day.contracts += contracts;
  }
  for (const [number, group] of Object.entries(from.groups)) {
    const into = groupOf(to, Number(number));
    into.contracts += group.contracts;
    addDenied(into.denied, group.denied);
    addPrice(into.price, group.price);
    for (const [days, contracts] of group.firstDenials.entries())
      into.firstDenials[days] = (into.firstDenials[days] ?? 0) + (contracts ?? 0);
  }
  to.top = [...to.top, ...from.top].toSorted(mostDenied).slice(0, top);
  to.complete &&= from.complete;
  to.missing.push(...from.missing);
}

function dayOf(part: ReplayPart, index: number): ReplayPart["days"][number] {
  while (part.days.length <= index) part.days.push({ denied: 0, contracts: 0 });
  return part.days[index] ?? { denied: 0, contracts: 0 };
}

/** Facts of one contract, collected while it is replayed. */
interface Collected {
  movements: number;
  denied: number;
  amounts: Record<string, number>;
  firstDenialAt: number;
  /** Denials by day. */
  days: Map<number, number>;
  groups: Map<number, { denied: number; amounts: Record<string, number>; firstAt: number }>;
}

/** A time in which a contract had one configuration of the service. */
interface Span {
  readonly placement: Placement;
  readonly from: number;
  readonly to: number;
  readonly price: { readonly then: number; readonly replayed: number };
}

/** Counts replayed contracts into one part. */
export class Tally {
  readonly part = emptyPart();
  readonly #setting: {
    serviceId: string;
    placements: ReadonlyMap<string, Placement>;
    from: number;
    to: number;
    top: number;
  };
  readonly #firstDay: number;

  constructor(setting: {
    serviceId: string;
    placements: ReadonlyMap<string, Placement>;
    from: number;
    to: number;
    top: number;
  }) {
    this.#setting = setting;
    this.#firstDay = Math.floor(setting.from / DAY_MS);
  }

  /** Returns what collects the findings of a contract, and a function that counts them. */
  open(record: ContractRecord): { findings: Findings; close: () => void } {
    const collected: Collected = {
      movements: 0,
      denied: 0,
      amounts: {},
      firstDenialAt: Infinity,
      days: new Map(),
      groups: new Map(),
    };
    const findings: Findings = {
      counted: () => void (collected.movements += 1),
      denied: ({ at, group, reason, amounts }) => {
        collected.movements += 1;
        collected.denied += 1;
        this.part.reasons[reason] += 1;
        addAmounts(collected.amounts, amounts);
        collected.firstDenialAt = Math.min(collected.firstDenialAt, at);
        const day = Math.floor(at / DAY_MS) - this.#firstDay;
        collected.days.set(day, (collected.days.get(day) ?? 0) + 1);
        if (group === undefined) return;
        const of = collected.groups.get(group) ?? { denied: 0, amounts: {}, firstAt: Infinity };
        of.denied += 1;
        of.firstAt = Math.min(of.firstAt, at);
        addAmounts(of.amounts, amounts);
        collected.groups.set(group, of);
      },
    };
    return { findings, close: () => this.#close(record, collected) };
  }

  #close(record: ContractRecord, collected: Collected): void {
    const { part } = this;
    const { spans, missing } = this.#spansOf(record);
    part.missing.push(...missing);
    if (spans.length === 0) return;
    const begins = Math.min(...spans.map(({ from }) => from));
    part.contracts += 1;
    part.movements += collected.movements;
    part.complete &&= record.complete;
    for (const [index, denied] of collected.days) {
      const day = dayOf(part, index);
      day.denied += denied;
      day.contracts += 1;
    }
    const { movements, amounts } = { movements: collected.denied, amounts: collected.amounts };
    addDenied(part.denied, { contracts: movements > 0 ? 1 : 0, movements, amounts });
    const isPriced = spans.every(({ placement: { price } }) => price.then !== null && price.replayed !== null);
    const price = { then: 0, replayed: 0 };
    for (const group of new Set(spans.map(({ placement }) => placement.group))) {
      const into = groupOf(part, group);
      const denied = collected.groups.get(group);
      into.contracts += 1;
      for (const span of spans) if (span.placement.group === group) addPrice(into.price, span.price);
      if (denied === undefined) continue;
      addDenied(into.denied, { contracts: 1, movements: denied.denied, amounts: denied.amounts });
      const days = Math.max(0, Math.floor((denied.firstAt - begins) / DAY_MS));
      while (into.firstDenials.length <= days) into.firstDenials.push(0);
      into.firstDenials[days] = (into.firstDenials[days] ?? 0) + 1;
    }
    for (const span of spans) addPrice(price, span.price);
    if (isPriced) {
      addPrice(part.revenue, price);
      part.paying[price.replayed > price.then ? "more" : price.replayed < price.then ? "less" : "same"] += 1;
    } else part.unpriced += 1;
    if (collected.denied === 0) return;
    const user: ReplayedUser = {
      userId: record.userId,
      denied: collected.denied,
      firstDenialAt: new Date(collected.firstDenialAt).toISOString(),
      price: isPriced ? price : { then: null, replayed: null },
    };
    part.top = [...part.top, user].toSorted(mostDenied).slice(0, this.#setting.top);
  }

  /** Lists the times in which the contract had the service and was valid. */
  #spansOf({ terms }: ContractRecord): { spans: Span[]; missing: string[] } {
    const { serviceId, placements, from, to } = this.#setting;
    const spans: Span[] = [];
    const missing: string[] = [];
    for (const [index, each] of terms.entries()) {
      const service = each.services.find((one) => one.serviceId === serviceId);
      if (service === undefined) continue;
      const begins = Math.max(from, each.since);
      const ends = Math.min(to, terms[index + 1]?.since ?? Infinity, each.autoRenew ? Infinity : each.endDate + 1);
      if (ends <= begins) continue;
      const placement = placements.get(placementKey(service));
      if (placement === undefined) {
        missing.push(placementKey(service));
        continue;
      }
      const { then, replayed } = placement.price;
      const price = {
        then: then === null ? 0 : priceBetween(each, then, begins, ends),
        replayed: replayed === null ? 0 : priceBetween(each, replayed, begins, ends),
      };
      spans.push({ placement, from: begins, to: ends, price });
    }
    return { spans, missing };
  }
}

/** Lists all days of the range. */
export function daysOf(part: ReplayPart, from: number, to: number): ReplayedDay[] {
  const first = Math.floor(from / DAY_MS);
  return Array.from({ length: Math.floor((to - 1) / DAY_MS) - first + 1 }, (_, index) => ({
    day: new Date((first + index) * DAY_MS).toISOString().slice(0, 10),
    denied: part.days[index]?.denied ?? 0,
    contracts: part.days[index]?.contracts ?? 0,
  }));
}

/** Returns percentiles of a count by whole days, by the nearest rank; null without any. */
export function percentilesOf(counts: readonly number[]): DayPercentiles | null {
  const all = counts.reduce((added, count) => added + count, 0);
  if (all === 0) return null;
  const at = (share: number) => {
    let rank = Math.ceil(share * all);
    return Math.max(
      0,
      counts.findIndex((count) => (rank -= count) <= 0),
    );
  };
  return { p10: at(0.1), p50: at(0.5), p90: at(0.9) };
}

/** Price of a group, null where its list price is a text or in another currency. */
export const groupPrice = (price: Placement["price"], part: GroupPart | undefined): ReplayedPrice => ({
  then: price.then === null ? null : (part?.price.then ?? 0),
  replayed: price.replayed === null ? null : (part?.price.replayed ?? 0),
});
