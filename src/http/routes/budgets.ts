import { Hono } from "hono";
import { parseSpender, type Spender, SPENDER_RULE } from "../../core/pricing/budgets.ts";
import * as budgets from "../../operations/budgets.ts";
import { Failure } from "../../operations/errors.ts";
import { newBudget } from "../../wire/budgets.ts";
import { bodyOf } from "../body.ts";
import { type AppContext, type AppEnv, context } from "../context.ts";
import { queryParameter, scope } from "../params.ts";
import { json, reply } from "../reply.ts";

const address = (c: AppContext) => ({ organizationId: scope(c), userId: c.req.param("userId") ?? "" });
const named = (c: AppContext) => ({ ...address(c), name: c.req.param("budgetName") ?? "" });

/**
 * Reads the one who spends, from `spender` or `member`; undefined if the call names none.
 * @throws Failure unprocessable for other text than a path of ids.
 */
export function spenderOf(c: AppContext): Spender | undefined {
  const text = queryParameter(c, "spender") ?? queryParameter(c, "member");
  return text === undefined ? undefined : spenderIn(text);
}

/** Parses the path of a spender. @throws Failure unprocessable for other text. */
export function spenderIn(text: string): Spender {
  const spender = parseSpender(text);
  if (spender === undefined) throw new Failure("unprocessable", SPENDER_RULE);
  return spender;
}

/** Budgets of one contract. */
export const contractBudgetRoutes = new Hono<AppEnv>()
  .get("/:userId/budgets", async (c) => json(c, await budgets.listBudgets(context(c), address(c))))
  .get("/:userId/budgets/:budgetName", async (c) => json(c, await budgets.showBudget(context(c), named(c))))
  .put("/:userId/budgets/:budgetName", async (c) => {
    const budget = bodyOf(c, newBudget, "unknownFieldsLast");
    const put = await budgets.setBudget(context(c), { ...named(c), budget });
    return json(c, put.budget, put.isNew ? 201 : 200);
  })
  .delete("/:userId/budgets/:budgetName", async (c) => {
    await budgets.removeBudget(context(c), named(c));
    return reply(c, null, 204);
  });
