"use client";

/** The React library (`faregate/react`). */
export * from "../client/front/front-end.ts";
export type { ServiceClientContext } from "./context.ts";
export type { FeatureProps, SlotProps } from "./feature.tsx";
export { Default, ErrorFallback, Feature, Loading, On } from "./feature.tsx";
export {
  useConnectionStatus,
  useFeature,
  usePricingTokenPayload,
  useServiceClient,
  useTokenService,
  useUsage,
} from "./hooks.ts";
export * from "./space.ts";
export type { ServiceConfiguration, ServiceProviderProps } from "./service-provider.tsx";
export { ServiceProvider } from "./service-provider.tsx";
export type { AnsweredFeature } from "./suspense.ts";
export { FeatureUnavailableError, useSuspenseFeature } from "./suspense.ts";
