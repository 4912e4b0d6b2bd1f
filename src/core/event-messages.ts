import type { ApprovalAction } from "./approvals.ts";
import type { RenewalPeriod } from "./period.ts";
import type { BlockOrigin, StoredBlockState } from "./pricing/blocks.ts";
import type { Override } from "./pricing/overrides.ts";

/** A message of the public channel, in its wire format. Source: specification, event channel. */
export type PublicEvent =
  | {
      code: "PRICING_CREATED" | "PRICING_ARCHIVED" | "PRICING_ACTIVED";
      details: { serviceName: string; pricingVersion: string };
    }
  | { code: "SERVICE_DISABLED"; details: { serviceName: string } };

/** A contract without its usage and history. Source: contract usage-records §1. */
export interface ContractFacts {
  id: string;
  userContact: Record<string, string> & { userId: string };
  /** Dates are ISO 8601. */
  billingPeriod: {
    startDate: string;
    endDate: string;
    autoRenew: boolean;
    renewalDays: number;
    renewalPeriod?: RenewalPeriod;
  };
  organizationId: string;
  groupId?: string;
  contractedServices: Record<string, string>;
  subscriptionPlans: Record<string, string>;
  subscriptionAddOns: Record<string, Record<string, number>>;
}

/** The message of a payment provider that changed a contract. */
export interface BillingCause {
  provider: string;
  subscription: string;
  /** The provider's id of the message. */
  message: string;
}

/** How a trial ended. */
export type TrialOutcome = "converted" | "ended" | "blocked" | "novated" | "removed";

interface BlockDetails {
  contractId: string;
  userId: string;
  blockId: string;
  serviceName: string;
  limitName: string;
  origin: BlockOrigin;
  amount: number;
}

/** Events about one end user. Sent only to streams and webhooks of the organization, never to the public channel. */
export type PrivateEvent =
  | {
      code: "CONTRACT_CREATED";
      details: { contractId: string; userId: string; billing?: BillingCause; before: null; after: ContractFacts };
    }
  | {
      code: "CONTRACT_NOVATED";
      /** `scheduledId` names the scheduled change that novated the contract. */
      details: {
        contractId: string;
        userId: string;
        scheduledId?: string;
        billing?: BillingCause;
        before: ContractFacts;
        after: ContractFacts;
      };
    }
  | {
      code: "CONTRACT_RENEWED" | "CONTRACT_EXPIRED";
      /** `endDate` is the end of the billing period after the event, ISO 8601. An expiry changes no facts. */
      details: { contractId: string; userId: string; endDate: string; before: ContractFacts; after: ContractFacts };
    }
  | {
      code: "USAGE_LIMIT_REACHED";
      details: {
        contractId: string;
        userId: string;
        serviceName: string;
        limitName: string;
        limit: number;
        consumed: number;
      };
    }
  | {
      code: "USAGE_THRESHOLD_REACHED";
      /** `threshold` is in percent of `limit`; `resetTimeStamp` is ISO 8601, or null for a balance that never resets. */
      details: {
        contractId: string;
        userId: string;
        serviceName: string;
        limitName: string;
        threshold: number;
        limit: number;
        consumed: number;
        resetTimeStamp: string | null;
      };
    }
  | {
      code: "BUDGET_THRESHOLD_REACHED";
      /**
       * `threshold` is in percent of `amount`. `spender` is the path whose balance it is, null for the whole contract; `resetAt` is
       * ISO 8601, or null for a window without end.
       */
      details: {
        contractId: string;
        userId: string;
        serviceName: string;
        limitName: string;
        budget: string;
        spender: string | null;
        threshold: number;
        amount: number;
        used: number;
        resetAt: string | null;
      };
    }
  | {
      code: "CONTRACT_OVERRIDE_SET";
      /** `value` is JSON text; `from` and `until` are ISO 8601. */
      details: {
        contractId: string;
        userId: string;
        serviceName: string;
        value: string;
        from: string;
        until?: string;
      } & Pick<Override, "kind" | "name" | "mode">;
    }
  | {
      code: "CONTRACT_OVERRIDE_ENDED";
      details: {
        contractId: string;
        userId: string;
        serviceName: string;
        cause: "removed" | "expired" | "serviceLeft";
      } & Pick<Override, "kind" | "name">;
    }
  | {
      code: "CHANGE_SCHEDULED" | "CHANGE_CANCELLED" | "CHANGE_BLOCKED";
      /** `at` is ISO 8601; `why` says why it was cancelled or blocked. */
      details: { scheduledId: string; at: string; why?: string } & (
        | { kind: "novation"; contractId: string; userId: string }
        | {
            kind: "availability";
            serviceName: string;
            pricingVersion: string;
            availability: "active" | "archived";
          }
      );
    }
  | {
      code: "CHANGE_REQUESTED" | "CHANGE_APPROVED" | "CHANGE_REJECTED";
      /** A change that needs a second person; `reason` says why it was rejected. */
      details: { changeRequestId: string; action: ApprovalAction; summary: string; reason?: string };
    }
  /** `until` is ISO 8601. */
  | { code: "TRIAL_ENDING"; details: { contractId: string; userId: string; until: string } }
  | {
      code: "TRIAL_ENDED";
      /** `why` says why the subscription after a blocked trial is not possible. */
      details: { contractId: string; userId: string; until: string; outcome: TrialOutcome; why?: string };
    }
  | {
      code: "BLOCK_GRANTED";
      /** `from` and `expiresAt` are ISO 8601; `expiresAt` is null for a block that never ends. */
      details: BlockDetails & { from: string; expiresAt: string | null; reason: string };
    }
  | {
      code: "BLOCK_ENDED";
      /** `remaining` was not used. */
      details: BlockDetails & { state: Exclude<StoredBlockState, "open">; used: number; remaining: number };
    }
  | {
      code: "MEMBER_ADDED" | "MEMBER_REMOVED";
      details: { contractId: string; userId: string; memberId: string; name: string | null };
    }
  | {
      code: "CONTRACT_UPDATED";
      /** `changed` lists the properties that differ, in the order of {@link ContractFacts}. */
      details: {
        contractId: string;
        userId: string;
        changed: readonly string[];
        billing?: BillingCause;
        before: ContractFacts;
        after: ContractFacts;
      };
    }
  | {
      code: "CONTRACT_DELETED";
      details: { contractId: string; userId: string; before: ContractFacts; after: null };
    };

