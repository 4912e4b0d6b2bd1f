import { z } from "zod";
import { instantIn } from "../core/instant.ts";
import { strictBody, targets } from "./change-bodies.ts";
import { amounts, moment, NO_SERVICE } from "./common.ts";
import type { Operation } from "./operation.ts";

const date = (field: string) => {
  const sentence = `The ${field} field must be an ISO 8601 date`;
  return z.string(sentence).refine((text) => instantIn(text) !== undefined, sentence);
};

export const replayBody = strictBody({
  pricingVersion: z.string({ error: "The pricingVersion field must be a string" }).optional(),
  from: date("from").optional().describe("Start of the range. Default: start of the last whole month, in UTC"),
  to: date("to")
    .optional()
    .describe("End of the range, which it excludes: at most 92 days later, and not in the future"),
  groups: targets.groups,
  renames: targets.renames,
  keepPlans: z
    .boolean({ error: "The keepPlans field must be a boolean" })
    .default(false)
    .describe(
      "Contracts keep the plan and add-ons of the same names where the target has them, instead of the best fit",
    ),
  top: z
    .int({ error: "The top field must be a whole number from 0 to 100" })
    .min(0, "The top field must be a whole number from 0 to 100")
    .max(100, "The top field must be a whole number from 0 to 100")
    .default(20)
    .describe("Number of most affected users to list"),
}).meta({ id: "ReplayToRun" });

const configuration = z.strictObject({ plan: z.string().optional(), addOns: amounts });
const denied = z.strictObject({
  contracts: z.number().describe("Contracts with a denied call"),
  movements: z.number().describe("Denied calls"),
  amounts: amounts.describe("By limit id: what they would have consumed"),
});
const price = z
  .strictObject({ then: z.number().nullable(), replayed: z.number().nullable() })
  .describe("List prices, by the share of billing periods in the range. Null: a text price, or another currency");

export const replayReport = z
  .strictObject({
    action: z.literal("replay"),
    serviceName: z.string(),
    targetVersion: z.string(),
    from: moment,
    to: moment,
    basis: z.literal("movements").describe("Only what was counted is replayed: other evaluations are not recorded"),
    complete: z.boolean().describe("False if terms are not recorded from the start, or a best fit is uncertain"),
    contracts: z.number().describe("Contracts that had the service in the range"),
    movements: z.number().describe("Calls that consumed something"),
    totals: z.strictObject({
      denied: denied.extend({
        reasons: z
          .strictObject({
            LIMIT_REACHED: z.number(),
            NOT_GRANTED: z.number(),
            BUDGET_REACHED: z.number(),
            gone: z.number(),
          })
          .describe("Denied calls by reason. gone: the target lacks the feature, a limit, or a configuration"),
      }),
      deniedThen: amounts.describe("By feature id: calls that were denied in reality, as far as they are kept"),
      revenue: z.strictObject({
        then: z.number(),
        replayed: z.number(),
        currency: z.string(),
        unpriced: z.number().describe("Contracts with a text price or another currency, which the sums leave out"),
      }),
      paying: z.strictObject({ more: z.number(), less: z.number(), same: z.number() }).describe("Number of contracts"),
    }),
    days: z.array(
      z.strictObject({
        day: z.string().describe("YYYY-MM-DD, in UTC"),
        denied: z.number().describe("Denied calls"),
        contracts: z.number().describe("Contracts with a denied call"),
      }),
    ),
    groups: z
      .array(
        z.strictObject({
          pricingVersion: z.string().describe("Version at that time"),
          configuration,
          target: configuration.nullable(),
          problem: z
            .strictObject({ rule: z.string(), message: z.string() })
            .nullable()
            .describe("Reason why the contracts have no target: all of their calls are denied"),
          contracts: z.number(),
          denied,
          firstDenialAfterDays: z
            .strictObject({ p10: z.number(), p50: z.number(), p90: z.number() })
            .nullable()
            .describe("Percentiles of the whole days until the first denial"),
          price,
        }),
      )
      .describe("Most denied contracts first"),
    top: z
      .array(z.strictObject({ userId: z.string(), denied: z.number(), firstDenialAt: moment, price }))
      .describe("Users with most denied calls"),
    unknown: z.array(z.string()).describe("Ids of limits that only the target has: nobody reported their consumption"),
  })
  .meta({ id: "ReplayReport" });

/** Replays of recorded usage; each operation also exists inside an organization. */
export const replayOperations: readonly Operation[] = [
  {
    id: "replayUsage",
    group: "Changes",
    method: "POST",
    path: "/services/{serviceName}/replay",
    summary: "Replay last month under another pricing",
    description:
      "Runs what contracts counted again under a version or a draft: who would have been stopped, when, and what everybody would have paid. Changes nothing. A form has the draft as a file in the field `pricing`. An organization may run one replay at a time; further ones get 429. As application/x-ndjson it streams progress, then the report.",
    body: { schema: replayBody, example: { pricingVersion: "1.0.0" }, asField: "replay", maxDrafts: 1 },
    alsoAs: "application/x-ndjson",
    agent: { may: "read", page: "services/{serviceName}/compare" },
    answers: {
      200: {
        schema: replayReport,
        example: {
          action: "replay",
          serviceName: "Tasker",
          targetVersion: "1.1.0",
          from: "2026-10-01T00:00:00.000Z",
          to: "2026-11-01T00:00:00.000Z",
          basis: "movements",
          complete: true,
          contracts: 200,
          movements: 9120,
          totals: {
            denied: {
              contracts: 14,
              movements: 212,
              amounts: { "tasker-maxTasks": 260 },
              reasons: { LIMIT_REACHED: 212, NOT_GRANTED: 0, BUDGET_REACHED: 0, gone: 0 },
            },
            deniedThen: { "tasker-board": 31 },
            revenue: { then: 812.5, replayed: 905, currency: "EUR", unpriced: 0 },
            paying: { more: 40, less: 0, same: 160 },
          },
          days: [{ day: "2026-10-01", denied: 0, contracts: 0 }],
          groups: [],
          top: [
            {
              userId: "ada",
              denied: 31,
              firstDenialAt: "2026-10-19T08:12:44.000Z",
              price: { then: 6, replayed: 7 },
            },
          ],
          unknown: [],
        },
      },
    },
    errors: {
      400: "INVALID DATA: A replay needs a pricingVersion or a pricing",
      404: NO_SERVICE,
      413: "File too large",
    },
  },
];
