import { existsSync, readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type CompiledPricing, compilePricing } from "../../../../src/core/pricing/compile.ts";
import { UNLIMITED } from "../../../../src/core/pricing/model.ts";
import { analyse, type ReplayTask } from "../../../../src/core/change/analysis.ts";
import { finish } from "../../../../src/core/steps.ts";
import { accept } from "../../pricing/case-file.ts";
import "../../../support/property-seed.ts";
import { balancesOf, consumed, FROM, livedMonth, recordOf, replayed, samePlaces, termsOf, TO } from "./month.ts";

const root = (path: string): string => fileURLToPath(new URL(`../../../../${path}`, import.meta.url));
const DAY_MS = 86_400_000;
const WILD = "../shared/data/pricings";
const OWN = readdirSync(root("src/samples"))
  .filter((name) => name.endsWith(".yml") && !name.includes(".expectations."))
  .map((name) => `src/samples/${name}`);
const wild = existsSync(root(WILD)) ? readdirSync(root(WILD)).filter((name) => name.endsWith(".yml")) : [];

/** Pricings that are accepted: one of the collection is of no version that can be read. */
const PRICINGS = [...OWN, ...wild.filter((name) => name !== "mailchimp-2024.yml").map((name) => `${WILD}/${name}`)];

const read = (path: string): CompiledPricing => compilePricing(accept(readFileSync(root(path), "utf8")));

/** The pricing with every numeric limit that plans grant multiplied. */
function enlarged({ pricing }: CompiledPricing, factor: number): CompiledPricing {
  const larger = (value: number | boolean) => (typeof value === "number" ? Math.min(UNLIMITED, value * factor) : value);
  const larged = (limits: Readonly<Record<string, number | boolean>>) =>
    Object.fromEntries(Object.entries(limits).map(([name, value]) => [name, larger(value)]));
  const plans = pricing.plans.map((plan) => ({ ...plan, usageLimits: larged(plan.usageLimits) }));
  return compilePricing({ ...pricing, plans });
}

/** A pricing with one limit of tasks per period, 10 in FREE and 100 in PRO. */
function tasks(
  change: Partial<{ free: number; pro: number; unit: "DAY" | "MONTH"; limit: string; custom: object }> = {},
) {
  const { free = 10, pro = 100, unit = "MONTH", limit = "tasks", custom } = change;
  const text = `saasName: App
syntaxVersion: "3.0"
version: "1"
createdAt: "2025-01-01"
currency: EUR
${custom === undefined ? "" : `custom: ${JSON.stringify(custom)}\n`}features:
  board:
    valueType: BOOLEAN
    defaultValue: true
    type: DOMAIN
    expression: pricingContext['features']['board'] && subscriptionContext['${limit}'] < pricingContext['usageLimits']['${limit}']
usageLimits:
  ${limit}:
    valueType: NUMERIC
    defaultValue: ${free}
    unit: task
    type: RENEWABLE
    period: { value: 1, unit: ${unit} }
plans:
  FREE: { description: f, price: 0, unit: month, features: null, usageLimits: null }
  PRO: { description: p, price: 6, unit: month, features: null, usageLimits: { ${limit}: { value: ${pro} } } }
addOns: null
`;
  return compilePricing(accept(text));
}

const one = (at: number) => consumed("app-board", "tasks", 1, at);
const hourly = (count: number, from = FROM) => Array.from({ length: count }, (_, hour) => one(from + hour * 3_600_000));
const free = (pricing: CompiledPricing, more = {}) =>
  termsOf(pricing, { since: FROM - 5 * DAY_MS, plan: "FREE", anchor: FROM, consumed: {}, ...more });

