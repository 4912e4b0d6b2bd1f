import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createTestApi, type Method, type TestApi } from "../support/api.ts";
import { ADD_ONS_ONLY, consume, consumed, contract, show, tasker, upload } from "../support/contracting.ts";

let api: TestApi;
let key: string;
let users = 0;
let userId: string;

const START = new Date("2025-06-15T12:00:00.000Z");

/** Features with unusual expressions. Source: contract features-events §2.2, §3. */
const ODD = `
saasName: Odd-One
syntaxVersion: "3.0"
version: "1.0.0"
createdAt: "2025-01-01"
currency: EUR
features:
  none: { valueType: BOOLEAN, defaultValue: true, type: DOMAIN }
  constant: { valueType: BOOLEAN, defaultValue: true, type: DOMAIN, expression: "true" }
  ghost: { valueType: BOOLEAN, defaultValue: true, type: DOMAIN, expression: "pricingContext['features']['phantom'] === true" }
  untracked: { valueType: BOOLEAN, defaultValue: true, type: DOMAIN, expression: "subscriptionContext['plain'] < pricingContext['usageLimits']['plain']" }
  missingLimit: { valueType: BOOLEAN, defaultValue: true, type: DOMAIN, expression: "subscriptionContext['dash-ed'] < pricingContext['usageLimits']['phantom']" }
  level: { valueType: BOOLEAN, defaultValue: true, type: DOMAIN, expression: "pricingContext['usageLevels']['phantom'] < 1" }
  words: { valueType: TEXT, defaultValue: "hello", type: DOMAIN, expression: "pricingContext['features']['words']" }
  double: { valueType: BOOLEAN, defaultValue: true, type: DOMAIN, expression: 'pricingContext["features"]["double"]' }
  server-only: { valueType: BOOLEAN, defaultValue: true, type: DOMAIN, serverExpression: "pricingContext['features']['server-only']" }
  dashes: { valueType: BOOLEAN, defaultValue: true, type: DOMAIN, expression: "subscriptionContext['dash-ed'] < pricingContext['usageLimits']['dash-ed']" }
  wide: { valueType: NUMERIC, defaultValue: .inf, type: DOMAIN, expression: "pricingContext['features']['wide'] >= 100000000" }
  payment: { valueType: TEXT, defaultValue: [CARD, INVOICE], type: PAYMENT, expression: "pricingContext['features']['payment'] !== null" }
  allowed: { valueType: BOOLEAN, defaultValue: true, type: DOMAIN, expression: "subscriptionContext['switch'] >= 0 && pricingContext['usageLimits']['switch']" }
usageLimits:
  plain: { valueType: NUMERIC, defaultValue: 3, unit: thing, type: NON_RENEWABLE }
  dash-ed: { valueType: NUMERIC, defaultValue: .inf, unit: thing, type: NON_RENEWABLE, trackable: true }
  switch: { valueType: BOOLEAN, defaultValue: true, unit: thing, type: NON_RENEWABLE, trackable: true }
plans:
  ONLY: { price: 0, unit: user/month, features: {} }
`;

beforeAll(async () => {
  api = await createTestApi();
  key = api.callers.all.key;
  await upload(api, key, tasker(), tasker({ version: "2.0.0", createdAt: "2025-02-01" }), ADD_ONS_ONLY, ODD);
  api.setNow(START);
  await contract(api, key, "odd", {
    contractedServices: { "odd-one": "1.0.0" },
    subscriptionPlans: { "odd-one": "ONLY" },
  });
});
afterAll(() => api.close());
beforeEach(async () => {
  api.setNow(START);
  userId = `user-${(users += 1)}`;
  await contract(api, key, userId);
});

const ask = (path: string, options: { body?: unknown; key?: string } = {}) =>
  api.call("POST", `/features/${path}`, { key, ...options });

describe("access", () => {
  const ROUTES: [method: Method, path: string, statuses: Record<string, number>][] = [
    ["GET", "/features", { admin: 403, user: 403, all: 200, management: 200, evaluation: 200, nobody: 401 }],
    ["POST", "/features/odd", { admin: 403, user: 403, all: 200, management: 200, evaluation: 200, nobody: 401 }],
    [
      "POST",
      "/features/odd/pricing-token",
      { admin: 403, user: 403, all: 200, management: 200, evaluation: 200, nobody: 401 },
    ],
    [
      "POST",
      "/features/odd/odd-one-wide",
      { admin: 403, user: 403, all: 200, management: 200, evaluation: 200, nobody: 401 },
    ],
    ["PUT", "/features/odd", { admin: 403, user: 403, all: 404, management: 404, evaluation: 403, nobody: 401 }],
    ["PATCH", "/features", { admin: 403, user: 403, all: 404, management: 404, evaluation: 403, nobody: 401 }],
    ["DELETE", "/features/odd/x", { admin: 403, user: 403, all: 404, management: 404, evaluation: 403, nobody: 401 }],
    ["GET", "/features/odd", { admin: 403, user: 403, all: 403, management: 403, evaluation: 403, nobody: 403 }],
  ];
  test.each(ROUTES)("%s %s answers each kind of caller %j", async (method, path, statuses) => {
    const { callers } = api;
    const keys: Record<string, string | undefined> = {
      admin: callers.platformAdmin.key,
      user: callers.owner.key,
      all: callers.all.key,
      management: callers.management.key,
      evaluation: callers.evaluation.key,
      nobody: undefined,
    };
    for (const [caller, status] of Object.entries(statuses)) {
      expect([caller, (await api.call(method, path, { key: keys[caller] })).status]).toEqual([caller, status]);
    }
  });

  test("evaluate is a userId like any other", async () => {
    expect(await ask("evaluate")).toMatchObject({
      status: 404,
      body: { error: "Contract with userId evaluate not found" },
    });
  });
});

