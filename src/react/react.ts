"use client";

/**
 * The React library (`faregate/react`). Every value is named, because Next rejects `export *` of values in a client
 * boundary.
 */
export type { FeatureId, FeatureIds } from "../client/feature-id.ts";
export {
  type AnsweredFeature,
  type FeatureReason,
  type FeatureState,
  type FeatureStatus,
  type Usage,
  usageOf,
} from "../client/feature-state.ts";
export { type InvalidTokenReason, InvalidPricingTokenError } from "../client/invalid-pricing-token-error.ts";
export type * from "../client/offer.ts";
export { publicOffer } from "../client/public-offer.ts";
export {
  type FeatureError,
  type PricingTokenPayload,
  type TokenFeature,
  type UsageFigure,
  parsePricingToken,
} from "../client/pricing-token.ts";
export {
  type HeaderErrorListener,
  fetchWithPricingToken,
  pricingTokenInterceptor,
  takePricingToken,
} from "../client/front/response-header.ts";
export { type ServiceClientOptions, ServiceClient } from "../client/front/service-client.ts";
export type { ConnectionState } from "../client/front/session-host.ts";
export type {
  EventMessage,
  PricingEventDetails,
  ServiceEventListener,
  ServiceEventListeners,
  ServiceEvents,
} from "../client/front/service-events.ts";
export { type RequestErrorCode, ServiceRequestError } from "../client/service-request-error.ts";
export { type TokenStatus, TokenService } from "../client/front/token-service.ts";
export type { ServiceClientContext } from "./context.ts";
export { type FeatureProps, type SlotProps, Default, ErrorFallback, Feature, Loading, On } from "./feature.tsx";
export {
  useConnectionStatus,
  useFeature,
  usePricingTokenPayload,
  useServiceClient,
  useTokenService,
  useUsage,
} from "./hooks.ts";
export {
  type SpaceClient,
  type SpaceClientContext,
  type SpaceConfiguration,
  type SpaceEvents,
  SpaceProvider,
  useSpaceClient,
} from "./space.ts";
export { type OfferOptions, type OfferProps, type OfferState, Offer, useOffer } from "./offer.tsx";
export { type ChoiceProps, type OfferLabels, type OfferTableProps, OfferTable } from "./offer-table.tsx";
export { type ServiceConfiguration, type ServiceProviderProps, ServiceProvider } from "./service-provider.tsx";
export { FeatureUnavailableError, useSuspenseFeature } from "./suspense.ts";
export {
  type UnlockLabels,
  type UnlockOptions,
  type UnlockPromptProps,
  type UnlockState,
  UnlockPrompt,
  useUnlock,
} from "./unlock.tsx";
