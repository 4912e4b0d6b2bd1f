import type { Period } from "../pricing/model.ts";

export interface PlannedLevel {
  serviceId: string;
  limitName: string;
  position: number;
  consumed: number;
  anchor: Date | null;
  resetAt: Date | null;
  period: Period | null;
  /** Limit that the subscription grants; null if consumption cannot approach it. */
  limitValue: number | null;
  countsMembers: boolean;
}

export interface PlannedHistory {
  startDate: Date;
  endDate: Date;
  contractedServices: Record<string, string>;
  subscriptionPlans: Record<string, string>;
  subscriptionAddOns: Record<string, Record<string, number>>;
}

export interface PlannedContract {
  id: string;
  organizationId: string;
  contact: Record<"userId" | "username", string> &
    Record<"firstName" | "lastName" | "email" | "phone" | "groupId", string | null>;
  billing: { startDate: Date; endDate: Date; autoRenew: boolean; renewalDays: number };
  services: {
    serviceId: string;
    pricingId: string;
    plan: string | null;
    addOns: Record<string, number> | null;
  }[];
  levels: PlannedLevel[];
  history: PlannedHistory[];
}

/** True if the billing period was over before the import: SPACE's end users know that already. */
export const hasEnded = ({ billing }: PlannedContract, now: Date): boolean =>
  !billing.autoRenew && billing.endDate.getTime() <= now.getTime();
