import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ADD_ONS_ONLY, consume, consumed, contract, tasker, upload } from "../support/contracting.ts";
import { type Answer, createTestApi, type TestApi } from "../support/api.ts";

/*
 * OpenFeature's Remote Evaluation Protocol. Source: open-feature/protocol, service/openapi.yaml and the guidelines for
 * providers next to it. `call` holds every answer against the OpenAPI document too.
 */

const FLAGS = "/ofrep/v1/evaluate/flags";
const ETAG = /^"[0-9a-f]{32}"$/;

interface Flag {
  key: string;
  value?: boolean;
  reason?: string;
  variant?: string;
  metadata?: Record<string, unknown>;
  errorCode?: string;
  errorDetails?: string;
}

let api: TestApi;
let key: string;

/** One working feature between two that cannot be evaluated and one without an expression. */
const BROKEN = `
saasName: Broken
syntaxVersion: "3.0"
version: "1.0.0"
createdAt: "2025-01-01"
currency: EUR
features:
  none: { valueType: BOOLEAN, defaultValue: true, type: DOMAIN }
  untracked: { valueType: BOOLEAN, defaultValue: true, type: DOMAIN, expression: "subscriptionContext['plain'] < pricingContext['usageLimits']['plain']" }
  fine: { valueType: BOOLEAN, defaultValue: true, type: DOMAIN, expression: "pricingContext['features']['fine']" }
  words: { valueType: TEXT, defaultValue: "hello", type: DOMAIN, expression: "pricingContext['features']['words']" }
usageLimits:
  plain: { valueType: NUMERIC, defaultValue: 3, unit: thing, type: NON_RENEWABLE }
plans:
  ONLY: { price: 0, unit: user/month, features: {} }
`;

beforeAll(async () => {
  api = await createTestApi();
  key = api.callers.evaluation.key;
  const all = api.callers.all.key;
  await upload(api, all, tasker(), ADD_ONS_ONLY, BROKEN);
  for (const userId of ["ada", "eve/ning", "same", "twin"]) await contract(api, all, userId);
  await contract(api, all, "bob", { billingPeriod: { autoRenew: true, renewalDays: 30 } });
  await contract(api, all, "basic", { subscriptionPlans: { tasker: "BASIC" } });
  await contract(api, all, "extras", {
    contractedServices: { extras: "1.0.0" },
    subscriptionPlans: {},
    subscriptionAddOns: { extras: { reporting: 1 } },
  });
  await contract(api, all, "broken", {
    contractedServices: { broken: "1.0.0" },
    subscriptionPlans: { broken: "ONLY" },
  });
});
afterAll(() => api.close());

const ask = (path: string, body: unknown, headers: Record<string, string> = {}) =>
  api.call<Flag & { flags: Flag[] }>("POST", `${FLAGS}${path}`, { key, body, headers });
const of = (userId: string) => ({ context: { targetingKey: userId } });
const tag = (answer: Answer<unknown>) => answer.headers.get("etag") ?? "";

