import { ErrorCode, type FlagMetadata } from "@openfeature/core";
import { type FeatureState, usageOf } from "../client/feature-state.ts";
import { ownValue, type PricingTokenPayload } from "../client/pricing-token.ts";
import { type BooleanDetails, errorCodeOf, failure, featureDetails } from "./details.ts";

const NOT_YET = [ErrorCode.PROVIDER_NOT_READY, "There is no pricing token yet."] as const;
const NO_SUCH = [ErrorCode.FLAG_NOT_FOUND, "The pricing token has no such feature."] as const;
const WITHOUT_ANSWER: Record<NonNullable<FeatureState["reason"]>, readonly [ErrorCode, string]> = {
  "invalid-id": NO_SUCH,
  "not-found": NO_SUCH,
  "no-token": NOT_YET,
  expired: [ErrorCode.GENERAL, "The pricing token has expired."],
  "bad-entry": [ErrorCode.PARSE_ERROR, "The pricing token says nothing usable of this feature."],
};

/** What a token says of one feature. `isStale`: there may be a newer answer, which is not to be had. */
export function stateDetails(state: FeatureState, defaultValue: boolean, isStale: boolean): BooleanDetails {
  if (state.status === "loading") return failure(defaultValue, ...NOT_YET);
  if (state.reason !== null) return failure(defaultValue, ...WITHOUT_ANSWER[state.reason]);
  if (state.error !== null) return failure(defaultValue, errorCodeOf(state.error.code), state.error.message);
  return featureDetails(state.enabled, figuresOf(state), isStale);
}

function figuresOf(state: FeatureState): FlagMetadata {
  const { limit, used, remaining } = usageOf(state);
  const figures: FlagMetadata = {};
  for (const [name, value] of Object.entries({ limit, used, remaining })) if (value !== null) figures[name] = value;
  return figures;
}

/** The flags that two tokens answer differently, or that only one has: equal entries of successive payloads are the same object. */
export function changedFlags(before: PricingTokenPayload | null, after: PricingTokenPayload): string[] {
  const old = before?.features ?? {};
  const ids = new Set([...Object.keys(old), ...Object.keys(after.features)]);
  return [...ids].filter((id) => ownValue(old, id) !== ownValue(after.features, id));
}
