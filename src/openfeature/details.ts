import { ErrorCode, type FlagMetadata, type ResolutionDetails, type ResolutionReason } from "@openfeature/core";

/** What both providers resolve to: a feature is a boolean, whatever else is known of it is metadata. */
export type BooleanDetails = ResolutionDetails<boolean>;

/** A feature's answer. `isStale`: it is the last one known, because there is no newer one to be had; else for this `reason`. */
export function featureDetails(
  value: boolean,
  flagMetadata: FlagMetadata,
  isStale: boolean,
  reason: ResolutionReason,
): BooleanDetails {
  return { value, variant: value ? "on" : "off", reason: isStale ? "STALE" : reason, flagMetadata };
}

/** The caller's default, and why. */
export function failure<T>(value: T, errorCode: ErrorCode, errorMessage: string): ResolutionDetails<T> {
  return { value, reason: "ERROR", errorCode, errorMessage };
}

/** The code that a server gave a failure, as far as it means the same here; GENERAL for every other. */
export function errorCodeOf(code: unknown): ErrorCode {
  switch (code) {
    case ErrorCode.FLAG_NOT_FOUND:
    case ErrorCode.PARSE_ERROR:
    case ErrorCode.TARGETING_KEY_MISSING:
    case ErrorCode.INVALID_CONTEXT:
      return code;
    default:
      // A TYPE_MISMATCH of the server too: its expression was no boolean, while here it would be the caller who asked wrongly.
      return ErrorCode.GENERAL;
  }
}

/** The answer to whoever asks for another type: the mismatch, unless there is no such feature or no answer anyway. */
export function asOtherType<T>(details: BooleanDetails, flagKey: string, value: T): ResolutionDetails<T> {
  const { errorCode, errorMessage } = details;
  if (errorCode !== undefined) return failure(value, errorCode, errorMessage ?? "");
  return failure(value, ErrorCode.TYPE_MISMATCH, `${flagKey} is a boolean; its limit and use are in the metadata.`);
}