describe("the list of features", () => {
  type Row = { info: Record<string, unknown>; service: string; pricingVersion: string };
  const list = async (query: string) => {
    const { body, status, headers } = await api.call<Row[]>("GET", `/features${query}`, { key });
    expect(status).toBe(200);
    expect(headers.has("x-total-count")).toBe(false);
    return body;
  };
  const names = (rows: Row[]) => rows.map((row) => `${row.service}@${row.pricingVersion}:${String(row.info["name"])}`);

  test("has the feature as the pricing shows it, the service's spelling and the version verbatim", async () => {
    const [row] = await list("?featureName=board&serviceName=tasker&pricingVersion=1.0.0");
    expect(Object.keys(row ?? {})).toEqual(["info", "service", "pricingVersion"]);
    expect(row).toMatchObject({
      info: { name: "board", valueType: "BOOLEAN", defaultValue: true, type: "DOMAIN", render: "AUTO" },
      service: "Tasker",
      pricingVersion: "1.0.0",
    });
    const pricing = await api.call<{ features: Record<string, unknown> }>("GET", "/services/Tasker/pricings/1.0.0", {
      key,
    });
    expect(row?.info).toEqual(pricing.body.features["board"]);
  });

  test.each([
    ["?featureName=DARK&pricingVersion=2", ["Tasker@2.0.0:darkMode"]],
    ["?featureName=%25", []],
    ["?serviceName=xtra", ["Extras@1.0.0:reports", "Extras@1.0.0:insights"]],
    ["?serviceName=.*", []],
    ["?pricingVersion=_", []],
    ["?pricingVersion=2.0&featureName=s", ["Tasker@2.0.0:sla", "Tasker@2.0.0:silent"]],
    ["?show=nonsense", []],
    ["?show=archived", []],
    ["?serviceName=Tasker&limit=2", ["Tasker@1.0.0:board", "Tasker@1.0.0:bulk"]],
    ["?serviceName=Tasker&limit=2&page=2", ["Tasker@1.0.0:darkMode", "Tasker@1.0.0:sla"]],
    ["?serviceName=Tasker&limit=2&page=2&offset=5", ["Tasker@2.0.0:board", "Tasker@2.0.0:bulk"]],
    ["?serviceName=xtra&limit=x&page=0&offset=", ["Extras@1.0.0:reports", "Extras@1.0.0:insights"]],
    ["?serviceName=xtra&limit=-5&page=-1&offset=-2", ["Extras@1.0.0:reports", "Extras@1.0.0:insights"]],
    ["?serviceName=xtra&sort=featureName", ["Extras@1.0.0:insights", "Extras@1.0.0:reports"]],
    ["?serviceName=xtra&sort=featureName&order=down", ["Extras@1.0.0:reports", "Extras@1.0.0:insights"]],
    ["?featureName=board&sort=featureName&order=desc", ["Tasker@1.0.0:board", "Tasker@2.0.0:board"]],
    ["?featureName=reports&unknown=1&sort=nothing", ["Extras@1.0.0:reports"]],
    ["?featureName=reports&sort=__proto__", ["Extras@1.0.0:reports"]],
    ["?featureName=reports&sort=toString", ["Extras@1.0.0:reports"]],
  ])("%s has %j", async (query, expected) => {
    expect(names(await list(query))).toEqual(expected);
  });

  test("is by service name, twenty at a time, and larger when asked", async () => {
    const rows = await list("");
    expect(rows).toHaveLength(20);
    expect(rows[0]?.service).toBe("Extras");
    expect(await list("?limit=1000")).toHaveLength(25);
    const descending = await list("?order=desc&limit=1000");
    expect(descending[0]?.service).toBe("Tasker");
    expect(descending.at(-1)?.service).toBe("Extras");
  });

  test("shows archived versions after active ones, and nothing of a disabled service or of another organization", async () => {
    const other = await api.newOrganization(api.callers.outsider, "Lists");
    await upload(api, other.key, tasker(), tasker({ version: "0.9", createdAt: "2025-03-01" }), ADD_ONS_ONLY);
    const put = (path: string) => api.call("PUT", path, { key: other.key, body: { subscriptionPlan: "PRO" } });
    expect((await put("/services/Tasker/pricings/1.0.0?availability=archived")).status).toBe(200);
    await api.call("DELETE", "/services/Extras", { key: other.key });
    const seen = async (show: string) => {
      const { body } = await api.call<Row[]>("GET", `/features?featureName=board&show=${show}`, { key: other.key });
      return names(body);
    };
    expect(await seen("active")).toEqual(["Tasker@0.9:board"]);
    expect(await seen("archived")).toEqual(["Tasker@1.0.0:board"]);
    expect(await seen("all")).toEqual(["Tasker@0.9:board", "Tasker@1.0.0:board"]);
  });
});

