/**
 * Small pricings that were expensive to process. Each one is an attack of a hostile tenant; the tests that use them
 * bound their cost.
 */

const HEAD = (version: string) =>
  `saasName: Hostile\nsyntaxVersion: "3.0"\nversion: "${version}"\ncreatedAt: "2025-01-01"\ncurrency: USD\n`;
const BOARD = "features:\n  board: {valueType: BOOLEAN, defaultValue: true, type: DOMAIN}\n";

const each = (count: number, make: (index: number) => string): string =>
  Array.from({ length: count }, (_, index) => make(index)).join("");
const text = (length: number): string => "x".repeat(length);

/** Repeats one text of `length` characters by aliases in data that is stored unchanged. */
export function repeatedByAliases({ length = 1_600_000, aliases = 4_000 } = {}): string {
  return `${HEAD("1.0.0")}${BOARD}custom:\n  long: &long ${text(length)}\n  all: [${each(aliases, () => "*long,")}]\n`;
}

/** Repeats one text where it is invalid, so that every problem quotes it. */
export function repeatedInProblems({ length = 1_600_000, aliases = 4_000 } = {}): string {
  const first = `  first: {valueType: &long ${text(length)}, defaultValue: true, type: DOMAIN}\n`;
  return `${HEAD("1.0.0")}features:\n${first}${each(aliases, (i) => `  f${100 + i}: {valueType: *long, defaultValue: true, type: *long}\n`)}`;
}

/** One long text as the default of a feature, which every plan repeats. */
export function repeatedByPlans({ length = 1_600_000, plans = 300, version = "1.0.0" } = {}): string {
  const feature = `  note: {valueType: TEXT, type: DOMAIN, defaultValue: ${text(length)}}\n`;
  return `${HEAD(version)}features:\n${feature}plans:\n${each(plans, (i) => `  p${100 + i}: {price: 1, features: }\n`)}`;
}

/** Long feature names in every plan: within the bound on values, far above the bound on stored size. */
export function namesRepeatedByPlans({ features = 60, plans = 3_000 } = {}): string {
  const feature = (i: number) => `  f${i}${text(240)}: {valueType: BOOLEAN, defaultValue: true, type: DOMAIN}\n`;
  return `${HEAD("1.0.0")}features:\n${each(features, feature)}plans:\n${each(plans, (i) => `  p${100 + i}: {price: 1, features: }\n`)}`;
}

/** A name padded with blanks, and many mistakes below it, each of which reports its path. */
export function mistakesBelowLongName({ length = 1_500_000, mistakes = 2_000 } = {}): string {
  return `${HEAD("1.0.0")}${BOARD}plans:\n  "${" ".repeat(length)}PRO":\n    price: 1\n    features:\n${each(mistakes, (i) => `      x${i}: {value: 1}\n`)}`;
}

/** Many features, none of which uses one of the many tags. */
export function unknownTags({ tags = 100_000, features = 12_000 } = {}): string {
  const feature = (i: number) =>
    `  f${100 + i}: {valueType: BOOLEAN, defaultValue: true, type: DOMAIN, tag: u${100_000 + i}}\n`;
  return `${HEAD("1.0.0")}tags: [${each(tags, (i) => `t${100_000 + i},`)}]\nfeatures:\n${each(features, feature)}`;
}

/** An expression of an older syntax with escaped quotes that never close. */
export function unclosedQuotes({ length = 400_000 } = {}): string {
  const expression = `planContext '${String.raw`\\'`.repeat(length / 2)}`;
  return `${HEAD("1.0.0").replace("3.0", "2.1")}features:\n  board: {valueType: BOOLEAN, defaultValue: true, type: DOMAIN, expression: "${expression}"}\n`;
}

/** Many expressions of maximum length, full of escaped quotes that never close. */
export function unclosedQuotesInEach({ expressions = 330 } = {}): string {
  const expression = `'${String.raw`\\'`.repeat(1_990)}`;
  return `${HEAD("1.0.0")}features:\n${each(expressions, (i) => `  f${100 + i}: {valueType: BOOLEAN, defaultValue: true, type: DOMAIN, expression: "${expression}"}\n`)}`;
}

