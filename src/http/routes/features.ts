import { Hono } from "hono";
import { type MaybePromise, chain } from "../../core/maybe-promise.ts";
import type { TokenSignature } from "../../core/token-keys.ts";
import type { Context } from "../../operations/context.ts";
import type { EvaluationRequest, FeatureAnswer } from "../../operations/evaluation/request.ts";
import { evaluateAllAt, evaluateOneAt } from "../../operations/evaluation/as-of.ts";
import { Failure } from "../../operations/errors.ts";
import * as features from "../../operations/evaluation/features.ts";
import { issuePricingToken } from "../../operations/evaluation/pricing-tokens.ts";
import * as usage from "../../operations/evaluation/usage.ts";
import { splitUnits } from "../../operations/evaluation/units.ts";
import { unlockFeature } from "../../operations/evaluation/unlock.ts";
import { expectedConsumption } from "../../wire/features.ts";
import { unlockRequest } from "../../wire/unlock.ts";
import { answerOnce } from "../idempotency.ts";
import { type AppContext, type AppEnv, context } from "../context.ts";
import { bodyOf } from "../body.ts";
import { instantOf, leadingInteger, nonEmpty, queryParameter } from "../params.ts";
import { json } from "../reply.ts";
import { spenderOf } from "./budgets.ts";
import { countsBlocks, durationOf } from "./holds.ts";

const flag = (c: AppContext, name: string) => queryParameter(c, name) === "true";
const mode = (c: AppContext) => ({ server: flag(c, "server") });
const userId = (c: AppContext) => c.req.param("userId") ?? "";

/** True for an empty body: most calls do not consume, and need no validation. */
function isEmpty(body: unknown): boolean {
  if (typeof body !== "object" || body === null || Array.isArray(body)) return false;
  for (const _ in body) return false;
  return true;
}

function positive(c: AppContext, name: string, fallback: number): number {
  const value = leadingInteger(queryParameter(c, name)) ?? 0;
  return value > 0 ? value : fallback;
}

/**
 * Reads the signature that a call asks for; undefined if it names none.
 * @throws Failure invalid for any other algorithm.
 */
function signatureOf(c: AppContext): TokenSignature | undefined {
  const given = queryParameter(c, "signature");
  if (given === undefined || given === "EdDSA" || given === "HS256") return given;
  throw new Failure("invalid", "INVALID DATA: signature must be EdDSA or HS256");
}

