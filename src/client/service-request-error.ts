/* Apart from the other error, because only code that is loaded later throws this one. */

/** Why there is no usable answer; `HTTP` when there is one with a status that is not 2xx. */
export type RequestErrorCode = "HTTP" | "TIMEOUT" | "NETWORK" | "ABORTED" | "BAD_RESPONSE";

/** "The userContact.userId field is required", "INVALID DATA: billingPeriod.autoRenew must be a boolean". */
const FIELD = /(?:^|: )(?:The |Each value in )?([\w.]+)(?: field)? (?:is required|must|cannot)/;

/** A request that failed. Carries neither the request nor its API key. Source: contract clients §1.12. */
export class ServiceRequestError extends Error {
  readonly code: RequestErrorCode;
  /** Undefined when no answer came. */
  readonly status: number | undefined;
  /** The parsed answer, or its text. */
  readonly body: unknown;
  /** Status and body in the published client's shape. Undefined without a response. */
  readonly response: { status: number; data: unknown } | undefined;
  /** The key of a call that was to move usage: sent again with it, the call is counted once, whatever became of this one. */
  idempotencyKey: string | undefined;

  constructor(code: RequestErrorCode, message: string, answer?: { status: number; body: unknown }) {
    super(message);
    this.name = "ServiceRequestError";
    this.code = code;
    this.status = answer?.status;
    this.body = answer?.body;
    this.response = answer && { status: answer.status, data: answer.body };
  }

  /** The field of the request that the service complains of, as its sentence names it; undefined when it names none. */
  get field(): string | undefined {
    return FIELD.exec(this.message)?.[1];
  }
}
