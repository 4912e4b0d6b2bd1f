import { isObject } from "../pricing-token.ts";
import type { Novation, Paging } from "./contracts.ts";

/** A novation for later. */
export interface NewScheduledChange extends Novation {
  /** A moment, as ISO 8601 if it is a text; or `periodEnd` for the end of the billing period. */
  readonly at: Date | string;
  /** 1 to 500 characters. */
  readonly reason?: string | undefined;
}

/** A change of a subscription that is kept until its moment. Moments are ISO 8601 texts in UTC. */
export interface ScheduledChange {
  readonly id: string;
  readonly organizationId: string;
  readonly kind: "novation";
  /** All states but `pending` are final. */
  readonly state: "pending" | "done" | "cancelled" | "blocked";
  readonly userId: string;
  readonly at: string;
  /** True if `at` follows the end of the billing period. */
  readonly atPeriodEnd: boolean;
  readonly contractedServices: Readonly<Record<string, string>>;
  readonly subscriptionPlans: Readonly<Record<string, string>>;
  readonly subscriptionAddOns: Readonly<Record<string, Readonly<Record<string, number>>>>;
  /** Null: as before. */
  readonly autoRenew: boolean | null;
  readonly reason: string | null;
  /** From when on the change holds; null until it is done. */
  readonly effectiveAt: string | null;
  /** Why it was cancelled or blocked. */
  readonly why: string | null;
  readonly createdAt: string;
  readonly actor: {
    readonly kind: "user" | "key" | "anonymous";
    readonly id: string | null;
    readonly name: string | null;
  };
}

/** Selects scheduled changes to list. All conditions must hold. */
export interface ScheduledQuery extends Paging {
  /** Default: pending. */
  readonly state?: ScheduledChange["state"] | undefined;
  readonly kind?: ScheduledChange["kind"] | undefined;
  readonly dueBefore?: Date | string | undefined;
}

export function isScheduledChange(value: unknown): value is ScheduledChange {
  return isObject(value) && typeof value["atPeriodEnd"] === "boolean" && typeof value["createdAt"] === "string";
}
