import type { ContractBilling, RenewalPeriod } from "./billing.ts";
import type { Override } from "./overrides.ts";
import type { NewTrial, ScheduledNovation, Trial } from "./scheduled.ts";
import type { Optional, Subscription } from "./subscription.ts";
import { isObject } from "../pricing-token.ts";

/** Contact data of an end user. */
export type UserContact = Readonly<{ userId: string; username: string }> &
  Optional<{ firstName: string; lastName: string; email: string; phone: string }>;

/** One end user's contract. Moments are ISO 8601 texts in UTC. */
export type Contract = Subscription &
  Readonly<{
    id: string;
    userContact: UserContact;
    billingPeriod: {
      readonly startDate: string;
      readonly endDate: string;
      readonly autoRenew: boolean;
      /** With `renewalPeriod`: length of the running period. */
      readonly renewalDays: number;
      /** Period on the calendar, where one is set. */
      readonly renewalPeriod?: RenewalPeriod;
    };
    /** Per service and limit. `resetTimeStamp` only for limits that renew, `held` where open holds hold something. */
    usageLevels: Readonly<
      Record<
        string,
        Readonly<
          Record<string, { readonly consumed: number; readonly resetTimeStamp?: string; readonly held?: number }>
        >
      >
    >;
    organizationId: string;
    groupId?: string;
    /** Former subscriptions, oldest first. */
    history: readonly (Subscription & { readonly startDate: string; readonly endDate: string })[];
    /** Overrides that have not ended, if there are any. */
    overrides?: readonly Override[];
    /** The pending change of the subscription, if there is one. */
    scheduled?: ScheduledNovation;
    /** The trial, while it lasts. */
    trial?: Trial;
    /** The payment provider's subscription that the contract follows, if any. */
    billing?: ContractBilling;
  }>;

/** State of the contract from which a past answer was computed. Moments are ISO 8601 texts in UTC. */
export type AsOf = Readonly<{
  at: string;
  /** Begin of that state, the change that caused it, and its end; `until` is null while it lasts. */
  since: string;
  cause: string;
  until: string | null;
}>;

/** A new contract. */
export interface NewContract extends Subscription {
  readonly userContact: UserContact;
  /** With `autoRenew`, one of the other two is required, and never both. Default: 30 days. */
  readonly billingPeriod?:
    | { readonly autoRenew?: boolean; readonly renewalDays?: number; readonly renewalPeriod?: RenewalPeriod }
    | undefined;
  /** Label under which contracts can be changed together. */
  readonly groupId?: string | undefined;
  /** The contract begins with a trial, and goes on or ends by itself. */
  readonly trial?: NewTrial | undefined;
}

/** Changes of a billing period. Absent fields stay as they are. */
export type BillingChanges = Optional<{
  /** ISO 8601. */
  endDate: string;
  autoRenew: boolean;
  /** Takes the place of `renewalPeriod`, and the other way round. */
  renewalDays: number;
  renewalPeriod: RenewalPeriod;
}>;

/** Selects contracts to list. All conditions must hold. */
export type ContractQuery = Optional<{
  /** Matches any part of the name, ignoring case; so do the next three. */
  username: string;
  firstName: string;
  lastName: string;
  email: string;
  groupId: string;
  /** Id of a member that the contracts have. */
  member: string;
  sort: "username" | "firstName" | "lastName" | "email";
  order: "asc" | "desc";
  /** Contracts with any of these services, or any of their versions, plans or add-ons. */
  filters: {
    readonly services?: readonly string[] | Readonly<Record<string, readonly string[]>>;
    readonly plans?: Readonly<Record<string, readonly string[]>>;
    readonly addOns?: Readonly<Record<string, readonly string[]>>;
  };
  /** State in the billing period. `renewing`: renews automatically. `ending`: ends within a week. */
  state: "active" | "renewing" | "ending" | "expired";
  /** End users that have used at least this share of a limit: above 0, up to 1. */
  near: number;
  /** True for contracts in a trial only. */
  trial: boolean;
}>;

/**
 * Limits to reset: the named one in every service that has it; otherwise all that renew, and with `all` every limit.
 */
export type UsageReset = { readonly limit: string } | { readonly all?: boolean };

/**
 * Returns true for an answer about a past moment. An older service answers about the present.
 * @internal
 */
export function hasAsOf(value: unknown): value is { asOf: AsOf } {
  return isObject(value) && isObject(value["asOf"]);
}

/** @internal */
export function isContract(value: unknown): value is Contract {
  return isObject(value) && isObject(value["userContact"]);
}

/** @internal */
export function isPast(value: unknown): value is Contract & { asOf: AsOf } {
  return isContract(value) && hasAsOf(value);
}
