import { boundedByWeight } from "../../core/bounded-by-weight.ts";
import { type LeastRecentlyUsed, leastRecentlyUsed } from "../../core/least-recently-used.ts";
import type { Proposal } from "../../core/change/best-fit/best-fit.ts";
import type { CompiledPricing } from "../../core/pricing/compile.ts";
import type { Evaluation } from "../../core/pricing/evaluate.ts";

/**
 * LRU caches of compiled pricings, evaluations, proposals and diffs. Pricings are keyed by model hash, the others by
 * all their inputs. A version's content never changes, so no entry can become stale.
 */
export interface PricingCache {
  /** Returns the compiled pricing if it is cached. */
  peek(modelHash: string): CompiledPricing | undefined;
  /** Caches and returns the pricing. */
  put(modelHash: string, pricing: CompiledPricing): CompiledPricing;
  /** Returns the cached evaluation of this key. */
  evaluation(key: string): Evaluation | undefined;
  keepEvaluation(key: string, evaluation: Evaluation): Evaluation;
  /** Returns the cached best fit of this key. `best` is undefined if nothing fits. */
  proposal(key: string): { best: Proposal | undefined } | undefined;
  keepProposal(key: string, best: Proposal | undefined): { best: Proposal | undefined };
  /** Returns the cached diff text of this key. */
  diff(key: string): string | undefined;
  keepDiff(key: string, text: string): string;
}

/**
 * Maximum total key length per cache, in characters. Keys contain add-ons and quantities, so callers control their
 * number and length.
 */
const MAX_KEYS_LENGTH = 8_000_000;

/** A cache of `max` entries that stores nothing under keys so long that `max` of them would exceed MAX_KEYS_LENGTH. */
function withShortKeys<V>(max: number): Pick<LeastRecentlyUsed<V>, "get" | "put"> {
  const { get, put } = leastRecentlyUsed<V>(max);
  return { get, put: (key, value) => (key.length > MAX_KEYS_LENGTH / max ? value : put(key, value)) };
}

/** Characters of all kept diffs. */
const MAX_DIFF_CHARACTERS = 8_000_000;

export function createPricingCache(maxPricings = 1000, maxEvaluations = 5000, maxProposals = 2000): PricingCache {
  const compiled = leastRecentlyUsed<CompiledPricing>(maxPricings);
  const evaluations = withShortKeys<Evaluation>(maxEvaluations);
  const proposals = withShortKeys<{ best: Proposal | undefined }>(maxProposals);
  const diffs = boundedByWeight<string>(MAX_DIFF_CHARACTERS, (text) => text.length + 200);
  return {
    peek: compiled.get,
    put: compiled.put,
    evaluation: evaluations.get,
    keepEvaluation: evaluations.put,
    proposal: proposals.get,
    keepProposal: (key, best) => proposals.put(key, { best }),
    diff: diffs.get,
    keepDiff: diffs.put,
  };
}
