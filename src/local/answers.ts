import {
  type Evaluation,
  evaluateBoolean,
  evaluateFeature,
  featureIds,
  type FeatureResult,
  readsUsage,
} from "../core/pricing/evaluate.ts";
import { locateFeature } from "../core/pricing/evaluation.ts";

const NO_USAGE: ReadonlyMap<string, number> = new Map();

/**
 * Answers of one subscription that depend on no balance, computed once. Users with the same pricings and granted values
 * share them.
 */
export class Answers {
  private readonly evaluation: Evaluation;
  private readonly client = new Map<string, FeatureResult | null>();
  private readonly server = new Map<string, FeatureResult | null>();
  private readonly all = new Map<boolean, Readonly<Record<string, boolean>> | null>();

  constructor(evaluation: Evaluation) {
    this.evaluation = evaluation;
  }

  /** Evaluates a feature; null if its expression reads balances. */
  one(featureId: string, server: boolean): FeatureResult | null {
    return (server ? this.server : this.client).get(featureId) ?? this.compute(featureId, server);
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
    if (readsUsage(this.evaluation, mode, featureId)) return null;
    const result = Object.freeze(evaluateFeature(this.evaluation, featureId, NO_USAGE, mode));
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
