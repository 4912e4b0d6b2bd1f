import { readFileSync } from "node:fs";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { announceEndedOverrides } from "../../src/operations/contracts/expiry.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { allEventsDuring } from "../support/private-events.ts";
import { contract, type ContractBody, upload } from "../support/contracting.ts";

/* Cases of contract custom-terms §10, by their numbers. */

const SAMPLE = readFileSync(new URL("../../src/samples/tasker.yml", import.meta.url), "utf8");
const START = Date.parse("2025-06-15T10:00:00.000Z");
const DAY = 86_400_000;
const REASON = "Agreed with support";

interface Override {
  service: string;
  kind: string;
  name: string;
  value: unknown;
  from: string;
  until: string | null;
  state: string;
  granted: unknown;
  effective: unknown;
  setAt: string;
  actor: object;
}
type WithOverrides = ContractBody & { overrides?: Override[] };

let api: TestApi;
let key: string;
let now = START;
const setNow = (moment: number) => api.setNow(new Date((now = moment)));
const iso = (moment: number) => new Date(moment).toISOString();

beforeAll(async () => {
  api = await createTestApi();
  key = api.callers.all.key;
  await upload(api, key, SAMPLE);
});
afterAll(() => api.close());

let users = 0;
/** Contracts a new end user to PRO with 100 extra tasks: 300 tasks a month. */
async function subscribed(plan = "PRO", extraTasks = 1): Promise<string> {
  const userId = `user-${(users += 1)}`;
  await contract(api, key, userId, {
    contractedServices: { tasker: "1.0.0" },
    subscriptionPlans: { tasker: plan },
    subscriptionAddOns: extraTasks === 0 ? {} : { tasker: { extraTasks } },
  });
  return userId;
}

const pathOf = (userId: string, element: string) => `/contracts/${userId}/overrides/tasker/${element}`;
const TASKS = "usageLimits/maxTasks";
const put = (userId: string, element: string, body: object | string, given = key) =>
  api.call<Override & { error?: string }>("PUT", pathOf(userId, element), { key: given, body });
const set = (value: unknown, more: object = {}) => ({ mode: "set", value, reason: REASON, ...more });
const add = (value: unknown, more: object = {}) => ({ mode: "add", value, reason: REASON, ...more });
const shown = async (userId: string, query = "") =>
  (await api.call<WithOverrides>("GET", `/contracts/${userId}${query}`, { key })).body;
const list = async (userId: string) =>
  (await api.call<Override[]>("GET", `/contracts/${userId}/overrides`, { key })).body;

interface Answer {
  eval: boolean;
  used: Record<string, number> | null;
  limit: Record<string, number> | null;
  asOf?: { cause: string; contract: { overrides?: object[] } };
}
const ask = async (
  userId: string,
  feature: string,
  { body = {}, query = "" }: { body?: object; query?: string } = {},
) => (await api.call<Answer>("POST", `/features/${userId}/tasker-${feature}${query}`, { key, body })).body;
const tasks = (amount: number) => ({ body: { "tasker-maxTasks": amount } });
const limitOf = async (userId: string, query = "") =>
  (await ask(userId, "board", { query })).limit?.["tasker-maxTasks"];

const eventsDuring = (work: () => Promise<unknown>) => allEventsDuring(api, work);

let ada: string;
beforeEach(async () => {
  setNow(START);
  ada = await subscribed();
});

