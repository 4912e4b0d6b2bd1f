/** The pricing engine on its own (`faregate/pricing`): runs wherever JavaScript runs, without I/O, clock or state. */
export { addPeriod, nextBoundary } from "./period.ts";
export { compilePricing, findAddOn, findPlan, trackedLimits } from "./pricing/compile.ts";
export type { CompiledPricing } from "./pricing/compile.ts";
export {
  checkExpectedConsumption,
  contexts,
  evaluateBoolean,
  evaluateFeature,
  featureIds,
  involvedLimits,
  prepareEvaluation,
} from "./pricing/evaluate.ts";
export type {
  ContractedService,
  Contexts,
  Evaluation,
  EvaluationErrorCode,
  EvaluationMode,
  FeatureResult,
  InvolvedLimit,
} from "./pricing/evaluate.ts";
export type {
  AddOn,
  Feature,
  FeatureValue,
  LimitValue,
  Period,
  PeriodUnit,
  Plan,
  Pricing,
  PricingProblem,
  SubscriptionConstraints,
  UsageLimit,
} from "./pricing/model.ts";
export { parsePricing } from "./pricing/parse.ts";
export { checkSubscription, grant } from "./pricing/subscription.ts";
export type { Grant, SubscriptionChoice, SubscriptionRule, SubscriptionVerdict } from "./pricing/subscription.ts";
export { featureToWire, pricingToWire } from "./pricing/wire.ts";
export type { PricingPlace } from "./pricing/wire.ts";
