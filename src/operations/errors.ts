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

/** What an operation throws when the caller, not the server, has to do something. */
export class Failure extends Error {
  readonly code: FailureCode;
  readonly details: string | undefined;
  readonly problems: readonly Problem[] | undefined;
  readonly retryAfterSeconds: number | undefined;

  constructor(
    code: FailureCode,
    message: string,
    options: {
      details?: string | undefined;
      problems?: readonly Problem[] | undefined;
      retryAfterSeconds?: number | undefined;
      cause?: unknown;
    } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "Failure";
    this.code = code;
    this.details = options.details;
    this.problems = options.problems;
    this.retryAfterSeconds = options.retryAfterSeconds;
  }
}

/** Driver codes and SQLSTATE classes that mean: the database is away, full or shutting down, and nothing was changed. */
const UNAVAILABLE =
  /^(CONNECTION_|CONNECT_TIMEOUT|ECONN|ENOTFOUND|EPIPE|ETIMEDOUT|EAI_AGAIN|08|53|57P|57014|40001|40P01|55P03|25006)/;

/** The failure a caller is told for an error of the database; undefined for an error that is ours. */
export function asFailure(error: unknown): Failure | undefined {
  if (error instanceof Failure) return error;
  for (let current = error, depth = 0; current instanceof Error && depth < 6; current = current.cause, depth += 1) {
    const code: unknown = "code" in current ? current.code : undefined;
    if (code === "22021" || code === "22P05") {
      return new Failure("invalid", "INVALID DATA: A text contains a character that cannot be stored", {
        cause: error,
      });
    }
    if (typeof code === "string" && UNAVAILABLE.test(code)) {
      return new Failure("unavailable", "The service is temporarily unavailable. Please try again", {
        retryAfterSeconds: 1,
        cause: error,
      });
    }
  }
  return undefined;
}
