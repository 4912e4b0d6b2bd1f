import { readFileSync } from "node:fs";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { Faregate } from "../../src/client/back/faregate.ts";
import {
  createLocalEvaluator,
  type LocalAnswer,
  type LocalEvaluator,
  type LocalEvaluatorOptions,
  type LocalOptions,
  type LocalState,
} from "../../src/local/local.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { contract, upload } from "../support/contracting.ts";
import { callStep, changeServices } from "../support/every-change.ts";
import { inProcess, type InProcess, ORIGIN } from "../support/in-process.ts";

/* Local evaluation: cases 14 to 20 and 31 of contract tokens-and-leases §10, and the rules of §7 but leases. */

const SAMPLE = readFileSync(new URL("../../src/samples/tasker.yml", import.meta.url), "utf8");
const FEATURES = ["tasker-board", "tasker-darkMode", "tasker-export", "tasker-sla", "tasker-nope"];
const LATEST_MS = 30_000;

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
});
afterAll(() => api.close());

const optionsOf = (more: Partial<LocalEvaluatorOptions> = {}): LocalEvaluatorOptions => ({
  url: ORIGIN,
  apiKey: api.callers.evaluation.key,
  fetch: line.fetch,
  retries: 0,
  ...more,
});
function evaluator(more: Partial<LocalEvaluatorOptions> = {}): LocalEvaluator {
  const made = createLocalEvaluator(optionsOf(more));
  evaluators.push(made);
  return made;
}
async function connected(more: Partial<LocalEvaluatorOptions> = {}): Promise<LocalEvaluator> {
  const made = evaluator(more);
  await expect.poll(() => made.state, { timeout: LATEST_MS, interval: 5 }).toBe("connected");
  return made;
}

let users = 0;
async function subscribed(plan = "PRO"): Promise<string> {
  const userId = `user-${(users += 1)}`;
  await contract(api, key, userId, { subscriptionPlans: { tasker: plan } });
  return userId;
}
const novate = (userId: string, plan: string) =>
  api.call("PUT", `/contracts/${userId}`, {
    key,
    body: { contractedServices: { tasker: "1.0.0" }, subscriptionPlans: { tasker: plan }, subscriptionAddOns: {} },
  });

