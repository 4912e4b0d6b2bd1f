import type { Period } from "../pricing/model.ts";
import type { SubscriptionContent, SubscriptionStatus } from "./message.ts";
import type { ServiceTerms } from "./terms.ts";

/*
 * The known state of one subscription: a register that the messages of the subscription reach in any order, any number
 * of times. Each part is a maximum, a minimum or a union, so that the same messages end in the same register.
 * Only within one second does the order of arrival decide. Source: contract billing §3, "Order".
 */

/** State that the newest message tells. Moments are milliseconds since 1970. */
export interface SubscriptionState {
  readonly createdAt: number;
  /** Moment of arrival, which decides within one second. Absent in registers of earlier releases. */
  readonly arrivedAt?: number;
  readonly status: SubscriptionStatus;
  /** Bought terms by service key. */
  readonly services: Readonly<Record<string, ServiceTerms>>;
  readonly periodStart: number | null;
  readonly periodEnd: number | null;
  readonly renewalPeriod: Period | null;
  readonly endsAt: number | null;
}

/** A message that ended or threatened what the subscription gives. */
interface Trouble {
  readonly createdAt: number;
  readonly status: SubscriptionStatus;
  /** Moment from which on it counts. */
  readonly at: number;
}

export interface SubscriptionRegister {
  readonly subscription: string;
  readonly customer: string | null;
  /** Moment of creation: the oldest that a message tells. */
  readonly startedAt: number;
  /** Keys of all services that the subscription ever bought, in byte order. */
  readonly everServices: readonly string[];
  readonly newest: SubscriptionState;
  /** Moment of the newest message of an active or trialing subscription. */
  readonly goodAt: number | null;
  /** Later than `goodAt`, oldest first. */
  readonly trouble: readonly Trouble[];
}

/** Messages without a good one between them that a register remembers. The oldest counts, so that later ones can go. */
const MAX_TROUBLE = 8;

const isGood = (status: SubscriptionStatus) => status === "active" || status === "trialing";

/** True if the state of a message takes the place of the known one. An ended subscription never comes back. */
function isNewer(state: SubscriptionState, known: SubscriptionState): boolean {
  if ((state.status === "ended") !== (known.status === "ended")) return state.status === "ended";
  if (state.createdAt !== known.createdAt) return state.createdAt > known.createdAt;
  // A replayed message arrived when it came first.
  return (state.arrivedAt ?? 0) >= (known.arrivedAt ?? 0);
}

/** Returns the register after a message, and whether the message is the newest. */
export function received(
  register: SubscriptionRegister | undefined,
  content: SubscriptionContent,
  { createdAt, arrivedAt, services }: Pick<SubscriptionState, "createdAt" | "services"> & { arrivedAt: number },
): { register: SubscriptionRegister; isNewest: boolean } {
  const { subscription, status } = content;
  const startedAt = content.startedAt ?? createdAt;
  const state: SubscriptionState = {
    createdAt,
    arrivedAt,
    status,
    services,
    periodStart: content.periodStart,
    periodEnd: content.periodEnd,
    renewalPeriod: content.renewalPeriod,
    endsAt: content.endsAt,
  };
  const isNewest = register === undefined || isNewer(state, register.newest);
  const goodAt = isGood(status) ? Math.max(createdAt, register?.goodAt ?? createdAt) : (register?.goodAt ?? null);
  const at = status === "ended" ? Math.min(content.endedAt ?? createdAt, createdAt) : createdAt;
  const all = [...(register?.trouble ?? []), ...(isGood(status) ? [] : [{ createdAt, status, at }])];
  const newest = isNewest ? state : register.newest;
  return {
    isNewest,
    register: {
      subscription,
      customer: content.customer ?? register?.customer ?? null,
      startedAt: Math.min(startedAt, register?.startedAt ?? startedAt),
      everServices: [...new Set([...(register?.everServices ?? []), ...Object.keys(services)])].sort(),
      newest,
      goodAt,
      trouble: troubleSince(all, goodAt, newest),
    },
  };
}

/** Returns the troubles that no later good message has ended, each once. */
function troubleSince(all: readonly Trouble[], goodAt: number | null, newest: SubscriptionState): Trouble[] {
  const lasts = ({ createdAt, status }: Trouble) =>
    goodAt === null ||
    createdAt > goodAt ||
    status === "ended" ||
    // Within one second the order of arrival decides.
    (createdAt === goodAt && createdAt === newest.createdAt && status === newest.status);
  const byKey = new Map(all.filter(lasts).map((each) => [`${each.createdAt} ${each.status} ${each.at}`, each]));
  return [...byKey.values()]
    .sort((a, b) => a.createdAt - b.createdAt || a.at - b.at || (a.status < b.status ? -1 : 1))
    .slice(0, MAX_TROUBLE);
}

const DAY_MS = 86_400_000;

/** Moment from which on a subscription gives nothing more; null while none is known. */
export function endOf(register: SubscriptionRegister, graceDays: number): number | null {
  const { newest, trouble } = register;
  const ends = trouble.map(({ status, at }) => (status === "past_due" ? at + graceDays * DAY_MS : at));
  if (newest.endsAt !== null) ends.push(newest.endsAt);
  return ends.length === 0 ? null : Math.min(...ends);
}

/** True if the subscription gives what it buys at this moment. */
export function isGranting(register: SubscriptionRegister, graceDays: number, at: number): boolean {
  const { status } = register.newest;
  if (!isGood(status) && status !== "past_due") return false;
  const end = endOf(register, graceDays);
  return end === null || at < end;
}
