import { z } from "zod";
import { moment } from "./common.ts";
import type { Operation } from "./operation.ts";

/** Sentences of the protocol's error codes. */
export const OFREP_ERRORS = {
  PARSE_ERROR: "The body must be an object",
  INVALID_CONTEXT: "context must be an object, and its targetingKey a string",
  TARGETING_KEY_MISSING: "context.targetingKey must be the userId of a contract",
} as const;
type OfrepErrorCode = keyof typeof OFREP_ERRORS;

const orMissing =
  (refusal: OfrepErrorCode) =>
  ({ input }: { input?: unknown }): OfrepErrorCode =>
    input === undefined || input === null ? "TARGETING_KEY_MISSING" : refusal;

/** Body of both requests. Ignores other fields of the context, and fields of newer protocol versions. */
export const evaluationRequest = z
  .object(
    {
      context: z.object(
        {
          targetingKey: z.string({ error: orMissing("INVALID_CONTEXT") }).min(1, "TARGETING_KEY_MISSING"),
          spender: z.string("INVALID_CONTEXT").nullish().describe("The one who spends: a path of 1 to 4 ids"),
        },
        { error: orMissing("INVALID_CONTEXT") },
      ),
    },
    { error: "PARSE_ERROR" },
  )
  .meta({ id: "FlagEvaluationRequest" });

/** A feature as OpenFeature's protocol shows it. */
export const ofrepFlag = z
  .strictObject({
    key: z.string(),
    value: z.boolean(),
    reason: z.literal("TARGETING_MATCH"),
    variant: z.enum(["on", "off"]),
    metadata: z
      .strictObject({
        limitId: z.string(),
        limit: z.number(),
        used: z.number(),
        remaining: z.number(),
        resetsAt: moment,
        reason: z.enum(["BUDGET_REACHED", "LIMIT_REACHED", "NOT_GRANTED"]).describe("Why it is off"),
      })
      .partial()
      .describe("Of the limit with the least left"),
  })
  .meta({ id: "Flag" });
export const ofrepErrorCode = z.enum(["PARSE_ERROR", "TARGETING_KEY_MISSING", "INVALID_CONTEXT", "GENERAL"]);
/** Every failure of one flag that the protocol knows. */
export const ofrepFailure = z
  .strictObject({
    key: z.string(),
    errorCode: ofrepErrorCode.or(z.literal("FLAG_NOT_FOUND")),
    errorDetails: z.string(),
  })
  .meta({ id: "FlagError" });
/** Error without a particular flag. */
export const ofrepBulkFailure = z
  .strictObject({ errorCode: ofrepErrorCode, errorDetails: z.string() })
  .meta({ id: "BulkFlagError" });
export const ofrepFlags = z
  .strictObject({
    flags: z.array(z.union([ofrepFlag, ofrepFailure.extend({ errorCode: ofrepErrorCode })])),
  })
  .meta({ id: "Flags" });

const NO_PATH = "The spender is no path of 1 to 4 ids";
const REQUEST = { context: { targetingKey: "ada" } };
const MODE = { server: z.boolean().default(false).describe("Evaluates server expressions where a feature has one") };
const FLAG = { key: "tasker-board", value: true, reason: "TARGETING_MATCH", variant: "on", metadata: {} };

/** OpenFeature's Remote Evaluation Protocol. Source: open-feature/protocol, service/openapi.yaml. */
export const ofrepOperations: readonly Operation[] = [
  {
    id: "evaluateFlags",
    group: "OpenFeature",
    base: "/",
    method: "POST",
    path: "/ofrep/v1/evaluate/flags",
    conditional: true,
    summary: "Evaluate every flag",
    description: "Evaluates every feature for the end user that `context.targetingKey` names. Counts nothing.",
    query: z.object(MODE),
    body: { schema: evaluationRequest, example: REQUEST },
    answers: { 200: { schema: ofrepFlags, example: { flags: [FLAG] } }, 304: null },
    errors: { 404: "The spender is no member of the contract", 422: NO_PATH },
    failure: ofrepBulkFailure,
  },
  {
    id: "evaluateFlag",
    group: "OpenFeature",
    base: "/",
    method: "POST",
    path: "/ofrep/v1/evaluate/flags/{key}",
    summary: "Evaluate one flag",
    description: "Evaluates one feature for the end user that `context.targetingKey` names. Counts nothing.",
    query: z.object(MODE),
    body: { schema: evaluationRequest, example: REQUEST },
    answers: { 200: { schema: ofrepFlag, example: FLAG } },
    errors: { 404: "The feature is unknown, or the spender is no member of the contract", 422: NO_PATH },
    failure: ofrepFailure,
  },
];
