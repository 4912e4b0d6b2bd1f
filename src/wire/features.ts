import { z } from "zod";
import { TOKEN_SIGNATURES } from "../core/token-keys.ts";
import { consumption } from "./amounts.ts";
import { amounts, id, limitParameter, moment, offsetParameter, pageParameter, NO_CONTRACT } from "./common.ts";
import { AT } from "./contracts.ts";
import { asOfContract } from "./contract-answers.ts";
import { budgetView } from "./budgets.ts";
import type { Operation } from "./operation.ts";
import { feature } from "./pricings.ts";

export const expectedConsumption = consumption("Body must be an object").meta({ id: "Consumption" });

export const booleans = z.record(z.string(), z.boolean()).meta({ id: "FeatureFlags" });
export const evaluationErrorCode = z.enum([
  "FLAG_NOT_FOUND",
  "PARSE_ERROR",
  "EVALUATION_ERROR",
  "TYPE_MISMATCH",
  "INVALID_EXPECTED_CONSUMPTION",
]);
const evaluationError = z.strictObject({
  code: evaluationErrorCode,
  message: z.string(),
});
export const featureResult = z
  .strictObject({
    eval: z.boolean(),
    limit: z.record(z.string(), z.union([z.number(), z.boolean(), z.null()])).nullable(),
    used: amounts.nullable(),
    error: evaluationError.nullable(),
  })
  .meta({ id: "FeatureResult" });
const limitStep = z
  .union([
    z.strictObject({ from: z.literal("plan"), name: z.string(), value: z.union([z.number(), z.boolean()]) }),
    z.strictObject({ from: z.literal("default"), value: z.union([z.number(), z.boolean()]) }),
    z.strictObject({
      from: z.literal("addOn"),
      name: z.string(),
      quantity: z.number(),
      value: z.union([z.number(), z.boolean()]),
    }),
    z.strictObject({ from: z.literal("addOn"), name: z.string(), quantity: z.number(), adds: z.number() }),
    z.strictObject({ from: z.literal("override"), value: z.union([z.number(), z.boolean()]) }),
    z.strictObject({ from: z.literal("override"), adds: z.number() }),
    z.strictObject({ from: z.literal("blocks"), adds: z.number() }),
  ])
  .meta({ id: "LimitStep" });

/** One feature's result. The last fields are present with `strict`, `dryRun`, `explain`, `hold` or `at`. */
export const featureAnswer = z
  .strictObject({
    ...featureResult.shape,
    remaining: z.record(z.string(), z.number().nullable()).nullable().optional(),
    resetAt: z.record(z.string(), moment.nullable()).nullable().optional(),
    reason: z
      .enum([
        "GRANTED",
        "BLOCKS_ONLY",
        "BUDGET_REACHED",
        "LIMIT_REACHED",
        "NOT_GRANTED",
        ...evaluationError.shape.code.options,
      ])
      .optional()
      .describe("Why the feature is on or off"),
    held: amounts.nullable().optional().describe("How much of the usage open holds and leases hold"),
    sources: z
      .record(z.string(), z.array(limitStep))
      .nullable()
      .optional()
      .describe("Steps that make each limit: one with `value` sets it, one with `adds` adds to it"),
    amounts: amounts.optional().describe("What the units of the call cost; only for a call with units"),
    hold: z
      .strictObject({ id, until: moment, amounts: amounts.optional().describe("What a partial hold holds") })
      .nullable()
      .optional()
      .describe("The hold that the call took; null if nothing is held"),
    budget: budgetView.optional().describe("The first budget that denies the call, from the contract down"),
    budgets: z
      .array(budgetView)
      .optional()
      .describe("With `explain`: budgets that count the call, from the contract down"),
    asOf: asOfContract.optional(),
  })
  .meta({ id: "FeatureAnswer" });
export const featureResults = z.record(z.string(), featureResult);
/** All features as of a past moment. */
export const featuresAsOf = z
  .strictObject({
    features: z.record(z.string(), z.union([z.boolean(), featureResult])),
    asOf: asOfContract,
  })
  .meta({ id: "FeaturesAsOf" });
export const pricingToken = z.strictObject({ pricingToken: z.string() }).meta({ id: "PricingToken" });
export const listedFeature = z
  .strictObject({ info: feature, service: z.string(), pricingVersion: z.string() })
  .meta({ id: "ListedFeature" });

/** Query parameter of calls whose verdict may leave blocks out. */
export const BLOCKS = {
  blocks: z.boolean().default(true).describe("`false` decides as if the contract had no blocks"),
};
/** Query parameters that name the one who spends. */
export const SPENDER = {
  spender: z.string().optional().describe("The one who spends: a path of 1 to 4 ids, such as `research/ada/agent-7`"),
  member: z.string().optional().describe("Another name of `spender`"),
};
const RESULT = { eval: true, limit: { "tasker-maxTasks": 20 }, used: { "tasker-maxTasks": 3 }, error: null };
const MODE = { server: z.boolean().default(false).describe("Evaluates server expressions where a feature has one") };
const flag = (description: string) => z.boolean().default(false).describe(description);

