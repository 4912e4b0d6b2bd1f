import { type Evaluation, type EvaluationMode, expressionOf, locateFeature } from "./evaluation.ts";

/** A usage level that a feature's evaluation reads and its consumption increases. */
export interface InvolvedLimit {
  readonly id: string;
  readonly serviceName: string;
  readonly limitName: string;
}

/** Resolves an identifier to a usage limit. If several match, tracked limits win, then the service contracted last. */
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
 * Returns the usage limits that a feature's evaluation reads, in the order of its expression, without duplicates. Omits
 * names that no contracted pricing declares. Source: features-events.md §3, §14 no. 8.
 */
export function involvedLimits(
  evaluation: Evaluation,
  featureId: string,
  mode: EvaluationMode,
): readonly InvolvedLimit[] {
  const found = locateFeature(evaluation, featureId);
  const bound = found === undefined ? undefined : expressionOf(found.feature, mode);
  return (bound?.usageIds ?? []).map((id) => resolveLimit(evaluation, id)).filter((limit) => limit !== undefined);
}
