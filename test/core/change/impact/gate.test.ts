import { describe, expect, it } from "vitest";
import { checkGate, gateRules } from "../../../../src/core/change/impact/gate.ts";
import { createSide } from "../../../../src/core/change/entitlements.ts";
import { Impact } from "../../../../src/core/change/impact/impact.ts";
import type { ImpactReport } from "../../../../src/core/change/impact/report.ts";
import { compilePricing } from "../../../../src/core/pricing/compile.ts";
import { pricingFrom } from "../small-pricings.ts";

const TASKS = "subscriptionContext['tasks'] < pricingContext['usageLimits']['tasks']";

function pricing(plans: Record<string, { price: number; tasks: number; export: boolean }>) {
  return createSide(
    compilePricing(
      pricingFrom({
        features: {
          board: { valueType: "BOOLEAN", defaultValue: true, type: "DOMAIN", expression: TASKS },
          export: { valueType: "BOOLEAN", defaultValue: false, type: "DOMAIN" },
        },
        usageLimits: { tasks: { valueType: "NUMERIC", defaultValue: 1, type: "RENEWABLE" } },
        plans: Object.fromEntries(
          Object.entries(plans).map(([name, plan]) => [
            name,
            {
              price: plan.price,
              features: { export: { value: plan.export } },
              usageLimits: { tasks: { value: plan.tasks } },
            },
          ]),
        ),
      }),
    ),
  );
}

/** 100 contracts: PRO loses a feature and tasks and costs 10 % more, TEAM costs 1 % more, GONE has no target. */
function report(): ImpactReport {
  const before = pricing({
    PRO: { price: 10, tasks: 100, export: true },
    TEAM: { price: 100, tasks: 500, export: true },
    GONE: { price: 1, tasks: 1, export: false },
  });
  const after = pricing({
    PRO: { price: 11, tasks: 50, export: false },
    TEAM: { price: 101, tasks: 500, export: true },
  });
  const impact = new Impact({ before, after, usage: "kept" });
  impact.add({ configuration: { plan: "PRO", addOns: {} }, usage: { tasks: 10 }, count: 8 });
  impact.add({ configuration: { plan: "pro", addOns: {} }, usage: { tasks: 50 } });
  impact.add({ configuration: { plan: "PRO", addOns: {} }, usage: { tasks: 60 } });
  impact.add({ configuration: { plan: "TEAM", addOns: {} }, usage: { tasks: 501 }, count: 88 });
  impact.add({ configuration: { plan: "GONE", addOns: {} }, usage: {}, count: 2 });
  return impact.report();
}

