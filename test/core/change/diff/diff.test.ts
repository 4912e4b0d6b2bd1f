import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Change, ChangeClass } from "../../../../src/core/change/change.ts";
import { featureValueEffect, limitValueEffect } from "../../../../src/core/change/effect.ts";
import { diffPricings } from "../../../../src/core/change/diff/diff.ts";
import type { PricingDiff } from "../../../../src/core/change/diff/diff.ts";
import { compilePricing } from "../../../../src/core/pricing/compile.ts";
import type { CompiledPricing } from "../../../../src/core/pricing/compile.ts";
import { evaluateBoolean, prepareEvaluation } from "../../../../src/core/pricing/evaluate.ts";
import type { Pricing } from "../../../../src/core/pricing/model.ts";
import { checkSubscription, grant } from "../../../../src/core/pricing/subscription.ts";
import { everyConfiguration, FEATURES, LIMITS, smallPricing, twoPricings } from "../small-pricings.ts";
import "../../../support/property-seed.ts";

const TURNED: Readonly<Record<ChangeClass, ChangeClass>> = {
  widening: "narrowing",
  narrowing: "widening",
  neutral: "neutral",
  incompatible: "incompatible",
};

function mirror(changes: readonly Change[]): Change[] {
  return changes.map((change) => ({
    ...change,
    class: TURNED[change.class],
    before: change.after,
    after: change.before,
  }));
}

/** Shuffles the pricing's lists and the keys of its records. */
function reordered(pricing: Pricing, seed: number): Pricing {
  const shuffle = <Item>(items: readonly Item[]): Item[] =>
    items
      .map((item, index) => ({ item, rank: Math.sin(seed * 31 + index * 17) }))
      .sort((one, other) => one.rank - other.rank)
      .map(({ item }) => item);
  const touched = pricing.addOns.flatMap((addOn) => [
    ...Object.keys(addOn.features),
    ...Object.keys(addOn.usageLimits),
  ]);
  // When two add-ons replace the same value, their order in the file decides.
  const movable = new Set(touched).size === touched.length;
  return {
    ...pricing,
    features: shuffle(pricing.features),
    usageLimits: shuffle(pricing.usageLimits),
    plans: shuffle(pricing.plans),
    addOns: (movable ? shuffle(pricing.addOns) : pricing.addOns).map((addOn) =>
      Object.assign({}, addOn, { availableFor: shuffle(addOn.availableFor), excludes: shuffle(addOn.excludes) }),
    ),
  };
}

function classesOf(diff: PricingDiff, subject: string, name: string, aspect: string): ChangeClass[] {
  return diff.changes
    .filter((change) => change.subject === subject && change.name === name && change.aspect === aspect)
    .map((change) => change.class);
}

function commonConfigurations(before: CompiledPricing, after: CompiledPricing) {
  return everyConfiguration(before).filter(
    (configuration) =>
      checkSubscription(after, { serviceName: "acme", version: "1", ...configuration }).ok &&
      before.pricing.plans.length > 0 === after.pricing.plans.length > 0,
  );
}

describe("the diff of two pricings", { timeout: 120_000 }, () => {
  it("has, the other way round, the same changes turned around", () => {
    fc.assert(
      fc.property(twoPricings, ([before, after]) => {
        const [there, back] = [diffPricings(before, after), diffPricings(after, before)];
        expect(mirror(there.changes)).toEqual(back.changes);
        expect(there.space).toEqual(back.space);
      }),
      { numRuns: 80 },
    );
  });

  it("is empty for equal pricings and for those that differ in order alone", () => {
    fc.assert(
      fc.property(smallPricing, fc.nat(1_000), (pricing, seed) => {
        const diff = diffPricings(pricing, reordered(pricing, seed));
        expect(diff.changes).toEqual([]);
        expect(diff).toMatchObject({ class: null, suggestion: { step: "none", version: null } });
      }),
      { numRuns: 100 },
    );
  });

  it("does not depend on the order in which the pricings are written", () => {
    fc.assert(
      fc.property(twoPricings, fc.nat(1_000), ([before, after], seed) => {
        expect(diffPricings(reordered(before, seed), reordered(after, seed + 1))).toEqual(diffPricings(before, after));
      }),
      { numRuns: 60 },
    );
  });

  it("finds a limit raised or lowered exactly when some configuration, of all of them, has it so", () => {
    let seen = 0;
    fc.assert(
      fc.property(twoPricings, ([before, after]) => {
        const [old, now] = [compilePricing(before), compilePricing(after)];
        const diff = diffPricings(before, after);
        const common = commonConfigurations(old, now);
        for (const name of LIMITS) {
          if (!old.usageLimits.has(name) || !now.usageLimits.has(name)) continue;
          const effects = new Set(
            common.map(({ plan, addOns }) =>
              limitValueEffect(
                grant(old, plan, addOns).usageLimits.get(name),
                grant(now, plan, addOns).usageLimits.get(name),
              ),
            ),
          );
          const classes = classesOf(diff, "usageLimit", name, "value");
          expect(classes.includes("narrowing")).toBe(effects.has("less"));
          expect(classes.includes("widening")).toBe(effects.has("more"));
          seen += Number(effects.has("less")) + Number(effects.has("more"));
        }
      }),
      { numRuns: 80 },
    );
    expect(seen).toBeGreaterThan(50);
  });

  it("misses no configuration and usage at which a feature goes on or off", () => {
    let flips = 0;
    const usage = fc.record({
      tasks: fc.constantFrom(0, 0.5, 1, 2, 3, 5, 10, 11),
      seats: fc.constantFrom(0, 1, 2, 5, 9),
    });
    fc.assert(
      fc.property(twoPricings, usage, ([before, after], levels) => {
        const [old, now] = [compilePricing(before), compilePricing(after)];
        const diff = diffPricings(before, after);
        for (const { plan, addOns } of commonConfigurations(old, now)) {
          const [was, is] = [old, now].map((pricing) => {
            const granted = grant(pricing, plan, addOns);
            const evaluation = prepareEvaluation([{ serviceName: "acme", pricing, grant: granted }]);
            const tracked = pricing.pricing.usageLimits.filter((each) => each.period !== undefined || each.trackable);
            const known = new Map(
              tracked.map((each) => [`acme-${each.name}`, levels[each.name as keyof typeof levels] ?? 0]),
            );
            return {
              granted,
              ask: (name: string) => evaluateBoolean(evaluation, `acme-${name}`, known, { server: true }),
            };
          });
          if (was === undefined || is === undefined) continue;
          for (const name of FEATURES) {
            if (!old.features.has(name) || !now.features.has(name)) continue;
            const lost = was.ask(name) && !is.ask(name);
            const gained = !was.ask(name) && is.ask(name);
            const limits = diff.changes
              .filter((change) => change.subject === "usageLimit")
              .map((change) => change.class);
            const told = [...classesOf(diff, "feature", name, "access"), ...limits];
            if (lost) expect(told.some((each) => each === "narrowing" || each === "incompatible")).toBe(true);
            if (gained) expect(told.some((each) => each === "widening" || each === "incompatible")).toBe(true);
            flips += Number(lost) + Number(gained);
            const evaluated = [old, now].some((pricing) => pricing.features.get(name)?.server !== undefined);
            const effect = featureValueEffect(was.granted.features.get(name), is.granted.features.get(name));
            if (!evaluated && effect === "less")
              expect(classesOf(diff, "feature", name, "value")).toContain("narrowing");
          }
        }
      }),
      { numRuns: 80 },
    );
    expect(flips).toBeGreaterThan(50);
  });
});
