import * as fc from "fast-check";
import type { CompiledPricing } from "../../../src/core/pricing/compile.ts";
import type { Pricing } from "../../../src/core/pricing/model.ts";
import type { Override } from "../../../src/core/pricing/overrides.ts";
import { parsePricing } from "../../../src/core/pricing/parse/pricing.ts";
import { allowsQuantity, checkSubscription } from "../../../src/core/pricing/subscription.ts";
import type { Configuration } from "../../../src/core/change/configuration.ts";

/*
 * Small pricings in which everything may depend on everything. Few names make two of them overlap, and few quantities
 * keep every configuration listable.
 */

export const FEATURES = ["board", "export", "sla", "rank"] as const;
export const LIMITS = ["tasks", "seats", "flag"] as const;
const PLANS = ["FREE", "PRO", "TEAM"] as const;
const ADD_ONS = ["packA", "packB", "packC", "packD"] as const;
const BOOLEANS = ["board", "export"] as const;
const NUMBERS = ["tasks", "seats"] as const;

const feature = (name: string): string => `pricingContext['features']['${name}']`;
const limit = (name: string): string => `pricingContext['usageLimits']['${name}']`;
const used = (name: string): string => `subscriptionContext['${name}']`;

const expression = fc.oneof(
  fc.constantFrom(...BOOLEANS).map(feature),
  fc
    .tuple(fc.constantFrom(...BOOLEANS), fc.constantFrom(...NUMBERS), fc.constantFrom("<", "<=", "!=="))
    .map(([name, counted, operator]) => `${feature(name)} && ${used(counted)} ${operator} ${limit(counted)}`),
  fc.constantFrom(
    `${used("tasks")} < ${limit("tasks")} && ${used("seats")} <= ${limit("seats")}`,
    `${used("tasks")} + 1 <= ${limit("tasks")} || ${feature("export")}`,
    `${limit("seats")} - 1 > ${used("seats")} ? ${feature("board")} : ${feature("export")}`,
    `${feature("sla")} === '99%'`,
    `!${used("seats")} && ${feature("board")}`,
    `${limit("flag")} && !(${used("tasks")} >= 3)`,
    `${used("tasks")} * 2 < ${limit("tasks")}`,
    `${limit("tasks")} >= 4 || ${feature("board")}`,
    `!(${limit("seats")} > 3) && ${used("seats")} < ${limit("seats")}`,
    `${feature("missing")} && ${feature("board")}`,
    `pricingContext["features"]["acme-export"] && ${feature("board")}`,
    `${feature("sla")}`,
    "true",
  ),
);

const amount = fc.constantFrom(0, 1, 2, 3, 5, 10, 100_000_000);
const text = fc.constantFrom("99%", "99.9%");

/** Some entries of a record of arbitraries, each wrapped as an override. */
function overrides(values: Record<string, fc.Arbitrary<unknown>>) {
  return fc.record(
    Object.fromEntries(Object.entries(values).map(([name, value]) => [name, value.map((each) => ({ value: each }))])),
    { requiredKeys: [] },
  );
}

const FEATURE_VALUES = { board: fc.boolean(), export: fc.boolean(), sla: text, rank: amount };
const LIMIT_VALUES = { tasks: amount, seats: amount, flag: fc.boolean() };
const price = fc.oneof({ weight: 6, arbitrary: fc.integer({ min: 0, max: 9 }) }, fc.constant("Contact sales"));

function featureOf(valueType: string, value: fc.Arbitrary<unknown>) {
  return fc.record(
    {
      valueType: fc.constant(valueType),
      defaultValue: value,
      type: fc.constant("DOMAIN"),
      expression,
      serverExpression: expression,
    },
    { requiredKeys: ["valueType", "defaultValue", "type"] },
  );
}

function limitOf(valueType: string, value: fc.Arbitrary<unknown>) {
  return fc
    .tuple(
      value,
      fc.constantFrom(
        { type: "RENEWABLE", period: { value: 1, unit: "DAY" } },
        { type: "RENEWABLE", period: { value: 1, unit: "MONTH" } },
        { type: "NON_RENEWABLE", trackable: true },
        { type: "NON_RENEWABLE", trackable: false },
      ),
      fc.constantFrom([], ["board"], ["sla"]),
    )
    .map(([defaultValue, kind, linkedFeatures]) => ({ valueType, defaultValue, ...kind, linkedFeatures }));
}

