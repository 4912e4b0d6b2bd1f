import { readFileSync } from "node:fs";
import { sql } from "drizzle-orm";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { checkLedger } from "../../src/db/invariants.ts";
import { compactLedger } from "../../src/db/queries/retention.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { contract, upload } from "../support/contracting.ts";
import { keepsMovements } from "../support/distributed-database.ts";
import { allEventsDuring } from "../support/private-events.ts";

/* Cases of contract budgets §4, by their numbers, and the rules of §1 to §3. */

const SAMPLE = readFileSync(new URL("../../src/samples/tasker.yml", import.meta.url), "utf8");
const SCRIBE = readFileSync(new URL("../../src/samples/scribe.yml", import.meta.url), "utf8");
const START = Date.parse("2025-06-16T10:00:00.000Z");
const DAY = 86_400_000;
const TASKS = "tasker-maxTasks";
const DAILY = { value: 1, unit: "DAY", anchor: "utc" };
const WEEKLY = { value: 1, unit: "WEEK", anchor: "utc" };

let api: TestApi;
let key: string;
const setNow = (moment: number) => api.setNow(new Date(moment));

beforeAll(async () => {
  api = await createTestApi();
  key = api.callers.all.key;
  await upload(api, key, SAMPLE, SCRIBE);
  const version = SAMPLE.replace(/^version:.*$/m, "version: 2.0.0");
  await upload(api, key, `${version}\ncustom: { faregate: { budgets: ${JSON.stringify(VENDORS)} } }\n`);
});
/** Budgets of version 2.0.0. */
const VENDORS = {
  fair: { limit: "maxTasks", spender: "*", amount: 20 },
  own: { limit: "maxTasks", spender: "*/*", amount: 5 },
};
beforeEach(() => setNow(START));
afterAll(async () => {
  expect((await checkLedger(api.resources.db)).violations).toEqual([]);
  await api.close();
});

let users = 0;
/** Contracts a new end user to PRO with an add-on: 300 tasks a month. */
async function subscribed(version = "1.0.0"): Promise<string> {
  const userId = `user-${(users += 1)}`;
  await contract(api, key, userId, {
    contractedServices: { tasker: version },
    subscriptionPlans: { tasker: "PRO" },
    subscriptionAddOns: { tasker: { extraTasks: 1 } },
    billingPeriod: { renewalDays: 365 },
  });
  return userId;
}

interface Budget {
  name: string;
  amount: number | string;
  balances: { spender: string | null; used: number; held: number; remaining: number; resetAt: string | null }[];
  denied: { spender: string | null; amount: number; at: string } | null;
  error?: string;
}
const put = (userId: string, name: string, body: object) =>
  api.call<Budget>("PUT", `/contracts/${userId}/budgets/${encodeURIComponent(name)}`, { key, body });
async function budget(userId: string, name: string, amount: number | string, more: object = {}): Promise<void> {
  const given = await put(userId, name, { limit: TASKS, amount, ...more });
  expect(given).toMatchObject({ status: 201 });
}
const show = async (userId: string, name: string) =>
  (await api.call<Budget>("GET", `/contracts/${userId}/budgets/${name}`, { key })).body;

interface Answer {
  eval: boolean;
  used: Record<string, number>;
  remaining: Record<string, number>;
  reason?: string;
  budget?: { name: string; spender: string | null; used: number; remaining: number };
  budgets?: { name: string; used: number }[];
  hold?: { id: string } | null;
}
const settle = (id: string | undefined, amount: number) =>
  api.call<Answer>("POST", `/holds/${id}`, { key, body: { [TASKS]: amount } });
const ask = async (userId: string, spender: string, amount = 0, query = "") => {
  const body = amount === 0 ? {} : { [TASKS]: amount };
  const path = `/features/${userId}/tasker-board?spender=${encodeURIComponent(spender)}${query}`;
  return (await api.call<Answer>("POST", path, { key, body })).body;
};
interface Leased extends Answer {
  lease: { id: string; until: string } | null;
}
const lease = (userId: string, spender: string, amount: number) =>
  api.call<Leased>("POST", `/features/${userId}/tasker-board/leases?spender=${spender}`, {
    key,
    body: { for: "PT10M", amounts: { [TASKS]: amount } },
  });
/** True, or the name of the budget that denies. */
const take = async (userId: string, spender: string, amount: number) => {
  const { eval: granted, budget: denying } = await ask(userId, spender, amount);
  return granted || (denying?.name ?? false);
};

