import type { CompiledPricing } from "../core/pricing/compile.ts";
import { sum } from "../core/exact.ts";
import { trackedLimits } from "../core/pricing/compile.ts";
import { evaluateFeature, type Evaluation, type FeatureResult, prepareEvaluation } from "../core/pricing/evaluate.ts";
import { parseExpression } from "../core/pricing/language/expression.ts";
import { type FeatureValue, isBound, type LimitValue } from "../core/pricing/model.ts";
import type { Contract, Subscription } from "./answers.ts";
import { choiceOf, limitsOf } from "./pricing.ts";
import { formatName, formatNumber } from "./format.ts";
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
  /** Causes of the result, the most important first. */
  reasons: Reason[];
  /** Value that plan and add-ons give. */
  value: FeatureValue | undefined;
  description: string | undefined;
  plan: string | undefined;
}

/** Cause of a feature's result. */
export type Reason =
  | { kind: "on" | "isFalse" | "noExpression" }
  | { kind: "notGranted"; name: string }
  | { kind: "atLimit"; limit: string; used: number; allowed: number }
  | { kind: "error"; message: string };

/** Says a reason in one sentence that starts with the plan or the limit. */
export function reasonText(reason: Reason, plan: string | undefined): string {
  const named = plan ?? texts.novation.noPlan;
  switch (reason.kind) {
    case "on":
      return t.reasons.isOn(named);
    case "isFalse":
      return t.reasons.isFalse;
    case "noExpression":
      return t.noExpression;
    case "notGranted":
      return t.reasons.notGranted(named, formatName(reason.name));
    case "atLimit":
      return t.reasons.atLimit(formatName(reason.limit), formatNumber(reason.used), formatNumber(reason.allowed));
    case "error":
      return reason.message;
  }
}

/** The verdict and its reason in one sentence: "No. PRO does not include Export." */
export function verdictOf({ result, reasons, plan }: Explained): string {
  const [first] = reasons;
  const why = first === undefined ? "" : reasonText(first, plan);
  return result.eval ? t.yes(why) : t.no(why);
}

/** Usage by `<service>-<limit>`, as the engine reads it. */
export type UsageById = ReadonlyMap<string, number>;

export function usageById({ usageLevels }: Pick<Contract, "usageLevels">): UsageById {
  return new Map(
    Object.entries(usageLevels).flatMap(([service, levels]) =>
      Object.entries(levels).map(
        ([limit, { consumed, held = 0 }]) => [`${service}-${limit}`, sum(consumed, held)] as const,
      ),
    ),
  );
}

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
    return { serviceName: service, pricing, grant: limitsOf(pricing, subscription, service) };
  });
  const evaluation = prepareEvaluation(services);
  const planOf = new Map(services.map(({ serviceName }) => [serviceName, choiceOf(subscription, serviceName).plan]));
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
        reasons: expression === undefined ? [{ kind: "noExpression" }] : reasonsFor(expression, result, values),
        value: granted.features.get(feature.name),
        description: feature.description,
        plan: planOf.get(serviceName),
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

function reasonsFor(expression: string, result: FeatureResult, { features, limits, usage, prefix }: Values): Reason[] {
  if (result.error !== null) return [{ kind: "error", message: result.error.message }];
  if (result.eval) return [{ kind: "on" }];
  const parsed = parseExpression(expression);
  const references = parsed.ok ? parsed.expression.references : [];
  const missing = new Map<string, Reason>();
  const full = new Map<string, Reason>();
  for (const { to, key } of references) {
    if (to === "feature" && features.get(key) === false) missing.set(key, { kind: "notGranted", name: key });
    const used = usage.get(prefix + key);
    const allowed = limits.get(key);
    if (to === "usage" && used !== undefined && isBound(allowed) && used >= allowed)
      full.set(key, { kind: "atLimit", limit: key, used, allowed });
  }
  const reasons = [...missing.values(), ...full.values()];
  return reasons.length === 0 ? [{ kind: "isFalse" }] : reasons;
}
