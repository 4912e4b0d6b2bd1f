/** Step at which a token was rejected. Source: contract clients §1.7. */
export type InvalidTokenReason = "type" | "segments" | "encoding" | "json" | "exp" | "features";

/** Error for an unreadable token; the previous token stays. The message never contains the token. */
export class InvalidPricingTokenError extends Error {
  readonly code = "INVALID_TOKEN";
  readonly reason: InvalidTokenReason;

  constructor(reason: InvalidTokenReason) {
    super(`Invalid pricing token: ${reason}`);
    this.name = "InvalidPricingTokenError";
    this.reason = reason;
  }
}