describe("the cases", () => {
  test("1: each depth counts, and the first budget that denies is named", async () => {
    const userId = await subscribed();
    await budget(userId, "each", 100, { spender: "team/*" });
    await budget(userId, "all", 150, { spender: "team" });
    expect(await take(userId, "team/a", 100)).toBe(true);
    const denied = await ask(userId, "team/a", 1, "&explain=true");
    expect(denied).toMatchObject({
      eval: false,
      reason: "BUDGET_REACHED",
      used: { [TASKS]: 101 },
      remaining: { [TASKS]: 0 },
      budget: {
        name: "each",
        spender: "team/a",
        limit: TASKS,
        window: "period",
        amount: 100,
        used: 100,
        remaining: 0,
        resetAt: "2025-07-16T10:00:00.000Z",
      },
      budgets: [
        { name: "all", used: 100 },
        { name: "each", used: 100 },
      ],
    });
    expect(await take(userId, "team/b", 50)).toBe(true);
    expect(await take(userId, "team/b", 1)).toBe("all");
    expect(await ask(userId, "team/b", 0, "&explain=true")).toMatchObject({ eval: false, used: { [TASKS]: 150 } });
    expect(await take(userId, "other", 150)).toBe(true);
    expect((await show(userId, "each")).balances).toEqual([
      { spender: "team/a", used: 100, held: 0, remaining: 0, resetAt: "2025-07-16T10:00:00.000Z" },
      { spender: "team/b", used: 50, held: 0, remaining: 50, resetAt: "2025-07-16T10:00:00.000Z" },
    ]);
  });

  test("2: several windows are several budgets", async () => {
    const userId = await subscribed();
    await budget(userId, "daily", 10, { spender: "*", window: DAILY });
    await budget(userId, "weekly", 30, { spender: "*", window: WEEKLY });
    for (let day = 0; day < 3; day += 1) {
      setNow(START + day * DAY);
      expect(await take(userId, "ada", 10)).toBe(true);
      expect(await take(userId, "ada", 1)).toBe(day < 2 ? "daily" : "daily");
    }
    for (const day of [3, 6]) {
      setNow(START + day * DAY);
      expect(await take(userId, "ada", 1)).toBe("weekly");
      expect(await take(userId, "grace", 1)).toBe(true);
    }
    setNow(Date.parse("2025-06-23T00:00:00.000Z"));
    expect(await take(userId, "ada", 10)).toBe(true);
  });

  test("3: a path beats one with an asterisk", async () => {
    const userId = await subscribed();
    await budget(userId, "each", 10, { spender: "*" });
    await budget(userId, "vip", 50, { spender: "vip" });
    expect(await take(userId, "vip", 50)).toBe(true);
    expect(await take(userId, "vip", 1)).toBe("vip");
    expect(await take(userId, "ada", 11)).toBe("each");
  });

  test("4: a hold is taken from the budget until it is settled", async () => {
    const userId = await subscribed();
    await budget(userId, "each", 10, { spender: "*" });
    const taken = await ask(userId, "ada", 8, "&hold=PT10M");
    expect(taken).toMatchObject({ eval: true, remaining: { [TASKS]: 2 } });
    expect(await take(userId, "ada", 3)).toBe("each");
    const settled = await settle(taken.hold?.id, 2);
    expect(settled).toMatchObject({ status: 200, body: { eval: true } });
    expect((await show(userId, "each")).balances).toMatchObject([{ spender: "ada", used: 2, held: 0 }]);
    expect(await take(userId, "ada", 3)).toBe(true);
  });

  test("5: a budget lowered below what is used denies; a deleted one does not", async () => {
    const userId = await subscribed();
    await budget(userId, "each", 100, { spender: "*" });
    expect(await take(userId, "ada", 60)).toBe(true);
    expect(await put(userId, "each", { limit: TASKS, amount: 50, spender: "*" })).toMatchObject({
      status: 200,
      body: { balances: [{ spender: "ada", used: 60, remaining: 0 }] },
    });
    expect(await take(userId, "ada", 1)).toBe("each");
    expect(await ask(userId, "ada")).toMatchObject({ eval: false, budget: { name: "each" } });
    const gone = await api.call("DELETE", `/contracts/${userId}/budgets/each`, { key });
    expect(gone.status).toBe(204);
    expect(await take(userId, "ada", 240)).toBe(true);
    expect(await take(userId, "ada", 1)).toBe(false);
  });

  test("6: one that warns denies nothing, and announces each threshold once", async () => {
    const userId = await subscribed();
    await budget(userId, "each", 10, { spender: "*", mode: "warn" });
    const events = await allEventsDuring(api, async () => {
      expect(await take(userId, "ada", 9)).toBe(true);
      expect(await take(userId, "ada", 100)).toBe(true);
    });
    const raised = events.filter(({ code }) => code === "BUDGET_THRESHOLD_REACHED");
    expect(raised.map(({ details }) => details)).toMatchObject([
      { budget: "each", spender: "ada", threshold: 80, amount: 10, used: 9, limitName: "maxTasks" },
      { budget: "each", spender: "ada", threshold: 100, amount: 10, used: 109 },
    ]);
    expect(await ask(userId, "ada", 0, "&explain=true")).toMatchObject({ eval: true, remaining: { [TASKS]: 191 } });
    expect((await show(userId, "each")).balances).toMatchObject([{ used: 109, remaining: 0 }]);
  });

  test("calls that raise no threshold leave the raised one as it is", async () => {
    const userId = await subscribed();
    await budget(userId, "each", 100, { spender: "*" });
    expect(await take(userId, "ada", 80)).toBe(true);
    const taken = await Promise.all([1, 1, 1, 1, 1].map((amount) => take(userId, "ada", amount)));
    expect(taken).toEqual([true, true, true, true, true]);
    const rows = await api.database.connection.client`
      select b.used, b.alerted_threshold, b.alerted_limit from budget_balances b join contracts c on c.id = b.contract_id
      where c.user_id = ${userId}`;
    const row = Object.fromEntries(Object.entries(rows[0] ?? {}).map(([name, value]) => [name, Number(value)]));
    expect(row).toEqual({ used: 85, alerted_threshold: 80, alerted_limit: 100 });
  });

  test("7: a budget of some units lets others pass", async () => {
    const userId = `user-${(users += 1)}`;
    await contract(api, key, userId, {
      contractedServices: { scribe: "1.0.0" },
      subscriptionPlans: { scribe: "PRO" },
      billingPeriod: { renewalDays: 365 },
    });
    const given = { limit: "scribe-credits", spender: "*", unit: "large.", amount: 5 };
    expect((await put(userId, "large", given)).status).toBe(201);
    const spend = async (units: object, query = "") => {
      const path = `/features/${userId}/scribe-write?spender=ada&explain=true${query}`;
      return (await api.call<Answer>("POST", path, { key, body: { "scribe-credits": units } })).body;
    };
    expect(await spend({ "large.output": 300, "small.input": 5000 })).toMatchObject({
      eval: true,
      remaining: { "scribe-credits": 2 },
      budgets: [{ name: "large", used: 3, remaining: 2 }],
    });
    const { hold } = await spend({ "large.input": 500 }, "&hold=PT1H");
    expect(await spend({ "large.output": 101 })).toMatchObject({
      eval: false,
      reason: "BUDGET_REACHED",
      budget: { name: "large", spender: "ada", used: 4, remaining: 1 },
    });
    expect(await spend({ "small.output": 10_000, picture: 2 })).toMatchObject({ eval: true });
    const settled = await api.call("POST", `/holds/${hold?.id}`, {
      key,
      body: { "scribe-credits": { "large.input": 250 } },
    });
    expect(settled.status).toBe(200);
    expect(await spend({ "large.output": 150 })).toMatchObject({ eval: true });
    expect(await spend({ "large.input": 1 })).toMatchObject({ eval: false, budget: { name: "large", used: 5 } });
    expect(await spend({ picture: 1 })).toMatchObject({ eval: true });
    expect((await show(userId, "large")).balances).toMatchObject([{ spender: "ada", used: 5, held: 0 }]);
  });

  test("9: a lease holds what it was granted until its end", async () => {
    const userId = await subscribed();
    await budget(userId, "each", 10, { spender: "*" });
    const leased = await lease(userId, "ada", 20);
    expect(leased.body).toMatchObject({ eval: true, lease: { granted: { [TASKS]: 10 } }, remaining: { [TASKS]: 0 } });
    // Its process spends 7 in memory, and dies.
    setNow(START + 500_000);
    expect(await take(userId, "ada", 1)).toBe("each");
    expect((await show(userId, "each")).balances).toMatchObject([{ used: 0, held: 10 }]);
    expect((await lease(userId, "ada", 1)).body).toMatchObject({ eval: false, lease: null, budget: { name: "each" } });
    setNow(START + 600_000);
    expect(await take(userId, "ada", 1)).toBe("each");
    expect((await show(userId, "each")).balances).toMatchObject([{ used: 10, held: 0 }]);
    // It was only cut off, and reports late.
    const path = `/leases/${leased.body.lease?.id}`;
    const report = { spent: { [TASKS]: 7 }, amounts: { [TASKS]: 0 } };
    expect((await api.call("POST", path, { key, body: report })).status).toBe(200);
    expect((await show(userId, "each")).balances).toMatchObject([{ used: 7, held: 0 }]);
    expect(await take(userId, "ada", 3)).toBe(true);
  });

  test("10: budgets of another organization are not found", async () => {
    const userId = await subscribed();
    await budget(userId, "each", 10);
    const { key: foreignKey } = await api.newOrganization(api.callers.owner, "Other");
    const foreign = { key: foreignKey };
    for (const path of ["budgets", "budgets/each"]) {
      expect(await api.call("GET", `/contracts/${userId}/${path}`, foreign)).toMatchObject({
        status: 404,
        body: { error: `Contract with userId ${userId} not found` },
      });
    }
  });
});

