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

/** A map that forgets what was not used for longest once it holds more than `max`. */
function leastRecentlyUsed<V>(max: number) {
  const entries = new Map<string, V>();
  const put = (key: string, value: V) => {
    entries.delete(key);
    entries.set(key, value);
    if (entries.size > max) {
      const oldest = entries.keys().next();
      if (!oldest.done) entries.delete(oldest.value);
    }
    return value;
  };
  const get = (key: string) => {
    const found = entries.get(key);
    return found === undefined ? undefined : put(key, found);
  };
  return { get, put };
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
