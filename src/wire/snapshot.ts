import { z } from "zod";
import { SNAPSHOT_FORMAT } from "../core/snapshot.ts";
import { parseSpender, SPENDER_RULE } from "../core/pricing/budgets.ts";
import { LIMIT_TYPES, PERIOD_UNITS, VALUE_TYPES } from "../core/pricing/model.ts";
import { EXAMPLE, id, moment } from "./common.ts";
import { objectError } from "./change-bodies.ts";
import type { Operation } from "./operation.ts";
import { requiredNotNull } from "./subscription.ts";

const MAX_USERS = 500;
const MAX_KNOWN = 1000;

interface Issue {
  readonly code?: string;
  readonly keys?: readonly string[];
  readonly path?: readonly PropertyKey[] | undefined;
}

/** Sentence that names the field by its whole path, such as `users.0.userId`. */
const fieldError = (rule: string) => ({
  error: ({ code, keys, path = [] }: Issue) =>
    code === "unrecognized_keys"
      ? `Unknown field: ${[...path, keys?.[0]].join(".")}`
      : `The ${path.join(".")} field must be ${rule}`,
});

const NO_USER_ID = fieldError("a non-empty string");
const USERS = `The users field must be a list of 1 to ${MAX_USERS} entries`;
const knownHashes = (field: string) => {
  const sentence = `The ${field} field must be a list of at most ${MAX_KNOWN} strings`;
  return z.array(z.string(sentence), sentence).max(MAX_KNOWN, sentence).nullish();
};

export const snapshotRequest = z
  .strictObject(
    {
      users: z
        .array(
          z.strictObject(
            {
              userId: z.string(NO_USER_ID).min(1, NO_USER_ID),
              version: z.string(fieldError("a string")).nullish().describe("Version that the caller has"),
              spender: z
                .string(SPENDER_RULE)
                .refine((text) => parseSpender(text) !== undefined, SPENDER_RULE)
                .nullish()
                .describe(
                  "The one who spends: a path of 1 to 4 ids. Refused where the contract has members and this is none",
                ),
            },
            fieldError("an object"),
          ),
          requiredNotNull("The users field is required", USERS),
        )
        .min(1, USERS)
        .max(MAX_USERS, USERS),
      knownPricings: knownHashes("knownPricings").describe("Hashes of pricings that the caller has"),
      knownGrants: knownHashes("knownGrants").describe("Hashes of grants that the caller has"),
    },
    objectError("The body must be an object"),
  )
  .meta({ id: "SnapshotRequest" });

const userId = z.string();
const hash = z.string().regex(/^[0-9a-f]{64}$/);
const value = z.union([z.boolean(), z.number(), z.string(), z.array(z.string())]);
const limitValue = z.union([z.boolean(), z.number()]);

const snapshotEntry = z.strictObject({
  userId,
  contractId: id.nullable(),
  version: hash.nullable().describe("Changes exactly when another field does; null without a contract"),
  validUntil: moment.nullable().describe("Last moment up to which time alone changes nothing; null: never"),
  services: z
    .array(z.strictObject({ service: z.string(), pricing: hash, grant: hash }))
    .describe("In the order of the contract"),
  budgets: hash.optional().describe("Changes exactly when the budgets do; absent without any"),
  refusal: z
    .strictObject({ status: z.int(), error: z.string() })
    .nullable()
    .describe("The error with which every evaluation of this user is refused"),
});

export const snapshotAnswer = z
  .strictObject({
    format: z.int().describe("Raised when an engine of before would answer differently"),
    now: moment,
    users: z.array(
      z.union([
        snapshotEntry,
        z.strictObject({ userId, version: hash, unchanged: z.literal(true) }),
        z.strictObject({ userId, deferred: z.literal(true) }),
      ]),
    ),
    pricings: z
      .record(
        hash,
        z.strictObject({
          saasName: z.string(),
          features: z.array(
            z.strictObject({
              name: z.string(),
              valueType: z.enum(VALUE_TYPES),
              defaultValue: value,
              expression: z.string().optional(),
              serverExpression: z.string().optional(),
            }),
          ),
          usageLimits: z.array(
            z.strictObject({
              name: z.string(),
              valueType: z.enum(["BOOLEAN", "NUMERIC"]),
              defaultValue: limitValue,
              type: z.enum(LIMIT_TYPES),
              trackable: z.boolean(),
              period: z.strictObject({ value: z.number(), unit: z.enum(PERIOD_UNITS) }).optional(),
            }),
          ),
        }),
      )
      .describe("What evaluation reads of the pricings, by the SHA-256 of their JSON text"),
    grants: z
      .record(
        hash,
        z.strictObject({ features: z.record(z.string(), value), usageLimits: z.record(z.string(), limitValue) }),
      )
      .describe("Values after plan, add-ons and overrides, by the SHA-256 of their JSON text"),
  })
  .meta({ id: "Snapshot" });

const PRICING = "9c".repeat(32);
const GRANT = "41".repeat(32);

/** Contracts for back ends that evaluate in their own memory. Source: contract tokens-and-leases §4. */
export const snapshotOperations: readonly Operation[] = [
  {
    id: "takeSnapshot",
    group: "Features",
    method: "POST",
    path: "/snapshot",
    summary: "Take a snapshot of contracts",
    description:
      "Returns everything except balances that decides about up to 500 end users, for evaluation in the caller's memory. Users whose version is current, and known pricings and grants, are not repeated. An answer has at most 4 MB; deferred users are to be requested again.",
    body: {
      schema: snapshotRequest,
      example: { users: [{ userId: "ada" }, { userId: "bob" }], knownPricings: [], knownGrants: [] },
    },
    answers: {
      200: {
        schema: snapshotAnswer,
        example: {
          format: SNAPSHOT_FORMAT,
          now: "2026-03-10T09:05:00.123Z",
          users: [
            {
              userId: "ada",
              contractId: EXAMPLE.contractId,
              version: "b1".repeat(32),
              validUntil: "2026-04-09T09:00:00.000Z",
              services: [{ service: "tasker", pricing: PRICING, grant: GRANT }],
              refusal: null,
            },
            {
              userId: "bob",
              contractId: null,
              version: null,
              validUntil: "2026-03-10T09:05:01.123Z",
              services: [],
              refusal: { status: 404, error: "Contract with userId bob not found" },
            },
          ],
          pricings: {
            [PRICING]: {
              saasName: "Tasker",
              features: [
                {
                  name: "darkMode",
                  valueType: "BOOLEAN",
                  defaultValue: false,
                  expression: "pricingContext['features']['darkMode']",
                },
              ],
              usageLimits: [],
            },
          },
          grants: { [GRANT]: { features: { darkMode: true }, usageLimits: {} } },
        },
      },
    },
    errors: { 422: "The users field is required" },
  },
];
