import type { GroupTarget } from "./change/configuration.ts";

/*
 * Changes for later. Source: contract custom-terms §1, §4, §6.
 */

/** Kinds of changes of contracts. */
export const CONTRACT_CHANGES = ["novation", "trialEnd"] as const;
export type ContractChange = (typeof CONTRACT_CHANGES)[number];

export const SCHEDULED_KINDS = [...CONTRACT_CHANGES, "availability"] as const;
export type ScheduledKind = (typeof SCHEDULED_KINDS)[number];

export const SCHEDULED_STATES = ["pending", "done", "cancelled", "blocked"] as const;
export type ScheduledState = (typeof SCHEDULED_STATES)[number];

/** Reasons why a pending change was cancelled. */
export type CancelReason =
  | "Cancelled"
  | "Cancelled by a novation"
  | "Novated before its end"
  | "Its services were removed"
  | "Its subscription is not followed any more"
  | "Its subscription changed"
  | "The version was deleted"
  | "The service was removed";

/** The subscription of a contract after its trial, of the same services; or the end of the contract. */
export type AfterTrial =
  | "end"
  | {
      readonly subscriptionPlans: Readonly<Record<string, string>>;
      readonly subscriptionAddOns: Readonly<Record<string, Readonly<Record<string, number>>>>;
    };

/** A service of a scheduled subscription. */
export interface ScheduledService {
  readonly key: string;
  readonly plan: string | null;
  readonly addOns: Readonly<Record<string, number>> | null;
}

/** A trial as the record of contracts keeps it; `until` is ISO 8601. */
export interface StoredTrial {
  readonly until: string;
  readonly endsContract: boolean;
  readonly services: readonly ScheduledService[] | null;
}

/** Returns the plans and add-ons of services as maps. */
export function chosenIn(services: readonly ScheduledService[]): Exclude<AfterTrial, "end"> {
  return {
    subscriptionPlans: Object.fromEntries(services.flatMap(({ key, plan }) => (plan === null ? [] : [[key, plan]]))),
    subscriptionAddOns: Object.fromEntries(
      services.flatMap(({ key, addOns }) => (addOns === null ? [] : [[key, addOns]])),
    ),
  };
}

/** Returns what follows a trial. */
export const afterTrial = ({ endsContract, services }: Omit<StoredTrial, "until">): AfterTrial =>
  endsContract ? "end" : chosenIn(services ?? []);

/** Target subscription for contracts of an archived version. */
export interface FallbackSubscription {
  subscriptionPlan?: string | undefined;
  subscriptionAddOns?: Record<string, number> | undefined;
  /** Targets per configuration. A configuration without any target gets its best fit. */
  groups?: readonly GroupTarget[] | undefined;
  /** New plan by previous plan. Default: the renames that the newest version declares. */
  renames?: Readonly<Record<string, string>> | undefined;
}

/** Another availability of a version at a later moment. */
export interface ScheduledAvailability {
  readonly availability: "active" | "archived";
  /** Name of the service and of the version when it was scheduled. */
  readonly serviceName: string;
  readonly version: string;
  /** Body of the call, as it was sent; null to activate. */
  readonly fallback: object | null;
  /** The targets of contracts that were read from it. */
  readonly targets: FallbackSubscription;
  readonly overrideReason: string | null;
  /** Gate rules that the reason passes over, as JSON text. */
  readonly passedOver: readonly string[];
}