describe("preparing an evaluation", () => {
  const EXPIRED =
    "Invalid subscription: Your susbcription has expired and it is not set to renew automatically. To continue accessing the features, please purchase any subscription.";

  test.each(["", "/pricing-token", "/tasker-board", "/tasker-board?revert=true"])(
    "of an expired contract is refused with 400: POST /features/{userId}%s",
    async (path) => {
      api.setNow(new Date("2025-07-15T12:00:00.000Z"));
      expect((await ask(`${userId}${path}`)).status).toBeLessThan(300);
      api.setNow(new Date("2025-07-15T12:00:00.001Z"));
      expect(await ask(`${userId}${path}`)).toMatchObject({ status: 400, body: { error: EXPIRED } });
      expect((await show(api, key, userId)).billingPeriod.endDate).toBe("2025-07-15T12:00:00.000Z");
    },
  );

  test("finds the service under its new name after a rename, and evaluates an archived version", async () => {
    await upload(
      api,
      key,
      tasker({ name: "Before" }),
      tasker({ name: "Before", version: "2", createdAt: "2025-02-01" }),
    );
    await contract(api, key, "renamed", {
      contractedServices: { before: "1.0.0" },
      subscriptionPlans: { before: "PRO" },
    });
    await consume(api, key, "renamed", { "before-maxTasks": 2 }, "before-board");
    await api.call("PUT", "/services/Before", { key, body: { name: "After" } });
    await api.database.connection.client`update pricings set availability = 'archived' where version = '1.0.0'
      and service_id = (select id from services where name = 'After')`;
    expect((await ask("renamed/after-board")).body).toEqual({
      eval: true,
      limit: { "after-maxTasks": 20 },
      used: { "after-maxTasks": 2 },
      error: null,
    });
  });

  test("without a plan only what add-ons bring exists, extensions start from the pricing's default", async () => {
    await contract(api, key, "planless", {
      contractedServices: { extras: "1.0.0" },
      subscriptionPlans: {},
      subscriptionAddOns: { extras: { reporting: 2 } },
    });
    expect((await ask("planless?details=true")).body).toMatchObject({
      "extras-reports": { eval: true, error: null },
      "extras-insights": { eval: false, error: { code: "FLAG_NOT_FOUND" } },
    });
    const { body } = await ask("planless/pricing-token");
    expect(JSON.parse(atob(String(body["pricingToken"]).split(".")[1] ?? "")).pricingContext).toEqual({
      features: { "extras-reports": true },
      usageLimits: { "extras-maxReports": 17 },
    });
  });

  test("takes the contracted services in the order of the contract, features as declared", async () => {
    await contract(api, key, "both", {
      contractedServices: { tasker: "1.0.0", extras: "1.0.0" },
      subscriptionAddOns: { extras: { reporting: 1 } },
    });
    expect(Object.keys((await ask("both")).body)).toEqual([
      "tasker-board",
      "tasker-bulk",
      "tasker-darkMode",
      "tasker-sla",
      "extras-reports",
      "extras-insights",
    ]);
  });
});

