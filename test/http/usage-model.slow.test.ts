import * as fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestApi, type TestApi } from "../support/api.ts";
import { consume, contract, show, tasker, upload } from "../support/contracting.ts";
import { expectBalancesMatchLedger } from "../support/invariants.ts";
import "../support/property-seed.ts";

/*
 * Applies every operation that moves a balance in random order, and compares with a model of a few maps. Amounts are
 * small integers and the period is a day, so that limits, windows and boundaries occur often.
 */

const DAY = 86_400_000;
const START = Date.UTC(2025, 0, 31, 12);
const LIMITS: Record<string, number> = { maxTasks: 20, maxExports: 10 };
const FEATURES: Record<string, string[]> = { board: ["maxTasks"], bulk: ["maxTasks", "maxExports"] };

interface Level {
  consumed: number;
  resetAt: number | undefined;
  /** Separates the rows of this level and period from earlier ones. */
  period: number;
}
interface Taken {
  feature: string;
  limit: string;
  operation: number;
  period: number;
  amount: number;
  at: number;
  undone: boolean;
}

class Model {
  now = START;
  levels = new Map<string, Level>();
  taken: Taken[] = [];
  private ids = 0;

  constructor() {
    this.subscribe(true);
  }

  subscribe(wanted: boolean): void {
    if (!wanted) this.levels.clear();
    else if (this.levels.size === 0) {
      this.levels.set("maxTasks", { consumed: 0, resetAt: this.now + DAY, period: (this.ids += 1) });
      this.levels.set("maxExports", { consumed: 0, resetAt: undefined, period: (this.ids += 1) });
    }
  }

  renew(): void {
    for (const level of this.levels.values()) {
      if (level.resetAt === undefined || level.resetAt >= this.now) continue;
      level.consumed = 0;
      level.period = this.ids += 1;
      while (level.resetAt <= this.now) level.resetAt += DAY;
    }
  }

  /** Expected answer of the model. */
  consume(
    feature: string,
    amount: number,
    strict: boolean,
  ): { eval: boolean; used: Record<string, number> } | undefined {
    this.renew();
    if (this.levels.size === 0) return undefined;
    const limits = (FEATURES[feature] ?? []).map((name) => ({
      name,
      level: this.level(name),
      limit: LIMITS[name] ?? 0,
    }));
    const granted = limits.every(
      ({ level, limit }) => level.consumed < limit && (!strict || level.consumed + amount <= limit || amount === 0),
    );
    const used = Object.fromEntries(limits.map(({ name, level }) => [`tasker-${name}`, level.consumed + amount]));
    const operation = (this.ids += 1);
    for (const { name, level } of granted ? limits : []) {
      level.consumed += amount;
      this.taken.push({ feature, limit: name, operation, period: level.period, amount, at: this.now, undone: false });
    }
    return { eval: granted, used };
  }

  revert(feature: string, latest: boolean): void {
    this.renew();
    const open = this.taken.filter(
      (one) =>
        one.feature === feature &&
        !one.undone &&
        one.at > this.now - 120_000 &&
        this.levels.get(one.limit)?.period === one.period,
    );
    const newest = open.at(-1)?.operation;
    const totals = new Map<string, number>();
    for (const one of open) {
      if (latest && one.operation !== newest) continue;
      one.undone = true;
      totals.set(one.limit, (totals.get(one.limit) ?? 0) + one.amount);
    }
    for (const [limit, total] of totals) {
      const level = this.level(limit);
      level.consumed = Math.max(0, level.consumed - total);
    }
  }

  reset(names: readonly string[]): void {
    for (const name of names) {
      const level = this.levels.get(name);
      if (level === undefined) continue;
      level.consumed = 0;
      level.period = this.ids += 1;
      if (level.resetAt !== undefined) level.resetAt += DAY;
    }
  }

  increment(name: string, amount: number): void {
    this.renew();
    const level = this.level(name);
    level.consumed = Math.max(0, level.consumed + amount);
  }

  private level(name: string): Level {
    const level = this.levels.get(name);
    if (level === undefined) throw new Error(`no level ${name}`);
    return level;
  }
}

type Action =
  | { kind: "consume"; feature: string; amount: number; strict: boolean }
  | { kind: "revert"; feature: string; latest: boolean }
  | { kind: "resetAll"; renewableOnly: boolean }
  | { kind: "resetLimit"; limit: string }
  | { kind: "increment"; limit: string; amount: number }
  | { kind: "wait"; ms: number }
  | { kind: "novate"; version: string | null }
  | { kind: "evaluate" };

