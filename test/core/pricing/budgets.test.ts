import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  balanceIn,
  type Budget,
  type BudgetBalance,
  fittingBudgets,
  parsePattern,
  parseSpender,
  patternText,
  windowAt,
} from "../../../src/core/pricing/budgets.ts";
import { Reference, type ReferenceBudget } from "./budgets.reference.ts";

const HOUR = 3_600_000;
const facts = { contractStart: new Date(0), periodSince: null, periodEnds: null, lastSince: undefined };

describe("paths of spenders", () => {
  test.each([
    ["ada", ["ada"]],
    ["research/ada/agent-7/run-41", ["research", "ada", "agent-7", "run-41"]],
    ["a%2Fb/100%25", ["a/b", "100%"]],
    ["__proto__/🙂 x", ["__proto__", "🙂 x"]],
    ["x".repeat(128), ["x".repeat(128)]],
    ["*", ["*"]],
  ])("%s is read", (text, ids) => {
    expect(parseSpender(text)).toEqual(ids);
    expect(parseSpender(patternText(ids))).toEqual(ids);
  });

  test.each(["", "/", "a/", "a//b", "a/b/c/d/e", "%", "%ZZ", "%00", "x".repeat(129)])("%s is none", (text) => {
    expect(parseSpender(text)).toBeUndefined();
  });

  test("a pattern tells any id from the id of one asterisk", () => {
    expect(parsePattern("*/a")).toEqual([null, "a"]);
    expect(patternText([null, "*"])).toBe("*/%2A");
  });
});

describe("windows", () => {
  const at = (iso: string) => new Date(iso);
  const spanOf = (window: Budget["window"], moment: string, more: object = {}) => {
    const { since, ends } = windowAt(window, at(moment), { ...facts, ...more });
    return [new Date(since).toISOString(), ends === null ? null : new Date(ends).toISOString()];
  };
  test.each([
    ["HOUR", "2026-01-07T10:30:00.000Z", "2026-01-07T10:00:00.000Z", "2026-01-07T11:00:00.000Z"],
    ["DAY", "2026-01-07T00:00:00.000Z", "2026-01-07T00:00:00.000Z", "2026-01-08T00:00:00.000Z"],
    ["WEEK", "2026-01-07T10:00:00.000Z", "2026-01-05T00:00:00.000Z", "2026-01-12T00:00:00.000Z"],
    ["MONTH", "2026-02-28T23:59:59.999Z", "2026-02-01T00:00:00.000Z", "2026-03-01T00:00:00.000Z"],
  ] as const)("a %s of the calendar", (unit, moment, since, ends) => {
    expect(spanOf({ value: 1, unit, anchor: "utc" }, moment)).toEqual([since, ends]);
  });

  test("a month of the contract keeps the day of its start", () => {
    const contractStart = at("2026-01-31T12:00:00.000Z");
    expect(
      spanOf({ value: 1, unit: "MONTH", anchor: "contract" }, "2026-03-01T00:00:00.000Z", { contractStart }),
    ).toEqual(["2026-02-28T12:00:00.000Z", "2026-03-31T12:00:00.000Z"]);
  });

  test("a window from the first use runs until its end, and restarts with the next use", () => {
    const window = { value: 5, unit: "HOUR", anchor: "first" } as const;
    const lastSince = Date.parse("2026-01-07T10:00:00.000Z");
    const running = spanOf(window, "2026-01-07T14:59:59.999Z", { lastSince });
    expect(running).toEqual(["2026-01-07T10:00:00.000Z", "2026-01-07T15:00:00.000Z"]);
    expect(spanOf(window, "2026-01-07T15:00:00.000Z", { lastSince })[0]).toBe("2026-01-07T15:00:00.000Z");
  });
});

const budgetOf = ({ name, spender, amount, length, isVendors, warns }: ReferenceBudget): Budget => ({
  id: name,
  name,
  origin: isVendors ? "pricing" : "contract",
  serviceId: "service",
  limitName: "limit",
  spender: spender.map((id) => (id === "*" ? null : id)),
  unit: null,
  amount,
  window: length === Infinity ? "life" : { value: length / HOUR, unit: "HOUR", anchor: "utc" },
  mode: warns ? "warn" : "stop",
  until: null,
  thresholds: [100],
});

const id = fc.constantFrom("a", "b", "c");
const spender = fc.array(id, { minLength: 0, maxLength: 4 });
const pattern = fc.array(fc.oneof(id, fc.constant("*")), { minLength: 0, maxLength: 4 });

const drawnBudgets = fc.array(
  fc.record({
    spender: pattern,
    amount: fc.integer({ min: 0, max: 12 }),
    length: fc.constantFrom(HOUR, 3 * HOUR, Infinity),
    isVendors: fc.boolean(),
    warns: fc.boolean(),
  }),
  { maxLength: 8 },
);
const drawnCalls = fc.array(
  fc.tuple(spender, fc.integer({ min: 1, max: 5 }), fc.integer({ min: 0, max: HOUR }), fc.boolean()),
  {
    maxLength: 40,
  },
);

test("budgets decide as the reference, which sums up every call", () => {
  fc.assert(
    fc.property(drawnBudgets, drawnCalls, (given, calls) => {
      const reference = new Reference();
      reference.budgets = given.map((one, i) => ({ ...one, name: `b${i}` }));
      const budgets = reference.budgets.map(budgetOf);
      const balances = new Map<string, BudgetBalance>();
      let now = 0;
      for (const [ids, amount, passed, isHeld] of calls) {
        now += passed;
        const fits = fittingBudgets(budgets, ids, new Date(now)).map((fit) => {
          const key = `${fit.budget.id} ${fit.spender}`;
          const span = windowAt(fit.budget.window, new Date(now), facts);
          return { fit, key, balance: balanceIn(balances.get(key), span) };
        });
        const denying = fits.find(
          ({ fit: { budget }, balance }) =>
            budget.mode === "stop" && balance.used + balance.held + amount > Number(budget.amount),
        );
        const isSame = (name: string | undefined) => {
          const one = reference.budgets.find((budget) => budget.name === name);
          const other = reference.budgets.find((budget) => budget.name === denying?.fit.budget.name);
          return one?.spender.length === other?.spender.length && one?.isVendors === other?.isVendors;
        };
        expect(isSame(reference.take(ids, amount, now, isHeld))).toBe(true);
        if (denying !== undefined) continue;
        for (const { key, balance } of fits) {
          const moved = isHeld ? { held: balance.held + amount } : { used: balance.used + amount };
          balances.set(key, { ...balance, ...moved });
        }
      }
    }),
  );
});
