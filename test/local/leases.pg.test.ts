import { readFileSync } from "node:fs";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { checkLedger } from "../../src/db/invariants.ts";
import { createLocalEvaluator, type LocalEvaluator, type LocalEvaluatorOptions } from "../../src/local/local.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { contract, show, upload } from "../support/contracting.ts";
import { inProcess, type InProcess, ORIGIN } from "../support/in-process.ts";
import { TWO_LIMITS } from "../support/pricings.ts";

/* Leases of local evaluation: cases 32, 34 and 35 of contract tokens-and-leases §10, and the rules of §7, "How it leases". */

const SAMPLE = readFileSync(new URL("../../src/samples/tasker.yml", import.meta.url), "utf8");
/** Reads a level by its full identifier, which is no limit of a lease. */
const FULL_NAMES = `
saasName: Full
syntaxVersion: "3.0"
version: "1.0.0"
createdAt: "2025-01-01"
currency: EUR
features:
  call:
    valueType: BOOLEAN
    defaultValue: true
    type: DOMAIN
    expression: subscriptionContext['calls'] < 100 && subscriptionContext["full-calls"] < 50
usageLimits:
  calls: { valueType: NUMERIC, defaultValue: 100, unit: call, type: NON_RENEWABLE, trackable: true }
plans:
  ALL: { price: 0, features: null }
`;
const VOLUME = FULL_NAMES.replace("saasName: Full", "saasName: Volume")
  .replace(/expression: .*/, "expression: subscriptionContext['calls'] < pricingContext['usageLimits']['calls']")
  .replace("defaultValue: 100,", "defaultValue: 500000,");
const ONE = { "tasker-maxTasks": 1 };
const LATEST = { timeout: 20_000, interval: 20 };

let api: TestApi;
let key: string;
let line: InProcess;
const evaluators: LocalEvaluator[] = [];

beforeAll(async () => {
  api = await createTestApi({ resources: { now: () => new Date() } });
  key = api.callers.all.key;
  for (const pricing of [SAMPLE, TWO_LIMITS, FULL_NAMES, VOLUME]) await upload(api, key, pricing);
});
beforeEach(() => {
  line = inProcess(api);
});
afterEach(async () => {
  line.onAnswer = undefined;
  line.restore();
  for (const evaluator of evaluators.splice(0)) await evaluator.close();
  expect((await checkLedger(api.resources.db)).violations).toEqual([]);
});
afterAll(() => api.close());

/** Connects an evaluator over a line, which the caller closes. */
async function connectedOver(over: InProcess, more: Partial<LocalEvaluatorOptions> = {}): Promise<LocalEvaluator> {
  const made = createLocalEvaluator({
    url: ORIGIN,
    apiKey: api.callers.evaluation.key,
    fetch: over.fetch,
    retries: 0,
    ...more,
  });
  await vi.waitUntil(() => made.state === "connected", LATEST);
  return made;
}
async function connected(more: Partial<LocalEvaluatorOptions> = {}): Promise<LocalEvaluator> {
  const made = await connectedOver(line, more);
  evaluators.push(made);
  return made;
}

let users = 0;
/** A contract of plan PRO with `extraTasks` 1: the limit is 300. */
async function subscribed(
  more: Record<string, unknown> = { subscriptionAddOns: { tasker: { extraTasks: 1 } } },
): Promise<string> {
  const userId = `user-${(users += 1)}`;
  await contract(api, key, userId, more);
  return userId;
}
const contractedOn = (service: string) => ({
  contractedServices: { [service]: "1.0.0" },
  subscriptionPlans: { [service]: "ALL" },
});
async function balance(userId: string, service = "tasker", limit = "maxTasks") {
  const { usageLevels } = await show(api, key, userId);
  const level = usageLevels[service]?.[limit] as { consumed: number; held?: number } | undefined;
  return { consumed: level?.consumed, held: level?.held ?? 0 };
}
const spend = (local: LocalEvaluator, userId: string, consumption: Record<string, number> = ONE) =>
  local.evaluate(userId, "tasker-board", { consumption });
const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/**
 * Makes the feature hot: the service answers the first spend, a lease the second. A second after a spend, as on a busy machine,
 * it is no longer hot, and the service answers again. Returns what was spent.
 */
