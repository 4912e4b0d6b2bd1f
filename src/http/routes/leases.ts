import { Hono } from "hono";
import type { Context } from "../../operations/context.ts";
import { noteDenial } from "../../operations/evaluation/budget-denials.ts";
import { countVerdict } from "../../operations/evaluation/features.ts";
import { openLease } from "../../operations/evaluation/leases/open.ts";
import { endLease, reportLease } from "../../operations/evaluation/leases/report.ts";
import type { LeaseAnswer } from "../../operations/evaluation/request.ts";
import { leaseDurationIn, leaseReport, leaseRequest } from "../../wire/leases.ts";
import { bodyOf } from "../body.ts";
import { type AppEnv, context } from "../context.ts";
import { answerOnce } from "../idempotency.ts";
import { queryParameter } from "../params.ts";
import { json, reply } from "../reply.ts";
import { spenderOf } from "./budgets.ts";

/** Leases of the caller's organization. */
export const leaseRoutes = new Hono<AppEnv>()
  .post("/:leaseId", async (c) => {
    const { spent, amounts, for: duration } = bodyOf(c, leaseReport, "unknownFieldsLast");
    const durationMs = leaseDurationIn(duration ?? "");
    const report = { id: c.req.param("leaseId"), spent, amounts: amounts ?? undefined, durationMs };
    const ctx = context(c);
    const answer = await reportLease(ctx, report);
    noteDenial(ctx.resources, answer.budget);
    return json(c, answer);
  })
  .delete("/:leaseId", async (c) => {
    await endLease(context(c), c.req.param("leaseId"));
    return reply(c, null, 204);
  });

/** Leases of one end user's feature. */
export const featureLeaseRoutes = new Hono<AppEnv>().post("/:userId/:featureId/leases", async (c) => {
  const { amounts, for: duration } = bodyOf(c, leaseRequest, "unknownFieldsLast");
  const mode = { server: queryParameter(c, "server") === "true" };
  const { userId, featureId } = c.req.param();
  const request = {
    userId,
    featureId,
    mode,
    amounts,
    durationMs: leaseDurationIn(duration) ?? 0,
    spender: spenderOf(c),
  };
  const done: { ctx?: Context; answer?: LeaseAnswer } = {};
  const response = await answerOnce(c, async (ctx) => {
    const answer = await openLease(ctx, request);
    Object.assign(done, { ctx, answer });
    return { status: answer.lease === null ? 200 : 201, value: answer };
  });
  // After the commit, because the transaction may be retried.
  if (done.ctx !== undefined && done.answer?.eval === false) {
    countVerdict(done.ctx, { featureId, expected: amounts, hold: undefined }, done.answer);
  }
  return response;
});
