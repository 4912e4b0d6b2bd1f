import { z } from "zod";
import { TOO_LARGE } from "../core/exact.ts";
import { durationIn, HOLD_STATES, ON_EXPIRY } from "../core/holds.ts";
import { consumption } from "./amounts.ts";
import { budgetView } from "./budgets.ts";
import { strictBody } from "./change-bodies.ts";
import { amounts, EXAMPLE, id, moment, NO_SINGLE_CONTRACT } from "./common.ts";
import { BLOCKS, expectedConsumption, featureResult } from "./features.ts";
import type { Operation } from "./operation.ts";
import { requiredNotNull } from "./subscription.ts";

export const hold = z
  .strictObject({
    id,
    userId: z.string(),
    featureId: z.string(),
    amounts,
    state: z.enum(HOLD_STATES),
    onExpiry: z.enum(ON_EXPIRY).describe("What becomes of the amounts of a hold that nobody ends"),
    createdAt: moment,
    until: moment.describe("End of a hold that nobody ends before"),
    endedAt: moment.nullable().describe("Null while it is open"),
    counted: amounts.nullable().describe("What was counted; null if nothing was"),
  })
  .meta({ id: "Hold" });

const NO_DURATION = "The for field must be a duration from PT1S to PT24H";
const reported = (field: string) => {
  const numbers = `All values in ${field} must be non-negative finite numbers, or objects of them`;
  return consumption(requiredNotNull(`The ${field} field is required`, `The ${field} field must be an object`), {
    notNumbers: numbers,
    notAmounts: numbers,
    tooLarge: TOO_LARGE,
  });
};

/** Report of what the work of an open hold took so far. */
export const holdReport = strictBody({
  spent: reported("spent").describe("Total since the hold was taken, of each limit"),
  amounts: reported("amounts")
    .nullish()
    .describe("What is to be left of each limit after the call. Default: what is left"),
  for: z
    .string(NO_DURATION)
    .refine((text) => durationIn(text) !== undefined, NO_DURATION)
    .nullish()
    .describe("Extends to so long from now, at most 24 hours from creation: `PT1M`"),
}).meta({ id: "HoldReport" });

export const holdPage = z
  .strictObject({ data: z.array(hold), next: id.nullable().describe("The `before` of the next page, or null") })
  .meta({ id: "HoldPage" });

/** Answer of a settlement, about the limits of the hold. */
export const settlement = z
  .strictObject({
    eval: z.boolean(),
    limit: featureResult.shape.limit.unwrap(),
    used: amounts,
    error: z.null(),
    remaining: z.record(z.string(), z.number().nullable()),
    resetAt: z.record(z.string(), moment.nullable()),
    amounts: amounts.optional().describe("What the units of the call cost; only for a call with units"),
    budget: budgetView.optional().describe("The first budget that denies it, from the contract down"),
    hold,
  })
  .meta({ id: "Settlement" });

const HOLD = {
  id: EXAMPLE.holdId,
  userId: "ada",
  featureId: "tasker-board",
  amounts: { "tasker-maxTasks": 8 },
  state: "open",
  onExpiry: "release",
  createdAt: "2025-06-15T10:00:00.000Z",
  until: "2025-06-15T10:10:00.000Z",
  endedAt: null,
  counted: null,
};
const SETTLED = { ...HOLD, state: "settled", endedAt: "2025-06-15T10:03:00.000Z", counted: { "tasker-maxTasks": 5 } };
const SETTLEMENT = {
  eval: true,
  limit: { "tasker-maxTasks": 300 },
  used: { "tasker-maxTasks": 295 },
  error: null,
  remaining: { "tasker-maxTasks": 5 },
  resetAt: { "tasker-maxTasks": "2025-07-15T10:00:00.000Z" },
  hold: SETTLED,
};
const NOT_FOUND = `Hold ${EXAMPLE.holdId} not found`;
const ENDED = `CONFLICT: Hold ${EXAMPLE.holdId} was settled at 2025-06-15T10:03:00.000Z`;

/** Settling, extending and releasing. Source: contract usage-records §3. */
export const holdOperations: readonly Operation[] = [
  {
    id: "settleHold",
    group: "Features",
    method: "POST",
    path: "/holds/{holdId}",
    idempotent: true,
    summary: "Settle, report or extend a hold",
    description:
      "Counts what the work took and gives back the rest. Amounts up to the held ones are always counted; more only within the limits. Zero for every limit releases the hold. With `extend` it keeps the hold open for longer instead, and answers with the hold. With `keep=true` the body is a report: it counts what is new of the totals in `spent`, and keeps holding `amounts`.",
    query: z.object({
      ...BLOCKS,
      keep: z.literal("true").optional().describe("Counts what was spent so far, and keeps the hold open"),
      estimated: z.literal("true").optional().describe("Marks the movements as estimates of the caller"),
      extend: z.string().optional().describe("Extends to so long from now, at most 24 hours from creation: `PT10M`"),
    }),
    body: {
      schema: z.union([expectedConsumption, holdReport]),
      example: { "tasker-maxTasks": 5 },
      required: false,
    },
    answers: { 200: { schema: z.union([settlement, hold]), example: SETTLEMENT } },
    errors: {
      400: "INVALID DATA: extend must be an ISO 8601 duration from PT1S to PT24H",
      404: NOT_FOUND,
      409: ENDED,
      422: "The tasker-maxTasks field is required",
    },
  },
  {
    id: "releaseHold",
    group: "Features",
    method: "DELETE",
    path: "/holds/{holdId}",
    idempotent: true,
    summary: "Release a hold",
    description: "Gives back everything that the hold holds. Counts nothing. A released hold can be released again.",
    answers: { 204: null },
    errors: { 404: NOT_FOUND, 409: ENDED },
  },
];

/** Holds of one contract. */
export const contractHoldOperations: readonly Operation[] = [
  {
    id: "listHolds",
    group: "Contracts",
    method: "GET",
    path: "/contracts/{userId}/holds",
    summary: "List a contract's holds",
    description:
      "Lists amounts that are set aside until they are settled, newest first. Ended holds are retained as long as the usage ledger.",
    query: z.object({
      state: z
        .enum([...HOLD_STATES, "all"])
        .default("open")
        .describe("State of the holds"),
      limit: z.int().min(1).max(100).default(20).describe("Rows per page"),
      before: z.string().optional().describe("Only holds older than the one with this id"),
    }),
    answers: { 200: { schema: holdPage, example: { data: [HOLD], next: null } } },
    errors: {
      400: "INVALID DATA: state must be open, settled, released, expired or all",
      ...NO_SINGLE_CONTRACT,
    },
  },
];
