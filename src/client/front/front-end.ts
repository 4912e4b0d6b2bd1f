/** Front-end half of `faregate/client`; `faregate/react` exports it too. */
export * from "../feature-id.ts";
export type { FeatureReason, FeatureState, FeatureStatus, Usage } from "../feature-state.ts";
export { usageOf } from "../feature-state.ts";
export type { InvalidTokenReason } from "../invalid-pricing-token-error.ts";
export { InvalidPricingTokenError } from "../invalid-pricing-token-error.ts";
export type { FeatureError, PricingTokenPayload, TokenFeature, UsageFigure } from "../pricing-token.ts";
export { parsePricingToken } from "../pricing-token.ts";
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
export type { RequestErrorCode } from "../service-request-error.ts";
export { ServiceRequestError } from "../service-request-error.ts";
export type { TokenStatus } from "./token-service.ts";
export { TokenService } from "./token-service.ts";
