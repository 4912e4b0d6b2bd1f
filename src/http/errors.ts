import { commandLine } from "../core/command-line.ts";
import { HTTPException } from "hono/http-exception";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { asFailure, Failure, type FailureCode, needsOperator, UNSTORABLE } from "../operations/errors.ts";
import { ERRORS } from "../wire/errors/catalogue.ts";
import type { ErrorKind } from "../wire/errors/entry.ts";
import type { ErrorLinks } from "./error-links.ts";
import { json } from "./reply.ts";
import { logRequest, type AppContext } from "./context.ts";
import { unstorableText } from "./unstorable.ts";

/** The status, meaning and remedy of each failure. OFREP overrides some statuses. */
const KINDS: Record<FailureCode, ErrorKind> = ERRORS;

/** Returns the status of a failure's answer. */
export const statusOf = ({ code }: Failure): ContentfulStatusCode => KINDS[code].status;

/** Answers an error with a body, and the link to its part of the catalogue. */
export function errorJson(c: AppContext, body: object, status: ContentfulStatusCode, code: keyof ErrorLinks): Response {
  c.get("request").headers["Link"] = c.get("server").errorLinks[code];
  return json(c, body, status);
}

/** Public message of every unexpected error. Internal messages are only logged. */
export const UNEXPECTED = "Internal server error";

/** Creates the body for a failure. Undefined stands for an unexpected error. */
export type FailureBody = (failure: Failure | undefined, c: AppContext) => object;

const sentence: FailureBody = (failure) =>
  failure === undefined
    ? { error: UNEXPECTED }
    : {
        error: failure.message,
        details: failure.details,
        problems: failure.problems,
        gate: failure.gate,
        report: failure.report,
      };

/** Adds the field to the failure of a text that Postgres cannot store. */
function named(failure: Failure | undefined, c: AppContext): Failure | undefined {
  const text = failure?.message === UNSTORABLE ? unstorableText(c) : undefined;
  if (failure === undefined || text === undefined) return failure;
  return new Failure("invalid", UNSTORABLE.replace("A text", text), { cause: failure.cause });
}

/**
 * Answers an error with `{"error": "<sentence>"}`, or the body of another protocol. Logs unexpected errors with their
 * request id, and answers them with a fixed sentence that reveals nothing internal.
 */
export function answerError(error: unknown, c: AppContext, bodyOf: FailureBody = sentence): Response {
  const failure = named(asFailure(error), c);
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
    return errorJson(c, bodyOf(failure, c), statusOf(failure), failure.code);
  }
  if (error instanceof HTTPException && error.status < 500) {
    return answerError(
      new Failure(error.status === 413 ? "tooLarge" : "invalid", error.message || "INVALID DATA: Malformed request"),
      c,
      bodyOf,
    );
  }
  logRequest(c, "error", "unexpected error", error);
  return errorJson(c, bodyOf(undefined, c), 500, "unexpected");
}
