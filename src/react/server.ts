/** Exports for server components (`faregate/react/server`): no React context, no browser API. */
export type * from "../client/feature-id.ts";
export * from "../client/invalid-pricing-token-error.ts";
export {
  type AnsweredFeature,
  type FeatureReason,
  type FeatureState,
  type FeatureStatus,
  type Usage,
  usageOf,
} from "../client/feature-state.ts";
export type * from "../client/offer.ts";
export * from "../client/public-offer.ts";
export { type ChoiceProps, type OfferLabels, type OfferTableProps, OfferTable } from "./offer-table.tsx";
export {
  type FeatureError,
  type PricingTokenPayload,
  type TokenFeature,
  type UsageFigure,
  parsePricingToken,
} from "../client/pricing-token.ts";
export * from "../client/verify.ts";
