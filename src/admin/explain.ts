import type { CompiledPricing } from "../core/pricing/compile.ts";
import { trackedLimits } from "../core/pricing/compile.ts";
import { evaluateFeature, type Evaluation, type FeatureResult, prepareEvaluation } from "../core/pricing/evaluate.ts";
import { parseExpression } from "../core/pricing/language/expression.ts";
import type { FeatureValue, LimitValue } from "../core/pricing/model.ts";
import { grant } from "../core/pricing/subscription.ts";
import type { Subscription } from "./answers.ts";
import { choiceOf } from "./pricing.ts";
import { formatValue } from "./format.ts";
import { texts } from "./texts.ts";

const t = texts.playground;

/** Result of one feature of a contracted service, with the reasons for it. */
export interface Explained {
  id: string;
  service: string;
  name: string;
  expression: string | undefined;
  /** The expression with its names replaced by their values. */
  filledIn: string | undefined;
  result: FeatureResult;
  /** Sentences that explain the result. */
  reasons: string[];
}

/** Usage by `<service>-<limit>`, as the engine reads it. */
export type UsageById = ReadonlyMap<string, number>;

/** Lists every counted limit of a subscription as `<service>-<limit>`. */
export function countedLimits(subscription: Subscription, pricingOf: PricingOf): string[] {
  return contractedOf(subscription, pricingOf).flatMap(({ service, pricing }) =>
    trackedLimits(pricing).map(({ name }) => `${service}-${name}`),
  );
}

/** Looks up the pricing of a service's version; undefined while it is loading. */
export type PricingOf = (service: string, version: string) => CompiledPricing | undefined;

function contractedOf(
  subscription: Subscription,
  pricingOf: PricingOf,
): { service: string; pricing: CompiledPricing }[] {
  return Object.entries(subscription.contractedServices).flatMap(([service, version]) => {
    const pricing = pricingOf(service, version);
    return pricing === undefined ? [] : [{ service, pricing }];
  });
}

/** Evaluates every feature of a subscription with the server's own engine. Limits without usage count as unused. */
export function explainAll(
  subscription: Subscription,
  pricingOf: PricingOf,
  given: UsageById,
  mode: { server: boolean },
): Explained[] {
  const usage = new Map(countedLimits(subscription, pricingOf).map((id) => [id, given.get(id) ?? 0]));
  const services = contractedOf(subscription, pricingOf).map(({ service, pricing }) => {
    const { plan, addOns } = choiceOf(subscription, service);
    return { serviceName: service, pricing, grant: grant(pricing, plan, addOns) };
  });
  const evaluation = prepareEvaluation(services);
  return services.flatMap(({ serviceName, pricing, grant: granted }) =>
    pricing.pricing.features.map((feature): Explained => {
      const id = `${serviceName}-${feature.name}`;
      const expression = mode.server ? (feature.serverExpression ?? feature.expression) : feature.expression;
      const values = { features: granted.features, limits: granted.usageLimits, usage, prefix: `${serviceName}-` };
      const result = evaluate(evaluation, id, usage, mode);
      return {
        id,
        service: serviceName,
        name: feature.name,
        expression,
        filledIn: expression === undefined ? undefined : fillIn(expression, values),
        result,
        reasons: expression === undefined ? [t.noExpression] : reasonsFor(expression, result, values),
      };
    }),
  );
}

const evaluate = (evaluation: Evaluation, id: string, usage: UsageById, mode: { server: boolean }): FeatureResult =>
  evaluateFeature(evaluation, id, usage, mode);

interface Values {
  features: ReadonlyMap<string, FeatureValue>;
  limits: ReadonlyMap<string, LimitValue>;
  usage: UsageById;
  prefix: string;
}

const READING = /(pricingContext|planContext|subscriptionContext|userContext)\['([^']+)'\](?:\['([^']+)'\])?/g;

/** Replaces names with values: `pricingContext['features']['board'] && …` becomes `true && 3 < 300`. */
export function fillIn(expression: string, { features, limits, usage, prefix }: Values): string {
  return expression.replace(READING, (text, context: string, first: string, second: string | undefined) => {
    if (context === "subscriptionContext" || context === "userContext")
      return String(usage.get(prefix + first) ?? text);
    const value = first === "features" ? features.get(second ?? "") : limits.get(second ?? "");
    return value === undefined ? text : JSON.stringify(value);
  });
}

function reasonsFor(expression: string, result: FeatureResult, { features, limits, usage, prefix }: Values): string[] {
  if (result.error !== null) return [result.error.message];
  if (result.eval) return [t.reasons.isOn];
  const parsed = parseExpression(expression);
  const references = parsed.ok ? parsed.expression.references : [];
  const missing = references.flatMap(({ to, key }) =>
    to === "feature" && features.get(key) === false ? [t.reasons.notGranted(key)] : [],
  );
  const full = references.flatMap(({ to, key }) => {
    const used = usage.get(prefix + key);
    const allowed = limits.get(key);
    const isFull = to === "usage" && used !== undefined && typeof allowed === "number" && used >= allowed;
    return isFull ? [t.reasons.atLimit(key, formatValue(used), formatValue(allowed))] : [];
  });
  const reasons = [...new Set([...missing, ...full])];
  return reasons.length === 0 ? [t.reasons.isFalse] : reasons;
}
