import { z } from "zod";
import { BLOCK_ORIGINS, BLOCK_STATES, MAX_BLOCK_AMOUNT } from "../core/pricing/blocks.ts";
import { isStorable } from "../core/storable.ts";
import { objectError } from "./change-bodies.ts";
import {
  actor,
  EXAMPLE,
  id,
  moment,
  optionalInstant,
  reasonText,
  NO_ORGANIZATION,
  NO_SINGLE_CONTRACT,
} from "./common.ts";
import type { Operation } from "./operation.ts";

const AMOUNT = "The amount field must be a number above 0 and up to 100000000";
const KEY = "The key field must be a string of 1 to 255 characters";

const name = (field: string) => {
  const sentence = `The ${field} field must be a non-empty string`;
  return z.string(sentence).min(1, sentence);
};

export const newBlock = z
  .strictObject(
    {
      service: name("service").describe("Name of the contracted service, in any case"),
      limit: name("limit").describe("Name of the usage limit"),
      amount: z.number(AMOUNT).gt(0, AMOUNT).max(MAX_BLOCK_AMOUNT, AMOUNT),
      from: optionalInstant("from").describe("Start, ISO 8601. Default, and for a past one: now"),
      expiresAt: optionalInstant("expiresAt").describe("End, ISO 8601. Default: never"),
      reason: reasonText(),
      key: z
        .string(KEY)
        .min(1, KEY)
        .max(255, KEY)
        .refine(isStorable, KEY)
        .nullish()
        .transform((key) => key ?? undefined)
        .describe("Yours: a repeated call with it returns the first block"),
    },
    objectError("The body must be an object"),
  )
  .meta({ id: "BlockGrant" });

const origin = z.enum(BLOCK_ORIGINS).describe("`rollover`: carried over by a reset; `billing`: bought");
const expiresAt = moment.nullable().describe("Null: it never ends");

export const block = z
  .strictObject({
    id,
    userId: z.string(),
    service: z.string().nullable().describe("Name of the service in lower case; null for one that is gone"),
    limit: z.string(),
    amount: z.number(),
    used: z.number().describe("What was drawn from it. In the running period this follows the usage"),
    remaining: z.number(),
    from: moment,
    expiresAt,
    state: z.enum(BLOCK_STATES),
    origin,
    reason: z.string(),
    createdAt: moment,
    endedAt: moment.nullable().describe("Null until its end is fixed"),
    actor,
  })
  .meta({ id: "Block" });

export const blockPage = z
  .strictObject({ data: z.array(block), next: id.nullable().describe("The `before` of the next page, or null") })
  .meta({ id: "BlockPage" });

export const balances = z.array(
  z
    .strictObject({
      service: z.string(),
      limit: z.string(),
      granted: z.union([z.number(), z.boolean(), z.null()]).describe("What plan, add-ons and overrides grant"),
      blocks: z
        .array(z.strictObject({ id, remaining: z.number(), expiresAt, origin }))
        .describe("Open blocks, in the order in which they are drawn"),
      limitNow: z.union([z.number(), z.boolean(), z.null()]).describe("The limit with its blocks"),
      consumed: z.number(),
      held: z.number(),
      remaining: z.number().nullable().describe("Null for a limit that is no number"),
      resetAt: moment.nullable(),
    })
    .meta({ id: "Balance" }),
);

const GIVEN = {
  service: "tasker",
  limit: "maxTasks",
  amount: 100,
  expiresAt: "2026-06-01T00:00:00Z",
  reason: "Thanks for the bug report",
  key: "support-4711",
};
const BLOCK = {
  id: EXAMPLE.blockId,
  userId: "ada",
  service: "tasker",
  limit: "maxTasks",
  amount: 100,
  used: 50,
  remaining: 50,
  from: EXAMPLE.createdAt,
  expiresAt: "2026-06-01T00:00:00.000Z",
  state: "open",
  origin: "given",
  reason: GIVEN.reason,
  createdAt: EXAMPLE.createdAt,
  endedAt: null,
  actor: { kind: "key", id: EXAMPLE.apiKeyId, name: null },
};
const PAGE = {
  state: z.enum(BLOCK_STATES).optional().describe("State of the blocks. Default: all"),
  limit: z.int().min(1).max(100).default(20).describe("Rows per page"),
  before: z.string().optional().describe("Only blocks older than the one with this id"),
};

