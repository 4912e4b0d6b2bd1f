import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { analyse, clocksOf } from "../../../src/core/change/analysis.ts";
import { everyQuantity } from "../../../src/core/change/space.ts";
import { allowsQuantity } from "../../../src/core/pricing/subscription.ts";
import { finish } from "../../../src/core/steps.ts";
import "../../support/property-seed.ts";

/** One pricing in which each number may be replaced. */
const NUMBERS = {
  limit: 100,
  period: 1,
  planPrice: 10,
  planLimit: 500,
  addOnPrice: 2,
  extension: 50,
  minQuantity: 1,
  maxQuantity: 9,
  quantityStep: 1,
  threshold: 250,
  billing: 1,
} as const;
type Name = keyof typeof NUMBERS;

function pricing(numbers: Readonly<Record<Name, number>>): string {
  return `saasName: Acme
syntaxVersion: "3.0"
version: "1.0"
createdAt: "2025-01-01"
currency: EUR
billing: {monthly: ${numbers.billing}}
features:
  calls: {valueType: BOOLEAN, defaultValue: true, type: DOMAIN, expression: "subscriptionContext['units'] < pricingContext['usageLimits']['units']"}
  bulk: {valueType: BOOLEAN, defaultValue: true, type: DOMAIN, expression: "pricingContext['usageLimits']['units'] > ${numbers.threshold}"}
usageLimits:
  units: {valueType: NUMERIC, defaultValue: ${numbers.limit}, unit: unit, type: RENEWABLE, period: {value: ${numbers.period}, unit: SEC}, linkedFeatures: [calls]}
plans:
  FREE: {price: 0, features: null}
  PRO: {price: ${numbers.planPrice}, features: null, usageLimits: {units: {value: ${numbers.planLimit}}}}
addOns:
  pack:
    availableFor: [PRO]
    price: ${numbers.addOnPrice}
    usageLimitsExtensions: {units: {value: ${numbers.extension}}}
    subscriptionConstraints: {minQuantity: ${numbers.minQuantity}, maxQuantity: ${numbers.maxQuantity}, quantityStep: ${numbers.quantityStep}}
  other:
    availableFor: [PRO]
    price: 1
    usageLimitsExtensions: {units: {value: 3}}
`;
}

const within = clocksOf(() => performance.now());
const upload = (text: string) =>
  finish(
    analyse(
      {
        kind: "upload",
        text,
        now: Date.UTC(2026, 0, 1),
        maxDepth: undefined,
        reviews: true,
        expectations: undefined,
        lintMs: 20,
        expectationsMs: 20,
      },
      within,
    ),
  ).parsed;

/** Searches the best fit of PRO with two packs. */
function propose(before: string, after: string) {
  const configuration = { plan: "PRO", addOns: { pack: 2 } };
  return finish(
    analyse(
      {
        kind: "configurations",
        serviceName: "acme",
        before: { hash: before, text: before },
        after: { hash: after, text: after },
        proposes: true,
        certifies: true,
        items: [{ configuration, place: "bestFit", overrides: [] }],
        limitMs: 20,
      },
      within,
    ),
  );
}

/** Runs everything that reads a pricing's numbers: upload with lint, diff and best fit, both ways. */
function readNumbers(text: string): string {
  const parsed = upload(text);
  const ordinary = upload(pricing(NUMBERS));
  if (!ordinary.ok) throw new Error(JSON.stringify(ordinary.problems));
  if (!parsed.ok) return "refused";
  const [odd, plain] = [JSON.stringify(parsed.pricing), JSON.stringify(ordinary.pricing)];
  for (const [before, after] of [
    [odd, plain],
    [plain, odd],
  ] as const) {
    finish(analyse({ kind: "diff", before, after, format: "json", limitMs: 20 }, within));
    propose(before, after);
  }
  return "accepted";
}

describe("numbers of a pricing", { timeout: 120_000 }, () => {
  it("end every loop that depends on them, from 1e-320 to 1e308", () => {
    const number = fc.oneof(
      fc.integer({ min: -320, max: 308 }).map((exponent) => Number(`1e${exponent}`)),
      fc.double({ min: 5e-324, max: 1e308, noNaN: true }),
      fc.constantFrom(0, 2 ** 53, 2 ** 53 + 2, 1e17, 99_999_999, 1e8),
    );
    const names = fc.subarray(Object.keys(NUMBERS) as Name[], { minLength: 1, maxLength: 3 });
    const seen = new Set<string>();
    fc.assert(
      fc.property(names, fc.array(number, { minLength: 3, maxLength: 3 }), (changed, values) => {
        const replaced = Object.fromEntries(changed.map((name, index) => [name, values[index] ?? 1]));
        seen.add(readNumbers(pricing({ ...NUMBERS, ...replaced })));
      }),
      { numRuns: 300 },
    );
    expect([...seen].sort()).toEqual(["accepted", "refused"]);
  });

  it("propose whole quantities of add-ons, whatever their steps", () => {
    const before = upload(pricing(NUMBERS));
    const step = fc.constantFrom(0.1, 0.25, 0.5, 0.75, 1, 1.5, 2.5);
    fc.assert(
      fc.property(
        step,
        fc.integer({ min: 1, max: 5 }),
        fc.integer({ min: 5, max: 60 }),
        (quantityStep, times, extension) => {
          const minQuantity = Number((quantityStep * times).toPrecision(12));
          const after = upload(pricing({ ...NUMBERS, minQuantity, quantityStep, maxQuantity: 40, extension }));
          if (!before.ok || !after.ok) throw new Error("the pricings are valid");
          const [assessed] = propose(JSON.stringify(before.pricing), JSON.stringify(after.pricing));
          for (const [name, quantity] of Object.entries(assessed?.proposal?.target.addOns ?? {})) {
            expect(Number.isInteger(quantity), String(quantity)).toBe(true);
            const addOn = after.pricing.addOns.find((each) => each.name === name);
            expect(addOn !== undefined && allowsQuantity(addOn, quantity)).toBe(true);
          }
        },
      ),
      { numRuns: 60 },
    );
  });

  it("lists quantities beyond 2^53, where adding a step changes nothing", () => {
    expect(everyQuantity(1e17, 1e17, 1)).toEqual([1e17]);
    expect(everyQuantity(2, 8, 3)).toEqual([2, 5, 8]);
    expect(everyQuantity(5, 2, 1)).toEqual([]);
  });
});
