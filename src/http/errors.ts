import type { Context as HonoContext } from "hono";
import { HTTPException } from "hono/http-exception";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { asFailure, Failure, type FailureCode } from "../operations/errors.ts";
import { type AppEnv, reply } from "./route.ts";

/** The only place where a failure gets a number. */
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

/**
 * Every error becomes `{"error": "<sentence>"}` with its status; an unexpected one is logged with its request id and
 * answered with a fixed sentence, because internal messages are nobody else's business.
 */
export function answerError(error: unknown, c: HonoContext<AppEnv>): Response {
  const failure = asFailure(error);
  if (failure !== undefined) {
    if (failure.code === "unavailable") c.get("log")?.("warn", "the database is unavailable", failure.cause);
    if (failure.retryAfterSeconds !== undefined) c.get("headers")["Retry-After"] = String(failure.retryAfterSeconds);
    return reply(
      c,
      JSON.stringify({ error: failure.message, details: failure.details, problems: failure.problems }),
      STATUS[failure.code],
      { "Content-Type": "application/json; charset=utf-8" },
    );
  }
  if (error instanceof HTTPException && error.status < 500) {
    return answerError(
      new Failure(error.status === 413 ? "tooLarge" : "invalid", error.message || "INVALID DATA: Malformed request"),
      c,
    );
  }
  c.get("log")?.("error", "unexpected error", error);
  return reply(c, '{"error":"Internal server error"}', 500, { "Content-Type": "application/json; charset=utf-8" });
}
