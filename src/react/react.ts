"use client";

/** The React library (`faregate/react`). */
export * from "../client/front/front-end.ts";
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
export * from "./space.ts";
export { type OfferOptions, type OfferProps, type OfferState, Offer, useOffer } from "./offer.tsx";
export { type ChoiceProps, type OfferLabels, type OfferTableProps, OfferTable } from "./offer-table.tsx";
export { type ServiceConfiguration, type ServiceProviderProps, ServiceProvider } from "./service-provider.tsx";
export { type AnsweredFeature, FeatureUnavailableError, useSuspenseFeature } from "./suspense.ts";
export {
  type UnlockLabels,
  type UnlockOptions,
  type UnlockPromptProps,
  type UnlockState,
  UnlockPrompt,
  useUnlock,
} from "./unlock.tsx";
