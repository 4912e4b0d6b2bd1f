import { HTTPException } from "hono/http-exception";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { asFailure, Failure, type FailureCode, needsOperator } from "../operations/errors.ts";
import { json } from "./reply.ts";
import { logRequest, type AppContext } from "./context.ts";

/** The only place where a failure gets a number, but for those that OFREP numbers in another way. */
const STATUS: Record<FailureCode, ContentfulStatusCode> = {
  invalid: 400,
  unauthenticated: 401,
  forbidden: 403,
  notFound: 404,
  conflict: 409,
  tooLarge: 413,
  unprocessable: 422,
  tooManyRequests: 429,
  unavailable: 503,
};

/** All that anybody is told of an error that is ours. */
export const UNEXPECTED = "Internal server error";

/** What an answer says of a failure; of an unexpected one nothing but that. */
export type FailureBody = (failure: Failure | undefined, c: AppContext) => object;

const sentence: FailureBody = (failure) =>
  failure === undefined
    ? { error: UNEXPECTED }
    : { error: failure.message, details: failure.details, problems: failure.problems, gate: failure.gate };

/**
 * Every error becomes `{"error": "<sentence>"}`, or another body, with its status; an unexpected one is logged with its
 * request id and answered with a fixed sentence, because internal messages are nobody else's business.
 */
export function answerError(error: unknown, c: AppContext, bodyOf: FailureBody = sentence): Response {
  const failure = asFailure(error);
  if (failure !== undefined) {
    if (needsOperator(failure.cause)) {
      logRequest(
        c,
        "error",
        "the database rejects connections until an operator acts; run npm run doctor",
        failure.cause,
      );
    } else if (failure.code === "unavailable") logRequest(c, "warn", "the database is unavailable", failure.cause);
    if (failure.retryAfterSeconds !== undefined)
      c.get("request").headers["Retry-After"] = String(failure.retryAfterSeconds);
    return json(c, bodyOf(failure, c), STATUS[failure.code]);
  }
  if (error instanceof HTTPException && error.status < 500) {
    return answerError(
      new Failure(error.status === 413 ? "tooLarge" : "invalid", error.message || "INVALID DATA: Malformed request"),
      c,
      bodyOf,
    );
  }
  logRequest(c, "error", "unexpected error", error);
  return json(c, bodyOf(undefined, c), 500);
}
