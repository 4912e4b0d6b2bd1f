import { ErrorCode, type FlagMetadata } from "@openfeature/core";
import { featureState, type FeatureState, usageOf } from "../client/feature-state.ts";
import { ownValue, type PricingTokenPayload } from "../client/pricing-token.ts";
import { type BooleanDetails, errorCodeOf, failure, featureDetails } from "./details.ts";

/** Resolves a feature from a pricing token. `isStale`: a newer token may exist but could not be loaded. */
export function tokenDetails(
  payload: PricingTokenPayload | null,
  flagKey: string,
  defaultValue: boolean,
  isStale: boolean,
): BooleanDetails {
  if (payload === null) {
    return failure(defaultValue, ErrorCode.PROVIDER_NOT_READY, "There is no valid pricing token yet.");
  }
  const state = featureState(payload, flagKey);
  if (state.reason === "not-found") {
    return failure(defaultValue, ErrorCode.FLAG_NOT_FOUND, "The pricing token has no such feature.");
  }
  if (state.reason !== null) {
    return failure(defaultValue, ErrorCode.PARSE_ERROR, "The pricing token says nothing usable of this feature.");
  }
  if (state.error !== null) return failure(defaultValue, errorCodeOf(state.error.code), state.error.message);
  return featureDetails(state.enabled, figuresOf(state), isStale, "CACHED");
}

function figuresOf(state: FeatureState): FlagMetadata {
  const { limit, used, remaining } = usageOf(state);
  const figures: FlagMetadata = {};
  for (const [name, value] of Object.entries({ limit, used, remaining })) if (value !== null) figures[name] = value;
  return figures;
}

/**
 * Lists flags whose answers differ between two tokens. Compares by identity: equal entries of successive payloads are
 * the same object.
 */
export function changedFlags(before: PricingTokenPayload | null, after: PricingTokenPayload): string[] {
  const old = before?.features ?? {};
  const ids = new Set([...Object.keys(old), ...Object.keys(after.features)]);
  return [...ids].filter((id) => ownValue(old, id) !== ownValue(after.features, id));
}
