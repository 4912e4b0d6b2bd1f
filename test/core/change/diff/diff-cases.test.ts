import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { diffPricings } from "../../../../src/core/change/diff/diff.ts";
import {
  describeSuggestion,
  describeChange,
  diffAsMarkdown,
  diffAsText,
} from "../../../../src/core/change/diff/text.ts";
import { suggestVersion } from "../../../../src/core/change/diff/version-step.ts";
import type { VersionStep } from "../../../../src/core/change/diff/version-step.ts";
import { parsePricing } from "../../../../src/core/pricing/parse/pricing.ts";
import type { Pricing } from "../../../../src/core/pricing/model.ts";
import { pricingFrom } from "../small-pricings.ts";

function sample(name: string, ...edits: readonly (readonly [string, string])[]): Pricing {
  const source = readFileSync(new URL(`../../../../src/samples/${name}.yml`, import.meta.url), "utf8");
  const text = edits.reduce((all, [from, to]) => {
    expect(all).toContain(from);
    return all.replace(from, to);
  }, source);
  const result = parsePricing(text, new Date("2026-01-01T00:00:00Z"));
  if (!result.ok) throw new Error(result.problems[0]?.message);
  return result.pricing;
}

/** Formats the changes as lines, each after its class. */
function changes(before: Pricing, after: Pricing): string[] {
  return diffPricings(before, after).changes.map((change) => `${change.class}: ${describeChange(change)}`);
}

const TASKS = "subscriptionContext['tasks']";
const LIMIT = "pricingContext['usageLimits']['tasks']";

/** Builds a pricing with one feature, `board`, and one limit, `tasks`. */
function small(parts: {
  expression?: string;
  serverExpression?: string;
  board?: boolean;
  tasks?: number;
  limit?: object;
  feature?: object;
  addOns?: object;
  plans?: object;
  header?: object;
}): Pricing {
  const { expression, serverExpression, board = true, tasks = 10 } = parts;
  return pricingFrom(
    {
      features: {
        board: {
          valueType: "BOOLEAN",
          defaultValue: board,
          type: "DOMAIN",
          ...(expression === undefined ? {} : { expression }),
          ...(serverExpression === undefined ? {} : { serverExpression }),
          ...parts.feature,
        },
      },
      usageLimits: {
        tasks: { valueType: "NUMERIC", defaultValue: tasks, type: "RENEWABLE", unit: "task", ...parts.limit },
      },
      plans: parts.plans ?? { PRO: { price: 10, features: null } },
      addOns: parts.addOns ?? {},
    },
    parts.header,
  );
}

