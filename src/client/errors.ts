/** The step at which a token was refused. Source: contract clients §1.7. */
export type InvalidTokenReason = "type" | "segments" | "encoding" | "json" | "exp" | "features";

/** A token that cannot be read; the one before it stays. The message never contains the token. */
export class InvalidPricingTokenError extends Error {
  readonly code = "INVALID_TOKEN";
  readonly reason: InvalidTokenReason;

  constructor(reason: InvalidTokenReason) {
    super(`Invalid pricing token: ${reason}`);
    this.name = "InvalidPricingTokenError";
    this.reason = reason;
  }
}

/** Why there is no usable answer; `HTTP` when there is one with a status that is not 2xx. */
export type RequestErrorCode = "HTTP" | "TIMEOUT" | "NETWORK" | "ABORTED" | "BAD_RESPONSE";

/** A request that brought no token. Carries neither the request nor its API key. Source: contract clients §1.12. */
export class ServiceRequestError extends Error {
  readonly code: RequestErrorCode;
  /** Undefined when no answer came. */
  readonly status: number | undefined;
  /** The parsed answer, or its text. */
  readonly body: unknown;
  /** The same in the shape that callers of the published client read; undefined when no answer came. */
  readonly response: { status: number; data: unknown } | undefined;

  constructor(code: RequestErrorCode, message: string, answer?: { status: number; body: unknown }) {
    super(message);
    this.name = "ServiceRequestError";
    this.code = code;
    this.status = answer?.status;
    this.body = answer?.body;
    this.response = answer && { status: answer.status, data: answer.body };
  }
}
