import type { Feature, Pricing, UsageLimit } from "./model.ts";
import { emptyRecord } from "./model.ts";
import type { Grant } from "./subscription.ts";

/*
 * The parts of a pricing and of a grant that evaluation reads, as snapshots carry them. They contain no prices, plans,
 * add-ons or texts. Source: contract tokens-and-leases §4.
 */

export type EvaluatedFeature = Pick<Feature, "name" | "valueType" | "defaultValue" | "expression" | "serverExpression">;
export type EvaluatedLimit = Pick<UsageLimit, "name" | "valueType" | "defaultValue" | "type" | "trackable" | "period">;

/** Features with their expressions, and usage limits, in the order of the file. */
export interface EvaluatedPricing {
  readonly saasName: string;
  readonly features: readonly EvaluatedFeature[];
  readonly usageLimits: readonly EvaluatedLimit[];
}

/** A {@link Grant} as plain data. */
export interface GrantedRecord {
  readonly features: Readonly<Record<string, EvaluatedFeature["defaultValue"]>>;
  readonly usageLimits: Readonly<Record<string, EvaluatedLimit["defaultValue"]>>;
}

export function evaluatedPricing({ saasName, features, usageLimits }: Pricing): EvaluatedPricing {
  return {
    saasName,
    features: features.map(({ name, valueType, defaultValue, expression, serverExpression }) => ({
      name,
      valueType,
      defaultValue,
      ...(expression === undefined ? {} : { expression }),
      ...(serverExpression === undefined ? {} : { serverExpression }),
    })),
    usageLimits: usageLimits.map(({ name, valueType, defaultValue, type, trackable, period }) => ({
      name,
      valueType,
      defaultValue,
      type,
      trackable,
      ...(period === undefined ? {} : { period }),
    })),
  };
}

export function grantedRecord({ features, usageLimits }: Grant): GrantedRecord {
  return { features: Object.fromEntries(features), usageLimits: Object.fromEntries(usageLimits) };
}
/** Completes a pricing for the compiler, without plans and add-ons. */
export function pricingOf({ saasName, features, usageLimits }: EvaluatedPricing): Pricing {
  return {
    saasName,
    syntaxVersion: "",
    version: "",
    currency: "",
    createdAt: "",
    tags: [],
    billing: emptyRecord(),
    variables: emptyRecord(),
    custom: emptyRecord(),
    features: features.map((feature) => ({ ...feature, type: "DOMAIN", render: "AUTO" })),
    usageLimits: usageLimits.map((limit) => ({ ...limit, unit: "", render: "AUTO" })),
    plans: [],
    addOns: [],
  };
}

export function grantOf({ features, usageLimits }: GrantedRecord): Grant {
  return { features: new Map(Object.entries(features)), usageLimits: new Map(Object.entries(usageLimits)) };
}