describe("what a diff says", () => {
  it("names the plans of a lowered limit once, and leaves the features that follow from it aside", () => {
    const after = sample("tasker", ["value: 200\n", "value: 100\n"], ["price: 12", "price: 9.5"]);
    expect(changes(sample("tasker"), after)).toEqual([
      "widening: plan BUSINESS price: 12 → 9.5",
      "narrowing: limit maxTasks in PRO: 200 → 100",
    ]);
  });

  it("finds a change that shows only with an add-on, and with which quantity", () => {
    const after = sample("tasker", ["value: 100\n", "value: 80\n"]);
    expect(changes(sample("tasker"), after)).toEqual([
      "narrowing: limit maxTasks in BUSINESS with extraTasks: 2100 → 2080",
      "narrowing: limit maxTasks in PRO with extraTasks: 300 → 280",
    ]);
    const diff = diffPricings(sample("tasker"), after);
    expect(diff.changes[0]).toMatchObject({ plans: ["BUSINESS"], addOns: { extraTasks: 1 }, configurations: 3 });
  });

  it.each([
    [
      "equal answers in other words",
      `${TASKS} < ${LIMIT}`,
      `!(${LIMIT} <= ${TASKS})`,
      ["neutral: feature board expression"],
    ],
    [
      "one unit more",
      `${TASKS} < ${LIMIT}`,
      `${TASKS} <= ${LIMIT}`,
      ["widening: feature board in PRO: on while tasks < 10 → on while tasks ≤ 10"],
    ],
    [
      "one unit less",
      `${TASKS} <= ${LIMIT}`,
      `${TASKS} + 1 <= ${LIMIT}`,
      ["narrowing: feature board in PRO: on while tasks ≤ 10 → on while tasks ≤ 9"],
    ],
    [
      "gains and losses",
      `${TASKS} < 5`,
      `${TASKS} >= 3`,
      ["incompatible: feature board in PRO: on while tasks < 5 → depends on usage"],
    ],
    [
      "a bound of a hundred million",
      `${TASKS} < ${LIMIT}`,
      `${TASKS} < 100000000`,
      ["widening: feature board in PRO: on while tasks < 10 → on"],
    ],
    [
      "what cannot be followed",
      `${TASKS} * 2 < ${LIMIT}`,
      `${TASKS} * 3 < ${LIMIT}`,
      ["incompatible: feature board in PRO: changed; its effect cannot be determined"],
    ],
    [
      "a comparison that is never true",
      `${TASKS} < ${LIMIT}`,
      `${TASKS} < pricingContext['usageLimits']['nothing']`,
      ["narrowing: feature board in PRO: on while tasks < 10 → off"],
    ],
  ])("compares what expressions answer: %s", (_, before, after, wanted) => {
    const found = changes(small({ expression: before }), small({ expression: after }));
    expect(found.map((line) => (line.startsWith("neutral") ? line.slice(0, line.indexOf(":", 9)) : line))).toEqual(
      wanted,
    );
  });

  it("says which of the two evaluations changes when only one does", () => {
    const before = small({ expression: `${TASKS} < ${LIMIT}`, serverExpression: `${TASKS} <= ${LIMIT}` });
    const after = small({ expression: `${TASKS} < ${LIMIT}`, serverExpression: `${TASKS} < ${LIMIT}` });
    expect(changes(before, after)).toEqual([
      "narrowing: feature board (server) in PRO: on while tasks ≤ 10 → on while tasks < 10",
    ]);
  });

  it("never shows a price or a rate as unlimited", () => {
    const priced = (price: number, image: number) =>
      small({
        plans: { PRO: { price, features: null } },
        header: { custom: { faregate: { rates: { tasks: { image } } }, seen: price } },
      });
    expect(changes(priced(90_000_000, 1), priced(120_000_000, 2e8))).toEqual([
      "neutral: pricing Acme custom: seen 90000000 → seen 120000000",
      "narrowing: plan PRO price: 90000000 → 120000000",
      "narrowing: rate image of tasks: 1 → 200000000",
    ]);
  });

  it("tells unlimited from a number, and takes more than unlimited for the same", () => {
    expect(changes(small({ tasks: 10 }), small({ tasks: 1e9 }))).toEqual([
      "widening: limit tasks in PRO: 10 → unlimited",
    ]);
    const addOns = (value: number): object => ({ more: { price: 1, usageLimitsExtensions: { tasks: { value } } } });
    expect(changes(small({ tasks: 1e9, addOns: addOns(5) }), small({ tasks: 1e9, addOns: addOns(1) }))).toEqual([]);
  });

  it.each([
    [
      "a shorter period",
      { period: { value: 1, unit: "DAY" } },
      "widening: limit tasks period: value 1, unit MONTH → value 1, unit DAY",
    ],
    [
      "a longer period",
      { period: { value: 1, unit: "YEAR" } },
      "narrowing: limit tasks period: value 1, unit MONTH → value 1, unit YEAR",
    ],
    [
      "no period",
      { type: "NON_RENEWABLE", trackable: true },
      "narrowing: limit tasks period: value 1, unit MONTH → nothing",
    ],
    ["another unit", { unit: "project" }, "incompatible: limit tasks unit: task → project"],
  ])("classes the definition of a limit: %s", (_, limit, wanted) => {
    expect(changes(small({}), small({ limit }))).toEqual([wanted]);
  });

  it("takes twelve months for a year", () => {
    const months = small({ limit: { period: { value: 12, unit: "MONTH" } } });
    const year = small({ limit: { period: { value: 1, unit: "YEAR" } } });
    expect(changes(months, year)).toEqual(["neutral: limit tasks period: value 12, unit MONTH → value 1, unit YEAR"]);
  });

  it("classes what is added and removed, and what is offered under other conditions", () => {
    const extra = { price: 1, availableFor: ["PRO"], features: { board: { value: true } } };
    const plans = { PRO: { price: 10, features: null }, TEAM: { price: "Contact us", private: true, features: null } };
    const before = small({ plans, addOns: { one: extra, two: extra } });
    const after = small({
      plans: { PRO: { price: 10, unit: "/month", features: null }, SOLO: { price: 1, features: null } },
      addOns: {
        one: { ...extra, excludes: ["two"], subscriptionConstraints: { maxQuantity: 2 } },
        two: { ...extra, private: true },
      },
    });
    expect(changes(before, after)).toEqual([
      "neutral: plan PRO unit:  → /month",
      "widening: plan SOLO added",
      "narrowing: plan TEAM removed",
      "narrowing: add-on one excludes: added two",
      "narrowing: add-on one quantities: minQuantity 1, maxQuantity unlimited, quantityStep 1 → minQuantity 1, maxQuantity 2, quantityStep 1",
      "narrowing: add-on two private: false → true",
    ]);
  });

  it("classes a new limit by what it caps", () => {
    const base = {
      features: { board: { valueType: "BOOLEAN", defaultValue: true, type: "DOMAIN" } },
      plans: { PRO: { price: 1, features: null } },
    };
    const calls = (linkedFeatures: string[], defaultValue = 5) => ({
      calls: { valueType: "NUMERIC", defaultValue, type: "RENEWABLE", linkedFeatures },
    });
    const withApi = { ...base.features, api: { valueType: "BOOLEAN", defaultValue: true, type: "DOMAIN" } };
    const added = (content: object): string[] => changes(pricingFrom(base), pricingFrom({ ...base, ...content }));
    expect(added({ usageLimits: calls(["board"]) })).toEqual(["narrowing: limit calls added"]);
    expect(added({ usageLimits: calls([], 1e9) })).toEqual(["neutral: limit calls added"]);
    expect(added({ features: withApi, usageLimits: calls(["api"]) })).toEqual([
      "widening: feature api added",
      "neutral: limit calls added",
    ]);
  });

  it("holds no price against one in another currency", () => {
    const before = small({ plans: { PRO: { price: 10, features: null } } });
    const after = small({ plans: { PRO: { price: 9, features: null } }, header: { currency: "USD" } });
    expect(changes(before, after)).toEqual([
      "incompatible: pricing Acme currency: EUR → USD",
      "incompatible: plan PRO price: 10 → 9",
    ]);
  });

  it("names what a list gained and lost, and quotes the start of long texts", () => {
    const plans = { FREE: { price: 0, features: null }, PRO: { price: 9, features: null } };
    const offered = (availableFor: string[]) => ({
      pack: { price: 1, availableFor, features: { board: { value: true } } },
    });
    const old = small({ plans, addOns: offered(["FREE"]), feature: { description: "a".repeat(900) } });
    const now = small({ plans, addOns: offered(["PRO"]), feature: { description: "b".repeat(900) } });
    const lines = changes(old, now);
    expect(lines).toContain("incompatible: add-on pack availableFor: added PRO; removed FREE");
    const description = lines.find((line) => line.includes("description"));
    expect(description).toMatch(/^neutral: feature board description: a{400,500}… → b{400,500}…$/);
  });

  it("says what it could not compare completely", () => {
    const names = Array.from({ length: 14 }, (_, index) => `pack${index}`);
    const packs = (value: number): object =>
      Object.fromEntries(names.map((name) => [name, { price: 1, usageLimitsExtensions: { tasks: { value } } }]));
    const diff = diffPricings(small({ addOns: packs(5) }), small({ addOns: packs(4) }));
    expect(diff.space).toMatchObject({ complete: false, capped: ["usageLimit tasks"] });
    expect(diff.class).toBe("narrowing");
    expect(diffAsText(diff)).toContain(
      "Not every combination and quantity of add-ons was compared for usageLimit tasks.",
    );
  });

  it("is exact for many add-ons that have nothing to do with each other", () => {
    const names = Array.from({ length: 60 }, (_, index) => `thing${index}`);
    const content = (on: boolean): object => ({
      features: Object.fromEntries(
        names.map((name) => [name, { valueType: "BOOLEAN", defaultValue: false, type: "DOMAIN" }]),
      ),
      plans: { PRO: { price: 1, features: null } },
      addOns: Object.fromEntries(
        names.map((name) => [`${name}Pack`, { price: 1, features: { [name]: { value: on || name !== "thing7" } } }]),
      ),
    });
    const diff = diffPricings(pricingFrom(content(true)), pricingFrom(content(false)));
    expect(diff.changes).toMatchObject([{ class: "narrowing", name: "thing7", addOns: { thing7Pack: 1 } }]);
    expect(diff.space.complete).toBe(true);
  });

  it("finds no loss when a plan takes over the feature of an add-on that keeps its extension", () => {
    const pricing = (isInPlan: boolean): Pricing =>
      small({
        board: false,
        plans: { PRO: { price: 1, features: { board: { value: isInPlan } } } },
        addOns: {
          pack: {
            price: 1,
            features: isInPlan ? {} : { board: { value: true } },
            usageLimitsExtensions: { tasks: { value: 1 } },
          },
        },
      });
    expect(changes(pricing(false), pricing(true))).toEqual(["widening: feature board in PRO: false → true"]);
  });

  describe("a renamed plan", () => {
    const named = (name: string, price = 10, header: object = {}): Pricing =>
      small({
        plans: { FREE: { price: 0, features: null }, [name]: { price, features: null } },
        addOns: { pack: { price: 1, availableFor: [name], usageLimitsExtensions: { tasks: { value: 1 } } } },
        header,
      });

    it("is suggested if its content is equal, and only then", () => {
      const diff = diffPricings(named("PRO"), named("TEAM"));
      expect(diff).toMatchObject({ class: "incompatible", suggestedRenames: [{ from: "PRO", to: "TEAM" }] });
      expect(diffAsText(diff)).toContain("add this line to the new pricing: renames: { PRO: TEAM }\n");
      expect(diffPricings(named("PRO"), named("TEAM", 11)).suggestedRenames).toBeUndefined();
      expect(diffPricings(named("PRO"), named("pro")).suggestedRenames).toBeUndefined();
    });

    it("is compared with its previous name if the new pricing declares it", () => {
      const renames = { pro: "Team", FREE: "TEAM", GONE: "TEAM", PRO: 7, TEAM: "FREE" };
      const after = named("TEAM", 12, { renames });
      expect(after.renames).toEqual({ pro: "Team", FREE: "TEAM", GONE: "TEAM", TEAM: "FREE" });
      expect(changes(named("PRO"), after)).toEqual([
        "neutral: plan PRO renamed to TEAM",
        "narrowing: plan TEAM price: 10 → 12",
      ]);
      expect(named("TEAM", 12, { renames: ["PRO"] }).renames).toBeUndefined();
    });

    it("is compared with its previous name if the caller says so", () => {
      const diff = diffPricings(named("PRO"), named("TEAM"), { PRO: "TEAM" });
      expect(diff).toMatchObject({ class: "neutral", counts: { neutral: 1 }, suggestion: { step: "patch" } });
      expect(diff.suggestedRenames).toBeUndefined();
    });
  });

  it("prints Markdown in which no name is taken for markup", () => {
    const plans = (price: number): object => ({ PRO_x: { price, features: null } });
    const text = diffAsMarkdown(diffPricings(small({ plans: plans(1) }), small({ plans: plans(2) })));
    expect(text).toContain("### Narrowing: subscribers get less (1)");
    expect(text).toContain(String.raw`- plan PRO\_x price: 1 → 2`);
  });
});

