/** A message of the public channel, exactly as it goes over the wire. Source: specification, event channel. */
export type PublicEvent =
  | {
      code: "PRICING_CREATED" | "PRICING_ARCHIVED" | "PRICING_ACTIVED";
      details: { serviceName: string; pricingVersion: string };
    }
  | { code: "SERVICE_DISABLED"; details: { serviceName: string } };

/** What a contract is, apart from its usage and its history. Source: contract usage-records §1. */
export interface ContractFacts {
  id: string;
  userContact: Record<string, string> & { userId: string };
  /** Its dates in ISO 8601. */
  billingPeriod: { startDate: string; endDate: string; autoRenew: boolean; renewalDays: number };
  organizationId: string;
  groupId?: string;
  contractedServices: Record<string, string>;
  subscriptionPlans: Record<string, string>;
  subscriptionAddOns: Record<string, Record<string, number>>;
}

/** What concerns one end user: for streams and webhooks of the organization only, never for the public channel. */
export type PrivateEvent =
  | { code: "CONTRACT_CREATED" | "CONTRACT_NOVATED"; details: { contractId: string; userId: string } }
  | {
      code: "CONTRACT_RENEWED" | "CONTRACT_EXPIRED";
      /** `endDate`: of the billing period as it is then, ISO 8601. */
      details: { contractId: string; userId: string; endDate: string };
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
      code: "CONTRACT_UPDATED";
      /** `changed`: the facts that differ, in the order of the facts. */
      details: {
        contractId: string;
        userId: string;
        changed: readonly string[];
        before: ContractFacts;
        after: ContractFacts;
      };
    }
  | {
      code: "CONTRACT_DELETED";
      details: { contractId: string; userId: string; before: ContractFacts; after: null };
    };

/** Everything that is recorded. */
export type RecordedEvent = PublicEvent | PrivateEvent;

/** What an event says, as it is kept and delivered. */
export type EventDetails = Record<string, string | number | object | null>;

/** The codes of the public channel, as the specification spells them. */
export const PUBLIC_EVENT_CODES: readonly PublicEvent["code"][] = [
  "PRICING_CREATED",
  "PRICING_ARCHIVED",
  "PRICING_ACTIVED",
  "SERVICE_DISABLED",
];

/** Every code that a stream or a webhook can carry. */
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
  "CONTRACT_UPDATED",
  "CONTRACT_DELETED",
] as const satisfies readonly RecordedEvent["code"][];

const publicCodes: ReadonlySet<string> = new Set(PUBLIC_EVENT_CODES);

/** Whether an event with this code may be told to everybody. */
export function isPublicCode(code: string): boolean {
  return publicCodes.has(code);
}

/** Which events somebody gets; what is left out does not narrow. */
export interface EventFilter {
  organizationId?: string | undefined;
  codes?: readonly string[] | undefined;
}

/** Everything that may be told to everybody. */
export const PUBLIC_EVENTS: EventFilter = { codes: PUBLIC_EVENT_CODES };

/** Whether the filter lets this event through. */
export function passes(filter: EventFilter, event: { organizationId: string | null; code: string }): boolean {
  if (filter.organizationId !== undefined && filter.organizationId !== event.organizationId) return false;
  return filter.codes === undefined || filter.codes.includes(event.code);
}
