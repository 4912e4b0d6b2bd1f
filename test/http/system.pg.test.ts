import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createCallCounter } from "../../src/operations/state/call-counter.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { contract, statuses, tasker, upload } from "../support/contracting.ts";
import { eventsDuring } from "../support/invariants.ts";

let api: TestApi;
let admin: string;
let key: string;

beforeAll(async () => {
  api = await createTestApi();
  admin = api.callers.platformAdmin.key;
  key = api.callers.all.key;
  await upload(api, key, tasker());
});
afterAll(() => api.close());

test("the health check needs no key, and a wrong one is refused all the same", async () => {
  const answer = await api.call("GET", "/healthcheck");
  expect(answer).toMatchObject({ status: 200, body: { message: "Service is up and running!" } });
  expect(await api.call("GET", "/healthcheck", { key: "org_wrong" })).toMatchObject({ status: 401 });
});

describe("analytics", () => {
  type Week = { labels: string[]; data: number[] };
  const week = async (series: string, as = key) => {
    const answer = await api.call<Week>("GET", `/analytics/${series}`, { key: as });
    expect(answer.status).toBe(200);
    expect(Object.keys(answer.body)).toEqual(["labels", "data"]);
    return answer.body;
  };

  test("has seven consecutive UTC days with their English names, oldest first, today last", async () => {
    api.setNow(new Date("2025-06-15T23:59:59.999Z"));
    expect((await week("api-calls")).labels).toEqual([
      "Monday",
      "Tuesday",
      "Wednesday",
      "Thursday",
      "Friday",
      "Saturday",
      "Sunday",
    ]);
    api.setNow(new Date("2025-06-16T00:00:00.000Z"));
    const next = await week("api-calls");
    expect(next.labels).toEqual(["Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday", "Monday"]);
    expect(next.data).toHaveLength(7);
    expect(next.data[6]).toBe(1);
  });

  test("shows every kind of caller the same series, and nobody without a key", async () => {
    api.setNow(new Date("2025-07-01T10:00:00.000Z"));
    for (const [i, as] of [
      admin,
      api.callers.owner.key,
      key,
      api.callers.management.key,
      api.callers.evaluation.key,
    ].entries()) {
      expect((await week("api-calls", as)).data).toEqual([0, 0, 0, 0, 0, 0, i + 1]);
    }
    for (const series of ["api-calls", "evaluations"]) {
      expect((await api.call("GET", `/analytics/${series}`)).status).toBe(401);
    }
  });

  test("counts what passed key and permission, whatever came of it, and no preflight", async () => {
    api.setNow(new Date("2025-07-10T10:00:00.000Z"));
    await contract(api, key, "counted");
    for (const [method, path, as] of [
      ["GET", "/healthcheck", undefined],
      ["GET", "/contracts/nobody", key],
      ["POST", "/contracts", key],
      ["PUT", "/features", key],
      ["OPTIONS", "/contracts", undefined],
      ["GET", "/contracts", undefined],
      ["GET", "/contracts", api.callers.evaluation.key],
      ["GET", "/nothing", key],
      ["GET", "/static/pricings/none.yml", undefined],
    ] as const) {
      await api.call(method, path, { key: as });
    }
    expect((await week("api-calls")).data[6]).toBe(6);
  });

  test("counts what is asked of an organization that there is not, and no member without the role", async () => {
    api.setNow(new Date("2025-07-15T10:00:00.000Z"));
    const { owner, outsider, evaluator, organizationId } = api.callers;
    const at = (id: string) => `/organizations/${id}/contracts`;
    for (const [method, path, as, status] of [
      ["GET", at("0".repeat(24)), owner.key, 404],
      ["GET", at("short"), owner.key, 404],
      ["GET", at(organizationId), owner.key, 200],
      ["GET", at(organizationId), outsider.key, 403],
      ["POST", at(organizationId), evaluator.key, 403],
    ] as const) {
      expect((await api.call(method, path, { key: as })).status).toBe(status);
    }
    expect((await week("api-calls")).data[6]).toBe(4);
  });

  test("counts each POST below /features as an evaluation", async () => {
    api.setNow(new Date("2025-07-20T10:00:00.000Z"));
    for (const path of [
      "/features/counted",
      "/features/counted/pricing-token",
      "/features/counted/tasker-board",
      "/features/counted/tasker-board?revert=true",
      "/features/nobody",
    ]) {
      await api.call("POST", path, { key });
    }
    await api.call("GET", "/features", { key });
    await api.call("POST", "/features/counted");
    expect((await week("evaluations")).data[6]).toBe(5);
  });

  test("is exact under many calls at once, from two processes, over midnight, and keeps the days apart", async () => {
    const one = createCallCounter(api.resources.db);
    const two = createCallCounter(api.resources.db);
    const days = [new Date("2025-09-01T23:59:59.999Z"), new Date("2025-09-02T00:00:00.000Z")];
    await Promise.all(
      Array.from({ length: 100 }, async (_, i) => {
        for (const counter of [one, two]) {
          for (const day of days) counter.count(day, i % 2 === 0);
          await counter.flush();
        }
      }),
    );
    api.setNow(new Date("2025-09-03T10:00:00.000Z"));
    expect((await week("api-calls")).data.slice(-3)).toEqual([200, 200, 1]);
    expect((await week("evaluations")).data.slice(-3)).toEqual([100, 100, 0]);
  });

  test("keeps what could not be written for the next time, all days of it", async () => {
    let broken = true;
    const db = new Proxy(api.resources.db, {
      get: (target, name, receiver) => {
        if (name === "insert" && broken) throw new Error("the database is away");
        return Reflect.get(target, name, receiver) as unknown;
      },
    });
    const counter = createCallCounter(db);
    counter.count(new Date("2025-10-01T00:00:00Z"), true);
    counter.count(new Date("2025-10-02T00:00:00Z"), false);
    await expect(counter.flush()).rejects.toThrow("away");
    broken = false;
    counter.count(new Date("2025-10-02T00:00:00Z"), true);
    await counter.flush();
    api.setNow(new Date("2025-10-03T10:00:00.000Z"));
    expect((await week("api-calls")).data.slice(-3)).toEqual([1, 2, 1]);
    expect((await week("evaluations")).data.slice(-3)).toEqual([1, 1, 0]);
  });
});

