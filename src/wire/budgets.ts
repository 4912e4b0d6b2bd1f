import { z } from "zod";
import { BUDGET_ANCHORS, BUDGET_MODES, BUDGET_UNITS, parsePattern } from "../core/pricing/budgets.ts";
import { isUnitName } from "../core/pricing/credits.ts";
import { areThresholds, DEFAULT_THRESHOLDS, THRESHOLDS_RULE } from "../core/usage-alerts.ts";
import { objectError } from "./change-bodies.ts";
import { EXAMPLE, instant, moment, NO_SINGLE_CONTRACT, SEVERAL_CONTRACTS } from "./common.ts";
import type { Operation } from "./operation.ts";

const LIMIT = "The limit field must be a non-empty string";
const SPENDER = "The spender field must be a path of 1 to 4 ids, or null";
const UNIT = "The unit field must be the beginning of a unit's name, or null";
const AMOUNT = "The amount field must be a number of at least 0, or the name of a limit";
const WINDOW = "The window field must be period, life, or an object of value, unit and anchor";
const MODE = "The mode field must be stop or warn";
const UNTIL = "The until field must be an ISO 8601 date or null";
const THRESHOLDS = `The thresholds field ${THRESHOLDS_RULE}`;

const orNull = <Schema extends z.ZodType>(schema: Schema) => schema.nullish().transform((value) => value ?? null);

const window = z.union([
  z.enum(["period", "life"]).describe("`period`: the period of the limit; `life`: without end"),
  z.strictObject(
    {
      value: z.int(WINDOW).min(1, WINDOW).max(1000, WINDOW),
      unit: z.enum(BUDGET_UNITS, WINDOW),
      anchor: z
        .enum(BUDGET_ANCHORS, WINDOW)
        .describe("`contract`: its start; `utc`: the calendar; `first`: the first use after the last window"),
    },
    objectError(WINDOW, "window."),
  ),
]);

export const newBudget = z
  .strictObject(
    {
      limit: z.string(LIMIT).min(1, LIMIT).describe("`<service>-<limit>`, the service in lower case"),
      spender: orNull(z.string(SPENDER).refine((text) => parsePattern(text) !== undefined, SPENDER)).describe(
        "Path of 1 to 4 ids, where `*` stands for each one. Default: the whole contract",
      ),
      unit: orNull(z.string(UNIT).refine(isUnitName, UNIT)).describe(
        "Only units with this beginning. Default: the whole amount",
      ),
      amount: z.union([z.number(AMOUNT).min(0, AMOUNT), z.string(AMOUNT).min(1, AMOUNT)], AMOUNT),
      window: z.union(window.options, WINDOW).default("period"),
      mode: z.enum(BUDGET_MODES, MODE).default("stop").describe("`warn` counts and announces, and denies nothing"),
      until: orNull(instant(UNTIL)).describe("End, ISO 8601. Default: never"),
      thresholds: z
        .array(z.number(THRESHOLDS), THRESHOLDS)
        .refine(areThresholds, THRESHOLDS)
        .default([...DEFAULT_THRESHOLDS])
        .describe("In percent of the amount"),
    },
    objectError("The body must be an object"),
  )
  .meta({ id: "BudgetTerms" });

/** A budget of an answer, with the balance that it counts. */
export const budgetView = z
  .strictObject({
    name: z.string(),
    spender: z.string().nullable().describe("Path whose balance it is; null for the whole contract"),
    limit: z.string(),
    window,
    amount: z.number().nullable().describe("Null without bound"),
    used: z.number().describe("Consumed and held"),
    remaining: z.number().nullable(),
    resetAt: moment.nullable().describe("Null for a window without end, or one that has not begun"),
  })
  .meta({ id: "BudgetReached" });

export const budget = z
  .strictObject({
    name: z.string(),
    limit: z.string().nullable().describe("Null for one that the contract no longer has"),
    spender: z.string().nullable(),
    unit: z.string().nullable(),
    amount: z.union([z.number(), z.string()]),
    amountNow: z
      .number()
      .nullable()
      .describe("The amount, or the value of the limit that it names; null without bound"),
    window,
    mode: z.enum(BUDGET_MODES),
    until: moment.nullable(),
    thresholds: z.array(z.number()),
    createdAt: moment,
    balances: z
      .array(
        z.strictObject({
          spender: z.string().nullable(),
          used: z.number(),
          held: z.number(),
          remaining: z.number().nullable(),
          resetAt: moment.nullable(),
        }),
      )
      .describe("Of spenders that have used it in the running window: most used first, up to 100, in a list up to 10"),
    denied: z
      .strictObject({ spender: z.string().nullable(), amount: z.number(), at: moment })
      .nullable()
      .describe(
        "The last call that it denied: its spender, the amount that would have counted, and when. Null for none",
      ),
  })
  .meta({ id: "Budget" });

export const budgetList = z.strictObject({ data: z.array(budget) }).meta({ id: "BudgetList" });

const GIVEN = { limit: "tasker-maxTasks", spender: "*", amount: 10, window: { value: 1, unit: "DAY", anchor: "utc" } };
const BUDGET = {
  name: "daily",
  limit: "tasker-maxTasks",
  spender: "*",
  unit: null,
  amount: 10,
  amountNow: 10,
  window: GIVEN.window,
  mode: "stop",
  until: null,
  thresholds: [80, 100],
  createdAt: EXAMPLE.createdAt,
  balances: [{ spender: "grace", used: 4, held: 0, remaining: 6, resetAt: "2025-06-16T00:00:00.000Z" }],
  denied: { spender: "grace/notes", amount: 8, at: EXAMPLE.createdAt },
};
const NO_BUDGET = "Budget daily of ada not found";

/** Budgets of one contract. Source: contract budgets §2. */
export const budgetOperations: readonly Operation[] = [
  {
    id: "listBudgets",
    group: "Contracts",
    method: "GET",
    path: "/contracts/{userId}/budgets",
    summary: "List the budgets of a contract",
    description: "Lists the budgets by name, with the balances of the spenders that have used most of each.",
    answers: { 200: { schema: budgetList, example: { data: [BUDGET] } } },
    errors: NO_SINGLE_CONTRACT,
  },
  {
    id: "showBudget",
    group: "Contracts",
    method: "GET",
    path: "/contracts/{userId}/budgets/{budgetName}",
    summary: "Show a budget",
    description: "Shows a budget of a contract with its balances.",
    answers: { 200: { schema: budget, example: BUDGET } },
    errors: { 404: NO_BUDGET, 409: SEVERAL_CONTRACTS },
  },
  {
    id: "putBudget",
    group: "Contracts",
    method: "PUT",
    path: "/contracts/{userId}/budgets/{budgetName}",
    summary: "Set a budget",
    description:
      "Sets how much of a limit a spender may take within a window. Balances stay, unless limit, spender, unit or window change.",
    body: { schema: newBudget, example: GIVEN },
    answers: {
      200: { schema: budget, example: BUDGET },
      201: { schema: budget, example: { ...BUDGET, balances: [], denied: null } },
    },
    errors: {
      404: "Contract with userId ada not found",
      409: "CONFLICT: A contract cannot have more than 200 budgets",
      422: "Unknown limit: tasker-maxTask",
    },
  },
  {
    id: "deleteBudget",
    group: "Contracts",
    method: "DELETE",
    path: "/contracts/{userId}/budgets/{budgetName}",
    summary: "Delete a budget",
    description: "Deletes a budget of a contract with its balances. The limit alone counts then.",
    answers: { 204: null },
    errors: { 404: NO_BUDGET, 409: SEVERAL_CONTRACTS },
  },
];