describe("one flag", () => {
  test("that is on has its figures as flat metadata, and nothing is counted", async () => {
    await consume(api, api.callers.all.key, "ada", { "tasker-maxTasks": 3 });
    for (let times = 0; times < 2; times += 1) {
      const answer = await ask("/tasker-board", of("ada"));
      expect(answer.status).toBe(200);
      expect(answer.headers.get("content-type")).toBe("application/json; charset=utf-8");
      expect(answer.body).toEqual({
        key: "tasker-board",
        value: true,
        reason: "TARGETING_MATCH",
        variant: "on",
        metadata: {
          limitId: "tasker-maxTasks",
          limit: 20,
          used: 3,
          remaining: 17,
          resetsAt: "2025-07-15T10:00:00.000Z",
        },
      });
    }
    expect(await consumed(api, api.callers.all.key, "ada")).toBe(3);
  });

  test("that is off says whether use or the contract keeps it off", async () => {
    await consume(api, api.callers.all.key, "bob", { "tasker-maxTasks": 20 });
    expect((await ask("/tasker-board", of("bob"))).body).toMatchObject({
      value: false,
      reason: "TARGETING_MATCH",
      variant: "off",
      metadata: { used: 20, remaining: 0, reason: "LIMIT_REACHED" },
    });
    expect((await ask("/tasker-darkMode", of("basic"))).body).toEqual({
      key: "tasker-darkMode",
      value: false,
      reason: "TARGETING_MATCH",
      variant: "off",
      metadata: { reason: "NOT_GRANTED" },
    });
  });

  test("shows what holds and leases hold as used", async () => {
    await contract(api, api.callers.all.key, "holding");
    const all = api.callers.all.key;
    const amounts = { "tasker-maxTasks": 4 };
    await consume(api, all, "holding", amounts);
    await consume(api, all, "holding", amounts, "tasker-board?hold=PT10M");
    const leased = await api.call("POST", "/features/holding/tasker-board/leases", {
      key: all,
      body: { for: "PT10M", amounts },
    });
    expect(leased.status).toBe(201);
    expect((await ask("/tasker-board", of("holding"))).body.metadata).toMatchObject({ used: 12, remaining: 8 });
    await consume(api, all, "holding", { "tasker-maxTasks": 8 }, "tasker-board?hold=PT10M");
    const off = { value: false, metadata: { used: 20, remaining: 0, reason: "LIMIT_REACHED" } };
    expect((await ask("/tasker-board", of("holding"))).body).toMatchObject(off);
    const { flags } = (await ask("", of("holding"))).body;
    expect(flags.find((flag) => flag.key === "tasker-board")).toMatchObject(off);
  });

  test("with several limits shows the one with the least left", async () => {
    expect((await ask("/tasker-bulk", of("same"))).body.metadata).toEqual({
      limitId: "tasker-maxExports",
      limit: 10,
      used: 0,
      remaining: 10,
    });
  });

  test("is evaluated with the server's expression where the query asks for it", async () => {
    expect((await ask("/tasker-board?server=true", of("bob"))).body.value).toBe(true);
    expect((await ask("/tasker-board", of("bob"))).body.value).toBe(false);
  });

  test("has a boolean value whatever the feature's own type is", async () => {
    expect((await ask("/tasker-sla", of("ada"))).body).toMatchObject({ value: true, variant: "on" });
  });

  test("ignores the rest of the context and of the body", async () => {
    const context = { targetingKey: "ada", plan: "none", nested: { list: [1] }, "tasker-maxTasks": 100 };
    const answer = await ask("/tasker-board", { context, "tasker-maxTasks": 5 });
    expect(answer.body.metadata).toMatchObject({ used: 3 });
    expect(await consumed(api, api.callers.all.key, "ada")).toBe(3);
  });

  test("is read from a percent-encoded path, and the end user as it is spelled", async () => {
    expect((await ask("/tasker%2Dboard", of("eve/ning"))).body).toMatchObject({ key: "tasker-board", value: true });
    expect((await ask("/tasker-board", of("Ada"))).body.errorCode).toBe("INVALID_CONTEXT");
    expect((await ask("/Tasker-board", of("ada"))).body).toEqual({
      key: "Tasker-board",
      errorCode: "FLAG_NOT_FOUND",
      errorDetails: 'Feature Tasker-board not found in "pricingContext".',
    });
  });
});

describe("all flags", () => {
  test("are those of a bulk evaluation, in its order", async () => {
    const answer = await ask("", of("ada"));
    expect(answer.status).toBe(200);
    expect(tag(answer)).toMatch(ETAG);
    const evaluated = await api.call<Record<string, boolean>>("POST", "/features/ada", { key });
    expect(answer.body.flags.map((flag) => [flag.key, flag.value])).toEqual(Object.entries(evaluated.body));
    const [board] = answer.body.flags;
    expect(board).toEqual((await ask("/tasker-board", of("ada"))).body);
  });

  test("come with the failures of those that could not be evaluated", async () => {
    const { flags } = (await ask("", of("broken"))).body;
    expect(flags).toEqual([
      { key: "broken-untracked", errorCode: "PARSE_ERROR", errorDetails: expect.stringContaining("usage limit") },
      expect.objectContaining({ key: "broken-fine", value: true }),
      { key: "broken-words", errorCode: "GENERAL", errorDetails: expect.stringContaining("not return a boolean") },
    ]);
    for (const flag of flags) {
      const single = await ask(`/${flag.key}`, of("broken"));
      expect(single).toMatchObject({ status: flag.errorCode === undefined ? 200 : 400, body: flag });
    }
    expect(await ask("/broken-none", of("broken"))).toMatchObject({
      status: 400,
      body: { key: "broken-none", errorCode: "PARSE_ERROR" },
    });
  });

  test("leave out what a service without plans does not grant; asked alone, that is not found", async () => {
    expect((await ask("", of("extras"))).body.flags.map(({ key }) => key)).toEqual(["extras-reports"]);
    expect(await ask("/extras-insights", of("extras"))).toMatchObject({
      status: 404,
      body: { key: "extras-insights", errorCode: "FLAG_NOT_FOUND" },
    });
  });
});

