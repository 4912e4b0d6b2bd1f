/**
 * What a pricing is, once read: plain JSON-safe data that survives `JSON.parse(JSON.stringify(pricing))` unchanged.
 *
 * Lists keep the order of the file. Records keyed by names of the file (`plan.features`, `billing`, …) may carry names
 * such as `toString`: read them with `Object.entries`, `Object.keys` or `Object.hasOwn`, never by a bare look-up.
 * `__proto__`, `constructor` and `prototype` cannot occur as keys: parsing refuses them.
 *
 * Source: pricing2yaml.md §3 to §10.
 */

/** Numeric values above this are stored as this number; it is what "unlimited" looks like. Source: pricing2yaml.md §10. */
export const UNLIMITED = 100_000_000;

export const VALUE_TYPES = ["BOOLEAN", "NUMERIC", "TEXT"] as const;
export type ValueType = (typeof VALUE_TYPES)[number];

export const FEATURE_TYPES = [
  "INFORMATION",
  "INTEGRATION",
  "DOMAIN",
  "AUTOMATION",
  "MANAGEMENT",
  "GUARANTEE",
  "SUPPORT",
  "PAYMENT",
] as const;
export type FeatureType = (typeof FEATURE_TYPES)[number];

export const INTEGRATION_TYPES = [
  "API",
  "EXTENSION",
  "IDENTITY_PROVIDER",
  "WEB_SAAS",
  "MARKETPLACE",
  "EXTERNAL_DEVICE",
] as const;
export type IntegrationType = (typeof INTEGRATION_TYPES)[number];

export const AUTOMATION_TYPES = ["BOT", "FILTERING", "TRACKING", "TASK_AUTOMATION"] as const;
export type AutomationType = (typeof AUTOMATION_TYPES)[number];

export const PAYMENT_METHODS = ["CARD", "GATEWAY", "INVOICE", "ACH", "WIRE_TRANSFER", "OTHER"] as const;

export const RENDER_MODES = ["AUTO", "ENABLED", "DISABLED"] as const;
export type RenderMode = (typeof RENDER_MODES)[number];

export const LIMIT_TYPES = ["RENEWABLE", "NON_RENEWABLE"] as const;
export type LimitType = (typeof LIMIT_TYPES)[number];

export const PERIOD_UNITS = ["SEC", "MIN", "HOUR", "DAY", "MONTH", "YEAR"] as const;
export type PeriodUnit = (typeof PERIOD_UNITS)[number];

/** A span of calendar time; `value` is finite and greater than zero. */
export interface Period {
  readonly value: number;
  readonly unit: PeriodUnit;
}

/** The value of a feature: a list of payment methods only for TEXT features of type PAYMENT. */
export type FeatureValue = boolean | number | string | readonly string[];

/** The value of a usage limit. */
export type LimitValue = boolean | number;

/** Data that JSON can carry. */
export type JsonValue = string | number | boolean | null | readonly JsonValue[] | { readonly [key: string]: JsonValue };

export interface Feature {
  readonly name: string;
  readonly description?: string;
  readonly valueType: ValueType;
  readonly defaultValue: FeatureValue;
  /** What plans inherit instead of `defaultValue`. */
  readonly value?: FeatureValue;
  readonly type: FeatureType;
  readonly integrationType?: IntegrationType;
  readonly pricingUrls?: readonly string[];
  readonly automationType?: AutomationType;
  readonly docUrl?: string;
  readonly expression?: string;
  readonly serverExpression?: string;
  readonly render: RenderMode;
  readonly tag?: string;
}

export interface UsageLimit {
  readonly name: string;
  readonly description?: string;
  readonly valueType: "BOOLEAN" | "NUMERIC";
  readonly defaultValue: LimitValue;
  readonly value?: LimitValue;
  readonly unit: string;
  readonly type: LimitType;
  /** Always false for RENEWABLE limits. */
  readonly trackable: boolean;
  /** Always present for RENEWABLE limits. */
  readonly period?: Period;
  readonly linkedFeatures?: readonly string[];
  readonly render: RenderMode;
}

export interface Plan {
  readonly name: string;
  readonly description?: string;
  readonly price: number | string;
  readonly unit: string;
  readonly private: boolean;
  /** The effective value of every feature of the pricing. */
  readonly features: Readonly<Record<string, FeatureValue>>;
  /** The effective value of every usage limit of the pricing. */
  readonly usageLimits: Readonly<Record<string, LimitValue>>;
}

/** How many units of an add-on may be contracted: `minQuantity + n × quantityStep`, up to `maxQuantity`. */
export interface SubscriptionConstraints {
  readonly minQuantity: number;
  /** `null` is without bound. */
  readonly maxQuantity: number | null;
  readonly quantityStep: number;
}

export interface AddOn {
  readonly name: string;
  readonly description?: string;
  readonly private: boolean;
  readonly price: number | string;
  readonly unit: string;
  readonly availableFor: readonly string[];
  readonly dependsOn: readonly string[];
  readonly excludes: readonly string[];
  /** Only what the add-on replaces. */
  readonly features: Readonly<Record<string, FeatureValue>>;
  /** Only what the add-on replaces. */
  readonly usageLimits: Readonly<Record<string, LimitValue>>;
  /** What one unit of the add-on adds. */
  readonly usageLimitsExtensions: Readonly<Record<string, number>>;
  readonly subscriptionConstraints?: SubscriptionConstraints;
}

export interface Pricing {
  /** Trimmed; the name of the service. */
  readonly saasName: string;
  /** The syntax version of the uploaded text, before any upgrade. */
  readonly syntaxVersion: string;
  readonly version: string;
  readonly currency: string;
  /** ISO 8601 in UTC; midnight unless the file gave a time of day. */
  readonly createdAt: string;
  readonly url?: string;
  readonly tags: readonly string[];
  readonly billing: Readonly<Record<string, number>>;
  readonly variables: Readonly<Record<string, JsonValue>>;
  readonly custom: Readonly<Record<string, JsonValue>>;
  readonly features: readonly Feature[];
  readonly usageLimits: readonly UsageLimit[];
  readonly plans: readonly Plan[];
  readonly addOns: readonly AddOn[];
}

/**
 * One reason why a text is not an acceptable pricing.
 *
 * `kind` tells where it was found: `yaml` (not a readable document), `pricing` (against a rule of the format), `key` (a
 * name with characters that no service may carry). `message` is the exact text of the contract where one is pinned.
 * `path` names the place by keys joined with dots (`plans.PRO.usageLimits.seats`, empty for the document itself);
 * `line` and `column` count from 1, columns in UTF-16 code units.
 */
export interface PricingProblem {
  readonly kind: "yaml" | "pricing" | "key";
  readonly message: string;
  readonly path: string;
  readonly line: number;
  readonly column: number;
}

/** An empty record that user text may key without reaching any prototype. */
export function emptyRecord<Value>(): Record<string, Value> {
  return Object.create(null) as Record<string, Value>;
}