describe("a budget", () => {
  test("whose amount names a limit follows that limit", async () => {
    const share = SAMPLE.replace(/^version:.*$/m, "version: 3.0.0").replace(
      /^usageLimits:$/m,
      "usageLimits:\n  share: { valueType: NUMERIC, defaultValue: 7, unit: task, type: NON_RENEWABLE }",
    );
    await upload(api, key, share);
    const userId = await subscribed("3.0.0");
    await budget(userId, "each", "share", { spender: "*" });
    expect(await show(userId, "each")).toMatchObject({ amount: "share", amountNow: 7 });
    expect(await take(userId, "ada", 8)).toBe("each");
    expect(await take(userId, "ada", 7)).toBe(true);
    const terms = { mode: "set", value: 9, reason: "More for everybody" };
    const override = { key, body: terms };
    const path = `/contracts/${userId}/overrides/tasker/usageLimits/share`;
    expect((await api.call("PUT", path, override)).status).toBe(200);
    expect(await take(userId, "ada", 3)).toBe("each");
    expect(await take(userId, "ada", 2)).toBe(true);
  });

  test("counts until its end", async () => {
    const userId = await subscribed();
    await budget(userId, "launch", 3, { until: new Date(START + DAY).toISOString() });
    setNow(START + DAY - 1);
    expect(await take(userId, "ada", 4)).toBe("launch");
    setNow(START + DAY);
    expect(await take(userId, "ada", 4)).toBe(true);
  });

  test("is refused where a contract has 200", async () => {
    const userId = await subscribed();
    await budget(userId, "first", 3);
    await api.resources.db.execute(sql`
      insert into contract_budgets (id, contract_id, organization_id, name, service_id, limit_name, amount, span, mode, thresholds)
      select b.id || ' ' || i, b.contract_id, b.organization_id, 'more ' || i, b.service_id, b.limit_name, b.amount, b.span, b.mode,
        b.thresholds
      from contract_budgets b join contracts c on c.id = b.contract_id cross join generate_series(2, 200) as i
      where c.user_id = ${userId}`);
    expect(await put(userId, "last", { limit: TASKS, amount: 3 })).toMatchObject({
      status: 409,
      body: { error: "CONFLICT: A contract cannot have more than 200 budgets" },
    });
    expect(await put(userId, "first", { limit: TASKS, amount: 4 })).toMatchObject({ status: 200 });
  });
});

describe("a call", () => {
  test("without a spender passes only budgets of the whole contract", async () => {
    const userId = await subscribed();
    await budget(userId, "whole", 20);
    await budget(userId, "each", 10, { spender: "*" });
    const body = { [TASKS]: 15 };
    const plain = await api.call<Answer>("POST", `/features/${userId}/tasker-board`, { key, body });
    expect(plain.body.eval).toBe(true);
    const again = await api.call<Answer>("POST", `/features/${userId}/tasker-board`, { key, body });
    expect(again.body).toMatchObject({ eval: false, budget: { name: "whole", spender: null, used: 15, remaining: 5 } });
    const all = await api.call("POST", `/features/${userId}?spender=ada`, { key });
    expect(all.body).toMatchObject({ "tasker-board": true });
    expect(await take(userId, "ada", 5)).toBe(true);
    for (const query of ["", "?details=true"]) {
      const { body: answers } = await api.call<Record<string, unknown>>("POST", `/features/${userId}${query}`, { key });
      expect(answers["tasker-board"]).toEqual(query === "" ? false : expect.objectContaining({ eval: false }));
      expect(answers["tasker-darkMode"]).toEqual(query === "" ? true : expect.objectContaining({ eval: true }));
    }
  });

  test.each(["", "a//b", "a/b/c/d/e", ".", "a/..", "%2E%2E"])("with the spender '%s' is refused", async (spender) => {
    const userId = await subscribed();
    for (const path of [`/features/${userId}`, `/features/${userId}/tasker-board`]) {
      expect(await api.call("POST", `${path}?member=${encodeURIComponent(spender)}`, { key })).toMatchObject({
        status: 422,
        body: { error: "spender must be a path of 1 to 4 ids" },
      });
    }
  });

  test("at the same time as 63 others passes no budget", async () => {
    const userId = await subscribed();
    await budget(userId, "team", 40, { spender: "team" });
    await budget(userId, "each", 7, { spender: "team/*" });
    const granted = await Promise.all(
      Array.from({ length: 64 }, async (_, i) => (await take(userId, `team/${i % 8}`, 1)) === true),
    );
    expect(granted.filter(Boolean)).toHaveLength(40);
    const { balances } = await show(userId, "each");
    expect(balances.reduce((sum, { used }) => sum + used, 0)).toBe(40);
    expect(Math.max(...balances.map(({ used }) => used))).toBeLessThanOrEqual(7);
  });
});

