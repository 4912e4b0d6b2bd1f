import { readFileSync } from "node:fs";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { checkLedger } from "../../src/db/invariants.ts";
import { createLocalEvaluator, type LocalEvaluator } from "../../src/local/local.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { contract, upload } from "../support/contracting.ts";
import { inProcess, type InProcess, ORIGIN } from "../support/in-process.ts";

/* Local evaluation for spenders: their budgets bound what leases grant, over any number of processes. Source: contract budgets §3. */

const SAMPLE = readFileSync(new URL("../../src/samples/tasker.yml", import.meta.url), "utf8");
const TASKS = "tasker-maxTasks";
const LATEST = { timeout: 20_000, interval: 20 };

let api: TestApi;
let key: string;
let line: InProcess;
const evaluators: LocalEvaluator[] = [];

beforeAll(async () => {
  api = await createTestApi({ resources: { now: () => new Date() } });
  key = api.callers.all.key;
  await upload(api, key, SAMPLE);
});
beforeEach(() => {
  line = inProcess(api);
});
afterEach(async () => {
  line.restore();
  for (const evaluator of evaluators.splice(0)) await evaluator.close();
  expect((await checkLedger(api.resources.db)).violations).toEqual([]);
});
afterAll(() => api.close());

async function connected(): Promise<LocalEvaluator> {
  const made = createLocalEvaluator({
    url: ORIGIN,
    apiKey: api.callers.evaluation.key,
    fetch: line.fetch,
    retries: 0,
  });
  evaluators.push(made);
  await expect.poll(() => made.state, LATEST).toBe("connected");
  return made;
}

let users = 0;
/** A contract whose limit is 300. */
async function subscribed(): Promise<string> {
  const userId = `user-${(users += 1)}`;
  await contract(api, key, userId, { subscriptionAddOns: { tasker: { extraTasks: 1 } } });
  return userId;
}
async function budget(userId: string, name: string, amount: number, spender: string | null): Promise<void> {
  const body = { limit: TASKS, amount, spender, window: "life" };
  const { status } = await api.call("PUT", `/contracts/${userId}/budgets/${name}`, { key, body });
  expect([200, 201]).toContain(status);
}
interface Balances {
  balances: { spender: string | null; used: number; held: number }[];
}
const balances = async (userId: string, name: string) =>
  Object.fromEntries(
    (await api.call<Balances>("GET", `/contracts/${userId}/budgets/${name}`, { key })).body.balances.map(
      ({ spender, used, held }) => [spender, [used, held]],
    ),
  );
const spend = (local: LocalEvaluator, userId: string, spender?: string | string[]) =>
  local.evaluate(userId, "tasker-board", { consumption: { [TASKS]: 1 }, spender });

/** Spends until it is refused. Returns how often it was granted. */
async function spendAll(local: LocalEvaluator, userId: string, spender?: string | string[]): Promise<number> {
  for (let granted = 0; ; granted += 1) {
    if (!(await spend(local, userId, spender)).eval) return granted;
  }
}

test("each spender has a lease of its own, within every budget that fits, over two processes", async () => {
  const acme = await subscribed();
  await budget(acme, "each", 20, "*");
  await budget(acme, "run", 12, "*/*");
  await budget(acme, "whole", 50, null);
  const [one, other] = [await connected(), await connected()];
  const granted = await Promise.all([
    spendAll(one, acme, "ada/run-1"),
    spendAll(other, acme, ["ada", "run-1"]),
    spendAll(one, acme, "ada/run-2"),
    spendAll(other, acme, "grace"),
    spendAll(one, acme, "alan"),
    spendAll(other, acme),
  ]);
  expect(one.stats().lease + other.stats().lease).toBeGreaterThan(0);
  const denied = await spend(one, acme, "ada/run-1");
  expect(denied).toMatchObject({ eval: false, counted: false, budget: { limit: TASKS } });
  await Promise.all([one.close(), other.close()]);
  expect(granted.reduce((all, each) => all + each, 0)).toBeLessThanOrEqual(50);
  const used = await balances(acme, "each");
  expect(used["ada"]).toEqual([granted.slice(0, 3).reduce((all, each) => all + each, 0), 0]);
  expect(used["ada"]?.[0]).toBeLessThanOrEqual(20);
  expect((await balances(acme, "run"))["ada/run-1"]).toEqual([(granted[0] ?? 0) + (granted[1] ?? 0), 0]);
  expect((await balances(acme, "whole"))["null"]).toEqual([granted.reduce((all, each) => all + each, 0), 0]);
  expect((granted[0] ?? 0) + (granted[1] ?? 0)).toBeLessThanOrEqual(12);
});

