import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { diffPricings } from "../../../../src/core/change/diff/diff.ts";
import { lintPricing } from "../../../../src/core/change/lint/lint.ts";
import { compilePricing } from "../../../../src/core/pricing/compile.ts";
import { evaluateBoolean, prepareEvaluation } from "../../../../src/core/pricing/evaluate.ts";
import type { Pricing } from "../../../../src/core/pricing/model.ts";
import { grant } from "../../../../src/core/pricing/subscription.ts";
import { everyConfiguration, pricingFrom } from "../small-pricings.ts";
import "../../../support/property-seed.ts";

const SEATS = "pricingContext['usageLimits']['seats']";
/** Of the generated add-ons. */
const LARGEST_QUANTITY = 16;

interface AddOn {
  extension: number;
  minQuantity: number;
  maxQuantity: number;
  quantityStep: number;
}

/** A pricing whose feature `bulk` depends on the number of seats, which add-ons extend. */
function seatPricing(condition: string, seats: readonly number[], addOns: readonly AddOn[]): Pricing {
  const plans = seats.map((value, index) => [`PLAN${index}`, { price: index, usageLimits: { seats: { value } } }]);
  return pricingFrom({
    features: {
      bulk: {
        valueType: "BOOLEAN",
        defaultValue: true,
        type: "DOMAIN",
        expression: `pricingContext['features']['bulk'] && ${condition}`,
      },
    },
    usageLimits: { seats: { valueType: "NUMERIC", defaultValue: 1, type: "NON_RENEWABLE" } },
    plans: Object.fromEntries(plans.map(([name, plan]) => [name, { features: {}, ...(plan as object) }])),
    addOns: Object.fromEntries(
      addOns.map(({ extension, ...subscriptionConstraints }, index) => [
        `pack${index}`,
        {
          price: 1,
          availableFor: plans.map(([name]) => name),
          usageLimitsExtensions: { seats: { value: extension } },
          subscriptionConstraints,
        },
      ]),
    ),
  });
}

/** Evaluates the feature for every plan and every quantity of every add-on. */
function isOnEverywhere(pricing: Pricing): Map<string, boolean> {
  const compiled = compilePricing(pricing);
  const serviceName = pricing.saasName.toLowerCase();
  return new Map(
    everyConfiguration(compiled, LARGEST_QUANTITY).map((configuration) => {
      const granted = grant(compiled, configuration.plan, configuration.addOns);
      const evaluation = prepareEvaluation([{ serviceName, pricing: compiled, grant: granted }]);
      const isOn = evaluateBoolean(evaluation, `${serviceName}-bulk`, new Map(), { server: false });
      return [JSON.stringify(configuration), isOn];
    }),
  );
}

const number = fc.integer({ min: -2, max: 24 });
const condition = fc
  .tuple(fc.constantFrom("<", "<=", ">", ">=", "===", "!==", "=="), number, number)
  .chain(([operator, one, two]) =>
    fc.oneof(
      { weight: 6, arbitrary: fc.constant(`${SEATS} ${operator} ${one}`) },
      { weight: 2, arbitrary: fc.constant(`${one} ${operator} ${SEATS}`) },
      { weight: 2, arbitrary: fc.constant(`(${SEATS} ${operator} ${one} || ${SEATS} >= ${two})`) },
      { weight: 1, arbitrary: fc.constant(`${SEATS} - ${two} ${operator} ${one}`) },
      { weight: 1, arbitrary: fc.constant(`${SEATS} % 3 === 1`) },
      { weight: 1, arbitrary: fc.constant(`!(${SEATS} ${operator} -${Math.abs(one)})`) },
    ),
  );
const addOn: fc.Arbitrary<AddOn> = fc
  .tuple(fc.constantFrom(1, 2, 3, 0.5, -1), fc.constantFrom(1, 1, 2, 3), fc.integer({ min: 1, max: 2 }), fc.nat(10))
  .map(([extension, quantityStep, times, more]) => {
    const minQuantity = quantityStep * times;
    return { extension, quantityStep, minQuantity, maxQuantity: minQuantity + more };
  });
const seats = fc.array(fc.integer({ min: 0, max: 12 }), { minLength: 1, maxLength: 2 });

describe("an expression that compares an extended limit", () => {
  it("is compared at the quantities at which it flips", () => {
    const pack = [{ extension: 2, minQuantity: 1, maxQuantity: 10, quantityStep: 1 }];
    const diff = diffPricings(seatPricing(`${SEATS} >= 7`, [1], pack), seatPricing(`${SEATS} >= 12`, [1], pack));
    expect(diff).toMatchObject({ class: "narrowing", space: { complete: true } });
    expect(diff.changes).toMatchObject([{ name: "bulk", aspect: "access", configurations: 3, addOns: { pack0: 3 } }]);
  });

  it("is dead only if no quantity turns it on", () => {
    const pack = [{ extension: 2, minQuantity: 1, maxQuantity: 10, quantityStep: 1 }];
    const codes = (text: string) => lintPricing(seatPricing(text, [1], pack)).map(({ code }) => code);
    expect(codes(`${SEATS} === 7`)).not.toContain("dead-feature");
    expect(codes(`${SEATS} === 8`)).toContain("dead-feature");
  });

  it("cannot be compared completely when too many quantities matter", () => {
    const pack = [{ extension: 2, minQuantity: 1, maxQuantity: 5_000, quantityStep: 1 }];
    const diff = diffPricings(
      seatPricing(`${SEATS} % 700 === 1`, [1], pack),
      seatPricing(`${SEATS} % 700 === 3`, [1], pack),
    );
    expect(diff.space).toMatchObject({ complete: false });
    expect(diff.space.capped).toContain("feature bulk");
  });

  it("loses and gains exactly what evaluating every quantity shows, whenever the result is complete", () => {
    const seen = { complete: 0, losses: 0 };
    fc.assert(
      fc.property(
        condition,
        condition,
        seats,
        fc.array(addOn, { minLength: 1, maxLength: 2 }),
        (before, after, plans, addOns) => {
          const [old, now] = [seatPricing(before, plans, addOns), seatPricing(after, plans, addOns)];
          const [was, is] = [isOnEverywhere(old), isOnEverywhere(now)];
          const isLost = [...was].some(([key, isOn]) => isOn && is.get(key) === false);
          const isGained = [...was].some(([key, isOn]) => !isOn && is.get(key) === true);
          const diff = diffPricings(old, now);
          const classes = diff.changes.filter((each) => each.aspect === "access").map((each) => each.class);
          const told = {
            isLost: classes.includes("narrowing") || classes.includes("incompatible"),
            isGained: classes.includes("widening") || classes.includes("incompatible"),
          };
          if (diff.space.complete) expect(told).toEqual({ isLost, isGained });
          if (told.isLost) expect(isLost).toBe(true);
          if (told.isGained) expect(isGained).toBe(true);
          seen.complete += Number(diff.space.complete);
          seen.losses += Number(isLost);
          for (const [pricing, on] of [
            [old, was],
            [now, is],
          ] as const)
            if (lintPricing(pricing).some(({ code }) => code === "dead-feature" || code === "never-true"))
              expect([...on.values()]).not.toContain(true);
        },
      ),
      { numRuns: 400 },
    );
    expect(seen.complete).toBeGreaterThan(380);
    expect(seen.losses).toBeGreaterThan(100);
  });
});