describe("values", () => {
  test("1: a set limit is what expressions read", async () => {
    const { status, body } = await put(ada, TASKS, set(500));
    expect(status).toBe(200);
    expect(body).toEqual({
      organizationId: api.callers.organizationId,
      userId: ada,
      service: "tasker",
      kind: "usageLimits",
      name: "maxTasks",
      mode: "set",
      value: 500,
      from: iso(START),
      until: null,
      reason: REASON,
      state: "active",
      granted: 300,
      effective: 500,
      setAt: iso(START),
      actor: { kind: "key", id: api.callers.all.id, name: null },
    });
    expect(await ask(ada, "board", tasks(500))).toMatchObject({ eval: true, limit: { "tasker-maxTasks": 500 } });
    expect(await ask(ada, "board")).toMatchObject({ eval: false, used: { "tasker-maxTasks": 500 } });
  });

  test("2: an added amount stays between 0 and unlimited", async () => {
    await ask(ada, "board", tasks(7));
    expect((await put(ada, TASKS, add(-400))).body.effective).toBe(0);
    expect(await ask(ada, "board")).toMatchObject({ eval: false, used: { "tasker-maxTasks": 7 } });
    expect((await put(ada, TASKS, set(150_000_000))).body).toMatchObject({
      value: 100_000_000,
      effective: 100_000_000,
    });
    await upload(
      api,
      key,
      SAMPLE.replace("saasName: Tasker", "saasName: Endless").replaceAll(/value: 2000\b/g, "value: .inf"),
    );
    await contract(api, key, "endless", {
      contractedServices: { endless: "1.0.0" },
      subscriptionPlans: { endless: "BUSINESS" },
      subscriptionAddOns: {},
    });
    const answer = await api.call<Override>("PUT", "/contracts/endless/overrides/Endless/usageLimits/maxTasks", {
      key,
      body: add(-5),
    });
    expect(answer.body).toMatchObject({ service: "endless", granted: 100_000_000, effective: 100_000_000 });
    expect((await put(ada, TASKS, add(0.1))).body.effective).toBe(300.1);
  });

  test("3: features are on in every kind of answer", async () => {
    ada = await subscribed("FREE", 0);
    expect((await ask(ada, "export")).eval).toBe(false);
    expect((await put(ada, "features/export", set(true))).body).toMatchObject({ granted: false, effective: true });
    expect((await put(ada, "features/sla", set("99.9%"))).status).toBe(200);
    expect((await ask(ada, "export")).eval).toBe(true);
    const all = await api.call<Record<string, boolean>>("POST", `/features/${ada}`, { key });
    expect(all.body["tasker-export"]).toBe(true);
    const details = await api.call<Record<string, Answer>>("POST", `/features/${ada}?details=true`, { key });
    expect(details.body["tasker-export"]?.eval).toBe(true);
    const token = await api.call<{ pricingToken: string }>("POST", `/features/${ada}/pricing-token`, { key });
    const claims = JSON.parse(Buffer.from(token.body.pricingToken.split(".")[1] ?? "", "base64url").toString());
    expect(claims.features["tasker-export"].eval).toBe(true);
    expect(claims.pricingContext.features).toMatchObject({ "tasker-export": true, "tasker-sla": "99.9%" });
    const flag = await fetchFlag(ada, "tasker-export");
    expect(flag.body).toMatchObject({ value: true });
  });

  test("4: a value of another type is refused", async () => {
    expect(await refusalOf(ada, "features/sla", set(true))).toBe(
      "INVALID DATA: The value of feature sla must be a text",
    );
    expect(await refusalOf(ada, "features/export", add(1))).toBe("INVALID DATA: Mode add is for numeric usage limits");
    expect(await refusalOf(ada, TASKS, set(-1))).toBe(
      "INVALID DATA: The value of usage limit maxTasks must be a number of at least 0",
    );
    expect(await refusalOf(ada, TASKS, add(100_000_001))).toBe(
      "INVALID DATA: The value of usage limit maxTasks must be a number between -100000000 and 100000000",
    );
    expect(await refusalOf(ada, "features/export", set(["CARD"]))).toBe(
      "INVALID DATA: The value of feature export must be a boolean",
    );
  });

  test("an override that nothing reads changes no answer, and removes no balance", async () => {
    const before = await api.call("POST", `/features/${ada}?details=true`, { key });
    expect((await put(ada, "features/board", set(true))).status).toBe(200);
    const after = await api.call("POST", `/features/${ada}?details=true`, { key });
    expect(after.body).toEqual(before.body);
    expect((await shown(ada)).usageLevels).toEqual({ tasker: { maxTasks: expect.anything() } });
  });
});

const fetchFlag = (userId: string, flag: string) =>
  api.call("POST", `/ofrep/v1/evaluate/flags/${flag}`, { key, body: { context: { targetingKey: userId } } });
const refusalOf = async (userId: string, element: string, body: object) => {
  const answer = await put(userId, element, body);
  expect(answer.status).toBe(400);
  return answer.body.error;
};

