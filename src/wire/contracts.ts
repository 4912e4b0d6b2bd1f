import { z } from "zod";
import { HELD } from "./approvals.ts";
import { GATE_CLOSED, OVERRIDE } from "./change-bodies.ts";
import {
  afterParameter,
  EXAMPLE,
  limitParameter,
  offsetParameter,
  pageParameter,
  NO_SINGLE_CONTRACT,
  NO_ORGANIZATION,
} from "./common.ts";
import { billingChanges, contactChanges, newContract, novation, usageAmounts } from "./contract-bodies.ts";
import { contract, contractShown } from "./contract-answers.ts";
import type { Operation } from "./operation.ts";

const SUBSCRIPTION = {
  contractedServices: { tasker: "1.0.0" },
  subscriptionPlans: { tasker: "FREE" },
  subscriptionAddOns: {},
};
const CONTRACT = {
  id: EXAMPLE.contractId,
  userContact: { userId: "ada", username: "ada", email: "ada@example.com" },
  billingPeriod: {
    startDate: EXAMPLE.createdAt,
    endDate: "2025-07-15T10:00:00.000Z",
    autoRenew: true,
    renewalDays: 30,
  },
  usageLevels: { tasker: { maxTasks: { resetTimeStamp: "2025-07-15T10:00:00.000Z", consumed: 3 } } },
  organizationId: EXAMPLE.organizationId,
  ...SUBSCRIPTION,
  history: [],
};

const filterParameter = (field: string) => z.string().optional().describe(`Part of the ${field}`);
const CANCEL_SCHEDULED = {
  cancelScheduled: z.literal("true").optional().describe("Cancels the pending scheduled change"),
};
const groupParameter = z.string().describe("Id of the group");
const atParameter = z.iso
  .datetime({ offset: true, local: true })
  .or(z.iso.date())
  .optional()
  .describe("Answers as of this past moment, from the recorded state; counts nothing");
export const AT = { at: atParameter };
/** Operations that also exist inside an organization. Source: contract contracts. */
export const contractOperations: readonly Operation[] = [
  {
    id: "listContracts",
    group: "Contracts",
    method: "GET",
    path: "/contracts",
    summary: "List contracts",
    description:
      "Lists contracts, filtered and sorted. The header X-Total-Count has the number of matches. A platform ADMIN without an organization sees all of them.",
    query: z.object({
      q: z.string().optional().describe("Text in the user's id, names or email address, or in the group's id"),
      userId: filterParameter("user id"),
      username: filterParameter("name"),
      firstName: filterParameter("first name"),
      lastName: filterParameter("last name"),
      email: filterParameter("email address"),
      groupId: z.string().optional().describe("Id of the group"),
      page: pageParameter,
      offset: offsetParameter,
      after: afterParameter,
      limit: limitParameter(20),
      sort: z.enum(["firstName", "lastName", "username", "email"]).default("username").describe("Field to sort by"),
      order: z.enum(["asc", "desc"]).default("asc").describe("Direction"),
      filters: z
        .string()
        .optional()
        .describe('JSON: `{"services": […], "plans": {…}, "addOns": {…}}`, the last two by service'),
      state: z
        .enum(["active", "renewing", "ending", "expired"])
        .optional()
        .describe("State in the billing period; `ending`: within a week"),
      member: z.string().optional().describe("Only contracts that have this member"),
      trial: z.literal("true").optional().describe("Only contracts in a trial"),
      near: z.number().gt(0).max(1).optional().describe("Share of a limit that was consumed at least"),
    }),
    agent: { may: "read", page: "contracts" },
    answers: { 200: { schema: z.array(contract), example: [CONTRACT] } },
  },
  {
    id: "createContract",
    group: "Contracts",
    method: "POST",
    path: "/contracts",
    summary: "Contract an end user",
    description:
      "Subscribes an end user to versions, plans and add-ons of your services, and starts counting its usage. An end user has one contract per organization.",
    body: {
      schema: newContract,
      example: {
        userContact: { userId: "ada", username: "ada", email: "ada@example.com" },
        billingPeriod: { autoRenew: true, renewalDays: 30 },
        ...SUBSCRIPTION,
      },
    },
    answers: { 201: { schema: contract, example: CONTRACT } },
    errors: {
      400: "Invalid contract: Services not found: tasker",
      404: NO_ORGANIZATION,
      409: "CONFLICT: Contract for user ada already exists",
    },
  },
  {
    id: "novateGroup",
    group: "Contracts",
    method: "PUT",
    path: "/contracts",
    summary: "Change the subscription of a group",
    description:
      "Replaces the subscription of every contract of a group, all or none. The organization's gate decides, as for other changes of many contracts.",
    query: z.object({ groupId: groupParameter, ...CANCEL_SCHEDULED, ...OVERRIDE }),
    body: { schema: novation, example: SUBSCRIPTION },
    answers: { 200: { schema: z.array(contract), example: [CONTRACT] }, 202: HELD },
    errors: {
      404: `INVALID DATA: No contracts found with groupId team-1 within organization ${EXAMPLE.organizationId}`,
      409: GATE_CLOSED,
    },
  },
  {
    id: "deleteContracts",
    group: "Contracts",
    method: "DELETE",
    path: "/contracts",
    summary: "Delete every contract",
    description:
      "Deletes all contracts of the organization with their usage, or only the one of `userId`. Needs scope ALL or a platform ADMIN.",
    query: z.object({ userId: z.string().optional().describe("Delete only the contract of this end user") }),
    answers: { 204: null },
    errors: NO_SINGLE_CONTRACT,
  },
  {
    id: "showContract",
    group: "Contracts",
    method: "GET",
    path: "/contracts/{userId}",
    summary: "Show a contract",
    description: "Returns an end user's contract with its balances, now or at a past moment.",
    query: z.object(AT),
    agent: { may: "read", page: "contracts/{userId}" },
    answers: { 200: { schema: contractShown, example: CONTRACT } },
    errors: NO_SINGLE_CONTRACT,
  },
  {
    id: "novateContract",
    group: "Contracts",
    method: "PUT",
    path: "/contracts/{userId}",
    summary: "Change a subscription",
    description:
      "Replaces what an end user is subscribed to. Balances of limits that stay are kept, and the previous subscription goes to the history. A scheduled change stays.",
    query: z.object(CANCEL_SCHEDULED),
    body: { schema: novation, example: SUBSCRIPTION },
    answers: { 200: { schema: contract, example: CONTRACT } },
    errors: NO_SINGLE_CONTRACT,
  },
  {
    id: "deleteContract",
    group: "Contracts",
    method: "DELETE",
    path: "/contracts/{userId}",
    summary: "Delete a contract",
    description: "Deletes an end user's contract with its usage.",
    answers: { 204: null },
    errors: NO_SINGLE_CONTRACT,
  },
];