/** Evaluation and consumption. Source: contract features-events. */
export const featureOperations: readonly Operation[] = [
  {
    id: "evaluateFeatures",
    group: "Features",
    method: "POST",
    path: "/features/{userId}",
    summary: "Evaluate every feature",
    description: "Evaluates all features of the end user's contract. Counts nothing.",
    query: z.object({ details: flag("Adds limit, usage and error of each feature"), ...MODE, ...SPENDER, ...AT }),
    agent: { may: "read", page: "contracts/{userId}" },
    answers: {
      200: {
        schema: z.union([featuresAsOf, booleans, featureResults]),
        example: { "tasker-board": true },
      },
    },
    errors: { 404: NO_CONTRACT, 422: "spender must be a path of 1 to 4 ids" },
  },
  {
    id: "createPricingToken",
    group: "Tokens",
    method: "POST",
    path: "/features/{userId}/pricing-token",
    summary: "Issue a pricing token",
    description:
      "Returns a signed token with all features and balances of the end user, from which a front end answers without further requests until it expires.",
    query: z.object({
      ...MODE,
      ...SPENDER,
      signature: z
        .enum(TOKEN_SIGNATURES)
        .optional()
        .describe(
          "Signature of the token, whatever TOKEN_SIGNATURE says: `EdDSA` can be verified with the public keys",
        ),
    }),
    answers: { 200: { schema: pricingToken, example: { pricingToken: "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZGEifQ.…" } } },
    errors: { 404: NO_CONTRACT, 422: "spender must be a path of 1 to 4 ids" },
  },
  {
    id: "evaluateFeature",
    group: "Features",
    method: "POST",
    path: "/features/{userId}/{featureId}",
    idempotent: true,
    summary: "Evaluate a feature, and consume",
    description:
      "Answers whether the end user may use the feature, with limits and usage. With amounts in the body, a granted call counts them exactly, in one step with the decision. Where the pricing has rates, an object of units may stand for an amount. With an Idempotency-Key a retry counts once.",
    query: z.object({
      ...MODE,
      revert: flag("Reverts what this feature consumed in the last two minutes; answers 204"),
      latest: flag("With `revert`: only the latest consumption"),
      strict: flag("Denies amounts that would exceed a limit; adds the remaining amounts"),
      dryRun: flag("Returns the verdict without counting; adds the remaining amounts"),
      explain: flag("Adds the remaining amounts and reset times, the reason, and where limits come from"),
      ...BLOCKS,
      ...SPENDER,
      hold: z
        .string()
        .optional()
        .describe("Sets the amounts aside for so long instead of counting them, from `PT1S` to `PT24H`; strict"),
      onExpiry: z
        .enum(["release", "consume"])
        .default("release")
        .describe("With `hold`: what becomes of the amounts if nobody ends the hold"),
      partial: z.boolean().optional().describe("With `hold`: holds less where less is left"),
      ...AT,
    }),
    body: { schema: expectedConsumption, example: { "tasker-maxTasks": 1 }, required: false },
    agent: {
      may: "read",
      page: "contracts/{userId}",
      fixed: { dryRun: "true", explain: "true", revert: null, latest: null, hold: null, onExpiry: null, partial: null },
    },
    answers: { 200: { schema: featureAnswer, example: RESULT }, 204: null },
    errors: {
      400: "INVALID DATA: hold must be an ISO 8601 duration from PT1S to PT24H",
      404: NO_CONTRACT,
      409: "CONFLICT: The contract has 1000 open holds: settle or release some first",
      422: "A hold needs amounts for the limits of the feature",
    },
  },
  {
    id: "listFeatures",
    group: "Features",
    method: "GET",
    path: "/features",
    summary: "List the features of all pricings",
    description: "Lists features with their service and version, for catalogues and search.",
    query: z.object({
      featureName: z.string().default("").describe("Part of the feature's name"),
      serviceName: z.string().default("").describe("Part of the service's name"),
      pricingVersion: z.string().default("").describe("Part of the version"),
      show: z.enum(["active", "archived", "all"]).default("active").describe("Availability of the versions"),
      page: pageParameter,
      offset: offsetParameter,
      limit: limitParameter(20),
      sort: z.enum(["serviceName", "featureName"]).default("serviceName").describe("Field to sort by"),
      order: z.enum(["asc", "desc"]).default("asc").describe("Direction"),
    }),
    agent: { may: "read", page: "services" },
    answers: {
      200: {
        schema: z.array(listedFeature),
        example: [
          {
            info: {
              name: "board",
              description: "Boards with tasks",
              valueType: "BOOLEAN",
              defaultValue: true,
              type: "DOMAIN",
              pricingUrls: [],
              render: "AUTO",
            },
            service: "Tasker",
            pricingVersion: "1.0.0",
          },
        ],
      },
    },
  },
];
