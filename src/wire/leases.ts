import { z } from "zod";
import { TOO_LARGE } from "../core/exact.ts";
import { durationIn, MIN_HOLD_MS } from "../core/holds.ts";
import { MAX_LEASE_MS } from "../core/leases.ts";
import { checkedAmounts, uncheckedAmount } from "./amounts.ts";
import { budgetView } from "./budgets.ts";
import { strictBody } from "./change-bodies.ts";
import { amounts, EXAMPLE, id, moment, NO_CONTRACT } from "./common.ts";
import { featureResult, SPENDER } from "./features.ts";
import type { Operation } from "./operation.ts";
import { requiredNotNull } from "./subscription.ts";

const NO_DURATION = "The for field must be a duration from PT1S to PT10M";

/** Parses the duration of a lease, in milliseconds; undefined for other text. */
export const leaseDurationIn = (text: string) => durationIn(text, MIN_HOLD_MS, MAX_LEASE_MS);

const duration = (missing: string) =>
  z
    .string(requiredNotNull(missing, NO_DURATION))
    .refine((text) => leaseDurationIn(text) !== undefined, NO_DURATION)
    .describe("ISO 8601 duration from now, from `PT1S` to `PT10M`");

/** Amounts by limit id. */
const amountsField = (field: string) => {
  const sentence = `All values in ${field} must be non-negative finite numbers`;
  return checkedAmounts(
    z.record(
      z.string(),
      uncheckedAmount,
      requiredNotNull(`The ${field} field is required`, `The ${field} field must be an object`),
    ),
    { notNumbers: sentence, notAmounts: sentence, tooLarge: TOO_LARGE },
  );
};

export const leaseRequest = strictBody({
  for: duration("The for field is required"),
  amounts: amountsField("amounts")
    .refine(
      (given) => Object.values(given).some((amount) => amount > 0),
      "The amounts field must have a number above 0",
    )
    .describe("Wanted amount of each limit of the feature"),
}).meta({ id: "LeaseRequest" });

export const leaseReport = strictBody({
  spent: amountsField("spent").describe("Total spent since the lease began, of each limit"),
  amounts: amountsField("amounts")
    .nullish()
    .describe("What is to be left of each limit after the call; all 0 ends the lease. Default: what is left"),
  for: duration(NO_DURATION).nullish().describe("Extends or shortens the lease to so long from now"),
}).meta({ id: "LeaseReport" });

export const lease = z
  .strictObject({
    id,
    userId: z.string(),
    featureId: z.string(),
    server: z.boolean(),
    state: z.enum(["open", "ended"]),
    granted: amounts.describe("Totals since the lease began"),
    spent: amounts.describe("Totals reported so far"),
    until: moment.describe("End of the lease: what is left then counts as consumed"),
  })
  .meta({ id: "Lease" });

export const leaseAnswer = z
  .strictObject({
    ...featureResult.shape,
    used: amounts.nullable().describe("Usage without what this lease spent and holds"),
    remaining: z
      .record(z.string(), z.number().nullable())
      .nullable()
      .describe("What is left for others after the call"),
    resetAt: z.record(z.string(), moment.nullable()).nullable(),
    now: moment,
    lease: lease.nullable().describe("Null if nothing was leased"),
    budget: budgetView.optional().describe("The first budget that denies it, from the contract down"),
  })
  .meta({ id: "LeaseAnswer" });

const LEASE = {
  id: EXAMPLE.leaseId,
  userId: "ada",
  featureId: "tasker-board",
  server: false,
  state: "open",
  granted: { "tasker-maxTasks": 100 },
  spent: { "tasker-maxTasks": 0 },
  until: "2026-03-10T09:05:30.000Z",
};
const ANSWER = {
  eval: true,
  limit: { "tasker-maxTasks": 300 },
  used: { "tasker-maxTasks": 3 },
  error: null,
  remaining: { "tasker-maxTasks": 197 },
  resetAt: { "tasker-maxTasks": "2026-04-10T09:00:00.000Z" },
  now: "2026-03-10T09:05:00.000Z",
  lease: LEASE,
};
const REPORTED = {
  ...ANSWER,
  remaining: { "tasker-maxTasks": 137 },
  now: "2026-03-10T09:05:20.000Z",
  lease: {
    ...LEASE,
    granted: { "tasker-maxTasks": 160 },
    spent: { "tasker-maxTasks": 60 },
    until: "2026-03-10T09:05:50.000Z",
  },
};
const NOT_FOUND = `Lease ${EXAMPLE.leaseId} not found`;

/** Opening, reporting and ending. Source: contract tokens-and-leases §6. */
export const leaseOperations: readonly Operation[] = [
  {
    id: "openLease",
    group: "Features",
    method: "POST",
    path: "/features/{userId}/{featureId}/leases",
    idempotent: true,
    summary: "Lease usage to a process",
    description:
      "Reserves as much as is available of the wanted amounts, for a process that spends them in its memory. A lease never passes a limit, and never outlives a reset or a change that time brings. With `lease` null, nothing is reserved. Unreported amounts count as consumed when the lease ends.",
    query: z.object({
      server: z.boolean().optional().describe("Evaluates the feature's server expression"),
      ...SPENDER,
    }),
    body: { schema: leaseRequest, example: { for: "PT30S", amounts: { "tasker-maxTasks": 100 } } },
    answers: {
      200: {
        description: "Nothing is leased",
        schema: leaseAnswer,
        example: {
          ...ANSWER,
          eval: false,
          used: { "tasker-maxTasks": 300 },
          remaining: { "tasker-maxTasks": 0 },
          lease: null,
        },
      },
      201: { description: "Leased", schema: leaseAnswer, example: ANSWER },
    },
    errors: {
      404: NO_CONTRACT,
      409: "CONFLICT: The contract of ada has 100 open leases",
      422: "The for field is required",
    },
  },
  {
    id: "reportLease",
    group: "Features",
    method: "POST",
    path: "/leases/{leaseId}",
    summary: "Report and refill a lease",
    description:
      "Counts what was newly spent, and grants what lacks of the wanted amounts as far as it is available. Totals make the call safe to repeat. Zero for every limit ends the lease and frees the rest, until 24 hours after its end.",
    body: {
      schema: leaseReport,
      example: { spent: { "tasker-maxTasks": 60 }, amounts: { "tasker-maxTasks": 100 }, for: "PT30S" },
    },
    answers: { 200: { schema: leaseAnswer, example: REPORTED } },
    errors: {
      404: NOT_FOUND,
      409: `CONFLICT: Lease ${EXAMPLE.leaseId} ended at 2026-03-10T09:05:30.000Z`,
      422: "The spent field is required",
    },
  },
  {
    id: "endLease",
    group: "Features",
    method: "DELETE",
    path: "/leases/{leaseId}",
    summary: "End a lease",
    description:
      "Frees everything that was not reported as spent, until 24 hours after the end of the lease. An ended lease can be ended again.",
    answers: { 204: null },
    errors: { 404: NOT_FOUND },
  },
];