const constraints = fc.constantFrom(
  { minQuantity: 1, maxQuantity: 1 },
  { minQuantity: 1, maxQuantity: 3 },
  { minQuantity: 2, maxQuantity: 4, quantityStep: 2 },
  { minQuantity: 2, maxQuantity: 3 },
);

interface Parts {
  features: Record<string, unknown>;
  usageLimits: Record<string, unknown>;
  plans: Record<string, unknown>;
  addOns: Record<
    string,
    Record<string, unknown> & { availableFor?: string[]; dependsOn: string[]; excludes: string[] }
  >;
}

const addOn = fc
  .record(
    {
      price,
      availableFor: fc.subarray([...PLANS], { minLength: 1 }),
      dependsOn: fc.oneof({ weight: 3, arbitrary: fc.constant([]) }, fc.subarray([...ADD_ONS], { maxLength: 1 })),
      excludes: fc.oneof({ weight: 3, arbitrary: fc.constant([]) }, fc.subarray([...ADD_ONS], { maxLength: 2 })),
      private: fc.oneof({ weight: 8, arbitrary: fc.constant(false) }, fc.constant(true)),
      features: overrides(FEATURE_VALUES),
      usageLimits: fc.oneof({ weight: 2, arbitrary: fc.constant({}) }, overrides(LIMIT_VALUES)),
      usageLimitsExtensions: overrides({ tasks: amount, seats: amount }),
      subscriptionConstraints: constraints,
    },
    { requiredKeys: ["price", "dependsOn", "excludes", "features", "usageLimits", "usageLimitsExtensions"] },
  )
  // Few quantities, so that every configuration can be listed.
  .map((parts) => ({ subscriptionConstraints: { minQuantity: 1, maxQuantity: 2 }, ...parts }));

/** Drops names that the pricing lacks, so that the parser accepts it. */
function consistent(parts: Parts): Parts {
  const only = (values: unknown, names: Record<string, unknown>) =>
    Object.fromEntries(Object.entries((values ?? {}) as object).filter(([name]) => Object.hasOwn(names, name)));
  for (const each of Object.values(parts.usageLimits) as { linkedFeatures: string[] }[])
    each.linkedFeatures = each.linkedFeatures.filter((name) => Object.hasOwn(parts.features, name));
  for (const owner of [...Object.values(parts.plans), ...Object.values(parts.addOns)] as Record<string, unknown>[]) {
    owner["features"] = only(owner["features"], parts.features);
    for (const field of ["usageLimits", "usageLimitsExtensions"])
      if (Object.hasOwn(owner, field)) owner[field] = only(owner[field], parts.usageLimits);
  }
  for (const [name, each] of Object.entries(parts.addOns)) {
    const size = ["features", "usageLimits", "usageLimitsExtensions"].map((field) =>
      Object.keys(each[field] as object),
    );
    if (size.flat().length === 0) delete parts.addOns[name];
  }
  for (const [name, each] of Object.entries(parts.addOns)) {
    if (each.availableFor !== undefined)
      each.availableFor = each.availableFor.filter((plan) => Object.hasOwn(parts.plans, plan));
    for (const field of ["dependsOn", "excludes"] as const)
      each[field] = each[field].filter((other) => other !== name && Object.hasOwn(parts.addOns, other));
  }
  return parts;
}

const rawParts = fc.record({
  features: fc.record(
    {
      board: featureOf("BOOLEAN", fc.boolean()),
      export: featureOf("BOOLEAN", fc.boolean()),
      sla: featureOf("TEXT", text),
      rank: featureOf("NUMERIC", amount),
    },
    { requiredKeys: ["board"] },
  ),
  usageLimits: fc.record(
    { tasks: limitOf("NUMERIC", amount), seats: limitOf("NUMERIC", amount), flag: limitOf("BOOLEAN", fc.boolean()) },
    { requiredKeys: ["tasks"] },
  ),
  plans: fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record(
        Object.fromEntries(
          PLANS.map((name) => [
            name,
            fc.record({
              price,
              private: fc.oneof({ weight: 8, arbitrary: fc.constant(false) }, fc.constant(true)),
              features: overrides(FEATURE_VALUES),
              usageLimits: overrides(LIMIT_VALUES),
            }),
          ]),
        ),
        { requiredKeys: ["FREE"] },
      ),
    },
    fc.constant({}),
  ),
  addOns: fc.record(Object.fromEntries(ADD_ONS.map((name) => [name, addOn])), { requiredKeys: [] }),
});

/** Pricings of the service Acme, which fast-check shrinks to a minimal example. */
export const smallPricing: fc.Arbitrary<Pricing> = rawParts.map((parts) =>
  pricingFrom(consistent(structuredClone(parts) as Parts)),
);

