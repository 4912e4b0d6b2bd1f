import type { FeatureResult } from "../../core/pricing/evaluate.ts";

/** Selects a feature's server or client expression. */
export interface Mode {
  server: boolean;
}

/** A request to evaluate one feature for one end user, with the consumption to count if granted. */
export interface EvaluationRequest {
  userId: string;
  featureId: string;
  /** `<service>-<limit>` -> amount; empty to evaluate without consuming. */
  expected: Readonly<Record<string, number>>;
  mode: Mode;
  /** Denies any call that would exceed a limit. Otherwise the contract lets one call exceed it. */
  strict: boolean;
  /** Returns the verdict without counting anything. */
  dryRun: boolean;
  /** Adds the remaining amounts and reset times to the answer. Strict and dry-run calls always include them. */
  explain: boolean;
}

/** One consumption, with the organization of its end user. */
export type QueuedEvaluation = EvaluationRequest & { organizationId: string };

/** A feature's result. The additional fields describe the balances after the call. */
export interface FeatureAnswer extends FeatureResult {
  /** By limit: the amount still available; null for a non-numeric limit. */
  readonly remaining?: Record<string, number | null> | null;
  /** By limit: when its balance resets to zero, ISO 8601; null if never. */
  readonly resetAt?: Record<string, string | null> | null;
}