describe("the ETag of all flags", () => {
  const conditional = (userId: string, etag: string) => ask("", of(userId), { "if-none-match": etag });

  test("is answered with 304, an empty body and itself as long as nothing changes", async () => {
    const first = await ask("", of("same"));
    const again = await conditional("same", tag(first));
    expect(again.status).toBe(304);
    expect(again.body).toBeUndefined();
    expect(tag(again)).toBe(tag(first));
    for (const header of [`W/${tag(first)}`, `"other", ${tag(first)}`, "*"]) {
      expect((await conditional("same", header)).status).toBe(304);
    }
    for (const header of ['"other"', tag(first).replaceAll('"', ""), ""]) {
      expect((await conditional("same", header)).status).toBe(200);
    }
  });

  test("changes with use, with the contract, and with nothing else", async () => {
    const before = tag(await ask("", of("twin")));
    await consume(api, api.callers.all.key, "twin", { "tasker-maxTasks": 1 });
    const used = await conditional("twin", before);
    expect(used.status).toBe(200);
    expect(tag(used)).not.toBe(before);
    const change = await api.call("PUT", "/contracts/twin", {
      key: api.callers.all.key,
      body: {
        contractedServices: { tasker: "1.0.0" },
        subscriptionPlans: { tasker: "BASIC" },
        subscriptionAddOns: {},
      },
    });
    expect(change.status).toBe(200);
    const novated = await conditional("twin", tag(used));
    expect(novated.status).toBe(200);
    expect((await conditional("twin", tag(novated))).status).toBe(304);
  });

  test("is not the same with server expressions where they answer differently", async () => {
    const client = await ask("", of("bob"));
    expect(tag(await ask("?server=true", of("bob")))).not.toBe(tag(client));
  });

  test("may be read by pages of other origins, whose preflight passes", async () => {
    const origin = "https://app.example";
    const preflight = await api.app.request(FLAGS, {
      method: "OPTIONS",
      headers: { origin, "access-control-request-headers": "authorization,content-type,if-none-match" },
    });
    expect(preflight.headers.get("access-control-allow-headers")).toContain("if-none-match");
    const answer = await ask("", of("ada"), { origin });
    expect(answer.headers.get("access-control-expose-headers")).toMatch(/\bETag\b.*\bRetry-After\b/);
  });
});

describe("keys", () => {
  const bare = (headers: Record<string, string>, path = "") =>
    api.call<Flag>("POST", `${FLAGS}${path}`, { body: of("ada"), headers });

  test.each(["Bearer", "bearer"])("come as %s as well as in x-api-key, which is looked at first", async (scheme) => {
    expect((await bare({ authorization: `${scheme} ${key}` })).status).toBe(200);
    expect((await bare({ authorization: `${scheme} org_wrong`, "x-api-key": key })).status).toBe(200);
    expect((await bare({ authorization: `${scheme} ${key}`, "x-api-key": "org_wrong" })).status).toBe(401);
  });

  test("that are missing, wrong, or of another scheme are 401 in the protocol's shape", async () => {
    for (const headers of [{}, { authorization: `Basic ${key}` }, { authorization: "Bearer" }]) {
      expect(await bare(headers, "/tasker-board")).toMatchObject({
        status: 401,
        body: { key: "tasker-board", errorCode: "GENERAL", errorDetails: expect.stringMatching(/^API Key not found/) },
      });
    }
    expect(await bare({ authorization: "Bearer org_wrong" })).toMatchObject({
      status: 401,
      body: { errorCode: "GENERAL", errorDetails: "Invalid Organization API Key" },
    });
  });

  test("of users are refused with 403, as everywhere features are evaluated", async () => {
    expect(await bare({ authorization: `Bearer ${api.callers.owner.key}` })).toMatchObject({
      status: 403,
      body: {
        errorCode: "GENERAL",
        errorDetails: `Your user role (USER) does not have permission to POST ${FLAGS}`,
      },
    });
  });

  test("in Authorization are not looked at outside of the protocol", async () => {
    const answer = await api.call("POST", "/features/ada", { headers: { authorization: `Bearer ${key}` } });
    expect(answer.status).toBe(401);
    const open = await api.call("GET", "/healthcheck", { headers: { authorization: "Bearer org_wrong" } });
    expect(open.status).toBe(200);
  });

  test("of another organization know none of its users", async () => {
    const other = await api.newOrganization(api.callers.outsider, "Elsewhere");
    expect(await bare({ authorization: `Bearer ${other.key}` }, "/tasker-board")).toMatchObject({
      status: 400,
      body: { errorCode: "INVALID_CONTEXT", errorDetails: "Contract with userId ada not found" },
    });
  });
});