describe("times", () => {
  test("5: it holds from `from` until just before `until`, without another call", async () => {
    const from = START + DAY;
    const until = START + 2 * DAY;
    const set = await put(ada, TASKS, add(50, { from: iso(from), until: iso(until) }));
    expect(set.body).toMatchObject({ state: "upcoming", granted: 300, effective: 300 });
    expect(await limitOf(ada)).toBe(300);
    for (const [moment, limit, state] of [
      [from - 1, 300, "upcoming"],
      [from, 350, "active"],
      [until - 1, 350, "active"],
      [until, 300, "ended"],
    ] as const) {
      setNow(moment);
      expect([moment, await limitOf(ada)]).toEqual([moment, limit]);
      expect((await list(ada)).map((each) => each.state)).toEqual([state]);
      expect((await shown(ada)).overrides?.map((each) => each.state)).toEqual(state === "ended" ? undefined : [state]);
    }
    const sweep = () => announceEndedOverrides(api.resources.db, new Date(now));
    const events = await eventsDuring(async () => {
      await Promise.all([sweep(), sweep()]);
      await sweep();
    });
    expect(events).toEqual([
      expect.objectContaining({
        code: "CONTRACT_OVERRIDE_ENDED",
        details: expect.objectContaining({ userId: ada, serviceName: "tasker", name: "maxTasks", cause: "expired" }),
      }),
    ]);
  });

  test("a token issued in the second of a boundary has the values of its moment", async () => {
    await put(ada, "features/board", set(true));
    const until = START + 500;
    await put(ada, TASKS, set(999, { until: iso(until) }));
    const limitIn = async () => {
      const { body } = await api.call<{ pricingToken: string }>("POST", `/features/${ada}/pricing-token`, { key });
      const claims = JSON.parse(Buffer.from(body.pricingToken.split(".")[1] ?? "", "base64url").toString());
      return claims.pricingContext.usageLimits["tasker-maxTasks"];
    };
    expect(await limitIn()).toBe(999);
    setNow(until);
    expect(await limitIn()).toBe(300);
  });

  test("6: a repeated PUT writes nothing", async () => {
    const events = await eventsDuring(async () => {
      const first = await put(ada, TASKS, set(500));
      setNow(START + 5_000);
      const second = await put(ada, TASKS, set(500));
      expect(second.body).toEqual(first.body);
      const third = await put(ada, TASKS, set(500, { from: iso(START - DAY) }));
      expect(third.body.setAt).toBe(first.body.setAt);
      expect((await put(ada, TASKS, set(501))).body.setAt).toBe(iso(START + 5_000));
    });
    expect(events.map(({ code, details }) => [code, details["value"]])).toEqual([
      ["CONTRACT_OVERRIDE_SET", "500"],
      ["CONTRACT_OVERRIDE_SET", "501"],
    ]);
    const audit = await api.call<{ data: { target: string }[] }>("GET", "/audit-log?action=override.set", {
      key,
    });
    expect(audit.body.data.filter(({ target }) => target === ada)).toHaveLength(2);
  });

  test("a replacement holds from its own start, and an end that nobody announced is announced then", async () => {
    await put(ada, TASKS, set(500, { until: iso(START + 1_000) }));
    setNow(START + 2_000);
    const events = await eventsDuring(async () => {
      const replaced = await put(ada, TASKS, set(400, { from: iso(START + DAY) }));
      expect(replaced.body).toMatchObject({ state: "upcoming", effective: 300 });
    });
    expect(events.map(({ code }) => code)).toEqual(["CONTRACT_OVERRIDE_ENDED", "CONTRACT_OVERRIDE_SET"]);
    expect(await limitOf(ada)).toBe(300);
  });
});

