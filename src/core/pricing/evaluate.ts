import { trackedLimits } from "./compile.ts";
import type { CompiledExpression } from "./compile.ts";
import { expressionOf, featureValue, idOf, limitValue, locateFeature } from "./evaluation.ts";
import type { Evaluation, EvaluationMode, PreparedService } from "./evaluation.ts";
import type { FeatureValue, LimitValue } from "./model.ts";
import type { Value } from "./syntax-tree.ts";

export { prepareEvaluation } from "./evaluation.ts";
export type { ContractedService, Evaluation, EvaluationMode } from "./evaluation.ts";

export type EvaluationErrorCode =
  | "FLAG_NOT_FOUND"
  | "PARSE_ERROR"
  | "EVALUATION_ERROR"
  | "TYPE_MISMATCH"
  | "INVALID_EXPECTED_CONSUMPTION";

/** The answer for one feature; maps are keyed by `<service>-<limit>`. Source: features-events.md §3. */
export interface FeatureResult {
  readonly eval: boolean;
  readonly limit: Record<string, number | boolean | null> | null;
  readonly used: Record<string, number> | null;
  readonly error: { readonly code: EvaluationErrorCode; readonly message: string } | null;
}

/** A usage level that the evaluation of a feature reads and its consumption counts. */
export interface InvolvedLimit {
  readonly id: string;
  readonly serviceName: string;
  readonly limitName: string;
}

type Usage = ReadonlyMap<string, number>;

function failed(code: EvaluationErrorCode, message: string): FeatureResult {
  return { eval: false, limit: null, used: null, error: { code, message } };
}

/** Copies the usage the expression involves to where its closures read it; the first missing name, or undefined. */
function loadUsage(service: PreparedService, expression: CompiledExpression, usage: Usage): string | undefined {
  const { frame, layout } = service;
  let missing: string | undefined;
  for (const { name, slot } of expression.usage) {
    // A limit that this pricing lacks may still be one of another service whose identifiers coincide.
    const consumed = usage.get(layout.limitIds[slot] ?? frame.prefix + name);
    if (consumed === undefined) missing ??= name;
    else if (slot >= 0) frame.usage[slot] = consumed;
  }
  return missing;
}

function missingFeature(
  evaluation: Evaluation,
  service: PreparedService,
  expression: CompiledExpression,
): string | undefined {
  const { frame } = service;
  for (const { name, slot } of expression.features) {
    const present = slot >= 0 ? frame.features[slot] : featureValue(evaluation, frame.prefix + name);
    if (present === undefined) return name;
  }
  return undefined;
}

/**
 * Whether a feature is on, and nothing else: errors count as off. The same decision as {@link evaluateFeature}, about
 * three times as fast. Never throws.
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
    if (service === undefined || feature === undefined) continue;
    const expression = mode.server ? feature.server : feature.client;
    return (
      expression !== undefined &&
      service.frame.features[feature.slot] !== undefined &&
      isOn(evaluation, service, expression, usage)
    );
  }
  return false;
}

function isOn(evaluation: Evaluation, service: PreparedService, expression: CompiledExpression, usage: Usage): boolean {
  if (!expression.mentionsContext || expression.failure !== undefined) return false;
  if (loadUsage(service, expression, usage) !== undefined) return false;
  if (missingFeature(evaluation, service, expression) !== undefined) return false;
  evaluation.usage = usage;
  try {
    return expression.run(service.frame) === true;
  } catch {
    return false;
  }
}

/**
 * Evaluates one feature with its limits, its usage and the reason of a failure, checking in the order of the contract.
 * Never throws; `usage` is keyed by `<service>-<limit>`. Source: features-events.md §3.
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
  const expression = expressionOf(found.feature, mode);
  if (expression === undefined) return failed("PARSE_ERROR", `Feature ${featureId} has no expression defined!`);
  const problem = findProblem(evaluation, service, expression, featureId, usage);
  if (problem !== undefined) return problem;
  evaluation.usage = usage;
  let value: Value;
  try {
    value = expression.run(service.frame);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return failed("EVALUATION_ERROR", `Error evaluating feature ${featureId}: ${reason}`);
  }
  if (typeof value !== "boolean")
    return failed(
      "TYPE_MISMATCH",
      `Feature ${featureId} has an expression that does not return a boolean! Returned value: ${String(value)} of type ${typeof value}`,
    );
  if (expression.usage.length === 0) return { eval: value, limit: null, used: null, error: null };
  return { eval: value, ...readLevels(evaluation, service, expression), error: null };
}

function findProblem(
  evaluation: Evaluation,
  service: PreparedService,
  expression: CompiledExpression,
  featureId: string,
  usage: Usage,
): FeatureResult | undefined {
  const { prefix } = service.frame;
  if (!expression.mentionsContext)
    return failed(
      "PARSE_ERROR",
      `Feature ${featureId} has no expression defined! If an expression is intended, please ensure it only references hard-coded values or variables from "pricingContext" and "subscriptionContext".`,
    );
  const feature = missingFeature(evaluation, service, expression);
  if (feature !== undefined)
    return failed(
      "PARSE_ERROR",
      `Feature ${featureId} expression references feature '${prefix}${feature}' that was not found in pricingContext.features.`,
    );
  const limit = loadUsage(service, expression, usage);
  if (limit !== undefined)
    return failed(
      "PARSE_ERROR",
      `Feature ${featureId} expression references usage limit '${prefix}${limit}' that was not found in subscriptionContext.`,
    );
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

/** The limit and the consumption of every involved level, whose usage has just been loaded. */
function readLevels(
  evaluation: Evaluation,
  { frame, layout }: PreparedService,
  expression: CompiledExpression,
): Pick<FeatureResult, "limit" | "used"> {
  // Identifiers always hold a dash, so none of them is a name that objects know.
  const limit: Record<string, number | boolean | null> = {};
  const used: Record<string, number> = {};
  for (const { name, slot } of expression.usage) {
    const id = layout.limitIds[slot] ?? frame.prefix + name;
    limit[id] = (slot >= 0 ? frame.limits[slot] : limitValue(evaluation, id)) ?? null;
    used[id] = (slot >= 0 ? frame.usage[slot] : evaluation.usage.get(id)) ?? 0;
  }
  return { limit, used };
}