/** Blocks and balances of one contract. Source: contract credits §1. */
export const blockOperations: readonly Operation[] = [
  {
    id: "giveBlock",
    group: "Contracts",
    method: "POST",
    path: "/contracts/{userId}/blocks",
    summary: "Give a block of usage",
    description:
      "Adds an amount to one tracked limit of a contract, beyond its plan, until it is used or ends. A repeated call with the same key answers 200 with the first block.",
    body: { schema: newBlock, example: GIVEN },
    answers: { 200: { schema: block, example: BLOCK }, 201: { schema: block, example: BLOCK } },
    errors: {
      400: "INVALID DATA: Blocks are for numeric usage limits that are tracked",
      404: "Usage limit maxTasks not found in pricing version 1.0.0 of service tasker",
      409: "CONFLICT: The key support-4711 was used for another block",
      422: AMOUNT,
    },
  },
  {
    id: "listContractBlocks",
    group: "Contracts",
    method: "GET",
    path: "/contracts/{userId}/blocks",
    summary: "List a contract's blocks",
    description: "Lists amounts beyond the plan, ended ones included, newest first.",
    query: z.object(PAGE),
    answers: { 200: { schema: blockPage, example: { data: [BLOCK], next: null } } },
    errors: { 400: "INVALID DATA: state must be upcoming, open, spent, expired or revoked", ...NO_SINGLE_CONTRACT },
  },
  {
    id: "revokeBlock",
    group: "Contracts",
    method: "DELETE",
    path: "/contracts/{userId}/blocks/{blockId}",
    summary: "Revoke a block",
    description: "Takes back what is left of the block. What was used of it stays.",
    answers: { 204: null },
    errors: {
      404: `Block ${EXAMPLE.blockId} not found in the contract of ada`,
      409: `CONFLICT: The block ${EXAMPLE.blockId} is expired`,
    },
  },
  {
    id: "showBalances",
    group: "Contracts",
    method: "GET",
    path: "/contracts/{userId}/balances",
    summary: "Show the balances of a contract",
    description: "Shows each tracked limit with what its plan grants, its open blocks, and what is used and held.",
    answers: {
      200: {
        schema: balances,
        example: [
          {
            service: "tasker",
            limit: "maxTasks",
            granted: 200,
            blocks: [{ id: EXAMPLE.blockId, remaining: 50, expiresAt: "2026-06-01T00:00:00.000Z", origin: "given" }],
            limitNow: 300,
            consumed: 250,
            held: 0,
            remaining: 50,
            resetAt: "2025-07-15T10:00:00.000Z",
          },
        ],
      },
    },
    errors: NO_SINGLE_CONTRACT,
  },
];

/** Blocks of all contracts of an organization. */
export const organizationBlockOperations: readonly Operation[] = [
  {
    id: "listBlocks",
    group: "Contracts",
    method: "GET",
    path: "/organizations/{organizationId}/blocks",
    summary: "List blocks of usage",
    description: "Lists the blocks of all contracts of the organization, ended ones included, newest first.",
    query: z.object({
      ...PAGE,
      expiresBefore: z.iso
        .datetime({ offset: true, local: true })
        .or(z.iso.date())
        .optional()
        .describe("Only blocks that end before this moment"),
      origin: origin.optional().describe("Only blocks of this origin"),
    }),
    answers: { 200: { schema: blockPage, example: { data: [BLOCK], next: null } } },
    errors: {
      400: "INVALID DATA: expiresBefore must be an ISO 8601 date",
      404: NO_ORGANIZATION,
    },
  },
];
