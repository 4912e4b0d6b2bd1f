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
