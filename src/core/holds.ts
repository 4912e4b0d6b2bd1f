/*
 * Holds: amounts of one feature's limits that are set aside until the cost of the work is known. Source: contract
 * usage-records §3.
 */

/** `hold`: taken and settled by a caller. `lease`: spent in the memory of a process. */
export type HoldKind = "hold" | "lease";

export const HOLD_STATES = ["open", "settled", "released", "expired"] as const;
export type HoldState = (typeof HOLD_STATES)[number];

export const ON_EXPIRY = ["release", "consume"] as const;
/** An expired hold gives its amounts back, or counts them. */
export type OnExpiry = (typeof ON_EXPIRY)[number];

/** Amount of one limit. */
export interface HeldAmount {
  readonly serviceId: string;
  readonly limitName: string;
  /** `<service>-<limit>`; follows renames of the service while the hold is open. */
  readonly id: string;
  readonly amount: number;
}

/** Held amount of one balance of a budget. */
export interface HeldBudget {
  /** Id of the budget. */
  readonly budget: string;
  /** Path of the spender; empty for the whole contract. */
  readonly spender: string;
  /** Limit of the budget. */
  readonly serviceId: string;
  readonly limitName: string;
  readonly amount: number;
}

/** Open holds of one contract at most. */
export const OPEN_HOLDS_PER_CONTRACT = 1000;

export const MIN_HOLD_MS = 1_000;
/** From creation, extensions included. */
export const MAX_HOLD_MS = 86_400_000;

const DURATION = /^P(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,3}))?S)?)?$/;

/**
 * Parses an ISO 8601 duration of days, hours, minutes and seconds, in milliseconds. Undefined for other text, and outside
 * of `from` to `to`.
 */
export function durationIn(text: string, from = MIN_HOLD_MS, to = MAX_HOLD_MS): number | undefined {
  const parts = DURATION.exec(text);
  if (parts === null || !/\d/.test(text)) return undefined;
  const [days, hours, minutes, seconds] = parts.slice(1, 5).map((part) => Number(part ?? 0));
  const milliseconds = Number((parts[5] ?? "").padEnd(3, "0"));
  const total =
    (((days ?? 0) * 24 + (hours ?? 0)) * 60 + (minutes ?? 0)) * 60_000 + (seconds ?? 0) * 1000 + milliseconds;
  return total >= from && total <= to ? total : undefined;
}
