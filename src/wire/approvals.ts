import { z } from "zod";
import { APPROVAL_ACTIONS, APPROVER_ROLES } from "../core/approvals.ts";
import { actor, EXAMPLE, id, moment, reasonText, NO_ORGANIZATION } from "./common.ts";
import type { Operation } from "./operation.ts";

const ACTIONS = `The actions field must be a list of ${APPROVAL_ACTIONS.join(", ")}, each once`;
const BY = `The by field must be a list of ${APPROVER_ROLES.join(" and ")}, with at least one`;
const DAYS = "The days field must be a whole number from 1 to 30";
const areDistinct = (values: readonly string[]) => new Set(values).size === values.length;

export const approvals = z
  .object({
    actions: z
      .array(z.enum(APPROVAL_ACTIONS, ACTIONS), ACTIONS)
      .refine(areDistinct, ACTIONS)
      .describe("Changes that need a second person; empty for none"),
    by: z
      .array(z.enum(APPROVER_ROLES, BY), BY)
      .min(1, BY)
      .refine(areDistinct, BY)
      .default([...APPROVER_ROLES])
      .describe("Roles that approve"),
    days: z
      .int(DAYS)
      .min(1, DAYS)
      .max(30, DAYS)
      .default(7)
      .describe("Days until a request expires; one for a scheduled change expires at its moment at the latest"),
  })
  .meta({ id: "ApprovalsToSet" });
export const approvalsShown = z
  .strictObject({
    actions: z.array(z.enum(APPROVAL_ACTIONS)),
    by: z.array(z.enum(APPROVER_ROLES)),
    days: z.number(),
  })
  .meta({ id: "Approvals" });
export const changeApproval = z
  .object({
    revision: z
      .int("The revision field must be a whole number")
      .optional()
      .describe("The revision whose report was read; another one is refused with 409"),
  })
  .meta({ id: "ChangeApproval" });
export const changeRejection = z.object({ reason: reasonText().optional() }).meta({ id: "ChangeRejection" });

/** Effect of a change: an impact report for changes of pricings. */
export const changeReport = z.looseObject({}).meta({ id: "ChangeReport" });
const STATES = ["pending", "approved", "rejected", "withdrawn", "expired"] as const;
export const changeRequestState = z.enum(STATES);
export const changeRequest = z
  .strictObject({
    id,
    action: z.enum(APPROVAL_ACTIONS),
    author: actor,
    createdAt: moment,
    expiresAt: moment,
    state: changeRequestState,
    summary: z.string(),
    report: changeReport,
    revision: z.number().describe("Counts the reports: each new one has to be approved"),
    decidedBy: z.string().nullable(),
    decidedAt: moment.nullable(),
    reason: z.string().nullable().describe("Why it was rejected"),
  })
  .meta({ id: "ChangeRequest" });
/** Answer of a change that needs a second person. */
export const heldChange = z.strictObject({ changeRequest }).meta({ id: "HeldChange" });

const SETTINGS = { actions: ["archive", "disable", "novate"], by: ["OWNER", "ADMIN"], days: 7 };
const REQUEST = {
  id: EXAMPLE.changeRequestId,
  action: "archive",
  author: { kind: "key", id: EXAMPLE.apiKeyId, name: "checkout server" },
  createdAt: EXAMPLE.createdAt,
  expiresAt: "2025-06-22T10:00:00.000Z",
  state: "pending",
  summary: "Archive 1.0.0 of Tasker",
  report: { action: "archive", serviceName: "Tasker", counts: { contracts: 3 } },
  revision: 1,
  decidedBy: null,
  decidedAt: null,
  reason: null,
};
const APPROVED = { ...REQUEST, state: "approved", decidedBy: "margaret", decidedAt: EXAMPLE.updatedAt };
const NOT_FOUND = `Change request ${EXAMPLE.changeRequestId} not found`;
const DECIDED = `CONFLICT: Change request ${EXAMPLE.changeRequestId} is approved`;
const FORBIDDEN = "PERMISSION ERROR: Change requests are decided on by: OWNER, ADMIN";

