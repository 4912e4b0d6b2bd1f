import { readFileSync } from "node:fs";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Configuration } from "../../../../src/core/change/configuration.ts";
import { createSide } from "../../../../src/core/change/entitlements.ts";
import { Impact } from "../../../../src/core/change/impact/impact.ts";
import { compilePricing, trackedLimits } from "../../../../src/core/pricing/compile.ts";
import type { CompiledPricing } from "../../../../src/core/pricing/compile.ts";
import { evaluateFeature, prepareEvaluation } from "../../../../src/core/pricing/evaluate.ts";
import { parsePricing } from "../../../../src/core/pricing/parse/pricing.ts";
import { checkSubscription, grant } from "../../../../src/core/pricing/subscription.ts";
import { everyConfiguration, FEATURES, smallPricing, twoPricings } from "../small-pricings.ts";
import "../../../support/property-seed.ts";

const usageLevels = fc.record({
  tasks: fc.constantFrom(0, 1, 2, 2.5, 3, 4, 5, 6, 10, 11, 25),
  seats: fc.constantFrom(0, 1, 2, 3, 5, 6, 9, 10, 12),
  flag: fc.constantFrom(0, 1),
});
type Levels = Record<string, number>;

/** Evaluates every feature and mode for one contract, without the report's shortcuts. */
function answers(pricing: CompiledPricing, { plan, addOns }: Configuration, levels: Levels): Map<string, boolean> {
  const service = { serviceName: "acme", pricing, grant: grant(pricing, plan, addOns) };
  const evaluation = prepareEvaluation([service]);
  const usage = new Map(trackedLimits(pricing).map(({ name }) => [`acme-${name}`, levels[name] ?? 0]));
  const all = new Map<string, boolean>();
  for (const server of [false, true])
    for (const name of FEATURES)
      all.set(
        `${name} ${server ? "server" : "client"}`,
        evaluateFeature(evaluation, `acme-${name}`, usage, { server }).eval,
      );
  return all;
}