/**
 * The features a bulk evaluation answers for: those with an expression in this mode, contracted services first to last,
 * features as declared. Source: features-events.md §4.
 */
export function featureIds(evaluation: Evaluation, mode: EvaluationMode): readonly string[] {
  const lists = evaluation.services.map(({ layout }) =>
    mode.server ? layout.serverFeatureIds : layout.clientFeatureIds,
  );
  const [only, ...others] = lists;
  if (only === undefined || others.length === 0) return only ?? [];
  // Where identifiers coincide, the feature of the later service is the one that is asked.
  return [...new Set(lists.flat())].filter((id) => {
    const found = locateFeature(evaluation, id);
    return found !== undefined && expressionOf(found.feature, mode) !== undefined;
  });
}

/** The level an identifier means: of the tracked ones the last contracted, else of all limits the last contracted. */
function resolveLimit(evaluation: Evaluation, id: string): InvolvedLimit | undefined {
  let fallback: InvolvedLimit | undefined;
  for (const { serviceName, layout, pricing } of evaluation.services.toReversed()) {
    const slot = layout.limits.get(id);
    const limit = slot === undefined ? undefined : pricing.pricing.usageLimits[slot];
    if (limit === undefined) continue;
    const level = { id, serviceName, limitName: limit.name };
    if (limit.trackable || limit.period !== undefined) return level;
    fallback ??= level;
  }
  return fallback;
}

/**
 * The usage levels that evaluating a feature reads, in the order of its expression, each once; names that no contracted
 * pricing declares are left out. Source: features-events.md §3, §14 no. 8.
 */
export function involvedLimits(
  evaluation: Evaluation,
  featureId: string,
  mode: EvaluationMode,
): readonly InvolvedLimit[] {
  const found = locateFeature(evaluation, featureId);
  const expression = found === undefined ? undefined : expressionOf(found.feature, mode);
  if (found === undefined || expression === undefined) return [];
  return expression.usage
    .map(({ name }) => resolveLimit(evaluation, idOf(found.service.serviceName, name)))
    .filter((limit) => limit !== undefined);
}

/**
 * The INVALID_EXPECTED_CONSUMPTION result when `body` is not empty and lacks a limit that the feature involves; zero
 * counts as given. Undefined when there is nothing to object to. Source: features-events.md §3, §6.
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

/** Both contexts as tokens and answers show them. Source: features-events.md §2. */
export interface Contexts {
  readonly pricingContext: {
    readonly features: Record<string, FeatureValue>;
    readonly usageLimits: Record<string, LimitValue>;
  };
  readonly subscriptionContext: Record<string, number>;
}

/** The contexts as plain objects: contracted services first to last, names as declared. */
export function contexts(evaluation: Evaluation, usage: Usage): Contexts {
  const features: Record<string, FeatureValue> = {};
  const usageLimits: Record<string, LimitValue> = {};
  const subscriptionContext: Record<string, number> = {};
  for (const { serviceName, pricing, grant } of evaluation.services) {
    for (const [name, value] of grant.features) features[idOf(serviceName, name)] = value;
    for (const [name, value] of grant.usageLimits) usageLimits[idOf(serviceName, name)] = value;
    for (const { name } of trackedLimits(pricing)) {
      const consumed = usage.get(idOf(serviceName, name));
      if (consumed !== undefined) subscriptionContext[idOf(serviceName, name)] = consumed;
    }
  }
  for (const [id, consumed] of usage) subscriptionContext[id] ??= consumed;
  return { pricingContext: { features, usageLimits }, subscriptionContext };
}