describe("the suggested version", () => {
  it.each([
    ["2023-01-12", "2024-6-7", "The changes call for a minor step."],
    ["2023.01.12", "2024-06-07", "The changes call for a minor step."],
    ["2023-01-12", "2024-6-8", "The changes call for a minor step, such as 2024-06-07."],
    ["1.0.0", "1.0.1", "The version 1.0.1 is not enough: the changes call for a minor step, such as 1.1.0."],
  ])("after %s is not advised where %s is the same day in another spelling", (from, to, sentence) => {
    const suggestion = suggestVersion("minor", { version: from }, { version: to, createdAt: "2024-06-07" });
    expect(describeSuggestion(suggestion, to)).toBe(sentence);
  });

  const cases: [VersionStep, string, string, string, string | null, boolean | null][] = [
    ["major", "1.2.3", "1.3.0", "2025-05-01", "2.0.0", false],
    ["minor", "1.2.3", "1.3.0", "2025-05-01", "1.3.0", true],
    ["patch", "1.2.3", "1.2.4", "2025-05-01", "1.2.4", true],
    ["minor", "1.2.3", "2.0.0", "2025-05-01", "1.3.0", true],
    ["minor", "1.2.3", "1.2.9", "2025-05-01", "1.3.0", false],
    ["major", "v2.1", "v3.0", "2025-05-01", "v3.0", true],
    ["patch", "v2.1", "v2.1", "2025-05-01", "v2.2", false],
    ["patch", "7", "7", "2025-05-01", "8", false],
    ["major", "2024", "2025", "2025-05-01", "2025", null],
    ["major", "2025", "2025", "2025-05-01", null, false],
    ["minor", "2024-1-5", "2025-05-01", "2025-05-01", "2025-5-1", null],
    ["minor", "2024-01-05", "2025-05-01", "2025-05-01", "2025-05-01", null],
    ["minor", "2023-11-12", "2024-6-7", "2024-06-07", "2024-6-7", null],
    ["minor", "2023-11-12", "2024-06-07", "2024-06-07", "2024-06-07", null],
    ["minor", "2023-11-12", "2024-11-07", "2024-06-07", "2024-06-07", null],
    ["minor", "2023-11-12", "latest", "2024-06-07", "2024-06-07", null],
    ["minor", "2023.1.12", "2024.06.07", "2024-06-07", "2024.6.7", null],
    ["major", "2025.1", "2025.2", "2025-05-01", null, null],
    ["major", "latest", "latest", "2025-05-01", null, false],
    ["major", "f47ac10b", "2.0.0", "2025-05-01", null, null],
    ["none", "1.0.0", "1.0.0", "2025-05-01", null, true],
  ];
  it.each(cases)(
    "of a %s step from %s, when %s is given on %s's date",
    (step, from, to, createdAt, version, sufficient) => {
      expect(suggestVersion(step, { version: from }, { version: to, createdAt })).toEqual({
        step,
        version,
        sufficient,
      });
    },
  );
});