describe("the cache", () => {
  const get = (entry: string, as: string | undefined = admin) =>
    api.call<unknown>("GET", `/cache/get?key=${encodeURIComponent(entry)}`, { key: as });
  const set = (body: unknown, as: string | undefined = admin) => api.call("POST", "/cache/set", { key: as, body });
  const NOW = new Date("2025-06-15T12:00:00.000Z");
  const later = (seconds: number) => api.setNow(new Date(NOW.getTime() + seconds * 1000));

  test("is for platform ADMINs only", async () => {
    const user = "Your user role (USER) does not have permission to GET /cache/get";
    expect(await get("x", api.callers.owner.key)).toMatchObject({ status: 403, body: { error: user } });
    for (const as of [key, api.callers.management.key, api.callers.evaluation.key]) {
      for (const answer of [await get("x", as), await set({}, as)]) {
        expect(answer).toMatchObject({
          status: 403,
          body: { error: "This route requires a user API key. Organization API keys are not allowed" },
        });
      }
    }
    expect((await api.call("GET", "/cache/get?key=x")).status).toBe(401);
  });

  test.each([
    [{ a: [1, null, "ü"] }],
    ["text"],
    ["5"],
    ["null"],
    ['{"a":1}'],
    ["\ud800"],
    ["a\u0000b"],
    [0],
    [false],
    [null],
    [[]],
    ["nul \\u0000 written out"],
  ])("keeps any JSON value: %j", async (value) => {
    later(0);
    const entry = `Value ${JSON.stringify(value)}`;
    expect(await set({ key: entry, value })).toMatchObject({
      status: 200,
      body: { message: "Cache set successfully" },
    });
    expect((await get(entry.toUpperCase())).body).toEqual(value);
    expect((await set({ key: entry, value })).status).toBe(200);
    expect((await set({ key: entry, value: { not: value } })).status).toBe(409);
  });

  test("answers null for what is not there or not there any more: after 300 seconds, or those that were given", async () => {
    later(0);
    expect(await get("absent")).toMatchObject({ status: 200, body: null });
    await set({ key: "default", value: 1 });
    await set({ key: "zero", value: 1, expirationInSeconds: 0 });
    await set({ key: "short", value: 1, expirationInSeconds: 2 });
    later(1.999);
    expect((await get("short")).body).toBe(1);
    later(2);
    expect((await get("short")).body).toBeNull();
    later(299);
    expect([(await get("default")).body, (await get("zero")).body]).toEqual([1, 1]);
    later(300);
    expect([(await get("default")).body, (await get("zero")).body]).toEqual([null, null]);
  });

  test("renews the life of the same value, refuses another one with 409, and takes it once the first is over", async () => {
    later(0);
    await set({ key: "Same", value: { a: 1, b: 2 } });
    later(200);
    expect((await set({ key: "sAME", value: { b: 2, a: 1 } })).status).toBe(200);
    later(400);
    expect((await get("same")).body).toEqual({ a: 1, b: 2 });
    expect(await set({ key: "same", value: { a: 2 } })).toMatchObject({
      status: 409,
      body: { error: "Value already exists in cache, please use a different key." },
    });
    later(500);
    expect((await set({ key: "same", value: { a: 2 } })).status).toBe(200);
    expect((await get("same")).body).toEqual({ a: 2 });
  });

  test("of twenty different values at once keeps one and refuses the others", async () => {
    later(0);
    const answers = await Promise.all(Array.from({ length: 20 }, (_, i) => set({ key: "raced", value: i })));
    expect(statuses(answers)).toEqual({ 200: 1, 409: 19 });
    expect((await get("raced")).body).toBe(answers.findIndex((answer) => answer.status === 200));
  });

  test.each([
    ["INVALID DATA: The key field must be a non-empty string", { value: 1 }],
    ["INVALID DATA: The key field must be a non-empty string", { key: "", value: 1 }],
    ["INVALID DATA: The key field must be a non-empty string", { key: 5, value: 1 }],
    ["INVALID DATA: The key field must not be longer than 512 characters", { key: "x".repeat(513), value: 1 }],
    ["INVALID DATA: The value field is required", { key: "k" }],
    [
      "INVALID DATA: The expirationInSeconds field must be a positive integer",
      { key: "k", value: 1, expirationInSeconds: -1 },
    ],
    [
      "INVALID DATA: The expirationInSeconds field must be a positive integer",
      { key: "k", value: 1, expirationInSeconds: 1.5 },
    ],
    [
      "INVALID DATA: The expirationInSeconds field must be a positive integer",
      { key: "k", value: 1, expirationInSeconds: "60" },
    ],
    [
      "INVALID DATA: The expirationInSeconds field must be a positive integer",
      { key: "k", value: 1, expirationInSeconds: null },
    ],
    [
      "INVALID DATA: The expirationInSeconds field must be a positive integer",
      { key: "k", value: 1, expirationInSeconds: 1e15 },
    ],
  ])("refuses with 400: %s", async (error, body) => {
    expect(await set(body)).toMatchObject({ status: 400, body: { error } });
    expect((await get("k")).body).toBeNull();
  });

  test("asked without a key is a 400, with a NUL character too", async () => {
    for (const query of ["", "?key="]) {
      expect(await api.call("GET", `/cache/get${query}`, { key: admin })).toMatchObject({
        status: 400,
        body: { error: "Missing key query parameter" },
      });
    }
    expect((await get("a\u0000b")).status).toBe(400);
    expect((await set({ key: "a\u0000b", value: 1 })).status).toBe(400);
  });

  test("holds nothing of the server's and changes nothing of it", async () => {
    await contract(api, key, "cached");
    for (const entry of [
      "contracts.cached",
      "features.cached",
      "contracts.cached.tasker",
      "service.Tasker",
      "pricing.Tasker.1.0.0",
    ]) {
      expect((await get(entry)).body).toBeNull();
      await set({ key: entry, value: { usageLevels: {}, userContact: { userId: "stolen" } } });
    }
    expect(await api.call("GET", "/contracts/cached", { key })).toMatchObject({
      body: { userContact: { userId: "cached" } },
    });
    expect(await api.call("POST", "/features/cached", { key })).toMatchObject({ body: { "tasker-board": true } });
  });
});