describe("a replay", () => {
  it.each(PRICINGS)("of %s onto itself denies nothing, pays as much and ends with the same balances", (path) => {
    const pricing = read(path);
    fc.assert(
      fc.property(fc.nat(1_000_000), (seed) => {
        const { record, balances } = livedMonth(pricing, seed);
        const part = replayed([record], { before: pricing, target: pricing });
        expect(part.denied).toEqual({ contracts: 0, movements: 0, amounts: {} });
        expect(part.revenue.replayed).toBe(part.revenue.then);
        expect(part.paying).toEqual({ more: 0, less: 0, same: 1 });
        expect(balancesOf(record, { before: pricing, target: pricing })).toEqual(Object.fromEntries(balances));
      }),
      { numRuns: path.includes("atlas") ? 2 : 5 },
    );
  });

  it.each(OWN)("of %s onto one that grants more denies nothing", (path) => {
    const pricing = read(path);
    fc.assert(
      fc.property(fc.nat(1_000_000), fc.integer({ min: 1, max: 5 }), (seed, factor) => {
        const { record } = livedMonth(pricing, seed);
        const target = enlarged(pricing, factor);
        expect(replayed([record], { before: pricing, target }).denied.movements).toBe(0);
      }),
      { numRuns: 3 },
    );
  });

  it("denies what does not fit, by day and reason, and counts what does", () => {
    const before = tasks();
    const record = recordOf("ada", [free(before)], { movements: hourly(8) });
    const target = tasks({ free: 5 });
    const part = replayed([record], { before, target });
    expect(part).toMatchObject({
      contracts: 1,
      movements: 8,
      denied: { contracts: 1, movements: 3, amounts: { "app-tasks": 3 } },
      reasons: { LIMIT_REACHED: 3, NOT_GRANTED: 0, BUDGET_REACHED: 0, gone: 0 },
      days: [{ denied: 3, contracts: 1 }],
      top: [{ userId: "ada", denied: 3, firstDenialAt: new Date(FROM + 5 * 3_600_000).toISOString() }],
    });
    expect(balancesOf(record, { before, target })).toEqual({ tasks: 5 });
  });

  it("resets at the boundaries of the target, from the anchor that the level has", () => {
    const before = tasks();
    const target = tasks({ free: 1, unit: "DAY" });
    const boundary = FROM + DAY_MS;
    const movements = [one(FROM + 1), one(boundary), one(boundary + 1), one(boundary + 2)];
    const part = replayed([recordOf("ada", [free(before)], { movements })], { before, target });
    // The boundary itself belongs to the period that ends there.
    expect(part.denied.movements).toBe(2);
    expect(balancesOf(recordOf("ada", [free(before)], { movements }), { before, target })).toEqual({ tasks: 0 });
  });

  it("denies as gone what needs a limit that the target lacks", () => {
    const before = tasks();
    const target = tasks({ limit: "jobs" });
    const part = replayed([recordOf("ada", [free(before)], { movements: hourly(2) })], { before, target });
    expect(part.reasons).toEqual({ LIMIT_REACHED: 0, NOT_GRANTED: 0, BUDGET_REACHED: 0, gone: 2 });
  });

  it("denies everything of a configuration without a target", () => {
    const before = tasks();
    const record = recordOf("ada", [free(before)], { movements: hourly(2) });
    const places = samePlaces([record]);
    for (const [key, place] of places) places.set(key, { ...place, target: undefined });
    expect(replayed([record], { before, target: before, placements: places }).reasons.gone).toBe(2);
  });

  it("gives back what the replay counted of a reverted call, and nothing of a denied one", () => {
    const before = tasks();
    const target = tasks({ free: 2 });
    const revertedAt = FROM + 90_000;
    const call = (at: number, operation: string) => consumed("app-board", "tasks", 2, at, { operation, revertedAt });
    const movements = [
      one(FROM + 1),
      call(FROM + 60_000, "first"),
      call(FROM + 70_000, "second"),
      ["revert", "s", "tasks", "app-board", "revert", -4, revertedAt, null, null, null] as const,
      one(FROM + 100_000),
    ];
    const record = recordOf("ada", [free(before)], { movements });
    expect(replayed([record], { before, target }).denied.movements).toBe(1);
    expect(balancesOf(record, { before, target })).toEqual({ tasks: 2 });
  });

  it("applies adjustments by their difference, and resets by hand, which skip a boundary", () => {
    const before = tasks();
    const target = tasks({ unit: "DAY" });
    const noon = FROM + DAY_MS / 2;
    const movements = [
      ["adjust", "s", "tasks", null, "put", 9, FROM + 1, null, null, null] as const,
      ["reset", "s", "tasks", null, "reset", -9, noon, null, null, null] as const,
      ["adjust", "s", "tasks", null, "put again", 3, noon + 1, null, null, null] as const,
      // The next boundary was skipped, so this call finds 3.
      one(FROM + DAY_MS + 5),
    ];
    const record = recordOf("ada", [free(before)], { movements });
    const until = { before, target };
    expect(replayed([record], until).denied.movements).toBe(0);
    expect(balancesOf(record, { before, target: before })).toEqual({ tasks: 4 });
  });

  it("follows novations and overrides, and keeps balances over them", () => {
    const before = tasks();
    const target = tasks({ free: 5, pro: 7 });
    const novated = termsOf(before, { since: FROM + 10 * 3_600_000 - 1, plan: "PRO", anchor: FROM });
    const movements = hourly(14);
    const record = recordOf("ada", [free(before), novated], { movements });
    // 5 fit FREE, 2 more fit PRO.
    expect(replayed([record], { before, target }).denied.movements).toBe(7);
    const override = { serviceId: "s", kind: "usageLimits" as const, name: "tasks", mode: "add" as const, value: 1 };
    const dates = { from: new Date(FROM).toISOString(), until: new Date(FROM + 6 * 3_600_000).toISOString() };
    const raised = { ...free(before), overrides: [{ ...override, ...dates }] };
    expect(replayed([recordOf("ada", [raised], { movements })], { before, target }).denied.movements).toBe(8);
  });

  it("draws blocks after the plan, until they end or are revoked", () => {
    const before = tasks();
    const target = tasks({ free: 2 });
    const block = {
      id: "b",
      serviceId: "s",
      limitName: "tasks",
      origin: "given" as const,
      left: 3,
      drawn: null,
      from: FROM,
      expiresAt: null,
      createdAt: FROM,
      revokedAt: null,
    };
    const denied = (change: object, count = 8) => {
      const record = recordOf("ada", [free(before)], { movements: hourly(count), blocks: [{ ...block, ...change }] });
      return replayed([record], { before, target }).denied.movements;
    };
    expect(denied({})).toBe(3);
    expect(denied({ expiresAt: FROM + 3 * 3_600_000 })).toBe(5);
    expect(denied({ revokedAt: FROM + 3_600_000 - 1 })).toBe(6);
    expect(denied({ createdAt: FROM + 4 * 3_600_000 + 1, from: FROM + 4 * 3_600_000 + 1 })).toBe(3);
  });

  it("carries over by the target's own terms", () => {
    const before = tasks();
    const custom = { faregate: { rollover: { tasks: { max: null, periods: 1 } } } };
    const movements = [...hourly(2, FROM + DAY_MS + 1), ...hourly(2, FROM + 2 * DAY_MS + 1)];
    const record = recordOf("ada", [free(before)], { movements });
    const plain = replayed([record], { before, target: tasks({ free: 1, unit: "DAY" }) });
    const carried = replayed([record], { before, target: tasks({ free: 1, unit: "DAY", custom }) });
    expect([plain.denied.movements, carried.denied.movements]).toEqual([2, 1]);
  });

  it("prices units by the rates of the target, and denies as gone those without a rate or beyond any amount", () => {
    const rates = (cost: number, unit = "image") => ({ faregate: { rates: { tasks: { [unit]: cost } } } });
    const before = tasks({ custom: rates(1) });
    const units = { image: [2, 2] as [number, number] };
    const movements = [0, 1, 2].map((at) => consumed("app-board", "tasks", 2, FROM + at, { units }));
    const record = recordOf("ada", [free(before)], { movements });
    const target = tasks({ custom: rates(4) });
    expect(replayed([record], { before, target })).toMatchObject({ denied: { movements: 1 } });
    expect(balancesOf(record, { before, target })).toEqual({ tasks: 16 });
    expect(replayed([record], { before, target: tasks({ custom: rates(4, "text") }) }).reasons.gone).toBe(3);
    // A live call of such a cost is refused.
    expect(replayed([record], { before, target: tasks({ custom: rates(1e308) }) }).reasons.gone).toBe(3);
  });

  it("decides holds when they are taken, and their settlements by what they held", () => {
    const before = tasks();
    const target = tasks({ free: 4 });
    const hold = (id: string, amount: number, at: number, endedAt: number) => ({
      id,
      featureId: "app-board",
      amounts: [{ serviceId: "s", limitName: "tasks", amount }],
      createdAt: at,
      endedAt,
    });
    const holds = [
      hold("granted", 3, FROM + 1, FROM + 100),
      hold("refused", 3, FROM + 2, FROM + 200),
      hold("over the end", 1, TO - 10, TO + 10),
    ];
    const movements = [
      consumed("app-board", "tasks", 2, FROM + 100, { operation: "granted" }),
      consumed("app-board", "tasks", 2, FROM + 200, { operation: "refused" }),
    ];
    const record = recordOf("ada", [free(before)], { movements, holds });
    expect(replayed([record], { before, target }).denied).toMatchObject({ movements: 1, amounts: { "app-tasks": 2 } });
    expect(balancesOf(record, { before, target })).toEqual({ tasks: 2 });
  });

  it("keeps a hold of before the range until it ends, also where the target would not grant it", () => {
    const before = tasks();
    const amounts = [{ serviceId: "s", limitName: "tasks", amount: 3 }];
    const times = { createdAt: FROM - 1_000, endedAt: FROM + 100 };
    const holds = [{ id: "earlier", featureId: "app-board", amounts, ...times }];
    const movements = [one(FROM + 50), consumed("app-board", "tasks", 2, FROM + 100, { operation: "earlier" })];
    const record = recordOf("ada", [free(before)], { movements, holds });
    const target = tasks({ free: 2 });
    // The hold takes more than there is, so that the call beside it is denied; its settlement counts.
    expect(replayed([record], { before, target }).denied.movements).toBe(1);
    expect(balancesOf(record, { before, target })).toEqual({ tasks: 2 });
  });

  it("resets at the last day of short months, and at the anchor's day of long ones", () => {
    const before = tasks();
    const target = tasks({ free: 1 });
    const terms = free(before, { anchor: Date.UTC(2026, 0, 31) });
    const boundary = Date.UTC(2026, 9, 31);
    const movements = [one(FROM + 1), one(boundary), one(boundary + 1)];
    const record = recordOf("ada", [terms], { movements });
    expect(replayed([record], { before, target }).denied.movements).toBe(1);
    const late = recordOf("ada", [terms], { movements: [one(Date.UTC(2026, 8, 30) + DAY_MS), one(boundary - 1)] });
    expect(replayed([late], { before, target }).denied.movements).toBe(1);
  });

  it("of a contract in several texts is the one of the whole", () => {
    const before = tasks();
    const target = tasks({ free: 5 });
    const revertedAt = FROM + 9 * 3_600_000;
    const back = ["revert", "s", "tasks", "app-board", "part", -1, revertedAt, null, null, null] as const;
    const movements = [
      consumed("app-board", "tasks", 2, FROM + 1, { operation: "part" }),
      ...hourly(8, FROM + 2),
      back,
    ];
    const record = recordOf("ada", [free(before)], { movements });
    const run = (records: ReplayTask["records"]) =>
      finish(
        analyse(
          {
            kind: "replay",
            serviceId: "s",
            target: { hash: "target", text: JSON.stringify(target.pricing) },
            pricings: [{ hash: "h", text: JSON.stringify(before.pricing) }],
            placements: [...samePlaces([record])],
            from: FROM,
            to: TO,
            top: 20,
            records,
          },
          () => () => false,
        ),
      );
    const whole = run([[JSON.stringify(record)]]);
    expect(whole.denied.movements).toBeGreaterThan(0);
    const first = JSON.stringify({ ...record, movements: movements.slice(0, 3) });
    expect(run([[first, JSON.stringify(movements.slice(3, 7)), JSON.stringify(movements.slice(7))]])).toEqual(whole);
  });

  it("counts a batch item by its moment of use, and not where that is late for the target", () => {
    const before = tasks();
    const target = tasks({ unit: "DAY" });
    const at = FROM + 2 * DAY_MS + 60_000;
    const movements = [
      consumed("app-board", "tasks", 1, at, { operation: "late", usedAt: FROM + 60_000 }),
      consumed("app-board", "tasks", 1, at + 1, { operation: "in time", usedAt: at - 1000 }),
      consumed("app-board", "tasks", 1, TO + 5, { operation: "recorded later", usedAt: TO - 5 }),
      consumed("app-board", "tasks", 1, TO + 6, { operation: "used later", usedAt: TO }),
    ];
    const record = recordOf("ada", [free(before)], { movements });
    expect(replayed([record], { before, target: before })).toMatchObject({ movements: 3, denied: { movements: 0 } });
    expect(replayed([record], { before, target })).toMatchObject({ movements: 2, denied: { movements: 0 } });
  });

  it("follows a renamed service by the name of the time", () => {
    const before = tasks();
    const renamed = termsOf(before, { since: FROM + DAY_MS, plan: "FREE", anchor: FROM });
    const [service] = renamed.services;
    const named = { ...renamed, services: service === undefined ? [] : [{ ...service, key: "tool" }] };
    const movements = [one(FROM + 1), consumed("tool-board", "tasks", 1, FROM + 2 * DAY_MS)];
    const record = recordOf("ada", [free(before), named], { movements });
    expect(replayed([record], { before, target: before }).denied.movements).toBe(0);
    expect(balancesOf(record, { before, target: before })).toEqual({ tasks: 2 });
  });

  it("prices billing periods by the share of them that lies in the range", () => {
    const before = tasks();
    // Two periods of October: 14 of 30 days from 15 September, and 17 of 31 days from 15 October.
    const terms = free(before, { anchor: Date.UTC(2026, 8, 15) });
    const record = recordOf("ada", [terms], {});
    const part = replayed([record], { before, target: before, placements: samePlaces([record], 30) });
    expect(part.revenue).toEqual({ then: 30.45, replayed: 30.45 });
    const yearly = {
      ...terms,
      renewalUnit: null,
      renewalValue: null,
      renewalDays: 365,
      endDate: Date.UTC(2027, 8, 15),
    };
    const year = recordOf("ada", [yearly], {});
    expect(replayed([year], { before, target: before, placements: samePlaces([year], 365) }).revenue.then).toBe(31);
  });

  it("leaves contracts without the service, and those that had expired, out", () => {
    const before = tasks();
    const without = { ...free(before), services: [] };
    const expired = { ...free(before), autoRenew: false, endDate: FROM - 1000 };
    expect(
      replayed([recordOf("a", [without], {}), recordOf("b", [expired], {})], { before, target: before }),
    ).toMatchObject({
      contracts: 0,
      revenue: { then: 0 },
    });
  });
});