test("budgets of a contract change nothing that impact, best fit and the gate say", async () => {
  const own = await api.newOrganization(api.callers.owner, "Predicting");
  await upload(api, own.key, SAMPLE, SAMPLE.replace(/^version:.*$/m, "version: 2.0.0"));
  const subscription = {
    contractedServices: { tasker: "1.0.0" },
    subscriptionPlans: { tasker: "PRO" },
    subscriptionAddOns: { tasker: { extraTasks: 1 } },
  };
  await contract(api, own.key, "firm", subscription);
  const rules = [{ rule: "nobodyLoses" }, { rule: "noQuotaLost" }, { rule: "everyContractIsPlaced" }];
  const ruled = await api.call("PUT", `/organizations/${own.id}/gate`, { key: api.callers.owner.key, body: { rules } });
  expect(ruled.status).toBe(200);
  const set = async (name: string, body: object) => {
    const put = await api.call("PUT", `/contracts/firm/budgets/${name}`, {
      key: own.key,
      body: { limit: TASKS, ...body },
    });
    expect(put.status).toBeLessThan(300);
  };
  const taken = async (amount: number) => {
    const path = "/features/firm/tasker-board?spender=ada";
    return (await api.call<Answer>("POST", path, { key: own.key, body: { [TASKS]: amount } })).body.eval;
  };
  const predicted = async () => {
    const body = { action: "archive", pricingVersion: "1.0.0" };
    const { status, body: report } = await api.call<{ gate: { passed: boolean }; groups: object[]; counts: object }>(
      "POST",
      "/services/tasker/impact",
      { key: own.key, body },
    );
    expect(status).toBe(200);
    const { gate, groups, counts } = report;
    return { gate, groups, counts };
  };
  expect(await taken(5)).toBe(true);
  const without = await predicted();
  expect(without).toMatchObject({
    gate: { passed: true },
    groups: [{ proposal: { target: { plan: "PRO", addOns: { extraTasks: 1 } }, keepsEverything: true } }],
  });
  await set("all", { amount: 5 });
  await set("each", { amount: 0, spender: "*", window: "life" });
  expect(await taken(1)).toBe(false);
  expect(await predicted()).toEqual(without);
});

test("a budget shows which call it denied last", async () => {
  const userId = await subscribed();
  await budget(userId, "all", 40);
  await budget(userId, "each", 10, { spender: "*", window: DAILY });
  const denied = async (name: string) => (await show(userId, name)).denied;
  expect(await take(userId, "ada", 8)).toBe(true);
  expect(await denied("each")).toBeNull();
  await ask(userId, "ada/notes", 5, "&dryRun=true");
  expect(await denied("each")).toBeNull();
  expect(await take(userId, "ada/notes", 5)).toBe("each");
  expect(await denied("each")).toEqual({ spender: "ada/notes", amount: 5, at: new Date(START).toISOString() });
  expect(await denied("all")).toBeNull();
  const hold = (await ask(userId, "ada", 2, "&hold=PT10M")).hold?.id;
  setNow(START + 1000);
  expect((await settle(hold, 3)).body).toMatchObject({ eval: false, budget: { name: "each" } });
  expect(await denied("each")).toMatchObject({ spender: "ada", amount: 3 });
  const item = { key: "k", userId, featureId: "tasker-board", spender: "ada/run", amounts: { [TASKS]: 4 } };
  await api.call("POST", "/usage", { key, body: [item] });
  expect(await denied("each")).toMatchObject({ spender: "ada/run", amount: 4 });
  await lease(userId, "ada", 6);
  expect(await denied("each")).toMatchObject({ spender: "ada", amount: 6 });
  setNow(START + 2000);
  const whole = await api.call<Answer>("POST", `/features/${userId}/tasker-board`, { key, body: { [TASKS]: 100 } });
  expect(whole.body.budget?.name).toBe("all");
  const { body } = await api.call<{ data: Budget[] }>("GET", `/contracts/${userId}/budgets`, { key });
  expect(body.data.map(({ name, denied: last }) => [name, last?.spender, last?.amount])).toEqual([
    ["all", null, 100],
    ["each", "ada", 6],
  ]);
  // Decisions read nothing of it, and terms that leave the balances leave it, too.
  await put(userId, "each", { limit: TASKS, amount: 12, spender: "*", window: DAILY });
  expect(await denied("each")).toMatchObject({ spender: "ada", amount: 6 });
  await put(userId, "each", { limit: TASKS, amount: 12, spender: "*/*", window: DAILY });
  expect(await denied("each")).toBeNull();
});

