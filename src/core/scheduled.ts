/*
 * Changes for later. Source: contract custom-terms §1, §4, §6.
 */

export const SCHEDULED_KINDS = ["novation", "trialEnd"] as const;
export type ScheduledKind = (typeof SCHEDULED_KINDS)[number];

export const SCHEDULED_STATES = ["pending", "done", "cancelled", "blocked"] as const;
export type ScheduledState = (typeof SCHEDULED_STATES)[number];

/** Reasons why a pending change was cancelled. */
export type CancelReason =
  | "Cancelled"
  | "Cancelled by a novation"
  | "Novated before its end"
  | "Its services were removed";

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
