import { excerpt } from "../core/pricing/excerpt.ts";

/**
 * Every kind of failure a caller can act on. http/errors.ts gives each its status; nothing else does.
 * The sentence that goes with it is the contract's, because clients match on it.
 */
export type FailureCode =
  /** The request is understood and not acceptable: bad values, broken business rules. */
  | "invalid"
  /** No key, an unknown key, wrong credentials. */
  | "unauthenticated"
  /** The caller is known and may not. */
  | "forbidden"
  /** Absent, or belonging to somebody else, which must look the same. */
  | "notFound"
  /** Contradicts what exists. */
  | "conflict"
  /** The shape of the request is wrong: a missing field, a wrong type. */
  | "unprocessable"
  /** A body or file over its limit. */
  | "tooLarge"
  /** Asked too often; `retryAfterSeconds` says when to come back. */
  | "tooManyRequests"
  /** The database is away or overloaded; nothing was changed, ask again. */
  | "unavailable";

/** One problem among several, for the additional field `problems` of an error body. */
export interface Problem {
  message: string;
  path: string;
  line: number;
  column: number;
}

/** Sentences quote what was sent, which may be two megabytes; those of the contract have a few hundred characters of their own. */
const MAX_MESSAGE_LENGTH = 8_000;

/** What an operation throws when the caller, not the server, has to do something. */
export class Failure extends Error {
  readonly code: FailureCode;
  readonly details: string | undefined;
  readonly problems: readonly Problem[] | undefined;
  /** What a gate was held against, and which of its rules are broken. */
  readonly gate: object | undefined;
  readonly retryAfterSeconds: number | undefined;

  constructor(
    code: FailureCode,
    message: string,
    options: {
      details?: string | undefined;
      problems?: readonly Problem[] | undefined;
      gate?: object | undefined;
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
    this.retryAfterSeconds = options.retryAfterSeconds;
  }
}

/** A value from a caller as JSON. Failure invalid for one that is nested more deeply than can be written. */
export function jsonText(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch (cause) {
    if (cause instanceof RangeError) throw tooDeep(cause);
    throw cause;
  }
}

/** The failure for a value that is nested more deeply than is taken. */
export const tooDeep = (cause: unknown): Failure =>
  new Failure("invalid", "INVALID DATA: The body is nested too deeply", { cause });

/** Driver codes and SQLSTATE classes that mean: the database is away, overloaded or at odds with others; nothing was changed. */
const UNAVAILABLE =
  /^(READ_TIMEOUT|CONNECT_TIMEOUT|ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN|53[023]|57P03|57014|25P03|40001|40P01|55P03)/;
/** The connection went while a statement was under way: it may have been carried out. */
const LOST = /^(CONNECTION_|ECONN|EPIPE|ETIMEDOUT|08|57P)/;
/** Nothing was changed, and nothing will be before an operator acts: full, read-only, not to be written or read, misplaced. */
const REFUSED = /^(53100|58|25006|42501|55000|28|3D000)/;

/** Which of these an error of the database is; undefined for one that is ours. */
function troubleOf(error: unknown): "unavailable" | "lost" | "refused" | "text" | "long" | "deep" | undefined {
  for (let current = error, depth = 0; current instanceof Error && depth < 6; current = current.cause, depth += 1) {
    const code: unknown = "code" in current ? current.code : undefined;
    if (typeof code !== "string") continue;
    if (code === "22021" || code === "22P05" || isUnreadableJson(code, current)) return "text";
    if (code === "54000") return "long";
    if (code === "54001") return "deep";
    if (REFUSED.test(code)) return "refused";
    if (UNAVAILABLE.test(code)) return "unavailable";
    if (LOST.test(code)) return "lost";
  }
  return undefined;
}

/** JSON that we have written can only be unreadable by half a character in it; any other value of that code is our error. */
function isUnreadableJson(code: string, error: object): boolean {
  return code === "22P02" && "routine" in error && String(error.routine).startsWith("json_");
}

/** Whether the database will go on refusing until an operator does something about it. */
export const needsOperator = (error: unknown): boolean => troubleOf(error) === "refused";

/** What is added where nobody can say whether a change was made. */
const UNCERTAIN =
  "If this call was to change something, that may have happened or not: send it again with the same Idempotency-Key, or look first";

/** The failure a caller is told for an error of the database; undefined for an error that is ours. */
export function asFailure(error: unknown): Failure | undefined {
  if (error instanceof Failure) return error;
  const trouble = troubleOf(error);
  if (trouble === undefined) return undefined;
  if (trouble === "text") {
    return new Failure("invalid", "INVALID DATA: A text contains a character that cannot be stored", { cause: error });
  }
  if (trouble === "long") {
    return new Failure("invalid", "INVALID DATA: A text is longer than can be stored", { cause: error });
  }
  if (trouble === "deep") return tooDeep(error);
  return new Failure("unavailable", "The service is temporarily unavailable. Please try again", {
    details: trouble === "lost" ? UNCERTAIN : undefined,
    // What an operator has to mend takes longer.
    retryAfterSeconds: trouble === "refused" ? 5 : 1,
    cause: error,
  });
}
