/**
 * The framework-free client (`faregate/client`): ServiceClient and TokenService for front ends, Faregate for back ends.
 * Bundlers drop the unused half.
 */
export * from "./front/front-end.ts";
export type {
  AsOf,
  BillingChanges,
  Contract,
  ContractQuery,
  NewContract,
  Novation,
  Paging,
  Subscription,
  UsageReset,
  UserContact,
} from "./back/contracts.ts";
export type { FaregateOptions } from "./back/faregate.ts";
export { Faregate } from "./back/faregate.ts";
export type {
  AllFeatures,
  AsOfContract,
  EvaluationOptions,
  FeatureAnswer,
  FeatureOptions,
  FeatureQuery,
  FeatureResult,
  ListedFeature,
  PastAnswer,
} from "./back/features.ts";
export type { Freshness, OutageOptions } from "./back/fallback-cache.ts";
export type { Pricing, Service } from "./back/services.ts";
export type { CallOptions, CountedOptions } from "./back/transport.ts";
