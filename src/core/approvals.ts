import type { Author } from "./access/caller.ts";

/** Changes that an organization can require a second person for. Source: contract sign-in §4. */
export const APPROVAL_ACTIONS = ["activate", "archive", "disable", "novate", "gate", "delete"] as const;
export type ApprovalAction = (typeof APPROVAL_ACTIONS)[number];

/** Roles that approve. */
export const APPROVER_ROLES = ["OWNER", "ADMIN"] as const;
type ApproverRole = (typeof APPROVER_ROLES)[number];

/** Which changes need a second person, who that may be, and how long a request waits. */
export interface ApprovalSettings {
  actions: readonly ApprovalAction[];
  by: readonly ApproverRole[];
  days: number;
}

/** Settings of an organization that has set none. */
export const NO_APPROVALS: ApprovalSettings = { actions: [], by: APPROVER_ROLES, days: 7 };

/** Operations that carry out approved changes; stored with each request. */
export type ApprovedOperation =
  | "setAvailability"
  | "scheduleAvailability"
  | "disableService"
  | "updateService"
  | "pruneServices"
  | "novateHolders"
  | "novateGroup"
  | "setGate"
  | "deletePricing";

export type ChangeRequestState = "pending" | "approved" | "rejected" | "withdrawn" | "expired";

/** An approval that an operation runs under. */
export interface Approval {
  readonly requestId: string;
  organizationId: string;
  action: ApprovalAction;
  /** The approved basis, as JSON, and the revision of its report. */
  basis: string;
  revision: number;
  approver: Author;
  /** True for an OWNER without members, who approves an own request. */
  alone: boolean;
  /** Set once the change and its approval are written. */
  isSettled: boolean;
}