describe("one feature's result", () => {
  const failure = (code: string, message: string) => ({
    eval: false,
    limit: null,
    used: null,
    error: { code, message },
  });
  const without =
    'If an expression is intended, please ensure it only references hard-coded values or variables from "pricingContext" and "subscriptionContext".';
  test.each<[featureId: string, result: unknown]>([
    ["odd-one-nothing", failure("FLAG_NOT_FOUND", 'Feature odd-one-nothing not found in "pricingContext".')],
    ["Odd-One-wide", failure("FLAG_NOT_FOUND", 'Feature Odd-One-wide not found in "pricingContext".')],
    ["__proto__", failure("FLAG_NOT_FOUND", 'Feature __proto__ not found in "pricingContext".')],
    ["odd-one-none", failure("PARSE_ERROR", "Feature odd-one-none has no expression defined!")],
    ["odd-one-server-only", failure("PARSE_ERROR", "Feature odd-one-server-only has no expression defined!")],
    ["odd-one-server-only?server=true", { eval: true, limit: null, used: null, error: null }],
    ["odd-one-server-only?server=1", failure("PARSE_ERROR", "Feature odd-one-server-only has no expression defined!")],
    ["odd-one-constant", failure("PARSE_ERROR", `Feature odd-one-constant has no expression defined! ${without}`)],
    [
      "odd-one-ghost",
      failure(
        "PARSE_ERROR",
        "Feature odd-one-ghost expression references feature 'odd-one-phantom' that was not found in pricingContext.features.",
      ),
    ],
    [
      "odd-one-untracked",
      failure(
        "PARSE_ERROR",
        "Feature odd-one-untracked expression references usage limit 'odd-one-plain' that was not found in subscriptionContext.",
      ),
    ],
    [
      "odd-one-level",
      failure(
        "PARSE_ERROR",
        "Feature odd-one-level expression references usage level 'phantom' that was not found in pricingContext.usageLimits.",
      ),
    ],
    [
      "odd-one-words",
      failure(
        "TYPE_MISMATCH",
        "Feature odd-one-words has an expression that does not return a boolean! Returned value: hello of type string",
      ),
    ],
    [
      "odd-one-double",
      failure(
        "TYPE_MISMATCH",
        "Feature odd-one-double has an expression that does not return a boolean! Returned value: undefined of type undefined",
      ),
    ],
    [
      "odd-one-missingLimit",
      { eval: false, limit: { "odd-one-dash-ed": 100_000_000 }, used: { "odd-one-dash-ed": 0 }, error: null },
    ],
    [
      "odd-one-dashes",
      { eval: true, limit: { "odd-one-dash-ed": 100_000_000 }, used: { "odd-one-dash-ed": 0 }, error: null },
    ],
    ["odd-one-wide", { eval: true, limit: null, used: null, error: null }],
    ["odd-one-payment", { eval: true, limit: null, used: null, error: null }],
    ["odd-one-allowed", { eval: true, limit: { "odd-one-switch": true }, used: { "odd-one-switch": 0 }, error: null }],
  ])("%s is 200 with exactly this", async (featureId, result) => {
    const answer = await ask(`odd/${featureId}`);
    expect(answer.status).toBe(200);
    expect(JSON.stringify(answer.body)).toBe(JSON.stringify(result));
  });

  test("in bulk, errors are false, and features without expression are left out", async () => {
    const { body } = await ask("odd?returnContexts=true&revert=true&latest=true", { body: { "odd-one-dash-ed": 5 } });
    expect(body).toEqual({
      "odd-one-constant": false,
      "odd-one-ghost": false,
      "odd-one-untracked": false,
      "odd-one-missingLimit": false,
      "odd-one-level": false,
      "odd-one-words": false,
      "odd-one-double": false,
      "odd-one-dashes": true,
      "odd-one-wide": true,
      "odd-one-payment": true,
      "odd-one-allowed": true,
    });
    expect(Object.keys((await ask("odd?server=true")).body)).toContain("odd-one-server-only");
    expect(Object.values((await ask("odd?details=yes")).body).every((value) => typeof value === "boolean")).toBe(true);
    expect((await show(api, key, "odd")).usageLevels["odd-one"]?.["dash-ed"]?.consumed).toBe(0);
  });
});

describe("a balance that is named in full", () => {
  test("is the one of this moment, of this contract, in every answer", async () => {
    await upload(
      api,
      key,
      `
saasName: Full
syntaxVersion: "3.0"
version: "1.0.0"
createdAt: "2025-01-01"
currency: EUR
features:
  quoted: { valueType: BOOLEAN, defaultValue: true, type: DOMAIN, expression: 'subscriptionContext["full-calls"] < 3' }
  spaced: { valueType: BOOLEAN, defaultValue: true, type: DOMAIN, expression: "subscriptionContext[ 'full-calls' ] < 3" }
usageLimits:
  calls: { valueType: NUMERIC, defaultValue: 100, unit: call, type: NON_RENEWABLE, trackable: true }
plans:
  ONLY: { price: 0, features: }
`,
    );
    for (const user of ["full-ada", "full-bob"])
      await contract(api, key, user, {
        contractedServices: { full: "1.0.0" },
        subscriptionPlans: { full: "ONLY" },
        subscriptionAddOns: {},
      });
    const answers = async (user: string) => [
      (await ask(user)).body,
      (await ask(`${user}?server=true`)).body,
      { "full-quoted": (await ask(`${user}/full-quoted`)).body["eval"] },
      { "full-spaced": (await ask(`${user}/full-spaced?details=true`)).body["eval"] },
    ];
    const all = (value: boolean) => [
      { "full-quoted": value, "full-spaced": value },
      { "full-quoted": value, "full-spaced": value },
      { "full-quoted": value },
      { "full-spaced": value },
    ];
    const add = (user: string, calls: number) =>
      api.call("PUT", `/contracts/${user}/usageLevels`, { key, body: { full: { calls } } });
    expect(await answers("full-ada")).toEqual(all(true));
    await add("full-bob", 5);
    expect(await answers("full-bob")).toEqual(all(false));
    expect(await answers("full-ada")).toEqual(all(true));
    await add("full-ada", 5);
    expect(await answers("full-ada")).toEqual(all(false));
  });
});

