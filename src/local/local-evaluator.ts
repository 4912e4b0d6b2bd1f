/// <reference lib="esnext.disposable" preserve="true" />
import type { FaregateOptions } from "../client/back/faregate.ts";
import type { EvaluationOptions, FeatureOptions } from "../client/back/evaluation-options.ts";
import type { AllFeatures, FeatureAnswer } from "../client/back/feature-answers.ts";
import type { FeatureId } from "../client/feature-id.ts";

/** Options of createLocalEvaluator. */
export interface LocalEvaluatorOptions extends FaregateOptions {
  /** Maximum age of what answers come from, in milliseconds, at least 1,000. Default: 10,000. */
  maxStaleMs?: number | undefined;
  /** Maximum users in memory. Default: 50,000. */
  maxUsers?: number | undefined;
  /** Reserves usage of features that are spent often, and spends it in memory. Default: true. */
  leases?: boolean | undefined;
  /** Seconds that a reservation lasts after its last report, 1 to 600. Default: 30. */
  leaseSeconds?: number | undefined;
  /** Called when `state` changes. Errors that it throws go to the console. */
  onState?: ((state: LocalState) => void) | undefined;
  /** Called when contracts of the organization may have changed. Later answers contain the change. Errors go to the console. */
  onChange?: (() => void) | undefined;
}

/** `connected`: what changes reaches this process within a second. */
export type LocalState = "connecting" | "connected" | "disconnected" | "closed";

/** Origin and age of an answer. `local`: from memory. `lease`: from memory, of usage that is reserved for this process. */
export interface LocalFreshness {
  readonly source: FeatureAnswer["source"] | "local" | "lease";
  /** True if a change that was made more than a second ago may be missing. */
  readonly stale: boolean;
  /** Milliseconds since it was last known to be true; null for a fallback. */
  readonly ageMs: number | null;
}

/**
 * Options of one evaluation. Consumption is always strict, and names all limits of the feature. The service counts units, so
 * that histories and budgets have each of them.
 */
export type LocalOptions = Omit<FeatureOptions, "strict">;
/** Answer about one feature. */
export type LocalAnswer = Omit<FeatureAnswer, keyof LocalFreshness> & LocalFreshness;
/** Answer about all features. */
export type LocalAllFeatures = Omit<AllFeatures, keyof LocalFreshness> & LocalFreshness;

/** Evaluates features in the memory of this process. Create one per process, and close it at the end. */
export interface LocalEvaluator extends AsyncDisposable {
  readonly state: LocalState;
  /**
   * Evaluates a feature. Answers from memory unless its expression reads usage; then the service answers, strictly with
   * `consumption`. Consumption that repeats within a second is spent from a lease, without a request.
   * @throws ServiceRequestError with status 404 for a user without contract, 400 for an expired one.
   */
  evaluate(userId: string, featureId: FeatureId, options?: LocalOptions): Promise<LocalAnswer>;
  /** Evaluates all features, as on or off. Answers from memory unless an expression reads usage. */
  evaluateAll(userId: string, options?: EvaluationOptions): Promise<LocalAllFeatures>;
  /** Loads users in advance, 500 per request. */
  preload(userIds: readonly string[]): Promise<void>;
  /** Users and leases in memory, and answers so far by source. */
  stats(): { users: number; leases: number; local: number; lease: number; service: number };
  /** Disconnects, and returns what is reserved; waits for that up to 5 s. Later calls reject. */
  close(): Promise<void>;
}
