import { trackedLimits } from "./compile.ts";
import { type Evaluation, idOf } from "./evaluation.ts";
import type { FeatureValue, LimitValue } from "./model.ts";

/** Pricing and subscription context as in tokens and responses. Source: features-events.md §2. */
export interface Contexts {
  readonly pricingContext: {
    readonly features: Record<string, FeatureValue>;
    readonly usageLimits: Record<string, LimitValue>;
  };
  readonly subscriptionContext: Record<string, number>;
}

/** Builds both contexts as plain objects, ordered by contracted service, then as declared. */
export function contexts(evaluation: Evaluation, usage: ReadonlyMap<string, number>): Contexts {
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
