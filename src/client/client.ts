/** The framework-free client (`faregate/client`). */
export * from "./feature-id.ts";
export type { FeatureReason, FeatureState, FeatureStatus, Usage } from "./feature-state.ts";
export { usageOf } from "./feature-state.ts";
export type { InvalidTokenReason, RequestErrorCode } from "./errors.ts";
export { InvalidPricingTokenError, ServiceRequestError } from "./errors.ts";
export type { FeatureError, PricingTokenPayload, TokenFeature, UsageFigure } from "./pricing-token.ts";
export { parsePricingToken } from "./pricing-token.ts";
export type { HeaderErrorListener } from "./response-header.ts";
export { fetchWithPricingToken, pricingTokenInterceptor, takePricingToken } from "./response-header.ts";
export type { ConnectionState, ServiceClientOptions } from "./service-client.ts";
export { ServiceClient } from "./service-client.ts";
export type {
  EventMessage,
  PricingEventDetails,
  ServiceEventListener,
  ServiceEventListeners,
  ServiceEvents,
} from "./service-events.ts";
export type { TokenStatus } from "./token-service.ts";
export { TokenService } from "./token-service.ts";