describe("requests", () => {
  test("7: the body is checked field by field", async () => {
    for (const [body, sentence] of [
      [{ mode: "set", value: 1 }, "The reason field is required"],
      [set(1, { reason: "x".repeat(501) }), "The reason field must be a text of 1 to 500 characters"],
      [set(1, { reason: "  " }), "The reason field must be a text of 1 to 500 characters"],
      [set(1, { foo: 1 }), "Unknown field: foo"],
      [{ foo: 1 }, "The value field is required"],
      [[], "The body must be an object"],
      [
        `{"mode":"set","value":1e999,"reason":"r"}`,
        "The value field must be a boolean, a finite number, a text of at most 1000 characters, or a list of texts",
      ],
      [
        set(Array.from({ length: 65 }, () => "CARD")),
        "The value field must be a boolean, a finite number, a text of at most 1000 characters, or a list of texts",
      ],
      [
        set("x".repeat(1001)),
        "The value field must be a boolean, a finite number, a text of at most 1000 characters, or a list of texts",
      ],
      [set(1, { mode: "double" }), "The mode field must be set or add"],
      [set(1, { from: "soon" }), "The from field must be an ISO 8601 date or null"],
      [set(1, { until: 5 }), "The until field must be an ISO 8601 date or null"],
    ] as const) {
      const answer = await put(ada, TASKS, body);
      expect([answer.status, answer.body.error]).toEqual([422, sentence]);
    }
    expect(await list(ada)).toEqual([]);
    expect((await put(ada, TASKS, set(1, { from: null, until: null }))).status).toBe(200);
  });

  test("8: what is not there is named", async () => {
    const errorOf = async (path: string, body = set(1)) => {
      const answer = await api.call<{ error: string }>("PUT", path, { key, body });
      return [answer.status, answer.body.error];
    };
    expect(await errorOf("/contracts/nobody/overrides/tasker/usageLimits/maxTasks")).toEqual([
      404,
      "Contract with userId nobody not found",
    ]);
    expect(await errorOf(`/contracts/${ada}/overrides/Other/usageLimits/maxTasks`)).toEqual([
      404,
      "Service Other not found in the contract",
    ]);
    expect(await errorOf(pathOf(ada, "usageLimits/nope"))).toEqual([
      404,
      "Usage limit nope not found in pricing version 1.0.0 of service tasker",
    ]);
    expect(await errorOf(pathOf(ada, "features/maxTasks"))).toEqual([
      404,
      "Feature maxTasks not found in pricing version 1.0.0 of service tasker",
    ]);
    const plans = await api.call<{ error: string }>("PUT", pathOf(ada, "plans/PRO"), { key, body: set(1) });
    expect(plans.status).toBe(404);
    expect(JSON.stringify(plans.body)).toContain(`Cannot PUT /api/v1${pathOf(ada, "plans/PRO")}`);
    expect(await errorOf(pathOf(ada, TASKS), set(1, { until: iso(START) }))).toEqual([
      400,
      "INVALID DATA: until must be after from",
    ]);
  });

  test("9: only ALL removes; a second time there is nothing", async () => {
    await put(ada, TASKS, set(500), api.callers.management.key);
    const path = pathOf(ada, TASKS);
    expect((await api.call("DELETE", path, { key: api.callers.management.key })).status).toBe(403);
    const events = await eventsDuring(async () => {
      expect((await api.call("DELETE", path, { key })).status).toBe(204);
    });
    expect(events).toEqual([
      expect.objectContaining({
        code: "CONTRACT_OVERRIDE_ENDED",
        details: expect.objectContaining({ cause: "removed" }),
      }),
    ]);
    expect(await limitOf(ada)).toBe(300);
    for (const method of ["GET", "DELETE"] as const) {
      const answer = await api.call<{ error: string }>(method, path, { key });
      expect([answer.status, answer.body.error]).toEqual([
        404,
        `No override of usageLimits maxTasks of service tasker in the contract of ${ada}`,
      ]);
    }
  });

  test("10: an EVALUATION key reads none, and evaluates with all", async () => {
    await put(ada, TASKS, set(500));
    const evaluation = api.callers.evaluation.key;
    for (const [method, path] of [
      ["GET", "/overrides"],
      ["GET", `/contracts/${ada}/overrides`],
      ["GET", pathOf(ada, TASKS)],
      ["PUT", pathOf(ada, TASKS)],
      ["DELETE", pathOf(ada, TASKS)],
    ] as const) {
      expect((await api.call(method, path, { key: evaluation })).status).toBe(403);
    }
    const answer = await api.call<Answer>("POST", `/features/${ada}/tasker-board`, { key: evaluation });
    expect(answer.body.limit).toEqual({ "tasker-maxTasks": 500 });
  });

  test("11: another organization with the same user has its own", async () => {
    const other = await api.newOrganization(api.callers.outsider, "Other");
    await upload(api, other.key, SAMPLE);
    await contract(api, other.key, ada, {
      contractedServices: { tasker: "1.0.0" },
      subscriptionPlans: { tasker: "PRO" },
      subscriptionAddOns: {},
    });
    await put(ada, TASKS, set(500));
    const theirs = (path: string) => api.call<object[]>("GET", path, { key: other.key });
    expect((await theirs(`/contracts/${ada}/overrides`)).body).toEqual([]);
    expect((await theirs("/overrides")).body).toEqual([]);
    expect((await put(ada, TASKS, set(9), other.key)).body).toMatchObject({ granted: 200, effective: 9 });
    expect(await limitOf(ada)).toBe(500);
  });

  test("a contract has at most 100 that have not ended", async () => {
    const limits = Array.from({ length: 101 }, (_, i) => `limit${i}`);
    const text = `saasName: Wide
syntaxVersion: "3.0"
version: "1.0.0"
createdAt: "2025-01-01"
currency: EUR
features:
  base: { valueType: BOOLEAN, defaultValue: true, type: DOMAIN }
usageLimits:
${limits.map((name) => `  ${name}: { valueType: NUMERIC, defaultValue: 1, unit: u, type: NON_RENEWABLE }`).join("\n")}
plans:
  ONLY: { price: 0, unit: user, features: {} }
`;
    await upload(api, key, text);
    await contract(api, key, "wide", {
      contractedServices: { wide: "1.0.0" },
      subscriptionPlans: { wide: "ONLY" },
      subscriptionAddOns: {},
    });
    const of = (name: string, more: object = {}) =>
      api.call<{ error?: string }>("PUT", `/contracts/wide/overrides/wide/usageLimits/${name}`, {
        key,
        body: set(2, more),
      });
    await of("limit0", { until: iso(START + 1) });
    for (const name of limits.slice(1, 100)) expect((await of(name)).status).toBe(200);
    const refused = await of("limit100");
    expect([refused.status, refused.body.error]).toEqual([
      400,
      "INVALID DATA: A contract cannot have more than 100 overrides that have not ended",
    ]);
    expect((await of("limit99", { reason: "Another reason" })).status).toBe(200);
    setNow(START + 1);
    expect((await of("limit100")).status).toBe(200);
  });
});

