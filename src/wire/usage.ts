import { z } from "zod";
import { BLOCK_ORIGINS } from "../core/pricing/blocks.ts";
import { parseSpender, SPENDER_RULE } from "../core/pricing/budgets.ts";
import { isStorable } from "../core/storable.ts";
import { CONTRACT_GROUPINGS, ORGANIZATION_GROUPINGS } from "../core/usage-range.ts";
import { instant, moment, NO_ORGANIZATION, NO_SINGLE_CONTRACT } from "./common.ts";
import { consumption } from "./amounts.ts";
import { evaluationErrorCode } from "./features.ts";
import type { Operation } from "./operation.ts";

const text = (field: string, max: number) => {
  const sentence = `The ${field} field must be a string of 1 to ${max} characters`;
  return z.string(sentence).min(1, sentence).max(max, sentence).refine(isStorable, sentence);
};
const AMOUNTS = "The amounts field must be an object with at least one amount";
const AT = "The at field must be an ISO 8601 date";

export const usageItem = z
  .strictObject(
    {
      userId: text("userId", 512).describe("Your own id of the end user"),
      featureId: text("featureId", 512).describe("`<service>-<feature>`, the service in lower case"),
      amounts: consumption(AMOUNTS)
        .refine((amounts) => Object.keys(amounts).length > 0, AMOUNTS)
        .describe("Amount of each limit of the feature, or the number of each unit of it"),
      key: text("key", 255).describe("Yours, unique in the organization: an item with a key is counted once"),
      at: instant(AT).optional().describe("Moment of use. Default: now"),
      blocks: z
        .boolean("The blocks field must be a boolean")
        .optional()
        .describe("False decides as if the contract had no blocks. Default: true"),
      spender: z
        .string(SPENDER_RULE)
        .refine((text) => parseSpender(text) !== undefined, SPENDER_RULE)
        .optional()
        .describe("The one who spent: a path of 1 to 4 ids"),
    },
    {
      error: ({ code, ...issue }) =>
        code === "unrecognized_keys"
          ? `Unknown field: ${String((issue["keys"] as string[])[0])}`
          : "An item must be an object",
    },
  )
  .meta({ id: "UsageItem" });

export const MAX_ITEMS = 1000;
/** Documents the body. The handler validates item by item, because its sentences name the item. */
const usageBatch = z.array(usageItem).max(MAX_ITEMS);

export const VERDICTS = ["counted", "duplicate", "refused", "unknown", "late"] as const;
const reason = z.enum([
  "KEY_REUSED",
  "FUTURE",
  "TOO_OLD",
  "CONTRACT_NOT_FOUND",
  "MEMBER_NOT_FOUND",
  "CONTRACT_EXPIRED",
  "CONTRACT_INVALID",
  ...evaluationErrorCode.options,
  "UNKNOWN_LIMIT",
  "BUDGET_REACHED",
  "LIMIT_REACHED",
  "NOT_GRANTED",
]);
export const itemVerdict = z
  .strictObject({
    key: z.string(),
    verdict: z.enum(VERDICTS),
    reason: reason.optional().describe("Why it was refused or is unknown"),
    error: z.string().optional().describe("What a single call would have answered"),
  })
  .meta({ id: "ItemVerdict" });
export const recordedUsage = z
  .strictObject({
    counts: z.strictObject({
      counted: z.number(),
      duplicate: z.number(),
      refused: z.number(),
      unknown: z.number(),
      late: z.number(),
    }),
    items: z.array(itemVerdict).describe("A verdict for each item, in the order sent"),
  })
  .meta({ id: "RecordedUsage" });

const flag = (description: string) => z.boolean().default(false).describe(description);

/** Usage in batches. Source: contract usage-records §4. */
export const usageOperations: readonly Operation[] = [
  {
    id: "recordUsage",
    group: "Usage",
    method: "POST",
    path: "/usage",
    summary: "Record usage in a batch",
    description:
      "Counts up to 1,000 items, each with its own verdict. Items are not one transaction: after a 503 some may be counted, and the same call again is safe, because an item with a known key is a duplicate. Also accepts application/x-ndjson, one item per line.",
    query: z.object({
      late: z
        .enum(["record", "count"])
        .default("record")
        .describe(
          "Usage before the running period: `record` shows it in the history only, `count` counts it as of now",
        ),
      strict: flag("Refuses amounts that would exceed a limit"),
      server: flag("Evaluates server expressions where a feature has one"),
    }),
    body: {
      schema: usageBatch,
      example: [
        { userId: "ada", featureId: "tasker-board", amounts: { "tasker-maxTasks": 2 }, key: "import-7-1" },
        {
          userId: "ada",
          featureId: "tasker-board",
          amounts: { "tasker-maxTasks": 1 },
          key: "import-7-2",
          at: "2025-06-15T09:58:00.000Z",
        },
      ],
    },
    answers: {
      200: {
        schema: recordedUsage,
        example: {
          counts: { counted: 1, duplicate: 1, refused: 0, unknown: 0, late: 0 },
          items: [
            { key: "import-7-1", verdict: "counted" },
            { key: "import-7-2", verdict: "duplicate" },
          ],
        },
      },
    },
  },
];