async function heated(local: LocalEvaluator, userId: string): Promise<number> {
  let askedAt = performance.now();
  expect(await spend(local, userId)).toMatchObject({ eval: true, source: "service", counted: true });
  for (let spent = 2; spent <= 10; spent += 1) {
    const previous = askedAt;
    askedAt = performance.now();
    const answer = await spend(local, userId);
    expect(answer).toMatchObject({ eval: true, counted: true });
    if (answer.source === "lease") {
      expect(local.stats().leases).toBe(1);
      return spent;
    }
    expect(performance.now() - previous, "time since the spend before").toBeGreaterThan(900);
  }
  throw new Error("the feature is never hot");
}

describe("spends", () => {
  test("of a hot user and feature come from a lease, and are exact", async () => {
    const ada = await subscribed();
    const local = await connected();
    const heat = await heated(local, ada);
    line.forget();
    for (let used = heat + 1; used <= heat + 5; used += 1) {
      expect(await spend(local, ada)).toEqual({
        eval: true,
        limit: { "tasker-maxTasks": 300 },
        used: { "tasker-maxTasks": used },
        error: null,
        source: "lease",
        stale: false,
        ageMs: expect.any(Number),
        counted: true,
        idempotencyKey: null,
      });
    }
    expect(await local.evaluate(ada, "tasker-board")).toMatchObject({
      eval: true,
      used: { "tasker-maxTasks": heat + 5 },
      source: "lease",
      counted: false,
    });
    expect(line.calls.evaluations).toBe(0);
    expect(local.stats()).toMatchObject({ leases: 1, lease: 7, service: heat - 1 });
    await local.close();
    expect(await balance(ada)).toEqual({ consumed: heat + 5, held: 0 });
  });

  test("32: of two evaluators reach the limit together, and nothing stays held", async () => {
    const ada = await subscribed();
    const both = [await connected(), await connected()];
    let granted = 0;
    await Promise.all(
      both.map(async (local) => {
        while ((await spend(local, ada)).eval) granted += 1;
      }),
    );
    await Promise.all(both.map((local) => local.close()));
    expect(granted).toBe(300);
    expect(await balance(ada)).toEqual({ consumed: 300, held: 0 });
    expect(both.every((local) => local.stats().lease > 0)).toBe(true);
  });

  test("that are made together share a call", async () => {
    const ada = await subscribed();
    const local = await connected();
    const heat = await heated(local, ada);
    line.forget();
    const answers = await Promise.all(Array.from({ length: 200 }, () => spend(local, ada)));
    expect(answers.every((answer) => answer.eval && answer.source === "lease")).toBe(true);
    expect(line.calls.leases).toBeLessThanOrEqual(3);
    expect(new Set(answers.map(({ used }) => used?.["tasker-maxTasks"])).size).toBe(200);
    await local.close();
    expect(await balance(ada)).toEqual({ consumed: heat + 200, held: 0 });
  });

  test("count the amounts of their call, whatever becomes of the object", async () => {
    const ada = await subscribed();
    const local = await connected();
    const heat = await heated(local, ada);
    const consumption = { "tasker-maxTasks": 2 };
    const spending = spend(local, ada, consumption);
    consumption["tasker-maxTasks"] = 7;
    expect(await spending).toMatchObject({ source: "lease", used: { "tasker-maxTasks": heat + 2 } });
    await local.close();
    expect(await balance(ada)).toEqual({ consumed: heat + 2, held: 0 });
  });

  test("that were aborted before they began spend nothing", async () => {
    const ada = await subscribed();
    const local = await connected();
    const spent = await heated(local, ada);
    const aborted = local.evaluate(ada, "tasker-board", { consumption: ONE, signal: AbortSignal.abort() });
    await expect(aborted).rejects.toMatchObject({ code: "ABORTED" });
    await local.close();
    expect(await balance(ada)).toEqual({ consumed: spent, held: 0 });
  });

  test("of many users at once get a lease each, without a warning of the runtime", async () => {
    const ids = await Promise.all(Array.from({ length: 40 }, () => subscribed()));
    const local = await connected({ timeoutMs: 30_000, deadlineMs: 60_000 });
    await local.preload(ids);
    const warnings: Error[] = [];
    const warn = (warning: Error) => warnings.push(warning);
    process.on("warning", warn);
    const heat = async (userId: string) => {
      await spend(local, userId);
      // A second later, as on a busy machine, the feature is no longer hot.
      for (let count = 2; count < 20; count += 1) if ((await spend(local, userId)).source === "lease") return count;
      throw new Error(`${userId} got no lease`);
    };
    const spent: number[] = [];
    // Eight at a time: spends of all of them together take more than a second there.
    for (let first = 0; first < ids.length; first += 8)
      spent.push(...(await Promise.all(ids.slice(first, first + 8).map(heat))));
    await local.close();
    process.off("warning", warn);
    expect(warnings).toEqual([]);
    for (const [i, userId] of ids.entries()) expect(await balance(userId)).toEqual({ consumed: spent[i], held: 0 });
  });

  test("are refused at the limit, with the usage that they would lead to, and one call per second", async () => {
    const ada = await subscribed({ subscriptionPlans: { tasker: "FREE" } });
    const local = await connected();
    const heat = await heated(local, ada);
    for (let i = heat; i < 20; i += 1) expect((await spend(local, ada)).eval).toBe(true);
    line.forget();
    const started = performance.now();
    for (let i = 0; i < 100; i += 1) {
      expect(await spend(local, ada, { "tasker-maxTasks": 3 })).toMatchObject({
        eval: false,
        limit: { "tasker-maxTasks": 20 },
        used: { "tasker-maxTasks": 23 },
        error: null,
        source: "service",
        counted: false,
      });
    }
    expect(line.calls.leases).toBeLessThanOrEqual(1 + (performance.now() - started) / 1000);
    expect(line.calls.evaluations).toBe(0);
    await api.call("PUT", `/contracts/${ada}/usageLevels?reset=true`, { key, body: {} });
    await expect.poll(async () => (await spend(local, ada)).eval, LATEST).toBe(true);
  });

  test("of several limits, and of fractions, are exact", async () => {
    const ada = await subscribed(contractedOn("meter"));
    const local = await connected();
    const consumption = { "meter-calls": 1, "meter-bytes": 0.1 };
    let last;
    for (let i = 0; i < 500; i += 1) last = await local.evaluate(ada, "meter-call", { consumption });
    expect(last).toMatchObject({ source: "lease", used: { "meter-calls": 500, "meter-bytes": 50 } });
    await local.close();
    expect(await balance(ada, "meter", "calls")).toEqual({ consumed: 500, held: 0 });
    expect(await balance(ada, "meter", "bytes")).toEqual({ consumed: 50, held: 0 });
  });

  test("35: with an idempotency key, dry runs, explanations and without leases are the service's", async () => {
    const ada = await subscribed({ subscriptionPlans: { tasker: "FREE" } });
    const local = await connected();
    const consumption = { "tasker-maxTasks": 15 };
    const first = await local.evaluate(ada, "tasker-board", { consumption, idempotencyKey: "one" });
    expect(first).toMatchObject({ eval: true, counted: true, source: "service", idempotencyKey: "one" });
    const again = await local.evaluate(ada, "tasker-board", { consumption, idempotencyKey: "one" });
    expect(again).toMatchObject({ eval: true, used: { "tasker-maxTasks": 15 } });
    for (const more of [{ dryRun: true }, { explain: true }]) {
      const answer = await local.evaluate(ada, "tasker-board", { consumption, ...more });
      expect(answer).toMatchObject({ eval: false, counted: false, source: "service" });
    }
    expect(local.stats()).toMatchObject({ leases: 0, local: 0, lease: 0, service: 4 });
    const without = await connected({ leases: false });
    for (let i = 0; i < 5; i += 1)
      expect(await spend(without, ada)).toMatchObject({ source: "service", counted: true });
    expect(without.stats()).toMatchObject({ leases: 0, service: 5 });
    expect(await balance(ada)).toEqual({ consumed: 20, held: 0 });
  });

  test("without blocks are decided by the service, over the plan alone", async () => {
    const ada = await subscribed({ subscriptionPlans: { tasker: "FREE" } });
    const block = { service: "tasker", limit: "maxTasks", amount: 10, reason: "Bought", key: "one" };
    expect((await api.call("POST", `/contracts/${ada}/blocks`, { key, body: block })).status).toBe(201);
    const local = await connected();
    const options = { consumption: ONE, server: true, blocks: false };
    for (let spent = 1; spent <= 20; spent += 1) {
      const answer = await local.evaluate(ada, "tasker-board", options);
      expect(answer).toMatchObject({ eval: true, source: "service", limit: { "tasker-maxTasks": 20 } });
    }
    expect(await local.evaluate(ada, "tasker-board", options)).toMatchObject({ eval: false, counted: false });
    expect(await balance(ada)).toEqual({ consumed: 20, held: 0 });
    expect(await local.evaluate(ada, "tasker-board", { ...options, blocks: true })).toMatchObject({ eval: true });
  });

  test("with other amounts than the feature's limits, or of a feature that reads more, are the service's", async () => {
    const ada = await subscribed({
      contractedServices: { tasker: "1.0.0", full: "1.0.0" },
      subscriptionPlans: { tasker: "PRO", full: "ALL" },
    });
    const local = await connected();
    await spend(local, ada);
    expect(await spend(local, ada, { ...ONE, "tasker-other": 1 })).toMatchObject({ eval: true, source: "service" });
    expect(await spend(local, ada, { "tasker-other": 1 })).toMatchObject({
      error: { code: "INVALID_EXPECTED_CONSUMPTION" },
    });
    await expect(spend(local, ada, { "tasker-maxTasks": -1 })).rejects.toMatchObject({ status: 422 });
    await expect.poll(() => spend(local, ada)).toMatchObject({ source: "lease" });
    const text: Record<string, number> = JSON.parse('{"tasker-maxTasks":"1"}');
    await expect(spend(local, ada, text)).rejects.toMatchObject({ status: 422 });
    const consumption = { "full-calls": 10 };
    const answers = [];
    for (let i = 0; i < 7; i += 1) answers.push(await local.evaluate(ada, "full-call", { consumption }));
    expect(answers.map(({ eval: isOn }) => isOn)).toEqual([true, true, true, true, true, false, false]);
    expect(new Set(answers.map(({ source }) => source))).toEqual(new Set(["service"]));
  });
});