/** Pairs of pricings: unrelated, or the second derived from the first like a next version. */
export const twoContents: fc.Arbitrary<readonly [object, object]> = fc
  .tuple(rawParts, rawParts, fc.integer({ min: 0, max: 3 }))
  .map(([one, other, common]) => {
    const next = {
      features: common > 0 ? one.features : other.features,
      usageLimits: common > 0 ? one.usageLimits : other.usageLimits,
      plans: common > 2 ? { ...other.plans, ...one.plans } : other.plans,
      addOns: common > 1 ? { ...one.addOns, ...other.addOns } : other.addOns,
    };
    return [consistent(structuredClone(one) as Parts), consistent(structuredClone(next) as Parts)] as const;
  });

export const twoPricings: fc.Arbitrary<readonly [Pricing, Pricing]> = twoContents.map(
  ([one, other]) => [pricingFrom(one), pricingFrom(other)] as const,
);

/** Formats the content as a file. */
export function fileOf(content: object, header: object = {}): string {
  return JSON.stringify({
    saasName: "Acme",
    syntaxVersion: "3.0",
    version: "1.0.0",
    createdAt: "2025-01-01",
    currency: "EUR",
    ...header,
    ...content,
  });
}

/** Parses the content, so that tests cover only pricings that could be uploaded. */
export function pricingFrom(content: object, header: object = {}): Pricing {
  const result = parsePricing(fileOf(content, header), new Date("2026-01-01T00:00:00Z"));
  if (!result.ok) throw new Error(result.problems.map((each) => `${each.path}: ${each.message}`).join("\n"));
  return result.pricing;
}

/** Lists every valid configuration, with quantities up to five. */
export function everyConfiguration(pricing: CompiledPricing, largestQuantity = 5): Configuration[] {
  const found: Configuration[] = [];
  const plans = pricing.pricing.plans.length === 0 ? [undefined] : pricing.pricing.plans.map((plan) => plan.name);
  const visit = (plan: string | undefined, rest: Pricing["addOns"], addOns: Record<string, number>): void => {
    const [next, ...others] = rest;
    if (next === undefined) {
      const choice = { serviceName: "acme", version: "1", ...(plan === undefined ? {} : { plan }), addOns };
      if (checkSubscription(pricing, choice).ok) found.push(plan === undefined ? { addOns } : { plan, addOns });
      return;
    }
    visit(plan, others, addOns);
    for (let quantity = 1; quantity <= largestQuantity; quantity++)
      if (allowsQuantity(next, quantity)) visit(plan, others, { ...addOns, [next.name]: quantity });
  };
  for (const plan of plans) visit(plan, pricing.pricing.addOns, {});
  return found;
}

/** Overrides of a contract, as positions in the lists of elements and of values. */
export const overridePicks = fc.oneof(
  { weight: 2, arbitrary: fc.constant([]) },
  {
    weight: 3,
    arbitrary: fc.array(fc.record({ element: fc.nat(99), value: fc.nat(99) }), { minLength: 1, maxLength: 3 }),
  },
);

/** Chooses overrides that the elements of a pricing can have. */
export function chosenOverrides(
  { features, usageLimits }: Pricing,
  picks: readonly { element: number; value: number }[],
): Override[] {
  const elements = [
    ...features.map((element) => ({ kind: "features" as const, element })),
    ...usageLimits.map((element) => ({ kind: "usageLimits" as const, element })),
  ];
  return picks.flatMap(({ element: place, value: number }): Override[] => {
    const picked = elements[place % elements.length];
    if (picked === undefined) return [];
    const { kind, element } = picked;
    const { name, defaultValue } = element;
    const of = <T>(...values: T[]): T => values[number % values.length] as T;
    if (typeof defaultValue === "boolean") return [{ kind, name, mode: "set", value: of(true, false) }];
    if (typeof defaultValue === "string") return [{ kind, name, mode: "set", value: of("99%", "99.9%", defaultValue) }];
    if (typeof defaultValue !== "number")
      return [{ kind, name, mode: "set", value: of(["CARD"], ["CARD", "INVOICE"]) }];
    if (kind === "features") return [{ kind, name, mode: "set", value: of(0, 5, 60) }];
    return [
      of({ mode: "set" as const, value: of(0, 4, 9, 100_000_000) }, { mode: "add" as const, value: of(-6, -3, 2, 7) }),
    ].map((change) => ({ kind, name, ...change }));
  });
}
