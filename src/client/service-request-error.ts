/* A file of its own, because only code that is loaded later throws this error. */

/** Reason for a missing answer. `HTTP`: the status is not 2xx. */
export type RequestErrorCode = "HTTP" | "TIMEOUT" | "NETWORK" | "ABORTED" | "BAD_RESPONSE";

/** "The userContact.userId field is required", "INVALID DATA: billingPeriod.autoRenew must be a boolean". */
const FIELD = /(?:^|: )(?:The |Each value in )?([\w.]+)(?: field)? (?:is required|must|cannot)/;

/** A request that failed. Carries neither the request nor its API key. Source: contract clients §1.12. */
export class ServiceRequestError extends Error {
  readonly code: RequestErrorCode;
  /** Undefined if no answer arrived. */
  readonly status: number | undefined;
  /** Parsed answer, or its text. */
  readonly body: unknown;
  /** Status and body in the published client's shape. Undefined without a response. */
  readonly response: { status: number; data: unknown } | undefined;
  /** Idempotency key of the call. Sent again with it, the call counts once, whether or not this attempt counted. */
  idempotencyKey: string | undefined;

  constructor(code: RequestErrorCode, message: string, answer?: { status: number; body: unknown }) {
    super(message);
    this.name = "ServiceRequestError";
    this.code = code;
    this.status = answer?.status;
    this.body = answer?.body;
    this.response = answer && { status: answer.status, data: answer.body };
  }

  /** Field of the request that the error names; undefined if it names none. */
  get field(): string | undefined {
    return FIELD.exec(this.message)?.[1];
  }
}
