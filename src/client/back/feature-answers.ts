import type { FeatureId } from "../feature-id.ts";
import type { AsOf, Contract } from "./contract.ts";
import type { Freshness } from "./fallback-cache.ts";
import type { FeatureResult, Reasons } from "./feature-result.ts";
import type { Override } from "./overrides.ts";

/** Result of one evaluation, with its consumption. */
export interface FeatureAnswer extends FeatureResult, Freshness, Reasons {
  /** Consumption that remains after this call. Only with `strict`, `dryRun` or `explain`. */
  readonly remaining?: Readonly<Record<string, number | null>> | null;
  /** Next reset of usage, in ISO 8601; null for limits that never reset. Present together with `remaining`. */
  readonly resetAt?: Readonly<Record<string, string | null>> | null;
  /** Cost of the units of the call, per limit. Only for a call with units. */
  readonly amounts?: Readonly<Record<string, number>>;
  /** True if the service confirmed that it counted this call's consumption. */
  readonly counted: boolean;
  /** Idempotency key of the consumption: a repetition with it counts once. Null without consumption. */
  readonly idempotencyKey: string | null;
}

/** All features of one end user, as on or off. */
export interface AllFeatures extends Freshness {
  /** Per feature id. Empty in an outage without an earlier answer. */
  readonly features: Readonly<Record<string, boolean>>;
  /** Returns true if the feature is on, false for unknown ids. In an outage: see `whenUnreachable`. */
  isEnabled(id: FeatureId): boolean;
}

/** Contract at a past moment, with the balances of the evaluation. */
export interface AsOfContract extends AsOf {
  readonly contract: Pick<
    Contract,
    "id" | "billingPeriod" | "usageLevels" | "contractedServices" | "subscriptionPlans" | "subscriptionAddOns"
  > & {
    /** Pricing id per service. Another version of the same name may exist since. */
    readonly pricingIds: Readonly<Record<string, string>>;
    /** The overrides that held, if any. */
    readonly overrides?: readonly Pick<Override, "service" | "kind" | "name" | "mode" | "value" | "from" | "until">[];
  };
}

/** Evaluation of a feature at a past moment. */
export interface PastAnswer extends FeatureResult {
  readonly remaining: Readonly<Record<string, number | null>> | null;
  readonly resetAt: Readonly<Record<string, string | null>> | null;
  readonly asOf: AsOfContract;
}
