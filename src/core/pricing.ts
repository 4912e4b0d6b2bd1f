/**
 * Entry point of the standalone pricing engine (`faregate/pricing`). Runs in any JavaScript runtime, without I/O, clock
 * or state.
 */
export { proposeTarget } from "./change/best-fit/best-fit.ts";
export type { Proposal } from "./change/best-fit/best-fit.ts";
export { checkCertificate } from "./change/best-fit/certificate.ts";
export type { Certificate, CertificateQuestion } from "./change/best-fit/certificate.ts";
export { CHANGE_CLASSES } from "./change/change.ts";
export type { Change, ChangeClass, Subject as ChangeSubject } from "./change/change.ts";
export { configurationOf, describeConfiguration, priceOf } from "./change/configuration.ts";
export type { Configuration, Price } from "./change/configuration.ts";
export { describeChange, diffAsMarkdown, diffAsText } from "./change/diff/text.ts";
export { diffPricings } from "./change/diff/diff.ts";
export type { PricingDiff } from "./change/diff/diff.ts";
export { coverageOf } from "./change/expectations/coverage.ts";
export type { Coverage } from "./change/expectations/coverage.ts";
export { runExpectation } from "./change/expectations/run.ts";
export type { ExpectationResult, Miss } from "./change/expectations/run.ts";
export { parseExpectations } from "./change/expectations/expectations.ts";
export type { Expectation, ExpectedFeature } from "./change/expectations/expectations.ts";
export type { Finding, LintCode, Severity } from "./change/finding.ts";
export { createSide, entitlementsOf } from "./change/entitlements.ts";
export type { Entitlements, Side } from "./change/entitlements.ts";
export { Impact } from "./change/impact/impact.ts";
export type { ConfigurationImpact, ContractGroup, ImpactOptions, ImpactReport } from "./change/impact/report.ts";
export { lintPricing } from "./change/lint/lint.ts";
export { addPeriod, nextBoundary } from "./period.ts";
export { compilePricing, findAddOn, findPlan, trackedLimits } from "./pricing/compile.ts";
export type { CompiledPricing } from "./pricing/compile.ts";
export {
  checkExpectedConsumption,
  evaluateBoolean,
  evaluateFeature,
  featureIds,
  prepareEvaluation,
} from "./pricing/evaluate.ts";
export { contexts } from "./pricing/contexts.ts";
export { involvedLimits } from "./pricing/involved-limits.ts";
export type {
  ContractedService,
  Evaluation,
  EvaluationErrorCode,
  EvaluationMode,
  FeatureResult,
} from "./pricing/evaluate.ts";
export type { Contexts } from "./pricing/contexts.ts";
export type { InvolvedLimit } from "./pricing/involved-limits.ts";
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
export { parsePricing } from "./pricing/parse/pricing.ts";
export { checkSubscription, grant } from "./pricing/subscription.ts";
export type { Grant, SubscriptionChoice, SubscriptionRule, SubscriptionVerdict } from "./pricing/subscription.ts";
export { featureToWire, pricingToWire } from "./pricing/wire.ts";
export type { PricingPlace } from "./pricing/wire.ts";
