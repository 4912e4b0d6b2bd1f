import { boundedByWeight } from "../core/bounded-by-weight.ts";
import { type LeastRecentlyUsed, leastRecentlyUsed } from "../core/least-recently-used.ts";
import type { Proposal } from "../core/change/best-fit/best-fit.ts";
import type { CompiledPricing } from "../core/pricing/compile.ts";
import type { Evaluation } from "../core/pricing/evaluate.ts";

/**
 * Compiled pricings by the hash of their stored model, and evaluations and proposals by everything that they are made of. A
 * version's content never changes, so nothing here can be stale; the least recently used ones leave when there are too many.
 */
export interface PricingCache {
  /** The compiled pricing if it is at hand. */
  peek(modelHash: string): CompiledPricing | undefined;
  /** Returns the pricing. */
  put(modelHash: string, pricing: CompiledPricing): CompiledPricing;
  /** The evaluation kept under this key. */
  evaluation(key: string): Evaluation | undefined;
  keepEvaluation(key: string, evaluation: Evaluation): Evaluation;
  /** What was found to fit best, or that nothing does, under this key. */
  proposal(key: string): { best: Proposal | undefined } | undefined;
  keepProposal(key: string, best: Proposal | undefined): { best: Proposal | undefined };
  /** The text of a diff kept under this key. */
  diff(key: string): string | undefined;
  keepDiff(key: string, text: string): string;
}

/** Characters of all keys of a cache. Keys name add-ons and quantities, so callers decide how many and how long they are. */
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
