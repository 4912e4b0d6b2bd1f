/** Reasons for which a sign-in with the provider ends on the sign-in page. Source: contract sign-in §2. */
export const SIGN_ON_CODES = ["state", "denied", "token", "signup", "name", "unavailable"] as const;
export type SignOnCode = (typeof SIGN_ON_CODES)[number];

/** A sign-in with the provider that failed. The message and its cause are for the log alone. */
export class SignOnFailure extends Error {
  readonly code: SignOnCode;

  constructor(code: SignOnCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "SignOnFailure";
    this.code = code;
  }
}