describe("whatever is asked", () => {
  test.each([
    ["a feature without limits", "/tasker-darkMode"],
    ["a feature that does not exist", "/tasker-nothing"],
    ["a feature with a limit", "/tasker-board"],
    ["every feature", ""],
    ["a token", "/pricing-token"],
    ["a revert", "/tasker-board?revert=true"],
    ["a revert of a feature that does not exist", "/tasker-nothing?revert=true"],
  ])("by %s, what is due is renewed", async (_, path) => {
    await consume(api, key, userId, { "tasker-maxTasks": 3 });
    await api.call("PUT", `/contracts/${userId}/billingPeriod`, { key, body: { endDate: "2030-01-01" } });
    await ask(`${userId}/tasker-darkMode`);
    api.setNow(new Date("2025-07-15T12:00:00.001Z"));
    expect((await show(api, key, userId)).usageLevels["tasker"]?.["maxTasks"]?.consumed).toBe(3);
    await ask(`${userId}${path}`);
    expect((await show(api, key, userId)).usageLevels["tasker"]?.["maxTasks"]).toEqual({
      consumed: 0,
      resetTimeStamp: "2025-08-15T12:00:00.000Z",
    });
  });
});

test("an empty change of balances leaves what is due, an amount is added to the new period", async () => {
  await consume(api, key, userId, { "tasker-maxTasks": 3 });
  api.setNow(new Date("2025-07-15T12:00:00.001Z"));
  const change = (body: unknown) => api.call("PUT", `/contracts/${userId}/usageLevels`, { key, body });
  const level = async () => (await show(api, key, userId)).usageLevels["tasker"]?.["maxTasks"];
  expect((await change({})).status).toBe(200);
  expect(await level()).toEqual({ consumed: 3, resetTimeStamp: "2025-07-15T12:00:00.000Z" });
  expect((await change({ tasker: { maxTasks: 1 } })).status).toBe(200);
  expect(await level()).toEqual({ consumed: 1, resetTimeStamp: "2025-08-15T12:00:00.000Z" });
});