export const featureRoutes = new Hono<AppEnv>()
  .get("/", async (c) => {
    const limit = positive(c, "limit", 20);
    const offset = positive(c, "offset", 0);
    return json(
      c,
      await features.listFeatures(context(c), {
        featureName: queryParameter(c, "featureName") ?? "",
        serviceName: queryParameter(c, "serviceName") ?? "",
        pricingVersion: queryParameter(c, "pricingVersion") ?? "",
        show: queryParameter(c, "show") || "active",
        limit,
        skip: offset > 0 ? offset : (positive(c, "page", 1) - 1) * limit,
        sort: queryParameter(c, "sort") || "serviceName",
        order: (queryParameter(c, "order") || "asc") === "asc" ? "asc" : "desc",
      }),
    );
  })
  .post("/:userId", (c) => {
    const input = { userId: userId(c), mode: mode(c), spender: spenderOf(c) };
    const at = instantOf(c, "at");
    if (at !== undefined) {
      return chain(evaluateAllAt(context(c), { ...input, at, details: flag(c, "details") }), (all) => json(c, all));
    }
    const evaluate = flag(c, "details") ? features.evaluateAllDetailed : features.evaluateAll;
    return chain(evaluate(context(c), input), (all) => json(c, all));
  })
  .post("/:userId/pricing-token", (c) => {
    if (instantOf(c, "at") !== undefined) {
      throw new Failure("invalid", "INVALID DATA: A pricing token cannot be issued for a moment in the past");
    }
    const issued = issuePricingToken(context(c), {
      userId: userId(c),
      mode: mode(c),
      signature: signatureOf(c),
      spender: spenderOf(c),
    });
    return chain(issued, (token) => json(c, token));
  })
  .post("/:userId/:featureId/unlock", async (c) => {
    const { amounts } = bodyOf(c, unlockRequest);
    if (queryParameter(c, "at") !== undefined)
      throw new Failure("invalid", "INVALID DATA: 'at' cannot be combined with an unlock");
    const pricingVersion = nonEmpty(c, "pricingVersion");
    const of = { userId: userId(c), featureId: c.req.param("featureId"), mode: mode(c) };
    const input = { ...of, amounts, pricingVersion, spender: spenderOf(c) };
    return json(c, await unlockFeature(context(c), input));
  })
  .post("/:userId/:featureId", (c) => {
    const input = { userId: userId(c), featureId: c.req.param("featureId"), mode: mode(c) };
    const dryRun = flag(c, "dryRun");
    const at = instantOf(c, "at");
    const hold = holdOf(c, at);
    if (flag(c, "revert")) {
      if (at !== undefined) throw new Failure("invalid", "INVALID DATA: 'at' cannot be combined with 'revert'");
      if (dryRun) throw new Failure("invalid", "INVALID DATA: 'revert' cannot be combined with 'dryRun'");
      return revert(c, { ...input, latest: flag(c, "latest"), spender: spenderOf(c) });
    }
    const body = isEmpty(c.get("body")) ? {} : bodyOf(c, expectedConsumption);
    const { amounts: expected, units } = splitUnits(body);
    if (hold !== undefined && isEmpty(expected)) {
      throw new Failure("unprocessable", "A hold needs amounts for the limits of the feature");
    }
    // One literal, without spreads: V8 takes microseconds for each field that is added to a copy.
    const request = {
      expected,
      units,
      strict: flag(c, "strict"),
      explain: flag(c, "explain"),
      blocks: countsBlocks(c),
      spender: spenderOf(c),
      dryRun,
      hold,
      userId: input.userId,
      featureId: input.featureId,
      mode: input.mode,
    };
    if (at === undefined) return evaluate(c, request);
    if (!dryRun && Object.keys(expected).length > 0) {
      throw new Failure("invalid", "INVALID DATA: 'at' cannot be combined with consumption, except in a dry run");
    }
    return chain(evaluateOneAt(context(c), { ...request, at }), (answer) => json(c, answer));
  });

/**
 * Reads the hold that a call asks for; undefined if it asks for none.
 * @throws Failure invalid for a malformed one, and for one that is not for now.
 */
function holdOf(c: AppContext, at: Date | undefined): EvaluationRequest["hold"] {
  const durationMs = durationOf(c, "hold");
  if (durationMs === undefined) return undefined;
  const onExpiry = queryParameter(c, "onExpiry") ?? "release";
  if (onExpiry !== "release" && onExpiry !== "consume") {
    throw new Failure("invalid", "INVALID DATA: onExpiry must be release or consume");
  }
  if (flag(c, "revert") || flag(c, "dryRun") || at !== undefined) {
    throw new Failure("invalid", "INVALID DATA: hold cannot be combined with revert, dryRun or at");
  }
  return { durationMs, onExpiry, partial: flag(c, "partial") };
}

/** Updates the counter after the commit, because the transaction may be retried. */
async function revert(c: AppContext, input: Parameters<typeof usage.revertConsumption>[1]): Promise<Response> {
  const done = { reverted: 0 };
  const answer = await answerOnce(c, async (ctx) => {
    await usage.revertConsumption(ctx, input);
    done.reverted = 1;
    return { status: 204 };
  });
  c.get("resources").callCounter.totals.reverted += done.reverted;
  return answer;
}

/** Counts the verdict after the commit, for the same reason. A replayed answer is not counted again. */
function evaluate(c: AppContext, request: EvaluationRequest): MaybePromise<Response> {
  const done: { ctx?: Context; answer?: FeatureAnswer } = {};
  const responded = answerOnce(c, (ctx) =>
    chain(features.evaluateOne(ctx, request), (answer) => {
      done.ctx = ctx;
      done.answer = answer;
      return { status: 200, value: answer };
    }),
  );
  return chain(responded, (response) => {
    if (done.ctx !== undefined && done.answer !== undefined && !request.dryRun)
      features.countVerdict(done.ctx, request, done.answer);
    return response;
  });
}
