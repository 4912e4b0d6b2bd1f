import { comparableUsage, expressionOf, featureValue, limitValue, locateFeature } from "./evaluation.ts";
import type { BoundExpression, BoundFeature, Evaluation, EvaluationMode, PreparedService } from "./evaluation.ts";
import { excerpt } from "./excerpt.ts";
import { involvedLimits } from "./involved-limits.ts";
import type { Value } from "./language/syntax-tree.ts";

export { prepareEvaluation } from "./evaluation.ts";
export type { ContractedService, Evaluation, EvaluationMode } from "./evaluation.ts";

export type EvaluationErrorCode =
  | "FLAG_NOT_FOUND"
  | "PARSE_ERROR"
  | "EVALUATION_ERROR"
  | "TYPE_MISMATCH"
  | "INVALID_EXPECTED_CONSUMPTION";

/** Result of one feature. Maps are keyed by `<service>-<limit>`. Source: features-events.md §3. */
export interface FeatureResult {
  readonly eval: boolean;
  readonly limit: Record<string, number | boolean | null> | null;
  readonly used: Record<string, number> | null;
  readonly error: { readonly code: EvaluationErrorCode; readonly message: string } | null;
}

type Usage = ReadonlyMap<string, number>;

/** Maximum characters quoted from a value. A bulk evaluation could otherwise repeat a long text for every feature. */
const MAX_QUOTED_LENGTH = 1_000;

function failed(code: EvaluationErrorCode, message: string): FeatureResult {
  return { eval: false, limit: null, used: null, error: { code, message } };
}

/**
 * Copies the usage that an expression reads into the frame of its closures. Returns the first missing identifier, if
 * any.
 */
function loadUsage(
  { frame }: PreparedService,
  { usageIds, usageSlots }: BoundExpression,
  usage: Usage,
): string | undefined {
  for (let index = 0; index < usageIds.length; index++) {
    const id = usageIds[index] ?? "";
    const consumed = usage.get(id);
    if (consumed === undefined) return id;
    const slot = usageSlots[index] ?? -1;
    if (slot >= 0) frame.usage[slot] = comparableUsage(consumed, frame.limits[slot]);
  }
  return undefined;
}

function missingFeature(
  evaluation: Evaluation,
  service: PreparedService,
  { expression }: BoundExpression,
): string | undefined {
  const { frame } = service;
  for (const { name, slot } of expression.features) {
    const present = slot >= 0 ? frame.features[slot] : featureValue(evaluation, frame.prefix + name);
    if (present === undefined) return name;
  }
  return undefined;
}

/**
 * Evaluates a feature to true or false; errors count as false. Decides like {@link evaluateFeature} at a third of the
 * cost. Never throws.
 */
export function evaluateBoolean(
  evaluation: Evaluation,
  featureId: string,
  usage: Usage,
  mode: EvaluationMode,
): boolean {
  const { services } = evaluation;
  for (let index = services.length - 1; index >= 0; index--) {
    const service = services[index];
    const feature = service?.layout.features.get(featureId);
    if (service !== undefined && feature !== undefined) return isOn(evaluation, service, feature, usage, mode);
  }
  return false;
}

function isOn(
  evaluation: Evaluation,
  service: PreparedService,
  feature: BoundFeature,
  usage: Usage,
  mode: EvaluationMode,
): boolean {
  const bound = mode.server ? feature.server : feature.client;
  if (bound === undefined) return false;
  const { frame } = service;
  if (!bound.selfContained || !service.complete) {
    if (!bound.expression.mentionsContext || bound.expression.failure !== undefined) return false;
    if (frame.features[feature.slot] === undefined) return false;
    if (missingFeature(evaluation, service, bound) !== undefined) return false;
  }
  if (bound.usageIds.length > 0 && loadUsage(service, bound, usage) !== undefined) return false;
  if (evaluation.usage !== usage) evaluation.usage = usage;
  try {
    return bound.run(frame) === true;
  } catch {
    return false;
  }
}

/**
 * Evaluates one feature with its limits, usage and error. Runs the checks in the order of the contract. Never throws;
 * `usage` is keyed by `<service>-<limit>`. Source: features-events.md §3.
 */
export function evaluateFeature(
  evaluation: Evaluation,
  featureId: string,
  usage: Usage,
  mode: EvaluationMode,
): FeatureResult {
  const found = locateFeature(evaluation, featureId);
  if (found === undefined || found.service.frame.features[found.feature.slot] === undefined)
    return failed("FLAG_NOT_FOUND", `Feature ${featureId} not found in "pricingContext".`);
  const { service } = found;
  const bound = expressionOf(found.feature, mode);
  if (bound === undefined) return failed("PARSE_ERROR", `Feature ${featureId} has no expression defined!`);
  const problem = findProblem(evaluation, service, bound, featureId, usage);
  if (problem !== undefined) return problem;
  evaluation.usage = usage;
  let value: Value;
  try {
    value = bound.expression.run(service.frame);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return failed("EVALUATION_ERROR", `Error evaluating feature ${featureId}: ${reason}`);
  }
  if (typeof value !== "boolean")
    return failed(
      "TYPE_MISMATCH",
      `Feature ${featureId} has an expression that does not return a boolean! Returned value: ${excerpt(String(value), MAX_QUOTED_LENGTH)} of type ${typeof value}`,
    );
  if (bound.usageIds.length === 0) return { eval: value, limit: null, used: null, error: null };
  // Plain objects are safe: every identifier contains a dash, so none matches a property of Object.prototype.
  const limit: Record<string, number | boolean | null> = {};
  const used: Record<string, number> = {};
  for (let index = 0; index < bound.usageIds.length; index++) {
    const id = bound.usageIds[index] ?? "";
    const slot = bound.usageSlots[index] ?? -1;
    limit[id] = (slot >= 0 ? service.frame.limits[slot] : limitValue(evaluation, id)) ?? null;
    used[id] = usage.get(id) ?? 0;
  }
  return { eval: value, limit, used, error: null };
}