const feature = fc.constantFrom(...Object.keys(FEATURES));
const limit = fc.constantFrom(...Object.keys(LIMITS));
const action: fc.Arbitrary<Action> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("consume" as const),
      feature,
      amount: fc.integer({ min: 0, max: 6 }),
      strict: fc.boolean(),
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("revert" as const), feature, latest: fc.boolean() }) },
  fc.record({ kind: fc.constant("resetAll" as const), renewableOnly: fc.boolean() }),
  fc.record({ kind: fc.constant("resetLimit" as const), limit }),
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant("increment" as const), limit, amount: fc.integer({ min: -6, max: 6 }) }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("wait" as const),
      ms: fc.constantFrom(1, 60_000, 119_999, 120_000, DAY - 1, DAY, 3 * DAY + 5, 45 * DAY),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant("novate" as const), version: fc.constantFrom("1.0.0", "2.0.0", null) }),
  },
  fc.record({ kind: fc.constant("evaluate" as const) }),
);

let api: TestApi;
let key: string;
let runs = 0;
beforeAll(async () => {
  api = await createTestApi();
  key = api.callers.all.key;
  const daily = (text: string) => text.replace("period: { value: 1, unit: MONTH }", "period: { value: 1, unit: DAY }");
  await upload(api, key, daily(tasker()), daily(tasker({ version: "2.0.0", createdAt: "2025-02-01" })));
});
afterAll(() => api.close());

async function apply(model: Model, userId: string, step: Action): Promise<void> {
  const usage = (query: string, body: unknown = {}) =>
    api.call("PUT", `/contracts/${userId}/usageLevels${query}`, { key, body });
  switch (step.kind) {
    case "consume": {
      const names = FEATURES[step.feature] ?? [];
      const body = Object.fromEntries(names.map((name) => [`tasker-${name}`, step.amount]));
      const answer = await consume(
        api,
        key,
        userId,
        body,
        `tasker-${step.feature}${step.strict ? "?strict=true" : ""}`,
      );
      const expected = model.consume(step.feature, step.amount, step.strict);
      if (expected === undefined) expect(answer.body["error"]).toMatchObject({ code: "FLAG_NOT_FOUND" });
      else expect(answer.body).toMatchObject(expected);
      return;
    }
    case "revert": {
      const answer = await consume(api, key, userId, {}, `tasker-${step.feature}?revert=true&latest=${step.latest}`);
      expect(answer.status).toBe(model.levels.size === 0 ? 404 : 204);
      model.revert(step.feature, step.latest);
      return;
    }
    case "resetAll":
      await usage(`?reset=true&renewableOnly=${step.renewableOnly}`);
      model.reset(step.renewableOnly ? ["maxTasks"] : ["maxTasks", "maxExports"]);
      return;
    case "resetLimit":
      expect((await usage(`?usageLimit=${step.limit}`)).status).toBe(model.levels.size === 0 ? 404 : 200);
      model.reset([step.limit]);
      return;
    case "increment":
      expect((await usage("", { tasker: { [step.limit]: step.amount } })).status).toBe(
        model.levels.size === 0 ? 404 : 200,
      );
      if (model.levels.size > 0) model.increment(step.limit, step.amount);
      return;
    case "wait":
      model.now += step.ms;
      api.setNow(new Date(model.now));
      return;
    case "novate": {
      const on = step.version !== null;
      const body = {
        contractedServices: on ? { tasker: step.version } : {},
        subscriptionPlans: on ? { tasker: "PRO" } : {},
        subscriptionAddOns: {},
      };
      expect((await api.call("PUT", `/contracts/${userId}`, { key, body })).status).toBe(200);
      model.subscribe(on);
      return;
    }
    case "evaluate":
      expect((await api.call("POST", `/features/${userId}`, { key })).status).toBe(200);
      model.renew();
  }
}

test("whatever moves a balance in whatever order, it is what a simple model says, and the ledger explains it", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(action, { minLength: 5, maxLength: 40, size: "max" }), async (steps) => {
      const model = new Model();
      api.setNow(new Date(START));
      const userId = `model-${(runs += 1)}`;
      await contract(api, key, userId, { billingPeriod: { autoRenew: true, renewalDays: 30 } });
      for (const step of steps) {
        await apply(model, userId, step);
        const shown = (await show(api, key, userId)).usageLevels["tasker"] ?? {};
        const expected = [...model.levels].map(([name, { consumed, resetAt }]) => [
          name,
          resetAt === undefined ? { consumed } : { resetTimeStamp: new Date(resetAt).toISOString(), consumed },
        ]);
        expect(shown).toEqual(Object.fromEntries(expected));
      }
    }),
    { numRuns: 15, endOnFailure: false },
  );
  await expectBalancesMatchLedger(api.database);
}, 60_000);
