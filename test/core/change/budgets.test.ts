import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { lintPricing } from "../../../src/core/change/lint/lint.ts";
import { parsePricing } from "../../../src/core/pricing/parse/pricing.ts";
import { budgetEffect } from "../../../src/core/change/budgets.ts";
import { readBudgetTerms } from "../../../src/core/pricing/budget-terms.ts";

const read = (budgets: unknown) => readBudgetTerms({ custom: { faregate: { budgets } } as never });
const termsOf = (budget: object | undefined) =>
  budget === undefined
    ? undefined
    : read({ each: { limit: "maxTasks", spender: "*", amount: 10, ...budget } }).budgets[0];

describe("budgets of a pricing", () => {
  test("are read with their defaults", () => {
    expect(read({ each: { limit: "maxTasks", amount: "share" } })).toEqual({
      problems: [],
      budgets: [
        {
          name: "each",
          limitName: "maxTasks",
          spender: [],
          unit: null,
          amount: "share",
          window: "period",
          mode: "stop",
          until: null,
          thresholds: [80, 100],
        },
      ],
    });
  });

  test.each([
    [[], "custom.faregate.budgets must be an object"],
    [{ each: 1 }, "custom.faregate.budgets.each must be an object"],
    [{ each: { amount: 1 } }, "custom.faregate.budgets.each.limit must be the name of a usage limit"],
    [
      { each: { limit: "a", amount: -1 } },
      "custom.faregate.budgets.each.amount must be a number of at least 0, or the name of another limit",
    ],
    [
      { each: { limit: "a", amount: 1, spender: "a//b" } },
      "custom.faregate.budgets.each.spender must be a path of 1 to 4 ids, or null",
    ],
    [{ each: { limit: "a", amount: 1, mode: "no" } }, "custom.faregate.budgets.each.mode must be stop or warn"],
    [
      { each: { limit: "a", amount: 1, color: 1 } },
      "custom.faregate.budgets.each.color must be one of limit, spender, unit, amount, window, mode, until, thresholds",
    ],
  ])("%j is wrong", (budgets, message) => {
    expect(read(budgets)).toMatchObject({ budgets: [], problems: [{ message }] });
  });

  test.each([
    [undefined, {}, "less"],
    [{}, undefined, "more"],
    [undefined, { mode: "warn" }, "same"],
    [{ mode: "warn" }, {}, "less"],
    [{}, { amount: 5 }, "less"],
    [{}, { amount: 20 }, "more"],
    [{}, { thresholds: [50] }, "same"],
    [{}, { spender: "a" }, "different"],
    [{}, { window: "life" }, "different"],
  ])("from %j to %j is %s", (was, is, effect) => {
    expect(budgetEffect(termsOf(was), termsOf(is))).toBe(effect);
  });
});

test("lint names a budget whose limit or amount names no limit of the pricing", () => {
  const sample = readFileSync(new URL("../../../src/samples/tasker.yml", import.meta.url), "utf8");
  const found = (budget: object) => {
    const text = `${sample}\ncustom: { faregate: { budgets: { fair: ${JSON.stringify(budget)} } } }\n`;
    const parsed = parsePricing(text, new Date("2026-06-01T00:00:00Z"));
    if (!parsed.ok) throw new Error(parsed.problems[0]?.message);
    const added = lintPricing(parsed.pricing, text).filter(({ code }) => code === "unknown-limit");
    return added.map(({ message }) => message);
  };
  expect(found({ limit: "maxTasks", spender: "*", amount: 5 })).toEqual([]);
  const none = "There is no usage limit tasks. Correct the name, or remove the budget fair.";
  expect(found({ limit: "tasks", amount: 5 })).toEqual([none]);
  expect(found({ limit: "maxTasks", amount: "tasks" })).toEqual([none]);
});
