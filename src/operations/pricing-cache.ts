import { leastRecentlyUsed } from "../core/least-recently-used.ts";
import { compilePricing, type CompiledPricing } from "../core/pricing/compile.ts";
import type { Evaluation } from "../core/pricing/evaluate.ts";
import type { Pricing } from "../core/pricing/model.ts";

/**
 * Compiled pricings by the hash of their stored model, and evaluations by everything that they are made of. A version's
 * content never changes, so nothing here can be stale; the least recently used ones leave when there are too many.
 */
export interface PricingCache {
  /** The compiled pricing if it is at hand. */
  peek(modelHash: string): CompiledPricing | undefined;
  /** Compiles, keeps and returns. */
  put(modelHash: string, model: Pricing): CompiledPricing;
  /** The evaluation kept under this key. */
  evaluation(key: string): Evaluation | undefined;
  keepEvaluation(key: string, evaluation: Evaluation): Evaluation;
}

export function createPricingCache(maxPricings = 1000, maxEvaluations = 5000): PricingCache {
  const compiled = leastRecentlyUsed<CompiledPricing>(maxPricings);
  const evaluations = leastRecentlyUsed<Evaluation>(maxEvaluations);
  return {
    peek: compiled.get,
    put: (hash, model) => compiled.put(hash, compilePricing(model)),
    evaluation: evaluations.get,
    keepEvaluation: evaluations.put,
  };
}
