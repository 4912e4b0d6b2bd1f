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
  UsageReset,
  UserContact,
} from "./back/contract.ts";
export { type Novation, novationTo, type Paging, type Subscription } from "./back/subscription.ts";
export { type FaregateOptions, Faregate } from "./back/faregate.ts";
export type { FeatureQuery, ListedFeature } from "./back/features.ts";
export type { Consumption, EvaluationOptions, FeatureOptions } from "./back/evaluation-options.ts";
export type { AllFeatures, AsOfContract, FeatureAnswer, PastAnswer } from "./back/feature-answers.ts";
export type { LimitUnits, Units } from "./back/units.ts";
export type { FeatureResult, LimitStep } from "./back/feature-result.ts";
export type {
  AfterTrial,
  NewScheduledChange,
  NewTrial,
  ScheduledAvailability,
  ScheduledChange,
  ScheduledNovation,
  ScheduledQuery,
  ScheduledTrialEnd,
  Trial,
} from "./back/scheduled.ts";
export type { ContractBilling, RenewalPeriod } from "./back/billing.ts";
export type { Override, OverrideChange, OverrideElement, OverrideQuery, OverrideValue } from "./back/overrides.ts";
export type { Balance, Block, BlockQuery, BlockState, NewBlock } from "./back/blocks.ts";
export type { Budget, BudgetReached, BudgetWindow, NewBudget, Spender } from "./back/budgets.ts";
export type { Member, MemberCounts, MemberPage, MemberQuery, MemberUse, NewMember } from "./back/members.ts";
export type { Hold, HoldAnswer, HoldQuery, HoldState, SettleAnswer } from "./back/holds.ts";
export type { Lease, LeaseAnswer, LeaseReport, NewLease } from "./back/leases.ts";
export type { HoldOptions, HoldReport, ReportOptions } from "./back/usage.ts";
export { type RecorderOptions, UnrecordedUsageError, type UsageRecorder } from "./back/recorder.ts";
export type {
  ItemVerdict,
  RecordedUsage,
  RecordOptions,
  UsageItem,
  UsageQuery,
  UsageReport,
  UsageRow,
  UsageSums,
  UsageVerdict,
} from "./back/usage-items.ts";
export type { Freshness, OutageOptions } from "./back/fallback-cache.ts";
export type { DeniedCalls, ReplayedPrice, ReplayOptions, ReplayReport } from "./back/replay.ts";
export type { Pricing, Service, VersionFile } from "./back/services.ts";
export type { CallOptions, CountedOptions } from "./back/transport.ts";