export const TOO_MANY_PENDING = "CONFLICT: An organization can have at most 100 pending change requests";
/** The answer that a change gets instead of its own, where it needs a second person. */
export const HELD = {
  description: "The change needs a second person, and waits",
  schema: heldChange,
  example: { changeRequest: REQUEST },
} as const;

/** Changes that need a second person. Source: contract sign-in §4. */
export const approvalOperations: readonly Operation[] = [
  {
    id: "showApprovals",
    group: "Changes",
    method: "GET",
    path: "/organizations/{organizationId}/approvals",
    summary: "Show what needs a second person",
    description: "Returns the changes that need a second person, who approves, and how long a request waits.",
    answers: { 200: { schema: approvalsShown, example: SETTINGS } },
    errors: { 404: NO_ORGANIZATION },
  },
  {
    id: "setApprovals",
    group: "Changes",
    method: "PUT",
    path: "/organizations/{organizationId}/approvals",
    summary: "Set what needs a second person",
    description:
      "Such a change, by a user or a key, is checked as usual, answered with 202 and a change request, and carried out once somebody else approves. Only an OWNER sets this.",
    body: { schema: approvals, example: SETTINGS },
    answers: { 200: { schema: approvalsShown, example: SETTINGS } },
    errors: { 404: NO_ORGANIZATION },
  },
  {
    id: "listChangeRequests",
    group: "Changes",
    method: "GET",
    path: "/organizations/{organizationId}/change-requests",
    summary: "List change requests",
    description: "Returns the 100 newest requests, newest first.",
    query: z.object({ state: changeRequestState.optional().describe("Only requests in this state") }),
    answers: { 200: { schema: z.array(changeRequest), example: [REQUEST] } },
    errors: { 404: NO_ORGANIZATION },
  },
  {
    id: "showChangeRequest",
    group: "Changes",
    method: "GET",
    path: "/organizations/{organizationId}/change-requests/{changeRequestId}",
    summary: "Show a change request",
    description: "Returns one request with the report that an approval stands for.",
    answers: { 200: { schema: changeRequest, example: REQUEST } },
    errors: { 404: NOT_FOUND },
  },
  {
    id: "approveChange",
    group: "Changes",
    method: "POST",
    path: "/organizations/{organizationId}/change-requests/{changeRequestId}/approve",
    summary: "Approve a change",
    description:
      "Checks the change again and carries it out, in one transaction. Never by its author; an OWNER without members adds `confirm=alone`. If the report has other counts by now, the answer is 409 with the new report. If the last contract of one of its groups has left, the answer is 409, and the request can only be rejected or withdrawn.",
    query: z.object({ confirm: z.literal("alone").optional().describe("Approves an own request of a lonely OWNER") }),
    body: { schema: changeApproval, example: { revision: 1 }, required: false },
    answers: { 200: { schema: changeRequest, example: APPROVED } },
    errors: { 403: FORBIDDEN, 404: NOT_FOUND, 409: DECIDED },
  },
  {
    id: "rejectChange",
    group: "Changes",
    method: "POST",
    path: "/organizations/{organizationId}/change-requests/{changeRequestId}/reject",
    summary: "Reject a change",
    description: "Changes nothing but the request. By those who may approve it.",
    body: { schema: changeRejection, example: { reason: "Wait until after the holidays" }, required: false },
    answers: {
      200: {
        schema: changeRequest,
        example: { ...APPROVED, state: "rejected", reason: "Wait until after the holidays" },
      },
    },
    errors: { 403: FORBIDDEN, 404: NOT_FOUND, 409: DECIDED },
  },
  {
    id: "withdrawChange",
    group: "Changes",
    method: "POST",
    path: "/organizations/{organizationId}/change-requests/{changeRequestId}/withdraw",
    summary: "Withdraw a change",
    description: "Takes back a request of the caller.",
    answers: { 200: { schema: changeRequest, example: { ...APPROVED, state: "withdrawn" } } },
    errors: {
      403: "PERMISSION ERROR: Only the author can withdraw a change request",
      404: NOT_FOUND,
      409: DECIDED,
    },
  },
];