test("usage is summed by spender, to a depth", async () => {
  const userId = await subscribed();
  for (const [spender, amount] of [
    ["ada/notes/run-1", 3],
    ["ada/notes/run-2", 4],
    ["ada", 1],
    ["grace", 2],
  ] as const) {
    expect(await take(userId, spender, amount)).toBe(true);
  }
  await api.call("POST", `/features/${userId}/tasker-board?revert=true&spender=grace`, { key });
  const rows = async (query: string) => {
    const path = `/contracts/${userId}/usage?by=spender${query}`;
    const { body } = await api.call<{ data: { spender: string; counted: number }[] }>("GET", path, { key });
    return body.data.map(({ spender, counted }) => [spender, counted]);
  };
  expect(await rows("")).toEqual([["ada", 8]]);
  expect(await rows("&depth=2")).toEqual([
    ["ada/notes", 7],
    ["ada", 1],
  ]);
  const ofAll = <Body>(accept: string) =>
    api.call<Body>("GET", "/usage?by=spender&top=1000", { key, headers: { accept } });
  const { body: all } = await ofAll<{ data: { userId: string }[] }>("application/json");
  expect(all.data.filter((row) => row.userId === userId)).toEqual([
    { service: "tasker", limit: "maxTasks", userId, spender: "ada", counted: 8, late: 0 },
  ]);
  const { body: text } = await ofAll<string>("text/csv");
  expect(text.split("\r\n")[0]).toBe("service,limit,userId,spender,counted,late");
  expect(text).toContain(`\r\ntasker,maxTasks,${userId},ada,8,0\r\n`);
  const wrong = await api.call("GET", `/contracts/${userId}/usage?by=spender&depth=5`, { key });
  expect(wrong).toMatchObject({
    status: 400,
    body: { error: "INVALID DATA: depth must be a whole number from 1 to 4" },
  });
});

describe("at a past moment", () => {
  const askAt = async (userId: string, spender: string, when: number, query = "&explain=true") => {
    const at = new Date(when).toISOString();
    const path = `/features/${userId}/tasker-board?spender=${encodeURIComponent(spender)}&at=${at}${query}`;
    return (await api.call<Answer>("POST", path, { key, body: {} })).body;
  };
  const MINUTE = 60_000;

  test("budgets are as they were, with the balances and holds of then", async () => {
    const userId = await subscribed();
    await budget(userId, "each", 10, { spender: "*", window: DAILY });
    await budget(userId, "period", 30, { spender: "ada" });
    const steps: [name: string, step: () => Promise<unknown>][] = [
      ["nothing", async () => {}],
      ["used", () => take(userId, "ada", 6)],
      ["others", () => take(userId, "grace", 10)],
      ["held", () => ask(userId, "ada", 4, "&hold=PT30M")],
      ["raised", () => put(userId, "each", { limit: TASKS, amount: 20, spender: "*", window: DAILY })],
      ["more", () => take(userId, "ada", 9)],
      [
        "reverted",
        () => api.call("POST", `/features/${userId}/tasker-board?revert=true&latest=true&spender=ada`, { key }),
      ],
      ["deleted", () => api.call("DELETE", `/contracts/${userId}/budgets/each`, { key })],
      ["next day", async () => setNow(START + DAY)],
      ["again", () => take(userId, "ada", 5)],
      [
        "reset",
        () => api.call("PUT", `/contracts/${userId}/usageLevels?reset=true`, { key, body: { tasker: ["maxTasks"] } }),
      ],
    ];
    const seen: [when: number, name: string, spender: string, answer: object][] = [];
    let now = START;
    for (const [name, step] of steps) {
      setNow(now + MINUTE / 2);
      await step();
      now = Math.max(now + MINUTE, api.resources.now().getTime());
      setNow(now);
      for (const spender of ["ada", "grace", "ada/notes"]) {
        const { eval: isOn, remaining, budget: denying, budgets } = await ask(userId, spender, 0, "&explain=true");
        seen.push([now, name, spender, { eval: isOn, remaining, budget: denying, budgets }]);
      }
    }
    setNow(now + 40 * DAY);
    await take(userId, "ada", 1);
    for (const [when, name, spender, answer] of seen) {
      const { eval: isOn, remaining, budget: denying, budgets } = await askAt(userId, spender, when);
      expect([name, spender, { eval: isOn, remaining, budget: denying, budgets }]).toEqual([name, spender, answer]);
    }
    const all = await api.call<{ features: Record<string, boolean>; asOf: { cause: string } }>(
      "POST",
      `/features/${userId}?spender=grace&at=${new Date(START + 4 * MINUTE).toISOString()}`,
      { key },
    );
    expect(all.body.features).toMatchObject({ "tasker-board": false, "tasker-darkMode": true });
    expect(all.body.asOf.cause).toBe("budget");
  });

  test("those of the pricing of then count", async () => {
    const userId = await subscribed("2.0.0");
    expect(await take(userId, "ada", 20)).toBe(true);
    setNow(START + MINUTE);
    const plain = {
      contractedServices: { tasker: "1.0.0" },
      subscriptionPlans: { tasker: "PRO" },
      subscriptionAddOns: { tasker: { extraTasks: 1 } },
    };
    expect((await api.call("PUT", `/contracts/${userId}`, { key, body: plain })).status).toBe(200);
    setNow(START + 2 * MINUTE);
    expect(await ask(userId, "ada")).toMatchObject({ eval: true });
    expect(await askAt(userId, "ada", START)).toMatchObject({ eval: false, budget: { name: "fair", used: 20 } });
  });
});

