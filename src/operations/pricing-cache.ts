import { compilePricing, type CompiledPricing } from "../core/pricing/compile.ts";
import type { Pricing } from "../core/pricing/model.ts";

/**
 * Compiled pricings by the hash of their stored model. A version's content never changes, so nothing here can be stale;
 * the least recently used ones leave when there are too many.
 */
export interface PricingCache {
  /** The compiled pricing if it is at hand. */
  peek(modelHash: string): CompiledPricing | undefined;
  /** Compiles, keeps and returns. */
  put(modelHash: string, model: Pricing): CompiledPricing;
}

export function createPricingCache(maxPricings = 1000): PricingCache {
  const byHash = new Map<string, CompiledPricing>();
  const keep = (hash: string, pricing: CompiledPricing) => {
    byHash.delete(hash);
    byHash.set(hash, pricing);
    if (byHash.size > maxPricings) {
      const oldest = byHash.keys().next();
      if (!oldest.done) byHash.delete(oldest.value);
    }
    return pricing;
  };
  return {
    peek: (hash) => {
      const found = byHash.get(hash);
      return found === undefined ? undefined : keep(hash, found);
    },
    put: (hash, model) => keep(hash, compilePricing(model)),
  };
}
