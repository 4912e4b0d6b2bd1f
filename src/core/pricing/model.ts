/**
 * The parsed pricing: plain data that survives `JSON.parse(JSON.stringify(pricing))` unchanged.
 *
 * Lists keep the order of the file. Records keyed by names of the file (`plan.features`, `billing`, …) may contain
 * names such as `toString`. Read them with `Object.entries`, `Object.keys` or `Object.hasOwn`, never by a bare look-up.
 * The parser rejects the keys `__proto__`, `constructor` and `prototype`.
 *
 * Source: pricing2yaml.md §3 to §10.
 */

/** Represents "unlimited". Larger numbers are stored as this number. Source: pricing2yaml.md §10. */
export const UNLIMITED = 100_000_000;

/** Returns true for a number that bounds consumption: one below {@link UNLIMITED}. Source: contract README, decision 34. */
export function isBound(limit: unknown): limit is number {
  return typeof limit === "number" && limit < UNLIMITED;
}

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

/** A span of calendar time. `value` is finite and positive. */
export interface Period {
  readonly value: number;
  readonly unit: PeriodUnit;
}

/** Value of a feature. Only TEXT features of type PAYMENT have a list, of payment methods. */
export type FeatureValue = boolean | number | string | readonly string[];

export type LimitValue = boolean | number;

export type JsonValue = string | number | boolean | null | readonly JsonValue[] | { readonly [key: string]: JsonValue };

export interface Feature {
  readonly name: string;
  readonly description?: string;
  readonly valueType: ValueType;
  readonly defaultValue: FeatureValue;
  /** Value that plans inherit instead of `defaultValue`. */
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
  /** Effective value of every feature of the pricing. */
  readonly features: Readonly<Record<string, FeatureValue>>;
  /** Effective value of every usage limit of the pricing. */
  readonly usageLimits: Readonly<Record<string, LimitValue>>;
}

/** Valid quantities of an add-on: `minQuantity + n × quantityStep`, up to `maxQuantity`. */
export interface SubscriptionConstraints {
  readonly minQuantity: number;
  /** `null` means unbounded. */
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
  /** Values that the add-on replaces; no others. */
  readonly features: Readonly<Record<string, FeatureValue>>;
  /** Values that the add-on replaces; no others. */
  readonly usageLimits: Readonly<Record<string, LimitValue>>;
  /** Increase per unit of the add-on. */
  readonly usageLimitsExtensions: Readonly<Record<string, number>>;
  readonly subscriptionConstraints?: SubscriptionConstraints;
}

export interface Pricing {
  /** Name of the service, trimmed. */
  readonly saasName: string;
  /** Syntax version of the uploaded text, before any upgrade. */
  readonly syntaxVersion: string;
  readonly version: string;
  readonly currency: string;
  /** ISO 8601 in UTC. Midnight unless the file has a time of day. */
  readonly createdAt: string;
  readonly url?: string;
  readonly tags: readonly string[];
  readonly billing: Readonly<Record<string, number>>;
  readonly variables: Readonly<Record<string, JsonValue>>;
  readonly custom: Readonly<Record<string, JsonValue>>;
  /** New name by previous name of plans that this version renames. */
  readonly renames?: Readonly<Record<string, string>>;
  readonly features: readonly Feature[];
  readonly usageLimits: readonly UsageLimit[];
  readonly plans: readonly Plan[];
  readonly addOns: readonly AddOn[];
}

/**
 * One reason for rejecting a text as a pricing.
 *
 * `kind` is `yaml` (not a readable document), `pricing` (violates a rule of the format) or `key` (a name with
 * characters that are forbidden in names). `message` is the exact text of the contract where the contract pins one.
 * `path` consists of keys joined with dots (`plans.PRO.usageLimits.seats`); it is empty for the document itself. `line`
 * and `column` start at 1; columns count UTF-16 code units.
 */
export interface PricingProblem {
  readonly kind: "yaml" | "pricing" | "key";
  /** Sentence that the contract pins. */
  readonly message: string;
  /** Says what to write instead. */
  readonly advice?: string;
  readonly path: string;
  readonly line: number;
  readonly column: number;
}

/** Returns the message of a problem with its advice, for lists that show all problems. */
export const problemText = ({ message, advice }: Pick<PricingProblem, "message" | "advice">): string =>
  advice === undefined ? message : `${message} ${advice}`;

/** Creates a record without a prototype, safe for keys from user input. */
export function emptyRecord<Value>(): Record<string, Value> {
  return Object.create(null) as Record<string, Value>;
}
