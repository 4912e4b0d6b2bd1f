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
  /** Caches and returns the pricing. `characters` is the length of its model as JSON. */
  put(modelHash: string, pricing: CompiledPricing, characters: number): CompiledPricing;
  /** Returns the cached evaluation of this key, unless one of its pricings was evicted. */
  evaluation(key: string): Evaluation | undefined;
  /** Caches and returns the evaluation of pricings with these model hashes. */
  keepEvaluation(key: string, evaluation: Evaluation, modelHashes: readonly string[]): Evaluation;
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

/** Maximum characters of all cached diffs. */
const MAX_DIFF_CHARACTERS = 8_000_000;
/** Maximum characters of the models of all cached pricings: five of the largest, or a thousand of the usual 40 kB. */
const MAX_MODEL_CHARACTERS = 40_000_000;
/** Weight of a pricing beside its model. */
const PRICING_WEIGHT = 1_000;

export function createPricingCache(
  maxModelCharacters = MAX_MODEL_CHARACTERS,
  maxEvaluations = 5000,
  maxProposals = 2000,
): PricingCache {
  /** Keys of evaluations by model hash. An evaluation holds its pricings in memory, so it is evicted with them. */
  const dependants = new Map<string, Set<string>>();
  const compiled = boundedByWeight<{ pricing: CompiledPricing; characters: number }>(
    maxModelCharacters,
    ({ characters }) => characters + PRICING_WEIGHT,
    (modelHash) => {
      for (const key of dependants.get(modelHash) ?? []) evaluations.delete(key);
    },
  );
  const evaluations = boundedByWeight<{ evaluation: Evaluation; modelHashes: readonly string[] }>(
    maxEvaluations,
    () => 1,
    (key, { modelHashes }) => {
      for (const modelHash of modelHashes) {
        const keys = dependants.get(modelHash);
        keys?.delete(key);
        if (keys?.size === 0) dependants.delete(modelHash);
      }
    },
  );
  const proposals = withShortKeys<{ best: Proposal | undefined }>(maxProposals);
  const diffs = boundedByWeight<string>(MAX_DIFF_CHARACTERS, (text) => text.length + 200);
  return {
    peek: (modelHash) => compiled.get(modelHash)?.pricing,
    put: (modelHash, pricing, characters) => compiled.put(modelHash, { pricing, characters }).pricing,
    evaluation: (key) => {
      const entry = evaluations.get(key);
      // Marks the pricings as used too, so that those of idle tenants are evicted first.
      for (const modelHash of entry?.modelHashes ?? []) compiled.get(modelHash);
      return entry?.evaluation;
    },
    keepEvaluation: (key, evaluation, modelHashes) => {
      const isCacheable =
        key.length <= MAX_KEYS_LENGTH / maxEvaluations && modelHashes.every((hash) => compiled.get(hash) !== undefined);
      if (!isCacheable) return evaluation;
      evaluations.put(key, { evaluation, modelHashes });
      for (const hash of modelHashes) dependants.set(hash, (dependants.get(hash) ?? new Set()).add(key));
      return evaluation;
    },
    proposal: proposals.get,
    keepProposal: (key, best) => proposals.put(key, { best }),
    diff: diffs.get,
    keepDiff: diffs.put,
  };
}