describe("the contract", () => {
  test("12: overrides wait for their element, and leave with their service", async () => {
    await upload(
      api,
      key,
      SAMPLE.replace("saasName: Tasker", "saasName: Second").replace(/version: "?1\.0\.0"?/, 'version: "1.0.0"'),
    );
    const without = SAMPLE.replace("saasName: Tasker", "saasName: Second")
      .replace(/version: "?1\.0\.0"?/, 'version: "2.0.0"')
      .replaceAll("export", "download");
    await upload(api, key, without);
    const on = (version: string) => ({
      contractedServices: { second: version },
      subscriptionPlans: { second: "FREE" },
      subscriptionAddOns: {},
    });
    await contract(api, key, "mover", on("1.0.0"));
    const path = "/contracts/mover/overrides/second/features/export";
    await api.call("PUT", path, { key, body: set(true) });
    const stateAfter = async (subscription: object) => {
      await api.call("PUT", "/contracts/mover", { key, body: subscription });
      return (await api.call<Override>("GET", path, { key })).body.state;
    };
    expect(await stateAfter(on("2.0.0"))).toBe("inapplicable");
    expect((await shown("mover")).overrides).toMatchObject([{ name: "export", granted: null, effective: null }]);
    expect(await stateAfter(on("1.0.0"))).toBe("active");
    const events = await eventsDuring(async () => {
      expect(
        await stateAfter({
          contractedServices: { tasker: "1.0.0" },
          subscriptionPlans: { tasker: "FREE" },
          subscriptionAddOns: {},
        }),
      ).toBeUndefined();
    });
    expect(events.map(({ code, details }) => [code, details["cause"]])).toEqual([
      ["CONTRACT_NOVATED", undefined],
      ["CONTRACT_OVERRIDE_ENDED", "serviceLeft"],
    ]);
    expect(await stateAfter(on("1.0.0"))).toBeUndefined();
  });

  test("a disabled service takes its overrides along, and a renamed one keeps them", async () => {
    await upload(api, key, SAMPLE.replace("saasName: Tasker", "saasName: Passing"));
    await contract(api, key, "passenger", {
      contractedServices: { passing: "1.0.0", tasker: "1.0.0" },
      subscriptionPlans: { passing: "PRO", tasker: "PRO" },
      subscriptionAddOns: {},
    });
    await api.call("PUT", "/contracts/passenger/overrides/passing/usageLimits/maxTasks", { key, body: set(3) });
    await api.call("PUT", "/services/passing", { key, body: { name: "Renamed" } });
    expect((await shown("passenger")).overrides).toMatchObject([{ service: "renamed", effective: 3 }]);
    const events = await eventsDuring(async () => {
      expect((await api.call("DELETE", "/services/renamed", { key })).status).toBe(204);
    });
    expect(events.map(({ code }) => code)).toEqual(["SERVICE_DISABLED", "CONTRACT_OVERRIDE_ENDED", "CONTRACT_UPDATED"]);
    expect(await shown("passenger")).not.toHaveProperty("overrides");
  });

  test("13: a past moment has the overrides of that time, a day later too", async () => {
    setNow(START + 1_000);
    await put(ada, TASKS, add(50));
    setNow(START + 2_000);
    await api.call("DELETE", pathOf(ada, TASKS), { key });
    for (const later of [START + 3_000, START + DAY]) {
      setNow(later);
      const limits = await Promise.all(
        [START + 500, START + 1_500, START + 2_500].map((moment) => limitOf(ada, `?at=${iso(moment)}`)),
      );
      expect(limits).toEqual([300, 350, 300]);
      const then = await ask(ada, "board", { query: `?at=${iso(START + 1_500)}` });
      expect(then.asOf?.cause).toBe("override");
      expect(then.asOf?.contract.overrides).toEqual([
        {
          service: "tasker",
          kind: "usageLimits",
          name: "maxTasks",
          mode: "add",
          value: 50,
          from: iso(START + 1_000),
          until: null,
        },
      ]);
      expect((await shown(ada, `?at=${iso(START + 1_500)}`)).overrides).toMatchObject([
        { state: "active", granted: 300, effective: 350, reason: REASON },
      ]);
      const before = await ask(ada, "board", { query: `?at=${iso(START + 500)}` });
      expect(before.asOf?.contract).not.toHaveProperty("overrides");
    }
  });

  test("14: the list is filtered, sorted by end and counted", async () => {
    const other = await api.newOrganization(api.callers.outsider, "Lister");
    await upload(api, other.key, SAMPLE);
    for (const [userId, until] of [
      ["a", null],
      ["b", iso(START + 2 * DAY)],
      ["c", iso(START + DAY)],
      ["d", iso(START + 1)],
    ] as const) {
      await contract(api, other.key, userId, {
        contractedServices: { tasker: "1.0.0" },
        subscriptionPlans: { tasker: "PRO" },
        subscriptionAddOns: {},
      });
      await put(userId, TASKS, set(9, { until }), other.key);
    }
    setNow(START + 1);
    const listed = async (query: string) => {
      const answer = await api.call<{ userId: string; error?: string }[]>("GET", `/overrides?${query}`, {
        key: other.key,
      });
      return answer.status === 200
        ? [answer.headers.get("X-Total-Count"), ...answer.body.map(({ userId }) => userId)]
        : [answer.status, (answer.body as unknown as { error: string }).error];
    };
    expect(await listed("state=active&limit=1")).toEqual(["3", "c"]);
    expect(await listed("")).toEqual(["4", "d", "c", "b", "a"]);
    expect(await listed("state=ended")).toEqual(["1", "d"]);
    expect(await listed("state=upcoming")).toEqual(["0"]);
    expect(await listed("state=inapplicable")).toEqual(["0"]);
    expect(await listed(`endsBefore=${iso(START + 2 * DAY)}&name=maxTasks&service=TASKER`)).toEqual(["2", "d", "c"]);
    expect(await listed("name=other")).toEqual(["0"]);
    expect(await listed("limit=2&page=2")).toEqual(["4", "b", "a"]);
    expect(await listed("state=new&limit=-1")).toEqual([
      400,
      "Errors where found during validation of query params: Limit must be greater that or equal to 1 | Invalid state. Please use one of the following: active, inapplicable, upcoming, ended",
    ]);
    expect(await listed("endsBefore=soon")).toEqual([400, "INVALID DATA: endsBefore must be an ISO 8601 date"]);
    const newer = SAMPLE.replace(/version: "?1\.0\.0"?/, 'version: "2.0.0"').replaceAll("maxTasks", "mostTasks");
    await upload(api, other.key, newer);
    await api.call("PUT", "/contracts/b", {
      key: other.key,
      body: {
        contractedServices: { tasker: "2.0.0" },
        subscriptionPlans: { tasker: "PRO" },
        subscriptionAddOns: {},
      },
    });
    expect(await listed("state=inapplicable")).toEqual(["1", "b"]);
    expect(await listed("state=active")).toEqual(["2", "c", "a"]);
  });

  test("lists and the overview are near what expressions read", async () => {
    const other = await api.newOrganization(api.callers.owner, "Near");
    await upload(api, other.key, SAMPLE);
    for (const [userId, used, body] of [
      ["at-plan", 200, undefined],
      ["raised", 200, set(500)],
      ["lowered", 20, add(-180)],
      ["unlimited", 190, set(100_000_000)],
      ["later", 200, set(500, { from: iso(START + DAY) })],
    ] as const) {
      await contract(api, other.key, userId, {
        contractedServices: { tasker: "1.0.0" },
        subscriptionPlans: { tasker: "PRO" },
        subscriptionAddOns: {},
      });
      await api.call("PUT", `/contracts/${userId}/usageLevels`, {
        key: other.key,
        body: { tasker: { maxTasks: used } },
      });
      if (body !== undefined) expect((await put(userId, TASKS, body, other.key)).status).toBe(200);
    }
    const near = await api.call<ContractBody[]>("GET", "/contracts?near=0.9", { key: other.key });
    expect(near.body.map(({ userContact }) => userContact["userId"])).toEqual(["at-plan", "later", "lowered"]);
    const overview = await api.call<{ near: { total: number; users: { userId: string; limit: number }[] } }>(
      "GET",
      `/organizations/${other.id}/overview?near=0.9`,
      { key: api.callers.owner.key },
    );
    expect(overview.body.near.total).toBe(3);
    expect(overview.body.near.users.map(({ userId, limit }) => [userId, limit])).toEqual([
      ["at-plan", 200],
      ["later", 200],
      ["lowered", 20],
    ]);
  });

  test("consumption sees an override that another process has set", async () => {
    await ask(ada, "board", tasks(1));
    await put(ada, TASKS, set(3));
    expect(await ask(ada, "board", { ...tasks(1), query: "?strict=true" })).toMatchObject({ eval: true });
    expect(await ask(ada, "board", { ...tasks(5), query: "?strict=true" })).toMatchObject({ eval: false });
    const events = await eventsDuring(async () => ask(ada, "board", tasks(1)));
    expect(events).toEqual([
      expect.objectContaining({
        code: "USAGE_LIMIT_REACHED",
        details: expect.objectContaining({ limit: 3, consumed: 3 }),
      }),
      ...[80, 100].map((threshold) =>
        expect.objectContaining({
          code: "USAGE_THRESHOLD_REACHED",
          details: expect.objectContaining({ threshold, limit: 3, consumed: 3 }),
        }),
      ),
    ]);
  });
});