describe("consuming", () => {
  const used = (n: number, limit = 20, on = true) => ({
    eval: on,
    limit: { "tasker-maxTasks": limit },
    used: { "tasker-maxTasks": n },
    error: null,
  });
  const one = (body: unknown, query = "", feature = "tasker-board") => ask(`${userId}/${feature}${query}`, { body });

  test.each<[sentence: string, body: unknown]>([
    ["Body must be an object", []],
    ["All values must be numbers", { "tasker-maxTasks": "1" }],
    ["All values must be numbers", { "tasker-maxTasks": null }],
    ["All values must be numbers", { "tasker-maxTasks": 1, other: {} }],
    ["All values must be non-negative finite numbers", { "tasker-maxTasks": -1 }],
    ["All values must be non-negative finite numbers", '{"tasker-maxTasks":1e999}'],
    ["All values must be non-negative finite numbers", '{"other":-0.5,"tasker-maxTasks":1}'],
    ["All values must be numbers", { other: -1, "tasker-maxTasks": "x" }],
    ["All values must be non-negative finite numbers", { other: 1e308, "tasker-maxTasks": -1 }],
    ["All values must be at most 9007199254740991", { "tasker-maxTasks": 2 ** 53 }],
    ["All values must be at most 9007199254740991", { "tasker-maxTasks": 1e308 }],
  ])("is refused with 422 and counts nothing: %s", async (error, body) => {
    expect(await one(body)).toMatchObject({ status: 422, body: { error } });
    expect(await consumed(api, key, userId)).toBe(0);
  });

  test("names a feature that does not exist with 200 and FLAG_NOT_FOUND", async () => {
    expect(await one({ "tasker-maxTasks": 1 }, "", "tasker-nothing")).toMatchObject({
      status: 200,
      body: { error: { code: "FLAG_NOT_FOUND" } },
    });
  });

  test("is decided on the current balance, so that one call may pass the limit and the next is refused without counting", async () => {
    expect((await one({ "tasker-maxTasks": 19 })).body).toEqual(used(19));
    expect((await one({ "tasker-maxTasks": 5, unknown: 3 })).body).toEqual(used(24));
    expect((await one({ "tasker-maxTasks": 2 })).body).toEqual(used(26, 20, false));
    expect((await one({})).body).toEqual(used(24, 20, false));
    expect((await one(undefined)).body).toEqual(used(24, 20, false));
    expect(await consumed(api, key, userId)).toBe(24);
  });

  test("takes zero as given, and fractions exactly", async () => {
    expect((await one({ "tasker-maxTasks": 0 })).body).toEqual(used(0));
    await one({ "tasker-maxTasks": 0.1 });
    expect((await one({ "tasker-maxTasks": 0.2 })).body).toEqual(used(0.3));
  });

  test("with the server's expression is decided by it", async () => {
    await one({ "tasker-maxTasks": 20 });
    expect((await one({ "tasker-maxTasks": 1 })).body).toEqual(used(21, 20, false));
    expect((await one({ "tasker-maxTasks": 1 }, "?server=true")).body).toEqual(used(21));
    expect((await one({ "tasker-maxTasks": 1 }, "?server=true")).body).toEqual(used(22, 20, false));
  });

  test("of two limits counts both or none, and needs an amount for both", async () => {
    const both = { "tasker-maxTasks": 2, "tasker-maxExports": 10 };
    const incomplete = await one({ "tasker-maxTasks": 2 }, "", "tasker-bulk");
    expect(incomplete.body).toEqual({
      eval: false,
      limit: null,
      used: null,
      error: {
        code: "INVALID_EXPECTED_CONSUMPTION",
        message:
          "No expectedConsumption value was provided for limit 'tasker-maxExports', which is used in the evaluation of feature 'tasker-bulk'. Please note that if you provide an expectedConsumption for any limit, you must provide it for all limits involved in that feature's evaluation.",
      },
    });
    expect((await one(both, "", "tasker-bulk")).body).toEqual({
      eval: true,
      limit: { "tasker-maxTasks": 20, "tasker-maxExports": 10 },
      used: { "tasker-maxTasks": 2, "tasker-maxExports": 10 },
      error: null,
    });
    expect((await one(both, "", "tasker-bulk")).body).toMatchObject({
      eval: false,
      used: { "tasker-maxTasks": 4, "tasker-maxExports": 20 },
    });
    expect([await consumed(api, key, userId), await consumed(api, key, userId, "maxExports")]).toEqual([2, 10]);
  });

  test("of a feature without limits stores nothing", async () => {
    expect((await one({ "tasker-maxTasks": 5 }, "", "tasker-darkMode")).body).toEqual({
      eval: true,
      limit: null,
      used: null,
      error: null,
    });
    expect(await consumed(api, key, userId)).toBe(0);
  });

  test("works where service, feature and limit have dashes in their names", async () => {
    await contract(api, key, `${userId}-odd`, {
      contractedServices: { "odd-one": "1.0.0" },
      subscriptionPlans: { "odd-one": "ONLY" },
    });
    const answer = await consume(api, key, `${userId}-odd`, { "odd-one-dash-ed": 4 }, "odd-one-dashes");
    expect(answer.body).toMatchObject({ eval: true, used: { "odd-one-dash-ed": 4 } });
    expect((await ask(`${userId}-odd/odd-one-dashes?revert=true`)).status).toBe(204);
    expect((await show(api, key, `${userId}-odd`)).usageLevels["odd-one"]?.["dash-ed"]?.consumed).toBe(0);
  });

  test("by an EVALUATION key counts like by any other", async () => {
    expect(
      (await ask(`${userId}/tasker-board`, { key: api.callers.evaluation.key, body: { "tasker-maxTasks": 2 } })).body,
    ).toEqual(used(2));
  });
});

describe("a limit of 100,000,000", () => {
  const METERED = `
saasName: Metered
syntaxVersion: "3.0"
version: "1.0"
createdAt: "2025-01-01"
currency: EUR
features:
  chat: {valueType: BOOLEAN, defaultValue: true, type: DOMAIN, expression: "subscriptionContext['tokens'] < pricingContext['usageLimits']['tokens']"}
  named: {valueType: BOOLEAN, defaultValue: true, type: DOMAIN, expression: 'subscriptionContext["metered-tokens"] < 100000000'}
  room: {valueType: BOOLEAN, defaultValue: true, type: DOMAIN, expression: "pricingContext['usageLimits']['tokens'] - subscriptionContext['tokens'] >= 5000"}
usageLimits:
  tokens: {valueType: NUMERIC, defaultValue: .inf, type: RENEWABLE, period: {value: 1, unit: MONTH}, linkedFeatures: [chat]}
plans: {ULTRA: {price: 200, features: null}}
addOns: {more: {price: 5, usageLimitsExtensions: {tokens: {value: 1000}}}}
`;
  const TOKENS = "metered-tokens";
  const amount = { [TOKENS]: 25_000_000 };
  beforeAll(() => upload(api, key, METERED));

  test.each([
    ["without add-on", {}],
    ["with an extension on top", { metered: { more: 2 } }],
  ])("bounds no consumption, hold, lease, batch or settlement, and raises no event: %s", async (name, addOns) => {
    const user = `metered ${name}`;
    await contract(api, key, user, {
      contractedServices: { metered: "1.0" },
      subscriptionPlans: { metered: "ULTRA" },
      subscriptionAddOns: addOns,
    });
    const path = `${encodeURIComponent(user)}/metered-chat`;
    for (let call = 1; call <= 6; call += 1) {
      const { body } = await ask(`${path}?strict=${call % 2 === 0}`, { body: amount });
      expect(body).toMatchObject({ eval: true, used: { [TOKENS]: call * 25_000_000 } });
    }
    const limit = 100_000_000 + (name === "without add-on" ? 0 : 2000);
    for (const feature of ["chat", "named", "room"]) {
      const { body } = await ask(`${encodeURIComponent(user)}/metered-${feature}?explain=true`);
      expect(body, feature).toMatchObject({ eval: true, reason: "GRANTED" });
    }
    expect((await ask(path)).body).toMatchObject({ limit: { [TOKENS]: limit }, used: { [TOKENS]: 150_000_000 } });
    expect((await ask(`${path}/unlock`)).body).toMatchObject({ reason: "ALREADY_ON" });
    const held = await ask(`${path}?hold=PT10M`, { body: amount });
    expect(held.body).toMatchObject({ eval: true, hold: { id: expect.any(String) as string } });
    const { id } = (held.body as { hold: { id: string } }).hold;
    const settled = await api.call("POST", `/holds/${id}`, { key, body: { [TOKENS]: 50_000_000 } });
    expect(settled.body).toMatchObject({ eval: true, used: { [TOKENS]: 200_000_000 } });
    const leased = await ask(`${path}/leases`, { body: { for: "PT1M", amounts: amount } });
    expect(leased).toMatchObject({ status: 201, body: { lease: { granted: amount } } });
    const batch = await api.call("POST", "/usage?strict=true", {
      key,
      body: [{ userId: user, featureId: "metered-chat", amounts: amount, key: name }],
    });
    expect(batch.body).toMatchObject({ counts: { counted: 1 } });
    const events = await api.database.connection.client<{ code: string }[]>`
      select code from outbox where code like 'USAGE_%' and details ->> 'userId' = ${user}`;
    expect(events).toEqual([]);
  });
});