describe("budgets of a pricing", () => {
  test("count for every contract of the version, beside the contract's own", async () => {
    const userId = await subscribed("2.0.0");
    expect(await take(userId, "ada/agent", 5)).toBe(true);
    expect(await take(userId, "ada/agent", 1)).toBe("own");
    expect(await take(userId, "ada", 15)).toBe(true);
    expect(await take(userId, "ada/other", 1)).toBe("fair");
    await budget(userId, "vip", 50, { spender: "grace" });
    expect(await take(userId, "grace", 21)).toBe("fair");
    expect(await take(userId, "grace", 20)).toBe(true);
    expect((await show(userId, "vip")).balances).toMatchObject([{ spender: "grace", used: 20 }]);
    // Calls about the contract reach its own budgets only, of whatever name.
    const path = `/contracts/${userId}/budgets/fair`;
    for (const method of ["GET", "DELETE"] as const) {
      expect(await api.call(method, path, { key })).toMatchObject({
        status: 404,
        body: { error: `Budget fair of ${userId} not found` },
      });
    }
    await budget(userId, "fair", 1000, { spender: "*" });
    expect(await take(userId, "ada", 1)).toBe("fair");
    expect(await api.call("DELETE", path, { key })).toMatchObject({ status: 204 });
    expect(await take(userId, "ada", 1)).toBe("fair");
  });

  test("are named by diff and impact, where a tighter one is a loss", async () => {
    const drafted = (amount: number) => {
      const budgets = { ...VENDORS, fair: { ...VENDORS.fair, amount } };
      const text = SAMPLE.replace(/^version:.*$/m, `version: 2.0.${amount}`);
      const form = new FormData();
      form.append(
        "pricing",
        new Blob([`${text}\ncustom: { faregate: { budgets: ${JSON.stringify(budgets)} } }\n`]),
        "p.yml",
      );
      return form;
    };
    const diff = (amount: number) =>
      api.call<{ class: string; changes: object[] }>("POST", "/services/tasker/diff?from=2.0.0", {
        key,
        body: drafted(amount),
      });
    const tighter = await diff(10);
    expect(tighter).toMatchObject({ status: 200, body: { class: "narrowing" } });
    expect(tighter.body.changes).toContainEqual(
      expect.objectContaining({
        subject: "usageLimit",
        name: "maxTasks",
        aspect: "budget fair",
        class: "narrowing",
        before: expect.objectContaining({ spender: "*", amount: 20 }),
        after: expect.objectContaining({ amount: 10 }),
      }),
    );
    expect((await diff(30)).body.class).toBe("widening");
    await subscribed();
    const target = { subscriptionPlan: "PRO", subscriptionAddOns: { extraTasks: 1 } };
    const { body } = await api.call<{
      groups: { pricingVersion: string; counts: object; limits: object[] }[];
    }>("POST", "/services/tasker/impact", { key, body: { action: "archive", pricingVersion: "1.0.0", ...target } });
    const group = body.groups.find(({ pricingVersion }) => pricingVersion === "1.0.0");
    expect(group?.limits).toContainEqual(
      expect.objectContaining({
        limit: "maxTasks",
        before: 300,
        after: 300,
        effect: "less",
        loses: true,
        tighterBudgets: ["fair", "own"],
      }),
    );
  });

  test("are shown by offers", async () => {
    const { body } = await api.call<{ limits: { name: string; budgets?: object[] }[] }>(
      "GET",
      "/services/tasker/offer?pricingVersion=2.0.0",
      { key },
    );
    const shown = body.limits.map(({ name, budgets }) => [name, budgets]);
    expect(shown).toContainEqual([
      "maxTasks",
      [
        { name: "fair", value: 20, text: "20 task per month for each spender" },
        { name: "own", value: 5, text: "5 task per month for each */*" },
      ],
    ]);
    expect(shown.filter(([, budgets]) => budgets !== undefined)).toHaveLength(1);
  });

  test("are held with holds, and rest with their version", async () => {
    const userId = await subscribed("2.0.0");
    const { hold } = await ask(userId, "ada", 20, "&hold=PT1H");
    expect(await take(userId, "ada", 1)).toBe("fair");
    const subscription = {
      contractedServices: { tasker: "1.0.0" },
      subscriptionPlans: { tasker: "PRO" },
      subscriptionAddOns: { tasker: { extraTasks: 1 } },
    };
    expect((await api.call("PUT", `/contracts/${userId}`, { key, body: subscription })).status).toBe(200);
    expect(await take(userId, "ada", 30)).toBe(true);
    expect(await settle(hold?.id, 20)).toMatchObject({ body: { eval: true } });
  });
});

describe("an answer for a spender", () => {
  test("of a token has the spender as a claim, and its budgets decide", async () => {
    const userId = await subscribed();
    await budget(userId, "each", 10, { spender: "*" });
    expect(await take(userId, "ada", 10)).toBe(true);
    const claims = async (query: string) => {
      const { body } = await api.call<{ pricingToken: string }>("POST", `/features/${userId}/pricing-token${query}`, {
        key,
      });
      return JSON.parse(atob(body.pricingToken.split(".")[1] ?? ""));
    };
    const of = await claims("?spender=ada/agent-1");
    expect(of).toMatchObject({ sub: userId, spender: "ada/agent-1", features: { "tasker-board": { eval: false } } });
    expect(await claims("?spender=grace")).toMatchObject({ features: { "tasker-board": { eval: true } } });
    expect(await claims("")).not.toHaveProperty("spender");
  });

  test("of an unlock says that buying does not help", async () => {
    const userId = await subscribed();
    await budget(userId, "each", 10, { spender: "*" });
    expect(await take(userId, "ada", 10)).toBe(true);
    const unlock = (spender: string) =>
      api.call("POST", `/features/${userId}/tasker-board/unlock?spender=${spender}`, { key, body: {} });
    expect((await unlock("ada")).body).toMatchObject({ target: null, reason: "BUDGET" });
    expect((await unlock("grace")).body).toMatchObject({ target: null, reason: "ALREADY_ON" });
    await api.call("POST", `/features/${userId}/tasker-board`, { key, body: { [TASKS]: 290 } });
    const denied = await unlock("ada");
    expect(denied.body).toMatchObject({ target: null, reason: "BUDGET" });
    expect(denied.body).not.toHaveProperty("missing");
    expect((await unlock("grace")).body).toMatchObject({ target: { plan: "PRO" }, reason: null });
  });

  test("of OFREP takes it from the context", async () => {
    const userId = await subscribed();
    await budget(userId, "each", 10, { spender: "*" });
    expect(await take(userId, "ada", 10)).toBe(true);
    const flag = (spender: unknown) =>
      api.call("POST", "/ofrep/v1/evaluate/flags/tasker-board", {
        key,
        body: { context: { targetingKey: userId, spender } },
      });
    expect((await flag("ada")).body).toMatchObject({
      value: false,
      metadata: { reason: "BUDGET_REACHED", remaining: 0 },
    });
    expect((await flag("grace")).body).toMatchObject({ value: true });
    for (const malformed of ["a//b", "", 7]) {
      expect(await flag(malformed)).toMatchObject({
        status: 422,
        body: { errorCode: "INVALID_CONTEXT", errorDetails: "spender must be a path of 1 to 4 ids" },
      });
    }
  });
});

