/* Small pricings with expensive analyses: every add-on extends every limit, so that selections multiply. */

const header = (name: string, version: string) => `saasName: ${name}
syntaxVersion: "3.0"
version: "${version}"
createdAt: "2025-03-01"
currency: EUR
`;

const range = (count: number) => Array.from({ length: count }, (_, index) => index);

export interface HeavyPricing {
  name: string;
  version?: string;
  features: number;
  limits: number;
  plans: number;
  addOns: number;
  /** Offset of every limit's value, so that two versions differ. */
  extra?: number;
  /** Pads every description to reach a size. */
  padding?: string;
}

/** Builds a pricing in which each feature reads one limit, and each add-on extends all of them. */
export function heavyPricing(heavy: HeavyPricing): string {
  const { name, version = "1.0.0", features, limits, plans, addOns, extra = 0, padding = "" } = heavy;
  const read = (index: number) => `limit${index % limits}`;
  const feature = (index: number) =>
    `  feature${index}: { valueType: BOOLEAN, defaultValue: true, type: DOMAIN, description: "d${padding}", expression: "pricingContext['features']['feature${index}'] && subscriptionContext['${read(index)}'] < pricingContext['usageLimits']['${read(index)}']" }\n`;
  const limit = (index: number) =>
    `  limit${index}: { valueType: NUMERIC, defaultValue: ${5 + extra}, unit: task, type: NON_RENEWABLE, trackable: true }\n`;
  const plan = (index: number) =>
    `  PLAN${index}: { price: ${index}, unit: user/month, features: null, usageLimits: { limit0: { value: ${10 + index + extra} } } }\n`;
  const extensions = range(limits).map((index) => `limit${index}: { value: ${index + 2} }`);
  const available = range(plans).map((index) => `PLAN${index}`);
  const addOn = (index: number) =>
    `  addOn${index}: { price: ${index + 1}, unit: user/month, availableFor: [${available.join(", ")}], usageLimitsExtensions: { ${extensions.join(", ")} }, subscriptionConstraints: { minQuantity: 1, maxQuantity: 5000, quantityStep: 1 } }\n`;
  return [
    header(name, version),
    "features:\n",
    ...range(features).map(feature),
    "usageLimits:\n",
    ...range(limits).map(limit),
    "plans:\n",
    ...range(plans).map(plan),
    "addOns:\n",
    ...range(addOns).map(addOn),
  ].join("");
}