test("a lease ends when a budget is set or lowered, and the next one is within it", async () => {
  const acme = await subscribed();
  const local = await connected();
  for (let i = 0; i < 5; i += 1) expect((await spend(local, acme, "ada")).eval).toBe(true);
  expect(local.stats().leases).toBe(1);
  await budget(acme, "each", 10, "*");
  await expect.poll(async () => (await spend(local, acme, "ada")).budget?.name, LATEST).toBe("each");
  expect((await balances(acme, "each"))["ada"]?.[0]).toBe(10);
  await budget(acme, "each", 15, "*");
  await expect.poll(async () => (await spend(local, acme, "ada")).eval, LATEST).toBe(true);
  await spendAll(local, acme, "ada");
  await local.close();
  expect(await balances(acme, "each")).toEqual({ ada: [15, 0] });
});

test("somebody who is no member of a contract with members is refused, from memory too", async () => {
  const acme = await subscribed();
  const member = (method: "PUT" | "DELETE") => api.call(method, `/contracts/${acme}/members/ada`, { key, body: {} });
  await member("PUT");
  const local = await connected();
  expect(await local.evaluate(acme, "tasker-darkMode", { spender: "ada/agent" })).toMatchObject({
    eval: true,
    source: "local",
  });
  const stranger = { status: 404, message: `Member grace of ${acme} not found` };
  for (const featureId of ["tasker-darkMode", "tasker-board"]) {
    await expect(local.evaluate(acme, featureId, { spender: "grace" })).rejects.toMatchObject(stranger);
  }
  expect(await local.evaluate(acme, "tasker-darkMode")).toMatchObject({ eval: true, source: "local" });
  await member("DELETE");
  await expect
    .poll(() => local.evaluate(acme, "tasker-darkMode", { spender: "grace" }).then(({ source }) => source), LATEST)
    .toBe("local");
  await expect(local.evaluate(acme, "tasker-darkMode", { spender: "a//b" })).rejects.toMatchObject({ status: 422 });
});

test("units are counted by the service, however often they are spent, and each is in the history", async () => {
  await upload(api, key, readFileSync(new URL("../../src/samples/scribe.yml", import.meta.url), "utf8"));
  await contract(api, key, "zoe", {
    contractedServices: { scribe: "1.0.0" },
    subscriptionPlans: { scribe: "PRO" },
    subscriptionAddOns: {},
  });
  const local = await connected();
  for (let call = 1; call <= 30; call += 1) {
    const answer = await local.evaluate("zoe", "scribe-write", {
      consumption: { "scribe-credits": { "small.input": 500, "small.output": 500 } },
    });
    expect(answer).toMatchObject({ eval: true, source: "service", used: { "scribe-credits": call / 2 } });
  }
  const { body } = await api.call<{ data: { unit: string; units: number; counted: number }[] }>(
    "GET",
    "/contracts/zoe/usage?by=unit",
    { key },
  );
  expect(body.data.map(({ unit, units, counted }) => [unit, units, counted])).toEqual([
    ["small.output", 15_000, 12],
    ["small.input", 15_000, 3],
  ]);
});