describe("a hold", () => {
  const held = async (userId: string, name = "each") =>
    (await show(userId, name)).balances.map(({ used, held: amount }) => [used, amount]);
  const taken = async (userId: string, amount: number, query = "") => {
    const { hold } = await ask(userId, "ada", amount, `&hold=PT1H${query}`);
    expect(hold).not.toBeNull();
    return hold?.id ?? "";
  };

  test("that is released, or deleted with its budget, leaves nothing", async () => {
    const userId = await subscribed();
    await budget(userId, "each", 10, { spender: "*" });
    const id = await taken(userId, 4);
    expect(await held(userId)).toEqual([[0, 4]]);
    await api.call("DELETE", `/holds/${id}`, { key });
    expect(await held(userId)).toEqual([]);
    const other = await taken(userId, 4);
    await api.call("DELETE", `/contracts/${userId}/budgets/each`, { key });
    await budget(userId, "each", 10, { spender: "*" });
    expect(await settle(other, 4)).toMatchObject({ status: 200, body: { eval: true } });
    expect(await held(userId)).toEqual([]);
  });

  test.each(["release", "consume"])("expires with %s in the window of its end", async (onExpiry) => {
    const userId = await subscribed();
    await budget(userId, "each", 10, { spender: "*", window: DAILY });
    setNow(Date.parse("2025-06-16T23:30:00.000Z"));
    expect(await take(userId, "ada", 5)).toBe(true);
    await taken(userId, 4, `&onExpiry=${onExpiry}`);
    expect(await held(userId)).toEqual([[5, 4]]);
    setNow(Date.parse("2025-06-17T00:10:00.000Z"));
    expect(await take(userId, "ada", 7)).toBe("each");
    setNow(Date.parse("2025-06-17T00:30:00.000Z"));
    expect(await take(userId, "ada", 7)).toBe(onExpiry === "release" ? true : "each");
    expect(await held(userId)).toEqual(onExpiry === "release" ? [[7, 0]] : [[4, 0]]);
    setNow(START + 3 * DAY);
    expect(await held(userId)).toEqual([]);
  });

  test("settled with more than it holds is refused beyond the budget", async () => {
    const userId = await subscribed();
    await budget(userId, "each", 10, { spender: "*" });
    const id = await taken(userId, 4);
    expect(await settle(id, 11)).toMatchObject({ body: { eval: false, budget: { name: "each", used: 4 } } });
    expect(await settle(id, 10)).toMatchObject({ body: { eval: true } });
    expect(await held(userId)).toEqual([[10, 0]]);
  });

  test("leaves what its budgets leave, settled or refused", async () => {
    const userId = await subscribed();
    await budget(userId, "each", 10, { spender: "*" });
    await budget(userId, "warned", 5, { spender: "*", mode: "warn", window: "life" });
    const id = await taken(userId, 4);
    expect(await settle(id, 11)).toMatchObject({ body: { eval: false, remaining: { [TASKS]: 6 } } });
    expect(await settle(id, 3)).toMatchObject({ body: { eval: true, remaining: { [TASKS]: 7 } } });
    // In a transaction of its own, for the key.
    const other = await taken(userId, 4);
    const settled = await api.call<Answer>("POST", `/holds/${other}`, {
      key,
      body: { [TASKS]: 4 },
      headers: { "Idempotency-Key": `settled-${userId}` },
    });
    expect(settled.body).toMatchObject({ eval: true, remaining: { [TASKS]: 3 } });
    expect(await ask(userId, "ada", 0, "&explain=true")).toMatchObject({ remaining: { [TASKS]: 3 } });
  });
});

describe("a lease", () => {
  test("counts what is reported, and is extended as far as the budget goes", async () => {
    const userId = await subscribed();
    await budget(userId, "each", 10, { spender: "*" });
    const { body } = await lease(userId, "ada", 4);
    expect(await take(userId, "ada", 3)).toBe(true);
    const report = (spent: number, left: number) =>
      api.call<Leased>("POST", `/leases/${body.lease?.id}`, {
        key,
        body: { spent: { [TASKS]: spent }, amounts: { [TASKS]: left } },
      });
    expect((await report(2, 8)).body).toMatchObject({ lease: { granted: { [TASKS]: 7 }, spent: { [TASKS]: 2 } } });
    expect((await show(userId, "each")).balances).toMatchObject([{ used: 5, held: 5 }]);
    expect(await take(userId, "ada", 1)).toBe("each");
    expect((await report(7, 2)).body).toMatchObject({ eval: false, budget: { name: "each" } });
    expect(await show(userId, "each")).toMatchObject({ denied: { spender: "ada", amount: 2 } });
    expect((await report(7, 0)).body).toMatchObject({ lease: { state: "ended" } });
    expect((await show(userId, "each")).balances).toMatchObject([{ used: 10, held: 0 }]);
  });

  test("ends before the window of its budget", async () => {
    const userId = await subscribed();
    await budget(userId, "daily", 10, { spender: "*", window: DAILY });
    setNow(Date.parse("2025-06-16T23:55:00.000Z"));
    expect((await lease(userId, "ada", 4)).body.lease?.until).toBe("2025-06-16T23:59:59.999Z");
  });
});

