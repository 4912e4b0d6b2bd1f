import { Hono } from "hono";
import { parseSpender, type Spender, SPENDER_RULE } from "../../core/pricing/budgets.ts";
import type { OfrepFailure } from "../../core/ofrep.ts";
import type { Context } from "../../operations/context.ts";
import { asFailure } from "../../operations/errors.ts";
import * as flags from "../../operations/evaluation/flags.ts";
import { evaluationRequest, OFREP_ERRORS } from "../../wire/ofrep.ts";
import { errorJson, type FailureBody, UNEXPECTED } from "../errors.ts";
import { type AppContext, type AppEnv, context } from "../context.ts";
import { json, replyConditionally } from "../reply.ts";
import { queryParameter } from "../params.ts";

/** Evaluates for the request's end user. A user without a valid contract is an INVALID_CONTEXT. */
async function answer(
  c: AppContext,
  key: string | undefined,
  evaluate: (
    ctx: Context,
    input: { userId: string; mode: { server: boolean }; spender?: Spender | undefined },
  ) => Promise<Response>,
): Promise<Response> {
  const read = evaluationRequest.safeParse(c.get("body"));
  if (!read.success) {
    const [issue] = read.error.issues;
    const errorCode = issue?.message ?? "PARSE_ERROR";
    if (issue?.path.includes("spender") === true) return refuseSpender(c, key);
    const errorDetails = new Map(Object.entries<string>(OFREP_ERRORS)).get(errorCode);
    return errorJson(c, { key, errorCode, errorDetails }, 400, "invalid");
  }
  const { targetingKey: userId, spender: text } = read.data.context;
  const spender = typeof text === "string" ? parseSpender(text) : undefined;
  if (typeof text === "string" && spender === undefined) return refuseSpender(c, key);
  const server = queryParameter(c, "server") === "true";
  try {
    return await evaluate(context(c), { userId, mode: { server }, spender });
  } catch (error) {
    const failure = asFailure(error);
    if (failure?.code !== "notFound" && failure?.code !== "invalid") throw error;
    return errorJson(c, { key, errorCode: "INVALID_CONTEXT", errorDetails: failure.message }, 400, failure.code);
  }
}

/** Answers 422 as other endpoints do, which the protocol does not name: providers read the error code. Source: contract budgets. */
function refuseSpender(c: AppContext, key: string | undefined): Response {
  const body = { key, errorCode: "INVALID_CONTEXT", errorDetails: SPENDER_RULE };
  return errorJson(c, body, 422, "unprocessable");
}

/** OpenFeature's Remote Evaluation Protocol. Evaluates and never consumes. Source: open-feature/protocol, service/openapi.yaml. */
export const ofrepRoutes = new Hono<AppEnv>()
  .post("/", (c) =>
    answer(c, undefined, async (ctx, input) => {
      const found = await flags.evaluateFlags(ctx, input);
      if ("errorCode" in found) return errorJson(c, found, 404, "notFound");
      return replyConditionally(c, JSON.stringify({ flags: found }));
    }),
  )
  .post("/:key", (c) => {
    const key = c.req.param("key");
    return answer(c, key, async (ctx, input) => {
      const flag = await flags.evaluateFlag(ctx, { ...input, featureId: key });
      if (!("errorCode" in flag)) return json(c, flag);
      const isUnknown = flag.errorCode === "FLAG_NOT_FOUND" || flag.errorCode === "INVALID_CONTEXT";
      return errorJson(c, flag, isUnknown ? 404 : 400, isUnknown ? "notFound" : "invalid");
    });
  });

/** Formats failures outside of an evaluation. Clients expect the key with failures of one flag. */
export const ofrepFailure: FailureBody = (failure, c): OfrepFailure => ({
  key: flagKey(c.req.path),
  // A malformed request before routing concerns its body or query.
  errorCode: failure?.code === "invalid" ? "PARSE_ERROR" : "GENERAL",
  errorDetails: failure?.message ?? UNEXPECTED,
});

function flagKey(path: string): string | undefined {
  const encoded = /^\/ofrep\/v1\/evaluate\/flags\/([^/]+)$/.exec(path)?.[1];
  try {
    return encoded && decodeURIComponent(encoded);
  } catch {
    return encoded;
  }
}
