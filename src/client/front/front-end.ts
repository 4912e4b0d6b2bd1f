/** Front-end half of `faregate/client`. `faregate/react` exports the same names. */
export type * from "../feature-id.ts";
export {
  type AnsweredFeature,
  type FeatureReason,
  type FeatureState,
  type FeatureStatus,
  type Usage,
  usageOf,
} from "../feature-state.ts";
export { type InvalidTokenReason, InvalidPricingTokenError } from "../invalid-pricing-token-error.ts";
export type * from "../offer.ts";
export { publicOffer } from "../public-offer.ts";
export {
  type FeatureError,
  type PricingTokenPayload,
  type TokenFeature,
  type UsageFigure,
  parsePricingToken,
} from "../pricing-token.ts";
export {
  type HeaderErrorListener,
  fetchWithPricingToken,
  pricingTokenInterceptor,
  takePricingToken,
} from "./response-header.ts";
export { type ServiceClientOptions, ServiceClient } from "./service-client.ts";
export type { ConnectionState } from "./session-host.ts";
export type {
  EventMessage,
  PricingEventDetails,
  ServiceEventListener,
  ServiceEventListeners,
  ServiceEvents,
} from "./service-events.ts";
export { type RequestErrorCode, ServiceRequestError } from "../service-request-error.ts";
export { type TokenStatus, TokenService } from "./token-service.ts";
