import { commandLine } from "../core/command-line.ts";
import { HTTPException } from "hono/http-exception";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { asFailure, Failure, type FailureCode, needsOperator } from "../operations/errors.ts";
import { json } from "./reply.ts";
import { logRequest, type AppContext } from "./context.ts";

/** Maps failures to HTTP statuses. OFREP overrides some of them. */
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

/** Returns the status of a failure's answer. */
export const statusOf = ({ code }: Failure): ContentfulStatusCode => STATUS[code];

/** Public message of every unexpected error. Internal messages are only logged. */
export const UNEXPECTED = "Internal server error";

/** Creates the body for a failure. Undefined stands for an unexpected error. */
export type FailureBody = (failure: Failure | undefined, c: AppContext) => object;

const sentence: FailureBody = (failure) =>
  failure === undefined
    ? { error: UNEXPECTED }
    : { error: failure.message, details: failure.details, problems: failure.problems, gate: failure.gate };

/**
 * Answers an error with `{"error": "<sentence>"}`, or the body of another protocol. Logs unexpected errors with their
 * request id, and answers them with a fixed sentence that reveals nothing internal.
 */
export function answerError(error: unknown, c: AppContext, bodyOf: FailureBody = sentence): Response {
  const failure = asFailure(error);
  if (failure !== undefined) {
    if (needsOperator(failure.cause)) {
      logRequest(
        c,
        "error",
        `the database rejects statements until an operator acts; run ${commandLine("doctor")}`,
        failure.cause,
      );
    } else if (failure.code === "unavailable") logRequest(c, "warn", "the database is unavailable", failure.cause);
    if (failure.retryAfterSeconds !== undefined)
      c.get("request").headers["Retry-After"] = String(failure.retryAfterSeconds);
    return json(c, bodyOf(failure, c), statusOf(failure));
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