describe("a lease", () => {
  test("34: follows a change of the contract, and what was spent before is reported", async () => {
    const ada = await subscribed();
    const local = await connected();
    await heated(local, ada);
    for (let i = 0; i < 28; i += 1) await spend(local, ada);
    await api.call("PUT", `/contracts/${ada}`, {
      key,
      body: { contractedServices: { tasker: "1.0.0" }, subscriptionPlans: { tasker: "FREE" }, subscriptionAddOns: {} },
    });
    const isRefused = async () => (await spend(local, ada)).limit?.["tasker-maxTasks"];
    await expect.poll(isRefused, LATEST).toBe(20);
    const { consumed = 0 } = await balance(ada);
    await local.close();
    expect((await balance(ada)).held).toBe(0);
    expect(consumed).toBeLessThanOrEqual(300);
  });

  test("goes on beyond its first end, and ends by itself when the service is away", async () => {
    const ada = await subscribed();
    const local = await connected({ leaseSeconds: 2 });
    let spent = await heated(local, ada);
    line.forget();
    let answeredAt = performance.now();
    for (let i = 0; i < 50; i += 1) {
      const { source } = await spend(local, ada);
      // A busy machine that stands still lets the lease end.
      if (source !== "lease") expect(performance.now() - answeredAt, "a pause before it").toBeGreaterThan(500);
      answeredAt = performance.now();
      spent += 1;
      await pause(100);
    }
    expect(line.calls.leases).toBeGreaterThan(2);
    line.cut();
    const outcomes = new Set<string>();
    for (let i = 0; i < 30 || (!outcomes.has("NETWORK") && i < 300); i += 1) {
      const outcome = await spend(local, ada).then(
        ({ source }) => source as string,
        (error: { code: string }) => error.code,
      );
      outcomes.add(outcome);
      if (outcome === "lease") spent += 1;
      await pause(50);
    }
    outcomes.delete("lease");
    expect(outcomes).toEqual(new Set(["NETWORK"]));
    line.restore();
    await local.close();
    expect(await balance(ada)).toEqual({ consumed: spent, held: 0 });
  });

  test("whose grant was lost on the way is found again, and loses nothing", async () => {
    const ada = await subscribed();
    const local = await connected();
    await spend(local, ada);
    let lost = 0;
    line.onAnswer = async (path, answer) => {
      if (!path.includes("/leases") || lost === 3) return answer;
      lost += 1;
      throw new TypeError("fetch failed");
    };
    const areLost = () => lost === 3;
    let spent = 1;
    for (let i = 0; i < 40 || (!areLost() && i < 200); i += 1) {
      if ((await spend(local, ada)).eval) spent += 1;
      await pause(20);
    }
    expect(lost).toBe(3);
    expect(local.stats().lease).toBeGreaterThan(0);
    await local.close();
    expect(await balance(ada)).toEqual({ consumed: spent, held: 0 });
  });

  test("ends with a refused key", async () => {
    const { owner, organizationId } = api.callers;
    const path = `/organizations/${organizationId}/api-keys`;
    const { body } = await api.call<{ apiKeys: { id: string; key: string }[] }>("POST", path, {
      key: owner.key,
      body: { scope: "EVALUATION" },
    });
    const fleeting = body.apiKeys.at(-1);
    const ada = await subscribed();
    const local = await connected({ apiKey: fleeting?.key ?? "" });
    await heated(local, ada);
    await api.call("DELETE", `${path}/${fleeting?.id}`, { key: owner.key });
    const failure = () =>
      spend(local, ada).then(
        () => undefined,
        (error: { status: number }) => error.status,
      );
    await expect.poll(failure, LATEST).toBe(401);
    expect(local.stats()).toMatchObject({ users: 0, leases: 0 });
  });
});