const named = { service: z.string().describe("Name of the service in lower case"), limit: z.string() };
const sums = {
  counted: z.number().describe("Consumed and adjusted, less what was reverted"),
  cleared: z.number().describe("Taken away by resets, renewals and removals"),
  late: z.number().describe("Recorded after its period had ended"),
};
const groupSums = { counted: sums.counted, late: sums.late };
// Rows have names of their own: generators that write them in place put comments where types must stand.
const usageTotals = z.array(z.strictObject({ ...named, ...sums }));
const bucketRows = z.array(z.strictObject({ at: moment, ...named, ...sums }).meta({ id: "UsageOfBucket" }));
const featureRows = z.array(
  z.strictObject({ ...named, featureId: z.string().nullable(), ...groupSums }).meta({ id: "UsageOfFeature" }),
);
const userRows = z.array(
  z.strictObject({ ...named, userId: z.string().nullable(), ...groupSums }).meta({ id: "UsageOfUser" }),
);
const featureId = z.string().nullable();
const spenderRows = z.array(
  z
    .strictObject({
      ...named,
      userId: z.string().optional().describe("User of the contract, in sums of all contracts"),
      spender: z.string().describe("Path, cut to `depth` ids"),
      ...groupSums,
    })
    .meta({ id: "UsageOfSpender" }),
);
const unitRows = z.array(
  z
    .strictObject({
      ...named,
      unit: z.string(),
      featureId,
      units: z.number().describe("Number of units, those that were late included"),
      ...groupSums,
    })
    .meta({ id: "UsageOfUnit" }),
);
const blockRows = z.array(
  z
    .strictObject({
      ...named,
      blockId: z.string(),
      userId: z.string(),
      origin: z.enum(BLOCK_ORIGINS),
      drawn: z.number().describe("Drawn in the range: when a period ended, when the block ended, and now"),
    })
    .meta({ id: "UsageOfBlock" }),
);
const movementRows = z.array(
  z
    .strictObject({
      id: z.number(),
      at: moment,
      recordedAt: moment,
      ...named,
      kind: z.enum(["consume", "revert", "adjust", "reset", "renew", "remove", "late"]),
      amount: z.number().describe("Signed; of kind `late`, it moved no balance"),
      featureId: z.string().nullable(),
      operation: z.string().describe("Groups the movements of one call; of a batch item: its key"),
      estimated: z.literal(true).optional().describe("Only where the caller estimated the amount"),
    })
    .meta({ id: "UsageMovement" }),
);
const range = { from: moment, to: moment };
export const contractUsage = z
  .strictObject({
    by: z.enum(CONTRACT_GROUPINGS),
    ...range,
    totals: usageTotals,
    data: z.union([bucketRows, featureRows, spenderRows, unitRows, blockRows, movementRows]),
    next: z.number().nullable().optional().describe("Of movements: `before` of the next page"),
  })
  .meta({ id: "ContractUsage" });
export const organizationUsage = z
  .strictObject({
    by: z.enum(ORGANIZATION_GROUPINGS),
    ...range,
    totals: usageTotals,
    data: z.union([bucketRows, featureRows, userRows, spenderRows, unitRows, blockRows]),
  })
  .meta({ id: "OrganizationUsage" });

const REPORT_QUERY = {
  from: z
    .string()
    .optional()
    .describe("ISO 8601, rounded down to whole buckets. Default: 48 hours, 30 days or 12 months"),
  to: z.string().optional().describe("ISO 8601, exclusive, rounded up. Default: the end of the bucket that holds now"),
  service: z.string().optional().describe("Name of a service, in any case"),
  limit: z.string().optional().describe("Name of a limit"),
  top: z
    .int()
    .min(1)
    .max(1000)
    .default(100)
    .describe("Rows per limit, by feature, user, spender, unit and block; movements per page"),
};
const depth = z.int().min(1).max(4).default(1).describe("By spender: number of ids of the path that make a row");
const SUMS = { service: "tasker", limit: "maxTasks", counted: 295, cleared: 0, late: 0 };
const REPORT = {
  by: "day",
  from: "2025-06-15T00:00:00.000Z",
  to: "2025-06-16T00:00:00.000Z",
  totals: [SUMS],
  data: [{ at: "2025-06-15T00:00:00.000Z", ...SUMS }],
};
const FORMATS =
  "With `Accept: text/csv` or `application/x-ndjson` the rows come as a file, and movements come all, streamed.";

/** History of usage. Source: contract usage-records §5. */
export const usageReportOperations: readonly Operation[] = [
  {
    id: "getContractUsage",
    group: "Usage",
    method: "GET",
    path: "/contracts/{userId}/usage",
    summary: "Read the usage of a contract",
    description: `Sums what was counted, cleared and late by hour, day, month, feature or unit, lists what blocks gave, or movements. The sums equal the ledger at every moment. ${FORMATS}`,
    query: z.object({
      by: z.enum(CONTRACT_GROUPINGS).default("day").describe("What the rows are"),
      depth,
      ...REPORT_QUERY,
      before: z.int().min(0).optional().describe("Movements older than this id"),
    }),
    agent: { may: "read", page: "contracts/{userId}" },
    answers: { 200: { schema: contractUsage, example: REPORT } },
    alsoAs: "text/csv",
    errors: NO_SINGLE_CONTRACT,
  },
  {
    id: "getUsage",
    group: "Usage",
    method: "GET",
    path: "/usage",
    summary: "Read the usage of all contracts",
    description: `Sums the usage of all contracts by day, feature, end user, spender or unit, or lists what blocks gave. Deleted contracts have no history. ${FORMATS}`,
    query: z.object({
      by: z.enum(ORGANIZATION_GROUPINGS).default("day").describe("What the rows are"),
      depth,
      ...REPORT_QUERY,
    }),
    agent: { may: "read", page: "usage" },
    answers: { 200: { schema: organizationUsage, example: REPORT } },
    alsoAs: "text/csv",
    errors: { 404: NO_ORGANIZATION },
  },
];
