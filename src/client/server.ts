/** Exports for servers that render or read tokens (`faregate/server`): no React, no browser API. */
export type * from "./feature-id.ts";
export * from "./invalid-pricing-token-error.ts";
export {
  type AnsweredFeature,
  type FeatureReason,
  type FeatureState,
  type FeatureStatus,
  type Usage,
  usageOf,
} from "./feature-state.ts";
export type * from "./offer.ts";
export * from "./public-offer.ts";
export {
  type FeatureError,
  type PricingTokenPayload,
  type TokenFeature,
  type UsageFigure,
  parsePricingToken,
} from "./pricing-token.ts";
export * from "./verify.ts";