/** Evaluates until the answer is known to be true at a moment after `since`, by `performance.now()`. */
async function provenAfter(local: LocalEvaluator, since: number, userId: string, featureId: string) {
  for (const until = performance.now() + LATEST_MS; performance.now() < until;) {
    const answer = await local.evaluate(userId, featureId);
    // Ages are whole milliseconds.
    if (answer.source !== "local" || performance.now() - (answer.ageMs ?? Infinity) - 1 >= since) return answer;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  throw new Error("no answer is proven");
}

const decided = ({ eval: on, limit, used, error }: Pick<LocalAnswer, "eval" | "limit" | "used" | "error">) => ({
  eval: on,
  limit,
  used,
  error,
});

describe("answers from memory", () => {
  test("31: cost one snapshot and no evaluation, and say how old they are", async () => {
    const ada = await subscribed();
    // An answer that is loaded before the stream of changes is there is loaded again after it.
    const local = await connected();
    for (let i = 0; i < 1000; i += 1) {
      const answer = await local.evaluate(ada, "tasker-darkMode");
      expect(answer).toMatchObject({ eval: true, source: "local", counted: false });
      // Answers from memory never wait for the event loop, which delivers beats.
      if (i % 20 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    expect(line.calls).toMatchObject({ snapshots: 1, evaluations: 0 });
    expect(local.stats()).toEqual({ users: 1, leases: 0, local: 1000, lease: 0, service: 0 });
  });

  test("are those of the service, for every plan and feature", async () => {
    const local = await connected();
    const client = new Faregate(optionsOf());
    for (const plan of ["FREE", "PRO", "BUSINESS"]) {
      const userId = await subscribed(plan);
      for (const server of [false, true]) {
        for (const featureId of FEATURES) {
          for (const more of [{}, { explain: true }, { dryRun: true }]) {
            const mine = await local.evaluate(userId, featureId, { server, ...more });
            const theirs = await client.features.evaluate(userId, featureId, { server, ...more });
            const { source: _source, ageMs: _ageMs, stale: _stale, ...rest } = mine;
            const { source: _theirs, ageMs: _age, stale: _old, ...expected } = theirs;
            expect(rest).toEqual(expected);
            expect(mine.source).toBe(featureId === "tasker-board" ? "service" : "local");
          }
        }
        const all = await local.evaluateAll(userId, { server });
        expect(all.features).toEqual((await client.features.evaluateAll(userId, { server })).features);
        expect(all.source).toBe("service");
      }
    }
  });

  test("about all features come from memory where no expression reads usage", async () => {
    await upload(
      api,
      key,
      `
saasName: Plain
syntaxVersion: "3.0"
version: "1.0.0"
createdAt: "2025-01-01"
currency: EUR
features:
  alpha: { valueType: BOOLEAN, defaultValue: true, type: DOMAIN, expression: "pricingContext['features']['alpha']" }
  omega: { valueType: BOOLEAN, defaultValue: false, type: DOMAIN, expression: "pricingContext['features']['omega']" }
plans:
  ONLY: { price: 0, unit: user/month, features: {} }
`,
    );
    await contract(api, key, "plain-user", {
      contractedServices: { plain: "1.0.0" },
      subscriptionPlans: { plain: "ONLY" },
    });
    const local = await connected();
    const all = await local.evaluateAll("plain-user");
    expect(all).toMatchObject({
      source: "local",
      stale: false,
      features: { "plain-alpha": true, "plain-omega": false },
    });
    expect([all.isEnabled("plain-alpha"), all.isEnabled("plain-omega"), all.isEnabled("toString")]).toEqual([
      true,
      false,
      false,
    ]);
  });

  test("asks that are made together share a call, also of users who are not there", async () => {
    const ids = await Promise.all(Array.from({ length: 5 }, () => subscribed()));
    const local = await connected();
    line.forget();
    const asked = [...ids, ...ids, "nobody"];
    const answers = await Promise.allSettled(asked.map((userId) => local.evaluate(userId, "tasker-darkMode")));
    expect(answers.filter(({ status }) => status === "fulfilled")).toHaveLength(10);
    expect(answers.at(-1)).toMatchObject({
      reason: { name: "ServiceRequestError", status: 404, message: "Contract with userId nobody not found" },
    });
    expect(line.calls.snapshots).toBe(1);
    await local.preload([...ids, "user-of-preload"]);
    expect(line.calls.snapshots).toBe(2);
  });

  test("asks about users whose ids are too long for a contract do not make the call of others too large", async () => {
    const ada = await subscribed();
    const local = await connected();
    const ids = Array.from({ length: 200 }, (_, number) => `${number}${"x".repeat(12_000)}`);
    const answers = [...ids, ada].map((userId) => local.evaluate(userId, "tasker-darkMode"));
    const settled = await Promise.allSettled(answers);
    expect(settled.pop()).toMatchObject({ value: { eval: true, source: "local" } });
    for (const each of settled) expect(each).toMatchObject({ reason: { status: 404 } });
  });

  test("no more users are kept than asked for, and those in use stay", async () => {
    const ids = await Promise.all(Array.from({ length: 8 }, () => subscribed()));
    const local = await connected({ maxUsers: 4 });
    const [first = ""] = ids;
    for (const userId of ids) {
      await local.evaluate(userId, "tasker-darkMode");
      await local.evaluate(first, "tasker-darkMode");
    }
    expect(local.stats().users).toBe(4);
    line.forget();
    await local.evaluate(first, "tasker-darkMode");
    expect(line.calls.snapshots).toBe(0);
  });
});

test.each([408, 429, 503])(
  "a request that is answered with %i is sent again, as by faregate/client",
  async (status) => {
    const ada = await subscribed();
    let refusals = 1;
    const fetch: typeof line.fetch = async (input, init) => {
      const isSnapshot = String(input).endsWith("/snapshot");
      if (!isSnapshot || (refusals -= 1) < 0) return line.fetch(input, init);
      return Response.json({ error: "Not now" }, { status, headers: { "retry-after": "1" } });
    };
    const local = evaluator({ fetch, retries: 3 });
    expect(await local.evaluate(ada, "tasker-darkMode")).toMatchObject({ eval: true, source: "local" });
    expect(refusals).toBeLessThan(0);
  },
);

describe("changes", () => {
  test("by every operation on services and contracts are in every answer that is proven after them", async () => {
    const local: { evaluator?: LocalEvaluator; client?: Faregate } = {};
    let compared = 0;
    await changeServices(api, "", async (step, ids) => {
      if (local.evaluator === undefined) {
        const path = `/organizations/${ids["organizationId"]}/api-keys`;
        const { body } = await api.call<{ apiKeys: { key: string }[] }>("POST", path, {
          key: api.callers.owner.key,
          body: { scope: "EVALUATION" },
        });
        const apiKey = body.apiKeys.at(-1)?.key ?? "";
        local.evaluator = await connected({ apiKey });
        local.client = new Faregate(optionsOf({ apiKey }));
      }
      const taken = await callStep(api, step, ids);
      const since = performance.now();
      const outcome = (answer: Promise<LocalAnswer>) =>
        answer.then(decided, (error: { status?: number; message?: string }) => [error.status, error.message]);
      for (const featureId of ["tasker-darkMode", "tasker-sla", "renamed-darkMode"]) {
        const theirs = await outcome(local.client?.features.evaluate("ada", featureId) as Promise<LocalAnswer>);
        const mine = await outcome(provenAfter(local.evaluator, since, "ada", featureId));
        if (Array.isArray(mine) && !Array.isArray(theirs)) continue;
        expect(mine, `${step.route} ${featureId}`).toEqual(theirs);
        compared += 1;
      }
      return taken;
    });
    expect(compared).toBeGreaterThan(30);
  });

  test("void an answer under way", async () => {
    const ada = await subscribed("FREE");
    const local = await connected();
    let isHeld = true;
    let release = () => {};
    const released = new Promise<void>((resolve) => (release = resolve));
    let arrived = () => {};
    const read = new Promise<void>((resolve) => (arrived = resolve));
    line.onAnswer = async (path, answer) => {
      if (!path.includes("/snapshot") || !isHeld) return answer;
      isHeld = false;
      arrived();
      await released;
      return answer;
    };
    line.forget();
    const answer = local.evaluate(ada, "tasker-darkMode");
    await read;
    await novate(ada, "PRO");
    const since = performance.now();
    const beside = await subscribed();
    // Its answer is proven after the change, so the change has arrived.
    await provenAfter(local, since, beside, "tasker-darkMode");
    release();
    expect(await answer).toMatchObject({ eval: true, source: "local" });
  });

  test("18: time changes an answer by itself, at the moment of the contract's terms", async () => {
    const ada = await subscribed("FREE");
    const local = await connected();
    const until = Date.now() + 5000;
    await api.call("PUT", `/contracts/${ada}/overrides/tasker/features/darkMode`, {
      key,
      body: { mode: "set", value: true, until: new Date(until).toISOString(), reason: "Launch" },
    });
    const since = performance.now();
    expect((await provenAfter(local, since, ada, "tasker-darkMode")).eval).toBe(true);
    for (;;) {
      const before = Date.now();
      const { eval: isOn } = await local.evaluate(ada, "tasker-darkMode");
      if (Date.now() < until) expect(isOn).toBe(true);
      if (before >= until) {
        expect(isOn).toBe(false);
        break;
      }
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  });

  test("a user who is contracted later is known within about a second", async () => {
    const local = await connected();
    await expect(local.evaluate("late", "tasker-darkMode")).rejects.toMatchObject({ status: 404 });
    await contract(api, key, "late");
    const ask = () => local.evaluate("late", "tasker-darkMode").catch(() => undefined);
    await expect.poll(ask, { timeout: LATEST_MS }).toMatchObject({ eval: true });
  });

  test("that were missed while disconnected are in answers after the stream is back", async () => {
    const ids = await Promise.all(Array.from({ length: 20 }, () => subscribed("FREE")));
    const states: LocalState[] = [];
    const local = await connected({ onState: (state) => states.push(state) });
    await local.preload(ids);
    line.cut();
    for (const userId of ids) expect((await local.evaluate(userId, "tasker-darkMode")).eval).toBe(false);
    for (const userId of ids) await novate(userId, "PRO");
    const since = performance.now();
    line.restore();
    line.forget();
    for (const userId of ids) expect((await provenAfter(local, since, userId, "tasker-darkMode")).eval).toBe(true);
    expect(states).toEqual(["connected", "disconnected", "connected"]);
    expect(line.calls.evaluations).toBe(0);
  });
});

describe("31: outages", () => {
  test("stale answers say so, up to maxStaleMs; then the caller's choice", async () => {
    const ada = await subscribed();
    const local = await connected({ maxStaleMs: 6000 });
    await local.evaluate(ada, "tasker-darkMode");
    line.cut();
    const ageOf = async () => (await local.evaluate(ada, "tasker-darkMode").catch(() => undefined))?.ageMs ?? Infinity;
    await expect.poll(ageOf, { timeout: LATEST_MS, interval: 20 }).toBeGreaterThan(1000);
    expect(await local.evaluate(ada, "tasker-darkMode")).toMatchObject({ eval: true, source: "local", stale: true });
    expect(local.state).toBe("disconnected");
    await expect.poll(ageOf, { timeout: LATEST_MS, interval: 20 }).toBe(Infinity);
    await expect(local.evaluate(ada, "tasker-darkMode")).rejects.toMatchObject({ code: "NETWORK" });
    const options = (whenUnreachable: "open" | "closed") => ({ whenUnreachable }) as const;
    for (const [choice, on] of [
      ["open", true],
      ["closed", false],
    ] as const) {
      expect(await local.evaluate(ada, "tasker-darkMode", options(choice))).toMatchObject({
        eval: on,
        source: "fallback",
        stale: true,
        ageMs: null,
      });
      expect((await local.evaluateAll(ada, options(choice))).isEnabled("anything")).toBe(on);
    }
    const known = await local.evaluate(ada, "tasker-darkMode", { lastKnownForMs: 60_000 });
    expect(known).toMatchObject({ eval: true, source: "last-known", stale: true });
    const consumption = { "tasker-maxTasks": 1 };
    await expect(local.evaluate(ada, "tasker-board", { consumption, whenUnreachable: "open" })).rejects.toMatchObject({
      code: "NETWORK",
    });
    line.restore();
    await expect.poll(() => local.state, { timeout: LATEST_MS }).toBe("connected");
    expect(await local.evaluate(ada, "tasker-darkMode")).toMatchObject({ source: "local", stale: false });
  });

  test("19: a key that is deleted empties everything, and asks throw", async () => {
    const { owner, organizationId } = api.callers;
    const path = `/organizations/${organizationId}/api-keys`;
    const { body } = await api.call<{ apiKeys: { id: string; key: string }[] }>("POST", path, {
      key: owner.key,
      body: { scope: "EVALUATION" },
    });
    const fleeting = body.apiKeys.at(-1);
    const ada = await subscribed();
    const local = await connected({ apiKey: fleeting?.key ?? "" });
    await local.evaluate(ada, "tasker-darkMode");
    await api.call("DELETE", `${path}/${fleeting?.id}`, { key: owner.key });
    const failure = () =>
      local.evaluate(ada, "tasker-darkMode").then(
        () => undefined,
        (error: { status: number }) => error.status,
      );
    await expect.poll(failure, { timeout: LATEST_MS, interval: 20 }).toBe(401);
    expect(local.stats().users).toBe(0);
  });

  test("a format of a later version leaves every ask to the service", async () => {
    line.onAnswer = async (path, answer) =>
      path.includes("/snapshot") ? Response.json({ ...((await answer.json()) as object), format: 2 }) : answer;
    const ada = await subscribed();
    const local = await connected();
    await local.preload([ada]);
    expect(await local.evaluate(ada, "tasker-darkMode")).toMatchObject({ eval: true, source: "service" });
    expect(local.stats()).toEqual({ users: 0, leases: 0, local: 0, lease: 0, service: 1 });
  });

  test("without a stream, answers are loaded again once they are older than maxStaleMs", async () => {
    line.onAnswer = undefined;
    const refusing: typeof fetch = (input, init) =>
      String(input).includes("/events/stream")
        ? Promise.resolve(Response.json({ error: "Changes cannot be followed here" }, { status: 503 }))
        : line.fetch(input, init);
    const ada = await subscribed("FREE");
    const local = evaluator({ fetch: refusing, maxStaleMs: 1000 });
    expect((await local.evaluate(ada, "tasker-darkMode")).eval).toBe(false);
    expect(local.state).toBe("disconnected");
    await novate(ada, "PRO");
    const since = performance.now();
    expect((await provenAfter(local, since, ada, "tasker-darkMode")).eval).toBe(true);
  });
});

describe("its life", () => {
  test("calls after close, and under way, reject", async () => {
    const ada = await subscribed();
    const local = await connected();
    line.onAnswer = () => new Promise(() => {});
    const pending = local.evaluate(ada, "tasker-darkMode");
    const outcome = pending.then(
      () => "answered",
      (error: Error) => error.message,
    );
    await new Promise((resolve) => setTimeout(resolve, 20));
    await local.close();
    await local.close();
    expect(await outcome).toBe("The evaluator is closed");
    expect(local.state).toBe("closed");
    for (const call of [
      () => local.evaluate(ada, "tasker-darkMode"),
      () => local.evaluateAll(ada),
      () => local.preload([ada]),
    ]) {
      await expect(call()).rejects.toThrow("The evaluator is closed");
    }
  });

  test("an aborted call rejects, and does not disturb others", async () => {
    const ada = await subscribed();
    const local = await connected();
    const controller = new AbortController();
    const aborted = local.evaluate(ada, "tasker-darkMode", { signal: controller.signal });
    const other = local.evaluate(ada, "tasker-darkMode");
    controller.abort();
    await expect(aborted).rejects.toMatchObject({ code: "ABORTED" });
    expect(await other).toMatchObject({ eval: true });
    // An entry in memory answers no call that was aborted before it began.
    const options = { signal: AbortSignal.abort() };
    for (const late of [local.evaluate(ada, "tasker-darkMode", options), local.evaluateAll(ada, options)]) {
      await expect(late).rejects.toMatchObject({ code: "ABORTED" });
    }
  });

  test.each<[Partial<LocalEvaluatorOptions>, string]>([
    [{ url: "x" }, "config.url must be an absolute http(s) URL"],
    [{ apiKey: "" }, "config.apiKey must be a non-empty string"],
    [{ maxStaleMs: 999 }, "maxStaleMs must be a number of at least 1000"],
    [{ maxUsers: 0 }, "maxUsers must be a number of at least 1"],
    [{ leaseSeconds: 0.9 }, "leaseSeconds must be a number from 1 to 600"],
    [{ leaseSeconds: 601 }, "leaseSeconds must be a number from 1 to 600"],
  ])("options %j are refused", (more, message) => {
    expect(() => createLocalEvaluator(optionsOf(more))).toThrow(message);
  });

  test("user and feature ids that no path can have are refused", async () => {
    const local = await connected();
    const ada = await subscribed();
    await local.evaluate(ada, "tasker-darkMode");
    for (const id of ["", "..", "\ud800"]) {
      await expect(local.evaluate(id, "tasker-darkMode")).rejects.toThrow("userId must be a non-empty string");
      for (const userId of [ada, "nobody"]) {
        await expect(local.evaluate(userId, id)).rejects.toThrow("featureId must be a non-empty string");
      }
    }
  });

  test("a user id that is refused when it is loaded in advance disturbs nobody else", async () => {
    const local = await connected();
    const ada = await subscribed();
    const [loaded, answered] = await Promise.allSettled([
      local.preload([ada, ""]),
      local.evaluate(ada, "tasker-darkMode"),
    ]);
    expect(loaded).toMatchObject({ reason: { message: expect.stringContaining("userIds.1 must be a non-empty") } });
    expect(answered).toMatchObject({ value: { eval: true } });
  });

  test("a spender that is no path rejects with a sentence, from memory too", async () => {
    const local = await connected();
    const ada = await subscribed();
    await local.evaluate(ada, "tasker-darkMode");
    const wrong: LocalOptions[] = JSON.parse('[{"spender":5},{"spender":null},{"spender":["a",5]}]');
    for (const options of wrong) {
      for (const call of [local.evaluate(ada, "tasker-darkMode", options), local.evaluateAll(ada, options)]) {
        await expect(call).rejects.toThrow("spender must be a string, or a list of strings");
      }
    }
  });

  test("calls without a deadline are answered", async () => {
    const ada = await subscribed();
    const local = evaluator({ deadlineMs: Infinity, timeoutMs: Infinity });
    expect(await local.evaluate(ada, "tasker-darkMode")).toMatchObject({ eval: true, source: "local" });
    expect(await local.evaluate(ada, "tasker-board")).toMatchObject({ eval: true, source: "service" });
  });
});

describe("a hung service", () => {
  /** Accepts connections and answers none, as a stopped process or a black hole does. */
  const blackHole = createServer(() => {});
  const sockets = new Set<Socket>();
  let url: string;
  beforeAll(async () => {
    blackHole.on("connection", (socket) => {
      sockets.add(socket);
      socket.on("error", () => {}).on("close", () => sockets.delete(socket));
    });
    await new Promise<void>((resolve) => blackHole.listen(0, "127.0.0.1", resolve));
    url = `http://127.0.0.1:${(blackHole.address() as AddressInfo).port}`;
  });
  afterAll(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => blackHole.close(resolve));
  });
  const took = async (call: Promise<unknown>): Promise<{ ms: number; code: unknown }> => {
    const start = performance.now();
    const code = await call.then(
      () => "answered",
      (error: unknown) => (error as { code: unknown }).code,
    );
    return { ms: performance.now() - start, code };
  };

  test.each<[string, LocalOptions]>([
    ["a read", {}],
    ["consumption", { consumption: { "tasker-maxTasks": 1 } }],
  ])("is waited for as long as the client's deadline, however many attempts fit: %s", async (_, options) => {
    const client = new Faregate({ url, apiKey: "key", deadlineMs: 1500, timeoutMs: 500 });
    const local = evaluator({ url, apiKey: "key", fetch, deadlineMs: 1500, timeoutMs: 500, retries: 3 });
    let ratio = Infinity;
    // A busy machine may delay one of them.
    for (let times = 0; times < 3 && ratio >= 1.5; times += 1) {
      const [ofClient, ofLocal] = [
        await took(client.features.evaluate("ada", "tasker-board", options)),
        await took(local.evaluate("ada", "tasker-board", options)),
      ];
      expect([ofClient.code, ofLocal.code]).toEqual(["TIMEOUT", "TIMEOUT"]);
      ratio = ofLocal.ms / ofClient.ms;
    }
    expect(ratio).toBeLessThan(1.5);
  });

  test("is waited for as long as the call's own deadline, each time", { timeout: 20_000 }, async () => {
    const local = evaluator({ url, apiKey: "key", fetch, deadlineMs: 30_000, timeoutMs: 10_000, retries: 3 });
    for (let times = 0; times < 3; times += 1) {
      const options = { deadlineMs: 400, timeoutMs: 200 };
      for (const call of [
        () => local.evaluate("ada", "tasker-board", options),
        () => local.evaluate("ada", "tasker-board", { ...options, consumption: { "tasker-maxTasks": 1 } }),
        () => local.evaluateAll("ada", options),
      ]) {
        expect((await took(call())).code).toBe("TIMEOUT");
      }
    }
  });

  test("is answered by the caller's policy once the deadline has passed", async () => {
    const local = evaluator({ url, apiKey: "key", fetch, deadlineMs: 300, timeoutMs: 10_000, whenUnreachable: "open" });
    expect(await local.evaluate("ada", "tasker-board")).toMatchObject({ eval: true, source: "fallback" });
    expect((await local.evaluateAll("ada")).isEnabled("tasker-board")).toBe(true);
  });
});

describe("failures that nobody waits for", () => {
  const unhandled: unknown[] = [];
  const collect = (reason: unknown) => unhandled.push(reason);
  beforeEach(() => {
    unhandled.length = 0;
    process.on("unhandledRejection", collect);
    process.on("uncaughtException", collect);
  });
  afterEach(async () => {
    // Node reports an unhandled rejection after the microtasks of the turn in which it arises.
    await new Promise((resolve) => setTimeout(resolve, 50));
    process.off("unhandledRejection", collect);
    process.off("uncaughtException", collect);
    expect(unhandled).toEqual([]);
  });

  const consumption = { "tasker-maxTasks": 1 };
  test.each<[string, (local: LocalEvaluator, signal: AbortSignal) => Promise<unknown>]>([
    ["evaluate", (local, signal) => local.evaluate("ada", "tasker-darkMode", { signal })],
    ["evaluate with consumption", (local, signal) => local.evaluate("ada", "tasker-board", { consumption, signal })],
    ["evaluateAll", (local, signal) => local.evaluateAll("ada", { signal })],
    ["preload", (local) => local.preload(["ada", "grace"])],
  ])("end no process: %s, aborted before or after it is called, or closed meanwhile", async (_, call) => {
    for (const when of ["before", "after", "never"]) {
      for (const isCut of [true, false]) {
        if (isCut) line.cut();
        else line.restore();
        const local = evaluator();
        const controller = new AbortController();
        if (when === "before") controller.abort();
        const asked = Promise.allSettled([call(local, controller.signal), call(local, controller.signal)]);
        if (when === "after") controller.abort();
        await local.close();
        await asked;
      }
    }
  });

  test("end no process: callbacks that throw stop neither the stream nor each other", async () => {
    const reported = vi.spyOn(console, "error").mockImplementation(() => {});
    let changes = 0;
    const local = await connected({
      onState: (state) => {
        throw new Error(`state ${state}`);
      },
      onChange: () => {
        changes += 1;
        throw new Error("change");
      },
    });
    const userId = await subscribed("FREE");
    await novate(userId, "PRO");
    await expect.poll(() => changes, { timeout: LATEST_MS }).toBeGreaterThan(0);
    await provenAfter(local, performance.now(), userId, "tasker-darkMode");
    expect(local.state).toBe("connected");
    line.cut();
    await expect.poll(() => local.state, { timeout: LATEST_MS }).toBe("disconnected");
    await local.close();
    expect(reported.mock.calls.flat().map(String)).toEqual(
      expect.arrayContaining([
        "Error: state connected",
        "Error: change",
        "Error: state disconnected",
        "Error: state closed",
      ]),
    );
    reported.mockRestore();
  });
});