describe("a gate", () => {
  it.each([
    [{ rule: "noFeatureLost" }, false, 12],
    [{ rule: "noFeatureLost", features: ["board"] }, false, 2],
    [{ rule: "noFeatureLost", features: ["export"], atMost: { contracts: 10 } }, true, 10],
    [{ rule: "noFeatureLost", features: ["other"] }, true, 0],
    [{ rule: "noQuotaLost", atMost: { percent: 2 } }, false, 12],
    [{ rule: "noQuotaLost", atMost: { percent: 12 } }, true, 12],
    [{ rule: "noQuotaLost", atMost: { percent: 12, contracts: 11 } }, false, 12],
    [{ rule: "noQuotaLost", limits: ["seats"] }, true, 0],
    [{ rule: "nobodyAboveLimit" }, false, 89],
    [{ rule: "nobodyNewlyAboveLimit" }, false, 1],
    [{ rule: "nothingTurnedOff" }, false, 4],
    [{ rule: "noPriceRise" }, false, 98],
    [{ rule: "noPriceRise", byMoreThanPercent: 1 }, false, 10],
    [{ rule: "noPriceRise", byMoreThanPercent: 10 }, true, 0],
    [{ rule: "everyContractIsPlaced" }, false, 2],
    [{ rule: "nobodyLoses", atMost: { percent: 50 } }, true, 12],
  ])("with the rule %j: passed is %s, for %i contracts of 100", (rule, passed, contracts) => {
    const rules = gateRules.parse([rule]);
    expect(checkGate(report(), rules)).toMatchObject([{ rule, passed, contracts, percent: contracts }]);
  });

  it("gives the reason with its numbers and the configurations that break a rule most", () => {
    const [result] = checkGate(report(), gateRules.parse([{ rule: "noFeatureLost", atMost: { percent: 2 } }]));
    expect(result?.reason).toBe("12 of 100 contracts (12 %) lose a feature; at most 2 % may: PRO (10), GONE (2)");
  });

  it.each([
    [7, 100, 7, true],
    [435, 10_000, 4.35, true],
    [1, 1_000_000, 0.0001, true],
    [436, 10_000, 4.35, false],
    [8, 100, 7.999_999, false],
  ])(
    "%i contracts of %i that lose are compared exactly with at most %d percent: %s",
    (losing, total, percent, passed) => {
      const before = pricing({
        PRO: { price: 1, tasks: 2, export: true },
        FREE: { price: 0, tasks: 1, export: false },
      });
      const after = pricing({
        PRO: { price: 1, tasks: 2, export: false },
        FREE: { price: 0, tasks: 1, export: false },
      });
      const impact = new Impact({ before, after, usage: "kept" });
      impact.add({ configuration: { plan: "PRO", addOns: {} }, usage: {}, count: losing });
      impact.add({ configuration: { plan: "FREE", addOns: {} }, usage: {}, count: total - losing });
      const rules = gateRules.parse([{ rule: "noFeatureLost", atMost: { percent } }]);
      expect(checkGate(impact.report(), rules)[0]?.passed).toBe(passed);
    },
  );

  it("tolerates a price rise of exactly the given percent", () => {
    const priced = (price: number) => pricing({ PRO: { price, tasks: 1, export: true } });
    const impact = new Impact({ before: priced(100), after: priced(115), usage: "kept" });
    impact.add({ configuration: { plan: "PRO", addOns: {} }, usage: {} });
    const rules = gateRules.parse([{ rule: "noPriceRise", byMoreThanPercent: 15 }]);
    expect(checkGate(impact.report(), rules)[0]?.passed).toBe(true);
  });

  it("counts what is only different as neither gained nor lost, and lets one rule forbid it", () => {
    const selling = (sla: string, pay: string[]) =>
      createSide(
        compilePricing(
          pricingFrom({
            features: {
              sla: { valueType: "TEXT", defaultValue: sla, type: "GUARANTEE" },
              pay: { valueType: "TEXT", defaultValue: pay, type: "PAYMENT" },
            },
            plans: { PRO: { price: 1, features: {} } },
          }),
        ),
      );
    const counted = (before: ReturnType<typeof selling>, after: ReturnType<typeof selling>) => {
      const impact = new Impact({ before, after, usage: "kept" });
      impact.add({ configuration: { plan: "PRO", addOns: {} }, usage: {} });
      const report = impact.report();
      const { affected, gaining, losing, differing } = report.counts;
      const rules = gateRules.parse([{ rule: "nobodyLoses" }, { rule: "nothingDifferent" }]);
      return [affected, gaining, losing, differing, ...checkGate(report, rules).map(({ passed }) => passed)];
    };
    expect(counted(selling("99 %", ["CARD"]), selling("99.9 %", ["CARD"]))).toEqual([1, 0, 0, 1, true, false]);
    expect(counted(selling("99.90%", ["CARD"]), selling("99.9 %", ["CARD"]))).toEqual([0, 0, 0, 0, true, true]);
    // One payment method for another is a gain and a loss.
    expect(counted(selling("99 %", ["CARD"]), selling("99 %", ["ACH"]))).toEqual([1, 1, 1, 0, false, true]);
  });

  it("judges balances after the change: those that it resets are above no limit", () => {
    const [before, after] = [10, 5].map((tasks) => pricing({ PRO: { price: 1, tasks, export: true } }));
    if (before === undefined || after === undefined) throw new Error("two pricings");
    const results = (["kept", "reset"] as const).map((usage) => {
      const impact = new Impact({ before, after, usage });
      impact.add({ configuration: { plan: "PRO", addOns: {} }, usage: { tasks: 7 }, count: 3 });
      return checkGate(
        impact.report(),
        gateRules.parse([{ rule: "nobodyAboveLimit" }, { rule: "nobodyNewlyAboveLimit" }]),
      );
    });
    expect(results.map((each) => each.map(({ passed, contracts }) => [passed, contracts]))).toEqual([
      [
        [false, 3],
        [false, 3],
      ],
      [
        [true, 0],
        [true, 0],
      ],
    ]);
    expect(results[1]?.[0]?.reason).toBe(
      "0 of 3 contracts (0 %) are above a limit afterwards; at most 0 may; the present usage of 3 exceeds one, but the change resets it",
    );
  });

  it("counts one contract as a contract", () => {
    const before = pricing({ PRO: { price: 1, tasks: 1, export: true } });
    const after = pricing({ PRO: { price: 2, tasks: 1, export: true } });
    const impact = new Impact({ before, after, usage: "kept" });
    impact.add({ configuration: { plan: "PRO", addOns: {} }, usage: {} });
    const [result] = checkGate(impact.report(), [{ rule: "noPriceRise" }]);
    expect(result?.reason).toBe("1 of 1 contract (100 %) pay more; at most 0 may: PRO (1)");
  });

  it("passes when there is no contract", () => {
    const side = pricing({ PRO: { price: 1, tasks: 1, export: true } });
    const impact = new Impact({ before: side, after: undefined, usage: "kept" });
    expect(checkGate(impact.report(), gateRules.parse([{ rule: "nobodyLoses" }]))).toMatchObject([
      { passed: true, percent: 0 },
    ]);
  });

  it.each([
    [{ rule: "noHarm" }, "rule"],
    [{ rule: "noFeatureLost", atMost: {} }, "atMost"],
    [{ rule: "noFeatureLost", atMost: { percent: 101 } }, "atMost.percent"],
    [{ rule: "noFeatureLost", limits: ["tasks"] }, "limits"],
    [{ rule: "noQuotaLost", features: ["tasks"] }, "features"],
    [{ rule: "noQuotaLost", byMoreThanPercent: 1 }, "byMoreThanPercent"],
    [{ rule: "noQuotaLost", limits: [] }, "limits"],
    [{ rule: "noFeatureLost", feature: "board" }, ""],
  ])("refuses the rule %j, naming the place", (rule, path) => {
    const parsed = gateRules.safeParse([rule]);
    expect(parsed.error?.issues.map((issue) => issue.path.slice(1).join("."))).toEqual([path]);
  });
});