/** Operations that exist only at the top level. */
export const contractDetailOperations: readonly Operation[] = [
  {
    id: "changeBillingPeriods",
    group: "Contracts",
    method: "PUT",
    path: "/contracts/billingPeriod",
    summary: "Change many billing periods",
    description: "Changes the billing period of a group, or of all contracts of the key's organization.",
    query: z.object({ groupId: groupParameter.optional() }),
    body: { schema: billingChanges, example: { autoRenew: true, renewalDays: 365 } },
    answers: { 200: { schema: z.array(contract), example: [CONTRACT] } },
    errors: {
      404: `INVALID DATA: Contract with groupId team-1 not found within organization ${EXAMPLE.organizationId}`,
    },
  },
  {
    id: "changeUsage",
    group: "Contracts",
    method: "PUT",
    path: "/contracts/{userId}/usageLevels",
    idempotent: true,
    summary: "Add, return or reset usage",
    description:
      "Adds amounts to balances, returns negative amounts, or resets balances. Every movement goes to the ledger. With an Idempotency-Key a retry counts once.",
    query: z.object({
      reset: z.boolean().optional().describe("Resets all renewable balances"),
      renewableOnly: z.boolean().default(true).describe("False: `reset` includes the other balances"),
      usageLimit: z.string().optional().describe("Resets only this limit"),
    }),
    body: { schema: usageAmounts, example: { tasker: { maxTasks: 2 } } },
    answers: { 200: { schema: contract, example: CONTRACT } },
    errors: NO_SINGLE_CONTRACT,
  },
  {
    id: "changeContact",
    group: "Contracts",
    method: "PUT",
    path: "/contracts/{userId}/userContact",
    summary: "Change contact details",
    description: "Changes the contact fields that the body names.",
    body: { schema: contactChanges, example: { email: "ada@example.org" } },
    answers: { 200: { schema: contract, example: CONTRACT } },
    errors: NO_SINGLE_CONTRACT,
  },
  {
    id: "changeBillingPeriod",
    group: "Contracts",
    method: "PUT",
    path: "/contracts/{userId}/billingPeriod",
    summary: "Change a billing period",
    description: "Changes renewal or end of one contract's billing period.",
    body: { schema: billingChanges, example: { autoRenew: false } },
    answers: { 200: { schema: contract, example: CONTRACT } },
    errors: NO_SINGLE_CONTRACT,
  },
];