describe("changes of the pricing", () => {
  interface Report {
    counts: Record<string, number>;
    overrides?: object;
    groups: {
      counts: Record<string, number>;
      overrides?: { name: string; after: string }[];
      limits: { limit: string; before: unknown; after: unknown; loses: boolean }[];
      features: { feature: string; before: unknown; after: unknown }[];
      proposal: { target: object; certificate?: object } | null;
    }[];
  }

  test("15: an override that the new version outdoes is superfluous, and nobody loses", async () => {
    const named = (text: string) => text.replace("saasName: Tasker", "saasName: Changing");
    await upload(api, key, named(SAMPLE));
    for (const [userId, element, body] of [
      ["plain", undefined, {}],
      ["raised", TASKS, set(500)],
      ["added", TASKS, add(50)],
      ["exporting", "features/export", set(true)],
    ] as const) {
      await contract(api, key, userId, {
        contractedServices: { changing: "1.0.0" },
        subscriptionPlans: { changing: "PRO" },
        subscriptionAddOns: { changing: { extraTasks: 1 } },
      });
      if (element === undefined) continue;
      const path = `/contracts/${userId}/overrides/changing/${element}`;
      expect((await api.call("PUT", path, { key, body })).status).toBe(200);
    }
    const newer = named(SAMPLE)
      .replace(/version: "?1\.0\.0"?/, 'version: "2.0.0"')
      .replace("value: 200\n", "value: 600\n")
      .replaceAll("export", "download");
    await upload(api, key, newer);
    const impact = async (body: object) =>
      (await api.call<Report>("POST", "/services/changing/impact?certificate=true", { key, body })).body;
    const moved = await impact({ action: "novation", pricingVersion: "2.0.0" });
    expect(moved.counts).toMatchObject({ contracts: 4 });
    expect(moved.overrides).toEqual({ contracts: 3, superfluous: 1, inapplicable: 1, ended: 0 });
    const groupOf = (report: Report, after: string) =>
      report.groups.find((group) => group.overrides?.some((override) => override.after === after));
    expect(moved.groups).toHaveLength(4);
    const raised = groupOf(moved, "superfluous");
    expect(raised?.overrides).toEqual([
      { kind: "usageLimits", name: "maxTasks", mode: "set", value: 500, after: "superfluous" },
    ]);
    expect(raised?.limits).toEqual([]);
    expect(raised?.proposal?.certificate).toMatchObject({
      overrides: [{ kind: "usageLimits", name: "maxTasks", mode: "set", value: 500 }],
    });
    expect(groupOf(moved, "kept")?.limits).toMatchObject([
      { limit: "maxTasks", before: 350, after: 650, loses: false },
    ]);
    expect(groupOf(moved, "inapplicable")?.features).toContainEqual(
      expect.objectContaining({ feature: "export", before: true, after: null }),
    );
    const plain = moved.groups.find((group) => group.overrides === undefined);
    expect(plain?.limits).toMatchObject([{ limit: "maxTasks", before: 300, after: 600 }]);
    expect(plain?.proposal?.certificate).not.toHaveProperty("overrides");
    const disabled = await impact({ action: "disable" });
    expect(disabled.overrides).toEqual({ contracts: 3, superfluous: 0, inapplicable: 0, ended: 3 });

    // The novation itself keeps the overrides, and its certified best fits hold.
    const done = await api.call<Report>("POST", "/services/changing/novations", {
      key,
      body: { pricingVersion: "2.0.0" },
    });
    expect(done.status).toBe(200);
    expect(done.body.overrides).toEqual(moved.overrides);
    const [raisedNow] = (await shown("raised")).overrides ?? [];
    expect(raisedNow).toMatchObject({ state: "active", granted: 600, effective: 500 });
    const [exportingNow] = (await shown("exporting")).overrides ?? [];
    expect(exportingNow).toMatchObject({ state: "inapplicable" });
  });

  test("a best fit reaches what an added amount and add-ons make together", async () => {
    const named = (text: string) => text.replace("saasName: Tasker", "saasName: Fitting");
    await upload(api, key, named(SAMPLE));
    await contract(api, key, "fitted", {
      contractedServices: { fitting: "1.0.0" },
      subscriptionPlans: { fitting: "PRO" },
      subscriptionAddOns: { fitting: { extraTasks: 4 } },
    });
    await api.call("PUT", "/contracts/fitted/overrides/fitting/usageLimits/maxTasks", { key, body: add(-250) });
    await upload(
      api,
      key,
      named(SAMPLE)
        .replace(/version: "?1\.0\.0"?/, 'version: "2.0.0"')
        .replace("value: 200\n", "value: 100\n"),
    );
    const { body } = await api.call<Report>("POST", "/services/fitting/impact", {
      key,
      body: { action: "novation", pricingVersion: "2.0.0" },
    });
    expect(body.groups[0]).toMatchObject({
      target: { plan: "PRO", addOns: { extraTasks: 5 } },
      limits: [],
      proposal: { keepsEverything: true },
    });
  });

  test("the purchase that unlocks a feature counts overrides", async () => {
    await put(ada, TASKS, add(-299));
    await ask(ada, "board", tasks(1));
    const { body } = await api.call<{ target: object; gains: object[] }>(
      "POST",
      `/features/${ada}/tasker-board/unlock`,
      {
        key,
        body: {},
      },
    );
    expect(body).toMatchObject({
      target: { plan: "PRO", addOns: { extraTasks: 2 } },
      gains: [{ id: "tasker-maxTasks", before: 1, after: 101 }],
    });
  });
});