describe("the event helpers", () => {
  test("say that the channel is there, to anybody", async () => {
    expect(await api.call("GET", "/events/status")).toMatchObject({
      status: 200,
      body: { status: "The WebSocket event service is active" },
    });
  });

  test("show a page that needs nothing from elsewhere and no inline script", async () => {
    const page = await api.call<string>("GET", "/events/client");
    expect(page.status).toBe(200);
    expect(page.headers.get("content-type")).toMatch(/^text\/html/);
    expect(page.headers.get("content-security-policy")).toContain("script-src 'self'");
    const scripts = [...page.body.matchAll(/<script([^>]*)>([^<]*)</g)];
    expect(scripts.map(([, attributes, text]) => [attributes, text])).toEqual([[' src="client.js" defer', ""]]);
    expect(page.body).not.toMatch(/https?:|style=|\son\w+=/);
    const script = await api.call<string>("GET", "/events/client.js");
    expect(script.headers.get("content-type")).toMatch(/^text\/javascript/);
    expect(script.body).toContain("/events/?EIO=4&transport=websocket");
    expect(script.body).toContain("40/pricings,");
  });

  const EVENT = { serviceName: "Tasker", pricingVersion: "1.0.0" };
  const send = (as: string | undefined, body: unknown = EVENT) =>
    api.call("POST", "/events/test-event", { key: as, body });

  test("send a test message for a platform ADMIN and for a key of scope ALL, and record none", async () => {
    const { result, events } = await eventsDuring(api.database, async () => [await send(admin), await send(key)]);
    for (const answer of result) {
      expect(answer).toMatchObject({ status: 200, body: { success: true, message: "Event sent successfully" } });
    }
    expect(events).toEqual([]);
  });

  test("do not exist for anybody else, whatever the body", async () => {
    const { callers } = api;
    const { events } = await eventsDuring(api.database, async () => {
      for (const as of [
        undefined,
        callers.management.key,
        callers.evaluation.key,
        callers.owner.key,
        callers.outsider.key,
      ]) {
        for (const body of [EVENT, {}]) {
          const answer = await send(as, body);
          expect([answer.status, JSON.stringify(answer.body)]).toEqual([404, '{"error":"Not found"}']);
        }
      }
    });
    expect(events).toEqual([]);
  });

  test.each([
    {},
    { serviceName: "Tasker" },
    { pricingVersion: "1" },
    { serviceName: "", pricingVersion: "1" },
    { serviceName: 1, pricingVersion: "1" },
    { serviceName: "x".repeat(256), pricingVersion: "1" },
    { serviceName: "Tasker", pricingVersion: "x".repeat(256) },
  ])("refuse a message without both fields: %j", async (body) => {
    const { result, events } = await eventsDuring(api.database, () => send(key, body));
    expect(result).toMatchObject({
      status: 400,
      body: { error: "The fields serviceName and pricingVersion are required" },
    });
    expect(events).toEqual([]);
  });

  test("refuse half a character, which the channel cannot carry", async () => {
    const half = { serviceName: "\ud800", pricingVersion: "1" };
    const { result, events } = await eventsDuring(api.database, () => send(key, half));
    expect(result).toMatchObject({
      status: 400,
      body: { error: "INVALID DATA: The serviceName field contains a character that cannot be stored" },
    });
    expect(events).toEqual([]);
  });

  test("can be switched off", async () => {
    const closed = await createTestApi({ settings: { allowTestEvents: false } });
    const answer = await closed.call("POST", "/events/test-event", { key: closed.callers.all.key, body: EVENT });
    expect(answer).toMatchObject({ status: 404, body: { error: "Not found" } });
    await closed.close();
  });
});
