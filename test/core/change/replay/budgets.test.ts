import { describe, expect, it } from "vitest";
import { compilePricing } from "../../../../src/core/pricing/compile.ts";
import type { ContractRecord, RecordedBudget } from "../../../../src/core/change/replay/record.ts";
import { accept } from "../../pricing/case-file.ts";
import { consumed, FROM, recordOf, replayed, termsOf } from "./month.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;

/** A pricing with one limit of 100 tasks per day, and these budgets. */
function pricingWith(budgets: Record<string, object> = {}) {
  const custom = { faregate: { rates: { tasks: { "gpt.big": 2, "own.small": 1 } }, budgets } };
  const text = `saasName: App
syntaxVersion: "3.0"
version: "1"
createdAt: "2025-01-01"
currency: EUR
custom: ${JSON.stringify(custom)}
features:
  board:
    valueType: BOOLEAN
    defaultValue: true
    type: DOMAIN
    expression: pricingContext['features']['board'] && subscriptionContext['tasks'] < pricingContext['usageLimits']['tasks']
usageLimits:
  tasks:
    valueType: NUMERIC
    defaultValue: 100
    unit: task
    type: RENEWABLE
    period: { value: 1, unit: DAY }
  most:
    valueType: NUMERIC
    defaultValue: 3
    unit: task
    type: NON_RENEWABLE
plans:
  FREE: { description: f, price: 0, unit: month, features: null, usageLimits: null }
addOns: null
`;
  return compilePricing(accept(text));
}

const own = (more: Partial<RecordedBudget> = {}): RecordedBudget => ({
  id: "own",
  name: "own",
  serviceId: "s",
  limitName: "tasks",
  spender: "*",
  unit: null,
  amount: 3,
  window: "life",
  mode: "stop",
  until: null,
  thresholds: [100],
  ...more,
});

const before = pricingWith();
const spent = (spender: string | null, hour: number, more: Parameters<typeof consumed>[4] = {}, amount = 1) =>
  consumed("app-board", "tasks", amount, FROM + hour * HOUR_MS, { ...more, spender });
const calls = (spender: string | null, count: number, first = 0) =>
  Array.from({ length: count }, (_, index) => spent(spender, first + index));

function reasonsOf(
  movements: ContractRecord["movements"],
  {
    budgets,
    target = before,
    balances,
  }: { budgets?: RecordedBudget[]; target?: typeof before; balances?: ContractRecord["budgets"] },
) {
  const terms = {
    ...termsOf(before, { since: FROM - 5 * DAY_MS, plan: "FREE", anchor: FROM, consumed: {} }),
    budgets: budgets ?? null,
  };
  const part = replayed([recordOf("acme", [terms], { movements, budgets: balances ?? null })], { before, target });
  return part.reasons;
}
const byBudget = (count: number) => ({ LIMIT_REACHED: 0, NOT_GRANTED: 0, BUDGET_REACHED: count, gone: 0 });

describe("a replay with budgets", () => {
  it("denies what a budget of the target does not leave to a spender", () => {
    const target = pricingWith({ each: { limit: "tasks", spender: "*", amount: 3, window: "life" } });
    expect(reasonsOf([...calls("ada", 5), ...calls("bob", 3, 10)], { target })).toEqual(byBudget(2));
    expect(reasonsOf(calls(null, 5), { target }), "calls without a spender").toEqual(byBudget(0));
  });

  it("takes the amount of a budget from the limit that it names", () => {
    const target = pricingWith({ whole: { limit: "tasks", amount: "most", window: "life" } });
    expect(reasonsOf(calls(null, 5), { target })).toEqual(byBudget(2));
  });

  it("restarts a window of a day, and one of the limit's period with its reset", () => {
    const day = { value: 1, unit: "DAY", anchor: "utc" };
    for (const window of [day, "period"]) {
      const target = pricingWith({ each: { limit: "tasks", spender: "*", amount: 3, window } });
      expect(reasonsOf([...calls("ada", 4), ...calls("ada", 4, 25)], { target }), JSON.stringify(window)).toEqual(
        byBudget(2),
      );
    }
  });

  it("never denies by a budget that only warns", () => {
    const target = pricingWith({ each: { limit: "tasks", spender: "*", amount: 1, window: "life", mode: "warn" } });
    expect(reasonsOf(calls("ada", 5), { target })).toEqual(byBudget(0));
  });

  it("keeps the budgets of the contract, with the balances that they had at the start", () => {
    const [budgets, balances] = [[own()], [["own", "ada", 2, 0, false] as const]];
    expect(reasonsOf(calls("ada", 3), { budgets, balances })).toEqual(byBudget(2));
    expect(reasonsOf(calls("bob", 3), { budgets, balances })).toEqual(byBudget(0));
  });

  it("leaves out a balance of a period that was over at the start", () => {
    const budgets = [own({ window: "period" })];
    const at = (isReset: boolean) => [["own", "ada", 2, FROM - DAY_MS, isReset] as const];
    expect(reasonsOf(calls("ada", 3), { budgets, balances: at(true) })).toEqual(byBudget(0));
    expect(reasonsOf(calls("ada", 3), { budgets, balances: at(false) })).toEqual(byBudget(2));
  });

  it("counts the units of a budget at the rates of the target", () => {
    const units = (name: string) => ({ units: { [name]: [2, 2] as [number, number] } });
    const budgets = [own({ unit: "gpt.", amount: 4 })];
    const movements = [
      spent("ada", 0, units("gpt.big"), 4),
      spent("ada", 1, units("own.small"), 2),
      spent("ada", 2, units("gpt.big"), 4),
    ];
    expect(reasonsOf(movements, { budgets })).toEqual(byBudget(1));
  });

  it("gives back to a budget what a revert takes back", () => {
    const revertedAt = FROM + 3 * HOUR_MS;
    const movements: ContractRecord["movements"] = [
      ...[0, 1, 2].map((hour) => spent("ada", hour, { revertedAt })),
      ["revert", "s", "tasks", "app-board", "back", -3, revertedAt, null, null, null],
      ...calls("ada", 4, 4),
    ];
    expect(reasonsOf(movements, { budgets: [own()] })).toEqual(byBudget(1));
  });
});
