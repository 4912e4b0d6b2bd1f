import {
  type Evaluation,
  evaluateBoolean,
  evaluateFeature,
  type EvaluationMode,
  featureIds,
  type FeatureResult,
  readsOtherUsage,
  readsUsage,
} from "../core/pricing/evaluate.ts";
import { involvedLimits } from "../core/pricing/involved-limits.ts";
import { locateFeature } from "../core/pricing/evaluation.ts";

const NO_USAGE: ReadonlyMap<string, number> = new Map();

/** A feature whose answer depends on nothing but how much of its limits is used. */
export interface LimitedFeature {
  /** Names as `{service}-{limit}`, in the order of the expression. */
  readonly limitIds: readonly string[];
  readonly limit: FeatureResult["limit"];
  /** Evaluates the feature over usage by limit. */
  isOn(usage: ReadonlyMap<string, number>): boolean;
}

/**
 * Answers of one subscription that depend on no balance, computed once. Users with the same pricings and granted values
 * share them.
 */
export class Answers {
  private readonly evaluation: Evaluation;
  private readonly client = new Map<string, FeatureResult | null>();
  private readonly server = new Map<string, FeatureResult | null>();
  private readonly limited = { client: new Map<string, LimitedFeature>(), server: new Map<string, LimitedFeature>() };
  private readonly all = new Map<boolean, Readonly<Record<string, boolean>> | null>();

  constructor(evaluation: Evaluation) {
    this.evaluation = evaluation;
  }

  /** Evaluates a feature; null if its expression reads balances. */
  one(featureId: string, server: boolean): FeatureResult | null {
    const cached = (server ? this.server : this.client).get(featureId);
    return cached === undefined ? this.compute(featureId, server) : cached;
  }

  /** Returns a feature that a lease can answer; null if it reads no limit, or more than its limits. */
  ofLimits(featureId: string, server: boolean): LimitedFeature | null {
    const cache = server ? this.limited.server : this.limited.client;
    let feature = cache.get(featureId) ?? null;
    if (feature !== null) return feature;
    feature = limitedFeature(this.evaluation, featureId, { server });
    if (feature !== null) cache.set(featureId, feature);
    return feature;
  }

  /** Evaluates all features to true or false; null if an expression reads balances. */
  everything(server: boolean): Readonly<Record<string, boolean>> | null {
    let all = this.all.get(server);
    if (all !== undefined) return all;
    all = readsUsage(this.evaluation, { server }) ? null : this.computeAll(server);
    this.all.set(server, all);
    return all;
  }

  private compute(featureId: string, server: boolean): FeatureResult | null {
    const mode = { server };
    const result = readsUsage(this.evaluation, mode, featureId)
      ? null
      : Object.freeze(evaluateFeature(this.evaluation, featureId, NO_USAGE, mode));
    // Callers choose unknown names, so they are not kept.
    if (locateFeature(this.evaluation, featureId) !== undefined)
      (server ? this.server : this.client).set(featureId, result);
    return result;
  }

  private computeAll(server: boolean): Readonly<Record<string, boolean>> {
    const mode = { server };
    const all: Record<string, boolean> = {};
    for (const id of featureIds(this.evaluation, mode)) {
      all[id] = evaluateBoolean(this.evaluation, id, NO_USAGE, mode);
    }
    return Object.freeze(all);
  }
}

function limitedFeature(evaluation: Evaluation, featureId: string, mode: EvaluationMode): LimitedFeature | null {
  const limitIds = involvedLimits(evaluation, featureId, mode).map(({ id }) => id);
  if (limitIds.length === 0 || readsOtherUsage(evaluation, mode, featureId)) return null;
  const { limit, error } = evaluateFeature(evaluation, featureId, new Map(limitIds.map((id) => [id, 0])), mode);
  if (error !== null) return null;
  return {
    limitIds,
    limit: Object.freeze(limit),
    isOn: (usage) => evaluateBoolean(evaluation, featureId, usage, mode),
  };
}
