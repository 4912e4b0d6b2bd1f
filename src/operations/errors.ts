import { excerpt } from "../core/pricing/excerpt.ts";

/**
 * Every kind of failure that a caller can act on. Only http/errors.ts maps them to status codes. The contract pins each
 * message, because clients match on it.
 */
export type FailureCode =
  /** The request is well-formed but not acceptable: bad values, broken business rules. */
  | "invalid"
  /** No key, an unknown key, wrong credentials. */
  | "unauthenticated"
  /** The caller is authenticated but lacks permission. */
  | "forbidden"
  /** Nonexistent or belonging to someone else; both must look identical. */
  | "notFound"
  /** The organization has moved to another instance; `details` is its address. */
  | "gone"
  /** Conflicts with existing data. */
  | "conflict"
  /** The shape of the request is wrong: a missing field, a wrong type. */
  | "unprocessable"
  /** A body or file exceeds its limit. */
  | "tooLarge"
  /** Rate-limited; `retryAfterSeconds` says when to retry. */
  | "tooManyRequests"
  /** The database is unreachable or overloaded. Nothing was changed; the caller can retry. */
  | "unavailable";

/** One of several problems, for the additional field `problems` of an error body. */
export interface Problem {
  message: string;
  path: string;
  line: number;
  column: number;
}

/** Truncates messages that quote input, which may have 2 MB. The contract's own text takes a few hundred characters. */
const MAX_MESSAGE_LENGTH = 8_000;

/** Thrown by an operation when the caller, not the server, has to act. */
export class Failure extends Error {
  readonly code: FailureCode;
  readonly details: string | undefined;
  readonly problems: readonly Problem[] | undefined;
  /** The gate's result with its broken rules. */
  readonly gate: object | undefined;
  /** The new report of a change whose approved one is stale. */
  readonly report: object | undefined;
  readonly retryAfterSeconds: number | undefined;

  constructor(
    code: FailureCode,
    message: string,
    options: {
      details?: string | undefined;
      problems?: readonly Problem[] | undefined;
      gate?: object | undefined;
      report?: object | undefined;
      retryAfterSeconds?: number | undefined;
      cause?: unknown;
    } = {},
  ) {
    super(
      message.length > MAX_MESSAGE_LENGTH ? excerpt(message, MAX_MESSAGE_LENGTH) : message,
      options.cause === undefined ? undefined : { cause: options.cause },
    );
    this.name = "Failure";
    this.code = code;
    this.details = options.details;
    this.problems = options.problems;
    this.gate = options.gate;
    this.report = options.report;
    this.retryAfterSeconds = options.retryAfterSeconds;
  }
}

/** The failure of a call that the process or the database cannot serve now. */
export const unavailable = (
  retryAfterSeconds: number,
  about: { details?: string | undefined; cause?: unknown } = {},
): Failure =>
  new Failure("unavailable", "The service is temporarily unavailable. Please try again", {
    ...about,
    retryAfterSeconds,
  });

/**
 * Serializes a caller's value as JSON.
 * @throws Failure invalid for a value that is nested too deeply to serialize.
 */
export function jsonText(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch (cause) {
    if (cause instanceof RangeError) throw tooDeep(cause);
    throw cause;
  }
}

export const tooDeep = (cause: unknown): Failure =>
  new Failure("invalid", "INVALID DATA: The body is nested too deeply", { cause });

/**
 * Driver codes and SQLSTATE prefixes of an unreachable, overloaded or conflicting database. Nothing was changed, so a
 * retry is safe.
 */
const UNAVAILABLE =
  /^(READ_TIMEOUT|CONNECT_TIMEOUT|ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN|53[023]|57P03|57014|25P03|26000|40001|40P01|55P03)/;
/** The connection was lost while a statement was in flight: it may have committed. */
const LOST = /^(CONNECTION_|ECONN|EPIPE|ETIMEDOUT|08|57P)/;
/**
 * Nothing was changed, and retries fail until an operator acts. Examples: disk full, I/O error, read-only, no
 * permission, wrong credentials.
 */
const REFUSED = /^(53100|58|25006|42501|55000|28|3D000)/;

/** Classifies a database error; undefined for a bug of ours. */
function troubleOf(error: unknown): "unavailable" | "lost" | "refused" | "text" | "long" | "deep" | undefined {
  for (let current = error, depth = 0; current instanceof Error && depth < 6; current = current.cause, depth += 1) {
    const code: unknown = "code" in current ? current.code : undefined;
    if (typeof code !== "string") continue;
    if (code === "22021" || code === "22P05" || isUnreadableJson(code, current)) return "text";
    if (code === "54000") return "long";
    if (code === "54001") return "deep";
    if (REFUSED.test(code)) return "refused";
    // Such as ENOENT, for a Unix-domain socket that is not there.
    if ("syscall" in current && current.syscall === "connect") return "unavailable";
    if (UNAVAILABLE.test(code)) return "unavailable";
    if (LOST.test(code)) return "lost";
  }
  return undefined;
}

/** Our own JSON can only be invalid because of a lone surrogate. Any other value with this code is a bug. */
function isUnreadableJson(code: string, error: object): boolean {
  return code === "22P02" && "routine" in error && String(error.routine).startsWith("json_");
}

/** True if the database will keep rejecting writes until an operator acts. */
export const needsOperator = (error: unknown): boolean => troubleOf(error) === "refused";

/** Appended to the message when the commit is uncertain. */
const UNCERTAIN = "The change may have been saved: retry with the same Idempotency-Key, or check first";

/** Message of a text that Postgres cannot store. The HTTP interface names its field. */
export const UNSTORABLE = "INVALID DATA: A text contains a character that cannot be stored";

/** Converts a database error to the Failure for the caller; undefined for a bug of ours. */
export function asFailure(error: unknown): Failure | undefined {
  if (error instanceof Failure) return error;
  const trouble = troubleOf(error);
  if (trouble === undefined) return undefined;
  if (trouble === "text") {
    return new Failure("invalid", UNSTORABLE, { cause: error });
  }
  if (trouble === "long") {
    return new Failure("invalid", "INVALID DATA: A text is longer than can be stored", { cause: error });
  }
  if (trouble === "deep") return tooDeep(error);
  // An operator needs longer to fix it.
  return unavailable(trouble === "refused" ? 5 : 1, {
    details: trouble === "lost" ? UNCERTAIN : undefined,
    cause: error,
  });
}
