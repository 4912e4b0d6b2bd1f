/** Parts of a pricing that a test overrides; all other parts are identical in every test. */
export interface PricingParts {
  name?: string;
  version?: string;
  createdAt?: string;
  features?: string;
  usageLimits?: string;
  plans?: string;
  addOns?: string;
}

const FEATURES = `
  board: { valueType: BOOLEAN, defaultValue: true, type: DOMAIN, expression: "pricingContext['features']['board'] && subscriptionContext['tasks'] < pricingContext['usageLimits']['tasks']" }
  export: { valueType: BOOLEAN, defaultValue: false, type: DOMAIN, expression: "pricingContext['features']['export']" }`;
const USAGE_LIMITS = `
  tasks: { valueType: NUMERIC, defaultValue: 100, unit: task, type: RENEWABLE, period: { value: 1, unit: MONTH }, linkedFeatures: [board] }
  seats: { valueType: NUMERIC, defaultValue: 5, unit: seat, type: NON_RENEWABLE, trackable: true }
  quality: { valueType: NUMERIC, defaultValue: 1, unit: point, type: NON_RENEWABLE, trackable: false }`;
const PLANS = `
  FREE: { price: 0, unit: user/month, features: null }
  PRO: { price: 9, unit: user/month, features: { export: { value: true } } }`;
const ADD_ONS = `
  extraSeats: { price: 2, unit: /month, availableFor: [PRO], usageLimitsExtensions: { seats: { value: 1 } }, subscriptionConstraints: { minQuantity: 2, maxQuantity: 6, quantityStep: 2 } }
  support: { price: 5, unit: /month, features: { export: { value: true } }, dependsOn: [extraSeats] }
  quiet: { price: 1, unit: /month, features: { export: { value: true } }, excludes: [loud] }
  loud: { price: 1, unit: /month, features: { export: { value: true } } }`;

/**
 * Builds a pricing with a renewable limit (`tasks`), a tracked one (`seats`), an untracked one (`quality`) and two
 * plans. It has add-ons for every kind of rule: `extraSeats` for PRO in steps, `support` depends on it, `quiet`
 * excludes `loud`.
 */
export function pricingText(parts: PricingParts = {}): string {
  return `saasName: ${JSON.stringify(parts.name ?? "Acme")}
syntaxVersion: "3.0"
version: ${JSON.stringify(parts.version ?? "1.0.0")}
createdAt: "${parts.createdAt ?? "2025-03-01"}"
currency: EUR
features: ${parts.features ?? FEATURES}
usageLimits: ${parts.usageLimits ?? USAGE_LIMITS}
plans: ${parts.plans ?? PLANS}
addOns: ${parts.addOns ?? ADD_ONS}
`;
}

/** Builds a pricing whose only feature, `call`, reads its only limit, `calls`. The service is `meter`. */
export const meterPricing = (limit: string, plans = "  ALL: { price: 0, features: null }"): string => `
saasName: Meter
syntaxVersion: "3.0"
version: "1.0.0"
createdAt: "2025-01-01"
currency: EUR
features:
  call:
    valueType: BOOLEAN
    defaultValue: true
    type: DOMAIN
    expression: subscriptionContext['calls'] < pricingContext['usageLimits']['calls']
usageLimits:
  calls: ${limit}
plans:
${plans}
`;

/** A pricing with one feature of two limits that never end. Its service is `meter`. */
export const TWO_LIMITS = `
saasName: Meter
syntaxVersion: "3.0"
version: "1.0.0"
createdAt: "2025-01-01"
currency: EUR
features:
  call:
    valueType: BOOLEAN
    defaultValue: true
    type: DOMAIN
    expression: subscriptionContext['calls'] < pricingContext['usageLimits']['calls'] && subscriptionContext['bytes'] < pricingContext['usageLimits']['bytes']
usageLimits:
  calls: { valueType: NUMERIC, defaultValue: .inf, unit: call, type: NON_RENEWABLE, trackable: true }
  bytes: { valueType: NUMERIC, defaultValue: .inf, unit: byte, type: NON_RENEWABLE, trackable: true }
plans:
  ALL: { price: 0, features: null }
`;

/** A pricing without limits. Its only feature, `archive`, is on in PREMIUM. The service is `gazette`. */
export const GAZETTE = `
saasName: Gazette
syntaxVersion: "3.0"
version: "1.0.0"
createdAt: "2025-01-01"
currency: EUR
features:
  archive:
    valueType: BOOLEAN
    defaultValue: false
    type: DOMAIN
    expression: pricingContext['features']['archive']
plans:
  BASIC: { price: 0, features: null }
  PREMIUM: { price: 9, features: { archive: { value: true } } }
`;