export type RecordedEvent = PublicEvent | PrivateEvent;

/** Payload of an event, as stored and delivered. */
export type EventDetails = Record<string, string | number | object | null>;

/** Codes of the public channel, spelled as in the specification. */
export const PUBLIC_EVENT_CODES: readonly PublicEvent["code"][] = [
  "PRICING_CREATED",
  "PRICING_ARCHIVED",
  "PRICING_ACTIVED",
  "SERVICE_DISABLED",
];

/** All codes that streams and webhooks can carry. */
export const EVENT_CODES = [
  "PRICING_CREATED",
  "PRICING_ARCHIVED",
  "PRICING_ACTIVED",
  "SERVICE_DISABLED",
  "CONTRACT_CREATED",
  "CONTRACT_NOVATED",
  "CONTRACT_RENEWED",
  "CONTRACT_EXPIRED",
  "USAGE_LIMIT_REACHED",
  "USAGE_THRESHOLD_REACHED",
  "CONTRACT_UPDATED",
  "CONTRACT_DELETED",
  "CONTRACT_OVERRIDE_SET",
  "CONTRACT_OVERRIDE_ENDED",
  "CHANGE_SCHEDULED",
  "CHANGE_CANCELLED",
  "CHANGE_BLOCKED",
  "CHANGE_REQUESTED",
  "CHANGE_APPROVED",
  "CHANGE_REJECTED",
  "TRIAL_ENDING",
  "TRIAL_ENDED",
  "BLOCK_GRANTED",
  "BLOCK_ENDED",
  "MEMBER_ADDED",
  "MEMBER_REMOVED",
  "BUDGET_THRESHOLD_REACHED",
] as const satisfies readonly RecordedEvent["code"][];

const publicCodes: ReadonlySet<string> = new Set(PUBLIC_EVENT_CODES);

/** Returns true if events with this code are public. */
export function isPublicCode(code: string): boolean {
  return publicCodes.has(code);
}

/** Selects the events of a subscriber. Absent properties match everything. */
export interface EventFilter {
  organizationId?: string | undefined;
  codes?: readonly string[] | undefined;
}

export const PUBLIC_EVENTS: EventFilter = { codes: PUBLIC_EVENT_CODES };

/** Returns true if the filter matches this event. */
export function passes(filter: EventFilter, event: { organizationId: string | null; code: string }): boolean {
  if (filter.organizationId !== undefined && filter.organizationId !== event.organizationId) return false;
  return filter.codes === undefined || filter.codes.includes(event.code);
}
