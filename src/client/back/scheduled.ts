import { isObject } from "../pricing-token.ts";
import type { Novation, Optional, Paging, Subscription } from "./subscription.ts";
import type { Override } from "./overrides.ts";

/** A novation for later. */
export interface NewScheduledChange extends Novation {
  /** A moment, as ISO 8601 if it is a text; or `periodEnd` for the end of the billing period. */
  readonly at: Date | string;
  /** 1 to 500 characters. */
  readonly reason?: string | undefined;
}

/** Continuation after a trial: the end of the contract, or other plans and add-ons of the same services. */
export type AfterTrial = "end" | Omit<Subscription, "contractedServices">;

/** A trial, while it lasts. `until` is ISO 8601, in UTC. */
export interface Trial {
  readonly until: string;
  readonly then: AfterTrial;
}

/** A trial that a new contract begins with. */
export type NewTrial = {
  readonly then: AfterTrial;
  /** `TRIAL_ENDING` is sent so many days before the end; 0 for never. Default: 3. */
  readonly remindDays?: number | undefined;
  /** Allows another trial of a service. Needs a key of scope ALL. Default: false. */
  readonly again?: boolean | undefined;
} & ({ readonly days: number } | { readonly until: Date | string });

/** Fields of every scheduled change. */
type CommonChange = Readonly<{
  id: string;
  organizationId: string;
  /** All states but `pending` are final. */
  state: "pending" | "done" | "cancelled" | "blocked";
  userId: string;
  at: string;
  /** True if `at` follows the end of the billing period. */
  atPeriodEnd: boolean;
  reason: string | null;
  /** From when on the change holds; null until it is done. */
  effectiveAt: string | null;
  /** Why it was cancelled or blocked. */
  why: string | null;
  createdAt: string;
  actor: Override["actor"];
}>;

/** A change of a subscription that is kept until its moment. Moments are ISO 8601 texts in UTC. */
export interface ScheduledNovation extends CommonChange, Subscription {
  readonly kind: "novation";
  /** Null: as before. */
  readonly autoRenew: boolean | null;
}

/** The end of a trial. */
export interface ScheduledTrialEnd extends CommonChange {
  readonly kind: "trialEnd";
  readonly then: AfterTrial;
}

/** Another availability of a version at a later moment. */
export interface ScheduledAvailability extends Omit<CommonChange, "userId" | "atPeriodEnd" | "reason"> {
  readonly kind: "availability";
  readonly serviceName: string;
  readonly pricingVersion: string;
  readonly availability: "active" | "archived";
  /** Targets of contracts, as they were sent; null to activate. */
  readonly fallback: object | null;
  readonly overrideReason: string | null;
}

export type ScheduledChange = ScheduledNovation | ScheduledTrialEnd | ScheduledAvailability;

/** Selects scheduled changes to list. All conditions must hold. */
export type ScheduledQuery = Paging &
  Optional<{
    /** Default: pending. */
    state: ScheduledChange["state"];
    kind: ScheduledChange["kind"];
    dueBefore: Date | string;
  }>;

/**
 * Recognizes a scheduled novation.
 * @internal
 */
export function isScheduledNovation(value: unknown): value is ScheduledNovation {
  return isScheduledChange(value) && value.kind === "novation";
}

/** @internal */
export function isScheduledChange(value: unknown): value is ScheduledChange {
  return isObject(value) && typeof value["kind"] === "string" && typeof value["createdAt"] === "string";
}
