/**
 * The framework-free client (`faregate/client`): ServiceClient and TokenService for front ends, Faregate for back ends. Bundlers drop
 * the half that is not used.
 */
export * from "./front-end.ts";
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
} from "./contracts.ts";
export type { FaregateOptions } from "./faregate.ts";
export { Faregate } from "./faregate.ts";
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
} from "./features.ts";
export type { Freshness, OutageOptions } from "./outage.ts";
export type { Pricing, Service } from "./services.ts";
export type { CallOptions, CountedOptions } from "./transport.ts";
