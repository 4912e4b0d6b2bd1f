import { Hono } from "hono";
import { durationIn } from "../../core/holds.ts";
import type { Context } from "../../operations/context.ts";
import { Failure } from "../../operations/errors.ts";
import * as holds from "../../operations/evaluation/holds.ts";
import { noteDenial } from "../../operations/evaluation/budget-denials.ts";
import { keepHold } from "../../operations/evaluation/kept-holds.ts";
import type { SettlementAnswer } from "../../operations/evaluation/request.ts";
import { splitUnits } from "../../operations/evaluation/units.ts";
import { expectedConsumption } from "../../wire/features.ts";
import { holdReport } from "../../wire/holds.ts";
import { bodyOf } from "../body.ts";
import { type AppContext, type AppEnv, context } from "../context.ts";
import { answerOnce } from "../idempotency.ts";
import { pageLimit, queryParameter, scope } from "../params.ts";
import { json } from "../reply.ts";

/**
 * Reads a duration from 1 second to 24 hours, in milliseconds. Undefined if the parameter is missing.
 * @throws Failure invalid for other text.
 */
export function durationOf(c: AppContext, name: string): number | undefined {
  const text = queryParameter(c, name);
  if (text === undefined) return undefined;
  const duration = durationIn(text);
  if (duration !== undefined) return duration;
  throw new Failure("invalid", `INVALID DATA: ${name} must be an ISO 8601 duration from PT1S to PT24H`);
}

/** False for a call that is decided as if there were no blocks. */
export const countsBlocks = (c: AppContext): boolean => queryParameter(c, "blocks") !== "false";

const idOf = (c: AppContext) => c.req.param("holdId") ?? "";

/** Holds of the caller's organization. */
export const holdRoutes = new Hono<AppEnv>()
  .post("/:holdId", (c) => {
    const id = idOf(c);
    const estimated = queryParameter(c, "estimated") === "true";
    const durationMs = durationOf(c, "extend");
    if (queryParameter(c, "keep") === "true") {
      if (durationMs !== undefined) throw new Failure("invalid", "INVALID DATA: extend cannot be combined with keep");
      const { spent, amounts, for: text } = bodyOf(c, holdReport, "unknownFieldsLast");
      const report = {
        spent: splitUnits(spent),
        left: amounts ? splitUnits(amounts) : undefined,
        durationMs: text ? durationIn(text) : undefined,
      };
      const input = { id, ...report, estimated, blocks: countsBlocks(c) };
      return decide(
        c,
        (ctx) => keepHold(ctx, input),
        ({ resources }, { budget }) => noteDenial(resources, budget),
      );
    }
    if (durationMs === undefined) {
      const asked = splitUnits(bodyOf(c, expectedConsumption));
      const input = { id, ...asked, estimated, blocks: countsBlocks(c) };
      return decide(c, (ctx) => holds.settleHold(ctx, input), holds.countSettlement);
    }
    const body = c.get("body");
    if (Array.isArray(body) || Object.keys(Object(body)).length > 0) {
      throw new Failure("invalid", "INVALID DATA: extend cannot be combined with amounts");
    }
    return answerOnce(c, async (ctx) => ({
      status: 200,
      value: await holds.extendOpenHold(ctx, { id, durationMs }),
    }));
  })
  .delete("/:holdId", (c) =>
    answerOnce(c, async (ctx) => {
      await holds.releaseHold(ctx, idOf(c));
      return { status: 204 };
    }),
  );

/** Answers with a decision. Counts it after the commit, because the transaction may be retried. */
async function decide(
  c: AppContext,
  work: (ctx: Context) => Promise<SettlementAnswer>,
  count: (ctx: Context, answer: SettlementAnswer) => void,
): Promise<Response> {
  const done: { ctx?: Context; answer?: SettlementAnswer } = {};
  const response = await answerOnce(c, async (ctx) => {
    const answer = await work(ctx);
    Object.assign(done, { ctx, answer });
    return { status: 200, value: answer };
  });
  if (done.ctx !== undefined && done.answer !== undefined) count(done.ctx, done.answer);
  return response;
}

/** Holds of one contract. */
export const contractHoldRoutes = new Hono<AppEnv>().get("/:userId/holds", async (c) => {
  const state = queryParameter(c, "state") ?? "open";
  if (!holds.isListedState(state)) {
    throw new Failure("invalid", "INVALID DATA: state must be open, settled, released, expired or all");
  }
  const limit = pageLimit(c);
  const before = queryParameter(c, "before");
  if (before !== undefined && !/^[0-9a-f]{24}$/.test(before)) {
    throw new Failure("invalid", "INVALID DATA: before must be the id of a hold");
  }
  const address = { organizationId: scope(c), userId: c.req.param("userId") };
  return json(c, await holds.listContractHolds(context(c), { ...address, state, limit, before }));
});