/** Price formulas that compare two long texts repeatedly. */
export function longComparisons({ length = 600_000, plans = 150 } = {}): string {
  const formula = `${"#a==#b&&".repeat(500)}1`;
  return `${HEAD("1.0.0")}variables: {a: ${text(length)}, b: ${text(length)}}\nfeatures: {}\nplans:\n${each(plans, (i) => `  p${100 + i}: {price: "${formula}", features: }\n`)}`;
}

/** A price formula that would concatenate beyond the maximum string length. */
export function longConcatenation({ length = 1_800_000 } = {}): string {
  const formula = `#a.concat(${"#a,".repeat(1_300)}#a) == 'b'`;
  return `${HEAD("1.0.0")}variables: {a: ${text(length)}}\nfeatures: {}\nplans:\n  PRO: {price: "${formula}", features: }\n`;
}

/** Expressions that read the maximum number of limits of a service with a long name, which every answer repeats. */
export function usageReadTooOften({ features = 430, limits = 130 } = {}): string {
  const expression = `${each(limits, (i) => `subscriptionContext['a${100 + i}']<9&&`)}true`;
  const feature = (i: number) =>
    `  f${100 + i}: {valueType: BOOLEAN, defaultValue: true, type: DOMAIN, expression: "${expression}"}\n`;
  const limit = (i: number) =>
    `  a${100 + i}: {valueType: NUMERIC, defaultValue: 5, type: NON_RENEWABLE, trackable: true}\n`;
  const head = HEAD("1.0.0").replace("Hostile", `A${text(254)}`);
  return `${head}features:\n${each(features, feature)}usageLimits:\n${each(limits, limit)}`;
}

/** An alias and a tag with a name of one megabyte. */
export const longAlias = (): string => `${HEAD("1.0.0")}${BOARD}custom: *${text(1_000_000)}\n`;
export const longTag = (): string => `${HEAD("1.0.0")}${BOARD}custom: !${text(1_000_000)} a\n`;

/**
 * Add-ons that extend the same limits, so that configurations multiply. `more` raises the limits for a next version.
 * The smallest takes 3 KB.
 */
export function extensions({
  version = "1.0.0",
  plans = 3,
  features = 5,
  limits = 5,
  addOns = 6,
  maxQuantity = 5_000,
  more = 0,
} = {}): string {
  const level = (i: number) => `limit${i % limits}`;
  const feature = (i: number) =>
    `  feature${i}: {valueType: BOOLEAN, defaultValue: ${i % 2 === 0}, type: DOMAIN, expression: "pricingContext['features']['feature${i}'] && subscriptionContext['${level(i)}'] < pricingContext['usageLimits']['${level(i)}']"}\n`;
  const limit = (i: number) =>
    `  limit${i}: {valueType: NUMERIC, defaultValue: ${10 + i + more}, unit: unit, type: NON_RENEWABLE, trackable: true}\n`;
  const plan = (i: number) =>
    `  plan${i}: {price: ${i + 1}, features: {feature0: {value: true}}, usageLimits: {limit0: {value: ${20 + i}}}}\n`;
  const addOn = (i: number) =>
    `  addOn${i}: {price: ${i + 1}, usageLimitsExtensions: {${each(limits, (n) => `limit${n}: {value: ${((i * 7 + n * 3) % 11) + 1 + more}}, `)}}, subscriptionConstraints: {minQuantity: 1, maxQuantity: ${maxQuantity}, quantityStep: 1}}\n`;
  return `${HEAD(version)}features:\n${each(features, feature)}usageLimits:\n${each(limits, limit)}plans:\n${each(plans, plan)}addOns:\n${each(addOns, addOn)}`;
}

/** As many features as fit into 1.9 MB. */
export function manyFeatures({ version = "1.0.0", features = 29_000 } = {}): string {
  const feature = (i: number) => `  f${100 + i}: {valueType: BOOLEAN, defaultValue: true, type: DOMAIN}\n`;
  return `${HEAD(version)}features:\n${each(features, feature)}plans:\n  plan0: {price: 1, features: }\n`;
}
