/** Exports for server components (`faregate/react/server`): no React context, no browser API. */
export * from "../client/feature-id.ts";
export type { InvalidTokenReason } from "../client/invalid-pricing-token-error.ts";
export { InvalidPricingTokenError } from "../client/invalid-pricing-token-error.ts";
export type { FeatureReason, FeatureState, FeatureStatus, Usage } from "../client/feature-state.ts";
export { usageOf } from "../client/feature-state.ts";
export type { FeatureError, PricingTokenPayload, TokenFeature, UsageFigure } from "../client/pricing-token.ts";
export { parsePricingToken } from "../client/pricing-token.ts";