describe("reverting", () => {
  const take = (n: number, feature = "tasker-board", body: Record<string, number> = { "tasker-maxTasks": n }) =>
    consume(api, key, userId, body, feature);
  const revert = (query = "", feature = "tasker-board") =>
    ask(`${userId}/${feature}?revert=true${query}`, { body: { "tasker-maxTasks": 7 } });
  const after = (seconds: number) => api.setNow(new Date(START.getTime() + seconds * 1000));

  test("answers 204 without body and undoes everything of the feature within its 120 seconds", async () => {
    await take(1);
    after(1);
    await take(2);
    await take(4);
    await take(8, "tasker-bulk", { "tasker-maxTasks": 8, "tasker-maxExports": 1 });
    after(120);
    expect(await revert()).toMatchObject({ status: 204, body: undefined });
    expect(await consumed(api, key, userId)).toBe(9);
    expect((await revert()).status).toBe(204);
    expect(await consumed(api, key, userId)).toBe(9);
  });

  test("with latest undoes the newest call that is not undone yet, one after the other", async () => {
    for (const n of [1, 2, 4]) await take(n);
    for (const left of [3, 1, 0, 0]) {
      expect((await revert("&latest=true")).status).toBe(204);
      expect(await consumed(api, key, userId)).toBe(left);
    }
  });

  test("counts only an exactly true latest or revert", async () => {
    await take(1);
    await take(2);
    expect(await ask(`${userId}/tasker-board?revert=1`, { body: {} })).toMatchObject({
      status: 200,
      body: { eval: true },
    });
    expect((await revert("&latest=1")).status).toBe(204);
    expect(await consumed(api, key, userId)).toBe(0);
  });

  test("leaves what others did meanwhile, and does not go below zero", async () => {
    await take(5);
    await api.call("PUT", `/contracts/${userId}/usageLevels`, { key, body: { tasker: { maxTasks: 10 } } });
    await revert();
    expect(await consumed(api, key, userId)).toBe(10);
    await take(5);
    await api.call("PUT", `/contracts/${userId}/usageLevels`, { key, body: { tasker: { maxTasks: -12 } } });
    await revert();
    expect(await consumed(api, key, userId)).toBe(0);
  });

  test("of several limits takes all of them back, those of the feature's own expression whatever it is linked to", async () => {
    await take(0, "tasker-bulk", { "tasker-maxTasks": 3, "tasker-maxExports": 2 });
    await revert("", "tasker-bulk");
    expect([await consumed(api, key, userId), await consumed(api, key, userId, "maxExports")]).toEqual([0, 0]);
  });

  test("does not bring back what a reset or a renewal took", async () => {
    await take(5);
    await api.call("PUT", `/contracts/${userId}/usageLevels?reset=true`, { key, body: {} });
    await take(1);
    await revert();
    expect(await consumed(api, key, userId)).toBe(0);
    await api.call("PUT", `/contracts/${userId}/billingPeriod`, { key, body: { endDate: "2030-01-01" } });
    api.setNow(new Date("2025-08-15T11:59:59.000Z"));
    await take(6);
    api.setNow(new Date("2025-08-15T12:00:30.000Z"));
    await take(2);
    await revert();
    expect(await consumed(api, key, userId)).toBe(0);
  });

  test("does not reach into a level that went and came back, even if it was at zero when it went", async () => {
    await take(5);
    await api.call("PUT", `/contracts/${userId}/usageLevels`, { key, body: { tasker: { maxTasks: -5 } } });
    const maps = (contractedServices: object, subscriptionPlans: object) => ({
      contractedServices,
      subscriptionPlans,
      subscriptionAddOns: {},
    });
    await api.call("PUT", `/contracts/${userId}`, { key, body: maps({}, {}) });
    await api.call("PUT", `/contracts/${userId}`, { key, body: maps({ tasker: "1.0.0" }, { tasker: "PRO" }) });
    await take(0, "tasker-bulk", { "tasker-maxTasks": 3, "tasker-maxExports": 1 });
    await revert();
    expect(await consumed(api, key, userId)).toBe(3);
  });

  test("of an unknown feature or end user is a 404", async () => {
    expect(await revert("", "tasker-nothing")).toMatchObject({
      status: 404,
      body: { error: `Feature tasker-nothing not found in contract for userId ${userId}` },
    });
    expect(await ask("nobody/tasker-board?revert=true")).toMatchObject({
      status: 404,
      body: { error: "Contract with userId nobody not found" },
    });
  });

  test("without a feature evaluates all and undoes nothing", async () => {
    await take(3);
    const answer = await ask(`${userId}?revert=true&latest=false`);
    expect(answer).toMatchObject({ status: 200, body: { "tasker-board": true } });
    expect(await consumed(api, key, userId)).toBe(3);
  });
});

