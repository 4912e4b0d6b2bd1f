import { ErrorCode, type FlagMetadata, type ResolutionDetails, type ResolutionReason } from "@openfeature/core";

/** Both providers resolve features to booleans; limits and usage are metadata. */
export type BooleanDetails = ResolutionDetails<boolean>;

/** Resolves a feature's value. `isStale` replaces `reason` with STALE: the value is the last known one. */
export function featureDetails(
  value: boolean,
  flagMetadata: FlagMetadata,
  isStale: boolean,
  reason: ResolutionReason,
): BooleanDetails {
  return { value, variant: value ? "on" : "off", reason: isStale ? "STALE" : reason, flagMetadata };
}

/** Resolves to the caller's default, with the error. */
export function failure<T>(value: T, errorCode: ErrorCode, errorMessage: string): ResolutionDetails<T> {
  return { value, reason: "ERROR", errorCode, errorMessage };
}

/** Maps the server's error code to OpenFeature; codes with another meaning here become GENERAL. */
export function errorCodeOf(code: unknown): ErrorCode {
  switch (code) {
    case ErrorCode.FLAG_NOT_FOUND:
    case ErrorCode.PARSE_ERROR:
    case ErrorCode.TARGETING_KEY_MISSING:
    case ErrorCode.INVALID_CONTEXT:
      return code;
    default:
      // Includes TYPE_MISMATCH: on the server a non-boolean expression, here a caller who requested the wrong type.
      return ErrorCode.GENERAL;
  }
}

/** Resolves a request for a type other than boolean. Earlier errors take precedence over TYPE_MISMATCH. */
export function asOtherType<T>(details: BooleanDetails, flagKey: string, value: T): ResolutionDetails<T> {
  const { errorCode, errorMessage } = details;
  if (errorCode !== undefined) return failure(value, errorCode, errorMessage ?? "");
  return failure(value, ErrorCode.TYPE_MISMATCH, `${flagKey} is a boolean; its limit and use are in the metadata.`);
}