describe("what cannot be answered is 400 with the protocol's code:", () => {
  test.each<[what: string, code: string, body: unknown]>([
    ["no body", "TARGETING_KEY_MISSING", undefined],
    ["no context", "TARGETING_KEY_MISSING", {}],
    ["a context that is null", "TARGETING_KEY_MISSING", { context: null }],
    ["a context without targetingKey", "TARGETING_KEY_MISSING", { context: { userId: "ada" } }],
    ["an empty targetingKey", "TARGETING_KEY_MISSING", { context: { targetingKey: "" } }],
    ["a targetingKey that is null", "TARGETING_KEY_MISSING", { context: { targetingKey: null } }],
    ["a targetingKey that is a number", "INVALID_CONTEXT", { context: { targetingKey: 7 } }],
    ["a targetingKey that cannot be stored", "INVALID_CONTEXT", { context: { targetingKey: "a\u0000b" } }],
    ["a context that is a text", "INVALID_CONTEXT", { context: "ada" }],
    ["a context that is a list", "INVALID_CONTEXT", { context: [] }],
    ["a user without a contract", "INVALID_CONTEXT", of("nobody")],
    ["a body that is a list", "PARSE_ERROR", []],
    ["a body that is no JSON", "PARSE_ERROR", "{"],
    ["a body that is a number", "PARSE_ERROR", "7"],
  ])("%s is %s", async (_, errorCode, body) => {
    for (const path of ["", "/tasker-board"]) {
      const answer = await ask(path, body);
      expect(answer).toMatchObject({ status: 400, body: { errorCode, errorDetails: expect.any(String) } });
      expect(answer.body.key).toBe(path === "" ? undefined : "tasker-board");
      expect(tag(answer)).toBe("");
    }
  });

  test("a contract that has ended", async () => {
    await contract(api, api.callers.all.key, "ended", { billingPeriod: { autoRenew: false, renewalDays: 1 } });
    api.setNow(new Date("2025-06-20T10:00:00.000Z"));
    const answer = await ask("", of("ended"));
    expect(answer).toMatchObject({
      status: 400,
      body: { errorCode: "INVALID_CONTEXT", errorDetails: expect.stringMatching(/^Invalid subscription/) },
    });
  });

  test("a body beyond the limit is 413, a query that repeats itself 400", async () => {
    expect(await ask("", { context: { targetingKey: "x".repeat(2 ** 21) } })).toMatchObject({
      status: 413,
      body: { errorCode: "GENERAL" },
    });
    expect(await ask("/tasker-board?server=true&server=false", of("ada"))).toMatchObject({
      status: 400,
      body: { key: "tasker-board", errorCode: "PARSE_ERROR" },
    });
  });
});

test("a balance that is due is renewed by asking, and the answer shows the next boundary", async () => {
  api.setNow(new Date("2025-07-20T10:00:00.000Z"));
  expect((await ask("/tasker-board", of("bob"))).body).toMatchObject({
    value: true,
    metadata: { used: 0, remaining: 20, resetsAt: "2025-08-15T10:00:00.000Z" },
  });
});

test("answers count as evaluations in analytics", async () => {
  const evaluations = async () => {
    await api.resources.callCounter.flush();
    const { body } = await api.call<{ data: number[] }>("GET", "/analytics/evaluations", { key });
    return body.data.at(-1) ?? 0;
  };
  const before = await evaluations();
  await ask("", of("ada"));
  await ask("/tasker-board", of("ada"));
  expect((await evaluations()) - before).toBe(2);
});

test("too many unknown keys are 429 with Retry-After in the protocol's shape", async () => {
  const tries = Array.from({ length: 1001 }, () =>
    api.call("POST", FLAGS, { body: of("ada"), headers: { authorization: "Bearer org_guess" } }),
  );
  const last = (await Promise.all(tries)).find(({ status }) => status === 429);
  expect(last).toMatchObject({
    status: 429,
    body: { errorCode: "GENERAL", errorDetails: "Too many unknown API keys. Please try again later" },
  });
  expect(Number(last?.headers.get("retry-after"))).toBeGreaterThan(0);
});

test("below a sub-path it is found there as well", async () => {
  const below = await createTestApi({ http: { baseUrlPath: "/fare" } });
  const answer = await below.app.request(`/fare${FLAGS}`, { method: "POST" });
  expect(answer.status).toBe(401);
  const { body } = await below.call<{ paths: Record<string, { servers?: unknown }> }>("GET", "/openapi.json");
  expect(body.paths[FLAGS]?.servers).toEqual([{ url: "/fare" }]);
  expect((await api.call<typeof body>("GET", "/openapi.json")).body.paths[FLAGS]?.servers).toEqual([{ url: "/" }]);
  await below.close();
});