describe("calls that ask for more", () => {
  const one = (query: string, body?: unknown, feature = "tasker-board") =>
    ask(`${userId}/${feature}${query}`, { body });
  const balance = { limit: { "tasker-maxTasks": 20 }, error: null };
  const RESET = { "tasker-maxTasks": "2025-07-15T12:00:00.000Z" };

  test("a dry run answers what would happen and counts nothing", async () => {
    const answer = await one("?dryRun=true", { "tasker-maxTasks": 25 });
    expect(JSON.stringify(answer.body)).toBe(
      '{"eval":true,"limit":{"tasker-maxTasks":20},"used":{"tasker-maxTasks":25},"error":null,"remaining":{"tasker-maxTasks":0},"resetAt":{"tasker-maxTasks":"2025-07-15T12:00:00.000Z"}}',
    );
    expect(await consumed(api, key, userId)).toBe(0);
    expect(await one("?dryRun=true&revert=true")).toMatchObject({ status: 400 });
  });

  test("a strict call counts what fits and refuses what would pass a limit", async () => {
    expect((await one("?strict=true", { "tasker-maxTasks": 19 })).body).toEqual({
      ...balance,
      eval: true,
      used: { "tasker-maxTasks": 19 },
      remaining: { "tasker-maxTasks": 1 },
      resetAt: RESET,
    });
    expect((await one("?strict=true", { "tasker-maxTasks": 1.00000000000001 })).body).toMatchObject({ eval: false });
    expect((await one("?strict=true", { "tasker-maxTasks": 2 })).body).toEqual({
      ...balance,
      eval: false,
      used: { "tasker-maxTasks": 21 },
      remaining: { "tasker-maxTasks": 1 },
      resetAt: RESET,
    });
    expect((await one("?strict=true&dryRun=true", { "tasker-maxTasks": 2 })).body).toMatchObject({
      eval: false,
      remaining: { "tasker-maxTasks": 1 },
    });
    expect((await one("?strict=true", { "tasker-maxTasks": 1 })).body).toMatchObject({
      eval: true,
      remaining: { "tasker-maxTasks": 0 },
    });
    expect(await consumed(api, key, userId)).toBe(20);
  });

  test("an explained answer only adds fields, and says null where nothing is limited or nothing resets", async () => {
    await contract(api, key, `${userId}-odd`, {
      contractedServices: { "odd-one": "1.0.0" },
      subscriptionPlans: { "odd-one": "ONLY" },
    });
    const odd = (feature: string) => ask(`${userId}-odd/odd-one-${feature}?explain=true`, { body: {} });
    expect((await odd("allowed")).body).toMatchObject({
      remaining: { "odd-one-switch": null },
      resetAt: { "odd-one-switch": null },
    });
    expect((await odd("wide")).body).toEqual({
      eval: true,
      limit: null,
      used: null,
      error: null,
      remaining: null,
      resetAt: null,
      reason: "GRANTED",
      held: null,
      sources: null,
    });
    expect((await one("?explain=true", { "tasker-maxTasks": 3 })).body).toEqual({
      ...balance,
      reason: "GRANTED",
      held: { "tasker-maxTasks": 0 },
      sources: { "tasker-maxTasks": [{ from: "plan", name: "PRO", value: 20 }] },
      eval: true,
      used: { "tasker-maxTasks": 3 },
      remaining: { "tasker-maxTasks": 17 },
      resetAt: RESET,
    });
  });
});