describe("close", () => {
  test("waits for a lease that is being opened, and returns it", async () => {
    const ada = await subscribed();
    const local = await connected();
    await spend(local, ada);
    let release = () => {};
    const released = new Promise<void>((resolve) => (release = resolve));
    let arrived = () => {};
    const opened = new Promise<void>((resolve) => (arrived = resolve));
    line.onAnswer = async (path, answer) => {
      if (!path.endsWith("/leases")) return answer;
      arrived();
      await released;
      return answer;
    };
    const spending = spend(local, ada).then(
      () => "answered",
      (error: Error) => error.message,
    );
    await opened;
    const closed = local.close();
    expect(await spending).toBe("The evaluator is closed");
    release();
    await closed;
    expect(await balance(ada)).toEqual({ consumed: 1, held: 0 });
  });
});

/** Each has a line and an evaluator of its own, so that their waits overlap. */
describe.concurrent("as time passes", () => {
  test("spends of one user, 10,000 per second, take at most one call per second after 5 s", async ({
    expect,
    onTestFinished,
  }) => {
    const line = inProcess(api);
    const ada = await subscribed(contractedOn("volume"));
    const local = await connectedOver(line);
    onTestFinished(() => local.close());
    const consumption = { "volume-calls": 1 };
    const started = performance.now();
    const elapsed = () => (performance.now() - started) / 1000;
    let [spent, countedFrom] = [0, 0];
    while (elapsed() < 10) {
      for (const due = elapsed() * 10_000; spent < due; spent += 1) {
        expect((await local.evaluate(ada, "volume-call", { consumption })).eval).toBe(true);
      }
      await pause(5);
      if (countedFrom === 0 && elapsed() >= 5) {
        countedFrom = elapsed();
        line.forget();
      }
    }
    // A busy process reports late.
    await expect.poll(() => line.calls.leases, { message: "calls while usage is reported" }).toBeGreaterThan(0);
    expect(line.calls.leases).toBeLessThanOrEqual(1 + (elapsed() - countedFrom));
    expect(local.stats().lease).toBeGreaterThan(spent - 100);
    await local.close();
    expect(await balance(ada, "volume", "calls")).toEqual({ consumed: spent, held: 0 });
  });

  test("a lease that is not spent from for 5 s is returned", async ({ expect, onTestFinished }) => {
    const line = inProcess(api);
    const ada = await subscribed();
    const local = await connectedOver(line);
    onTestFinished(() => local.close());
    const heat = await heated(local, ada);
    expect((await balance(ada)).held).toBeGreaterThan(0);
    await expect.poll(() => balance(ada), LATEST).toEqual({ consumed: heat, held: 0 });
    expect(local.stats().leases).toBe(0);
  });

  test("closing gives up after 5 s, and refuses spends meanwhile", async ({ expect, onTestFinished }) => {
    const line = inProcess(api);
    const ada = await subscribed();
    const local = await connectedOver(line, { leaseSeconds: 1 });
    onTestFinished(() => local.close());
    await heated(local, ada);
    line.cut();
    let isClosed = false;
    const closed = local.close().then(() => (isClosed = true));
    await expect(spend(local, ada)).rejects.toThrow("The evaluator is closed");
    await pause(500);
    expect(isClosed).toBe(false);
    await closed;
    // The service counts what nobody returned.
    line.restore();
    await expect.poll(async () => (await balance(ada)).held, LATEST).toBe(0);
    expect((await balance(ada)).consumed).toBeGreaterThan(2);
  });
});