describe("the impact of a change on contracts", { timeout: 120_000 }, () => {
  it("foretells what evaluation answers after the change, contract by contract", () => {
    let flips = 0;
    const scenario = fc.tuple(
      twoPricings,
      fc.array(fc.tuple(fc.nat(999), fc.nat(999), usageLevels, fc.integer({ min: 1, max: 9 })), {
        minLength: 1,
        maxLength: 12,
      }),
      fc.constantFrom("kept" as const, "reset" as const),
      fc.boolean(),
    );
    fc.assert(
      fc.property(scenario, ([[before, after], picks, usage, moves]) => {
        const [old, now] = [compilePricing(before), compilePricing(after)];
        const [sources, targets] = [everyConfiguration(old), everyConfiguration(now)];
        const place = (configuration: Configuration): Configuration | undefined =>
          moves ? targets[JSON.stringify(configuration).length % targets.length] : configuration;
        const impact = new Impact({ before: createSide(old), after: createSide(now), place, usage });
        const wanted = { contracts: 0, turnedOff: 0, over: 0, newlyOver: 0, unplaced: 0, off: 0, on: 0 };
        for (const [pick, , levels, count] of picks) {
          const configuration = sources[pick % sources.length] ?? { addOns: {} };
          impact.add({ configuration, usage: levels, count });
          wanted.contracts += count;
          const target = place(configuration);
          const fits =
            target !== undefined &&
            checkSubscription(now, { serviceName: "acme", version: "1", ...target }).ok &&
            (target.plan !== undefined || after.plans.length === 0);
          if (!fits) wanted.unplaced += count;
          const kept = new Set(trackedLimits(old).map((limit) => limit.name));
          const carried = Object.fromEntries(
            Object.entries(levels).map(([name, value]) => [name, usage === "kept" && kept.has(name) ? value : 0]),
          );
          const was = answers(old, configuration, levels);
          const is = fits ? answers(now, target, carried) : new Map<string, boolean>();
          const off = [...was].filter(([key, on]) => on && is.get(key) !== true).length;
          const on = [...was].filter(([key, each]) => !each && is.get(key) === true).length;
          wanted.off += off * count;
          wanted.on += on * count;
          flips += off + on;
          if (off > 0) wanted.turnedOff += count;
          const limits = trackedLimits(old).map(({ name }) => ({
            consumed: (levels as Levels)[name] ?? 0,
            limit: grant(old, configuration.plan, configuration.addOns).usageLimits.get(name),
            newLimit: fits ? grant(now, target.plan, target.addOns).usageLimits.get(name) : undefined,
          }));
          const over = limits.filter(({ consumed, newLimit }) => typeof newLimit === "number" && consumed > newLimit);
          if (over.length > 0) wanted.over += count;
          if (over.some(({ consumed, limit }) => typeof limit !== "number" || consumed <= limit))
            wanted.newlyOver += count;
        }
        const report = impact.report();
        const { contracts, turnedOff, over, newlyOver, unplaced } = report.counts;
        const flipped = (way: "turnedOff" | "turnedOn"): number =>
          report.configurations
            .flatMap((each) => each.features)
            .reduce((sum, feature) => sum + feature[way].client + feature[way].server, 0);
        expect({
          contracts,
          turnedOff,
          over,
          newlyOver,
          unplaced,
          off: flipped("turnedOff"),
          on: flipped("turnedOn"),
        }).toEqual(wanted);
        expect(impact.contracts).toBe(wanted.contracts);
      }),
      { numRuns: 80 },
    );
    expect(flips).toBeGreaterThan(200);
  });

  it("counts nobody as above an unlimited number, and everybody above a bound that replaces one", () => {
    const pricing = (tasks: string): string => `saasName: Acme
syntaxVersion: "3.0"
createdAt: "2025-03-01"
currency: EUR
features:
  board: { valueType: BOOLEAN, defaultValue: true, type: DOMAIN }
usageLimits:
  tasks: { valueType: NUMERIC, defaultValue: ${tasks}, type: RENEWABLE }
plans:
  PRO: { price: 1, features: null }
`;
    const countsOf = (from: string, to: string) => {
      const [before, after] = [from, to].map((tasks) => {
        const result = parsePricing(pricing(tasks), new Date("2026-01-01T00:00:00Z"));
        if (!result.ok) throw new Error(result.problems[0]?.message);
        return createSide(compilePricing(result.pricing));
      });
      if (before === undefined || after === undefined) throw new Error("two sides");
      const impact = new Impact({ before, after, usage: "kept" });
      impact.add({ configuration: { plan: "PRO", addOns: {} }, usage: { tasks: 200_000_000 } });
      const { over, newlyOver, losing } = impact.report().counts;
      return { over, newlyOver, losing };
    };
    expect(countsOf("5", ".inf")).toEqual({ over: 0, newlyOver: 0, losing: 0 });
    expect(countsOf(".inf", ".inf")).toEqual({ over: 0, newlyOver: 0, losing: 0 });
    expect(countsOf(".inf", "99999999")).toEqual({ over: 1, newlyOver: 1, losing: 1 });
  });

  it("says of the same pricing that nothing happens to anybody, unless consumption restarts", () => {
    fc.assert(
      fc.property(smallPricing, usageLevels, fc.nat(999), (pricing, levels, pick) => {
        const side = createSide(compilePricing(pricing));
        const sources = everyConfiguration(side.pricing);
        const configuration = sources[pick % sources.length] ?? { addOns: {} };
        const impact = new Impact({ before: side, after: side, usage: "kept" });
        impact.add({ configuration, usage: levels });
        const { counts, configurations } = impact.report();
        const untouched = {
          affected: 0,
          gaining: 0,
          losing: 0,
          turnedOff: 0,
          newlyOver: 0,
          payingMore: 0,
          unplaced: 0,
        };
        expect(counts).toMatchObject({ contracts: 1, ...untouched });
        expect(configurations[0]?.features).toEqual([]);
      }),
      { numRuns: 50 },
    );
  });

  it("counts a hundred thousand contracts, no two with the same usage, in seconds", () => {
    const sample = readFileSync(new URL("../../../../src/samples/atlas.yml", import.meta.url), "utf8");
    const [before, after] = [sample, sample.replaceAll(/value: (\d+)00$/gm, "value: $15")].map((text) => {
      const result = parsePricing(text, new Date("2026-01-01T00:00:00Z"));
      if (!result.ok) throw new Error(result.problems[0]?.message);
      return createSide(compilePricing(result.pricing));
    });
    if (before === undefined || after === undefined) throw new Error("two sides were made");
    const plans = before.pricing.pricing.plans.map((plan) => plan.name);
    const limits = [...before.tracked];
    const started = process.cpuUsage();
    const impact = new Impact({ before, after, usage: "kept" });
    for (let index = 0; index < 100_000; index++) {
      const usage: Record<string, number> = {};
      for (const [at, limit] of limits.entries()) usage[limit] = (index * (at + 1)) % 1_009;
      impact.add({ configuration: { plan: plans[index % plans.length] ?? "", addOns: {} }, usage });
    }
    const { counts, configurations } = impact.report();
    // Two seconds of processor time, because other tests may use the cores.
    expect(process.cpuUsage(started).user / 1e6).toBeLessThan(10);
    expect(counts.contracts).toBe(100_000);
    expect(configurations).toHaveLength(plans.length);
    expect(counts.turnedOff).toBeGreaterThan(1_000);
  });
});