function findProblem(
  evaluation: Evaluation,
  service: PreparedService,
  bound: BoundExpression,
  featureId: string,
  usage: Usage,
): FeatureResult | undefined {
  if (bound.selfContained && service.complete && bound.expression.usageLevels.length === 0) {
    const missing = loadUsage(service, bound, usage);
    return missing === undefined ? undefined : unknownUsage(featureId, missing);
  }
  const { expression } = bound;
  const { prefix } = service.frame;
  if (!expression.mentionsContext)
    return failed(
      "PARSE_ERROR",
      `Feature ${featureId} has no expression defined! If an expression is intended, please ensure it only references hard-coded values or variables from "pricingContext" and "subscriptionContext".`,
    );
  const feature = missingFeature(evaluation, service, bound);
  if (feature !== undefined)
    return failed(
      "PARSE_ERROR",
      `Feature ${featureId} expression references feature '${prefix}${feature}' that was not found in pricingContext.features.`,
    );
  const missing = loadUsage(service, bound, usage);
  if (missing !== undefined) return unknownUsage(featureId, missing);
  for (const level of expression.usageLevels)
    if (limitValue(evaluation, level) === undefined)
      return failed(
        "PARSE_ERROR",
        `Feature ${featureId} expression references usage level '${level}' that was not found in pricingContext.usageLimits.`,
      );
  if (expression.failure !== undefined)
    return failed("EVALUATION_ERROR", `Error evaluating feature ${featureId}: ${expression.failure}`);
  return undefined;
}

function unknownUsage(featureId: string, id: string): FeatureResult {
  return failed(
    "PARSE_ERROR",
    `Feature ${featureId} expression references usage limit '${id}' that was not found in subscriptionContext.`,
  );
}

/**
 * Returns the features of a bulk evaluation: those with an expression in this mode. Ordered by contracted service, then
 * as declared. Source: features-events.md §4.
 */
export function featureIds(evaluation: Evaluation, mode: EvaluationMode): readonly string[] {
  const lists = evaluation.services.map(({ layout }) =>
    mode.server ? layout.serverFeatureIds : layout.clientFeatureIds,
  );
  const [only, ...others] = lists;
  if (only === undefined || others.length === 0) return only ?? [];
  // If services share an identifier, the later service answers.
  return [...new Set(lists.flat())].filter((id) => {
    const found = locateFeature(evaluation, id);
    return found !== undefined && expressionOf(found.feature, mode) !== undefined;
  });
}

/**
 * Checks that a non-empty `body` covers every limit that the feature involves; zero counts as given. Returns an
 * INVALID_EXPECTED_CONSUMPTION result for a missing limit, otherwise undefined. Source: features-events.md §3, §6.
 */
export function checkExpectedConsumption(
  evaluation: Evaluation,
  featureId: string,
  body: Readonly<Record<string, number>>,
  mode: EvaluationMode,
): FeatureResult | undefined {
  if (Object.keys(body).length === 0) return undefined;
  const missing = involvedLimits(evaluation, featureId, mode).find(({ id }) => !Object.hasOwn(body, id));
  if (missing === undefined) return undefined;
  return failed(
    "INVALID_EXPECTED_CONSUMPTION",
    `No expectedConsumption value was provided for limit '${missing.id}', which is used in the evaluation of feature '${featureId}'. Please note that if you provide an expectedConsumption for any limit, you must provide it for all limits involved in that feature's evaluation.`,
  );
}

/**
 * Returns true if the result of this feature depends on consumption. Without `featureId`, checks all features of a bulk
 * evaluation.
 */
export function readsUsage(evaluation: Evaluation, mode: EvaluationMode, featureId?: string): boolean {
  if (featureId === undefined) {
    return evaluation.services.some(({ layout }) => (mode.server ? layout.serverReadsUsage : layout.clientReadsUsage));
  }
  const found = locateFeature(evaluation, featureId);
  const bound = found === undefined ? undefined : expressionOf(found.feature, mode);
  return bound?.expression.readsUsage === true;
}

/** Returns true if this feature reads consumption that is not of its involved limits. */
export function readsOtherUsage(evaluation: Evaluation, mode: EvaluationMode, featureId: string): boolean {
  const found = locateFeature(evaluation, featureId);
  return (found && expressionOf(found.feature, mode))?.expression.readsOtherUsage === true;
}
