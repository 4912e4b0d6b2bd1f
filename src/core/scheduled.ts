/*
 * Changes for later. Source: contract custom-terms §1, §4.
 */

export const SCHEDULED_KINDS = ["novation"] as const;
export type ScheduledKind = (typeof SCHEDULED_KINDS)[number];

export const SCHEDULED_STATES = ["pending", "done", "cancelled", "blocked"] as const;
export type ScheduledState = (typeof SCHEDULED_STATES)[number];

/** Reasons why a pending change was cancelled. */
export type CancelReason = "Cancelled" | "Cancelled by a novation" | "Its services were removed";