describe("a balance", () => {
  test("gives back what is reverted, of the spender that is named", async () => {
    const userId = await subscribed();
    await budget(userId, "each", 10, { spender: "*" });
    await budget(userId, "whole", 20);
    for (const spender of ["ada", "grace"]) expect(await take(userId, spender, 4)).toBe(true);
    const path = `/features/${userId}/tasker-board?revert=true`;
    expect((await api.call("POST", `${path}&spender=ada`, { key })).status).toBe(204);
    expect((await show(userId, "each")).balances).toMatchObject([{ spender: "grace", used: 4 }]);
    expect((await show(userId, "whole")).balances).toMatchObject([{ spender: null, used: 4 }]);
    expect((await api.call("POST", path, { key })).status).toBe(204);
    expect((await show(userId, "whole")).balances).toEqual([]);
    expect(await take(userId, "ada", 10)).toBe(true);
  });

  test("restarts with a reset of its limit, and with its period", async () => {
    const userId = await subscribed();
    await budget(userId, "each", 10, { spender: "*" });
    await budget(userId, "life", 25, { spender: "*", window: "life" });
    expect(await take(userId, "ada", 10)).toBe(true);
    setNow(START + 1000);
    await api.call("PUT", `/contracts/${userId}/usageLevels?reset=true`, { key, body: {} });
    expect((await show(userId, "each")).balances).toEqual([]);
    expect(await take(userId, "ada", 10)).toBe(true);
    expect(await take(userId, "ada", 1)).toBe("each");
    setNow(START + 70 * DAY);
    expect(await take(userId, "ada", 6)).toBe("life");
    expect(await take(userId, "ada", 5)).toBe(true);
    expect((await show(userId, "each")).balances).toMatchObject([{ used: 5 }]);
  });

  test("counts the items of a batch by their moment", async () => {
    const userId = await subscribed();
    await budget(userId, "daily", 10, { spender: "*", window: DAILY });
    await budget(userId, "each", 20, { spender: "*" });
    setNow(START + 2 * DAY);
    const at = (moment: number) => new Date(moment).toISOString();
    const item = (name: string, amount: number, more: object) => ({
      userId,
      featureId: "tasker-board",
      key: `${userId} ${name}`,
      amounts: { [TASKS]: amount },
      spender: "ada",
      ...more,
    });
    const sent = await api.call<{ items: object[] }>("POST", "/usage", {
      key,
      body: [
        item("yesterday", 10, { at: at(START + DAY) }),
        item("today", 8, { at: at(START + 2 * DAY - 1000) }),
        item("now", 3, {}),
        item("other", 2, { spender: "grace/agent" }),
        item("before", 3, { at: at(START - DAY) }),
      ],
    });
    expect(sent.body.items).toMatchObject([
      { verdict: "counted" },
      { verdict: "counted" },
      { verdict: "refused", reason: "BUDGET_REACHED" },
      { verdict: "counted" },
      { verdict: "late" },
    ]);
    expect((await show(userId, "daily")).balances).toMatchObject([
      { spender: "ada", used: 8 },
      { spender: "grace", used: 2 },
    ]);
    expect((await show(userId, "each")).balances).toMatchObject([{ used: 18 }, { used: 2 }]);
    const wrong = await api.call("POST", "/usage", { key, body: [item("wrong", 1, { spender: "a//b" })] });
    expect(wrong).toMatchObject({ status: 422, body: { error: "Item 0: spender must be a path of 1 to 4 ids" } });
  });
});

test.each([
  [{ limit: "tasker-nothing" }, "Unknown limit: tasker-nothing"],
  [{ limit: "" }, "The limit field must be a non-empty string"],
  [{ spender: "a//b" }, "The spender field must be a path of 1 to 4 ids, or null"],
  [{ unit: "a b" }, "The unit field must be the beginning of a unit's name, or null"],
  [{ amount: -1 }, "The amount field must be a number of at least 0, or the name of a limit"],
  [{ amount: "nothing" }, "Unknown limit: nothing"],
  [{ amount: "maxTasks" }, "Unknown limit: maxTasks"],
  [{ window: { ...DAILY, x: 1 } }, "Unknown field: window.x"],
  [{ window: "week" }, "The window field must be period, life, or an object of value, unit and anchor"],
  [
    { window: { value: 0, unit: "DAY", anchor: "utc" } },
    "The window field must be period, life, or an object of value, unit and anchor",
  ],
  [{ mode: "deny" }, "The mode field must be stop or warn"],
  [{ until: "soon" }, "The until field must be an ISO 8601 date or null"],
  [{ thresholds: [80, 80] }, "The thresholds field must be a list of 1 to 5 different whole numbers from 1 to 200"],
  [{ color: "red" }, "Unknown field: color"],
])("a budget with %j is refused", async (wrong, error) => {
  const userId = await subscribed();
  expect(await put(userId, "wrong", { limit: TASKS, amount: 10, ...wrong })).toMatchObject({
    status: 422,
    body: { error },
  });
});

/* The last test: it compacts the movements of all others. */
test.skipIf(keepsMovements())(
  "a past balance of a window that the ledger no longer has whole is counted back from now, or refused",
  async () => {
    setNow(START + 400 * DAY);
    const userId = await subscribed();
    const monthly = { value: 1, unit: "MONTH", anchor: "utc" };
    await budget(userId, "life", 20, { spender: "*", window: "life" });
    await budget(userId, "month", 20, { spender: "*/*", window: monthly });
    const usedAt = async (day: number, spender: string) => {
      const at = new Date(START + day * DAY).toISOString();
      const path = `/features/${userId}/tasker-board?explain=true&spender=${spender}&at=${at}`;
      const { body } = await api.call<Answer & { error: unknown }>("POST", path, { key, body: {} });
      return body.budgets?.map(({ name, used }) => [name, used]) ?? body.error;
    };
    const spend = async (day: number, spender: string, amount: number) => {
      setNow(START + day * DAY);
      expect(await take(userId, spender, amount)).toBe(true);
    };
    await spend(400, "ada", 4);
    await spend(400, "grace/notes", 1);
    await spend(403, "ada", 3);
    await spend(409, "ada", 2);
    await spend(440, "grace/notes", 1);
    setNow(START + 441 * DAY);
    await compactLedger(api.resources.db, new Date(START + 441 * DAY), 36);
    const [row] = await api.database.connection.client<{ at: string }[]>`select at from usage_ledger_start`;
    const start = (Date.parse(row?.at ?? "") - START) / DAY;
    expect(start).toBe(403);
    expect(await usedAt(408, "ada")).toEqual([["life", 7]]);
    expect(await usedAt(410, "ada")).toEqual([["life", 9]]);
    expect(await usedAt(408, "alan")).toEqual([["life", 0]]);
    expect(await usedAt(440.5, "grace/notes")).toEqual([
      ["life", 2],
      ["month", 1],
    ]);
    // Its balance is of the next window, and what was used of this one is summed up.
    expect(await usedAt(408, "grace/notes")).toMatch(/^INVALID DATA: The record of usage starts at /);
  },
);
