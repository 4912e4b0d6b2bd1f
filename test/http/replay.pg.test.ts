import { sql } from "drizzle-orm";
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ReplayReport } from "../../src/core/change/replay/report.ts";
import { Faregate } from "../../src/client/client.ts";
import { readMoreMovements, readReplayRecords } from "../../src/db/queries/replay.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { consume, contract, upload } from "../support/contracting.ts";
import { eventsDuring } from "../support/invariants.ts";
import { FAMILIES, familyCalls } from "../support/service-calls.ts";

/* Replays of what contracts counted in May 2025 under another pricing. Source: contract replay. */

const SAMPLE = readFileSync(new URL("../../src/samples/tasker.yml", import.meta.url), "utf8");
const DAY = 86_400_000;
const MAY = Date.parse("2025-05-01T00:00:00.000Z");
const TODAY = new Date("2025-06-15T10:00:00.000Z");

/** The sample with another allowance and price of PRO. */
const draft = (version: string, allowance = 3, price = 9) =>
  SAMPLE.replace(/^version:.*$/m, `version: "${version}"`)
    .replace("value: 200\n", `value: ${allowance}\n`)
    .replace("price: 6", `price: ${price}`);

type Answer = ReplayReport & { error: string; problems?: { line: number; column: number }[] };

let api: TestApi;
let key: string;
beforeAll(async () => {
  api = await createTestApi();
  key = api.callers.all.key;
  api.setNow(new Date("2025-04-20T00:00:00.000Z"));
  await upload(api, key, SAMPLE);
  await upload(api, key, draft("2.0.0"));
  const monthly = { billingPeriod: { autoRenew: true, renewalPeriod: { value: 1, unit: "MONTH" } } };
  api.setNow(new Date(MAY));
  await contract(api, key, "ada", monthly);
  await contract(api, key, "bob", { ...monthly, subscriptionPlans: { tasker: "FREE" } });
  for (let day = 0; day < 5; day += 1) {
    api.setNow(new Date(MAY + day * DAY + 3_600_000));
    await consume(api, key, "ada");
  }
  // Used at the end of May, and recorded in June.
  api.setNow(new Date("2025-06-01T00:00:00.000Z"));
  const item = { key: "late", userId: "bob", featureId: "tasker-board", amounts: { "tasker-maxTasks": 1 } };
  await api.call("POST", "/usage", { key, body: [{ ...item, at: "2025-05-31T23:59:59.999Z" }] });
  api.setNow(TODAY);
});
afterAll(() => api.close());

const replay = (body: object, given = key) => api.call<Answer>("POST", "/services/tasker/replay", { key: given, body });

describe.each(FAMILIES)("a replay below %s", (family) => {
  test("says who would have been stopped, when, and what everybody would have paid", async () => {
    const to = familyCalls(api, family);
    const { result, events } = await eventsDuring(api.database, () =>
      to.call<Answer>("POST", "/tasker/replay", { pricingVersion: "2.0.0", keepPlans: true }),
    );
    expect(result.status).toBe(200);
    expect(result.body).toMatchObject({
      action: "replay",
      serviceName: "Tasker",
      targetVersion: "2.0.0",
      from: "2025-05-01T00:00:00.000Z",
      to: "2025-06-01T00:00:00.000Z",
      complete: true,
      contracts: 2,
      movements: 6,
      totals: {
        denied: { contracts: 1, movements: 2, amounts: { "tasker-maxTasks": 2 } },
        revenue: { then: 6, replayed: 9, currency: "EUR", unpriced: 0 },
        paying: { more: 1, less: 0, same: 1 },
      },
      groups: [
        {
          pricingVersion: "1.0.0",
          configuration: { plan: "PRO", addOns: {} },
          contracts: 1,
          denied: { contracts: 1, movements: 2 },
          firstDenialAfterDays: { p10: 3, p50: 3, p90: 3 },
          price: { then: 6, replayed: 9 },
        },
        { configuration: { plan: "FREE" }, denied: { contracts: 0 }, firstDenialAfterDays: null },
      ],
      top: [{ userId: "ada", denied: 2, firstDenialAt: "2025-05-04T01:00:00.000Z", price: { then: 6, replayed: 9 } }],
      unknown: [],
    });
    expect(result.body.days).toHaveLength(31);
    expect(result.body.days[3]).toEqual({ day: "2025-05-04", denied: 1, contracts: 1 });
    expect(events).toEqual([]);
  });

  test("takes a draft with the other fields of a form, and stores nothing", async () => {
    const to = familyCalls(api, family);
    const form = new FormData();
    form.append("pricing", new Blob([draft("3.0.0", 4, 6)]), "pricing.yml");
    form.append("from", "2025-05-01");
    form.append("to", "2025-05-05T00:00:00Z");
    form.append("groups", JSON.stringify([{ configuration: { plan: "PRO" }, target: { plan: "PRO" } }]));
    form.append("top", "0");
    const { status, body } = await to.call<Answer>("POST", "/tasker/replay", form);
    expect(status).toBe(200);
    expect(body).toMatchObject({ targetVersion: "3.0.0", movements: 4, totals: { denied: { movements: 0 } }, top: [] });
    const listed = await to.call<{ pricingVersion: string }[]>("GET", "/tasker/versions");
    expect(listed.body).toHaveLength(2);
  });
});

test("a replay onto the version that everybody had denies nothing and pays the same", async () => {
  const { body } = await replay({ pricingVersion: "1.0.0" });
  expect(body.totals).toMatchObject({ denied: { contracts: 0, movements: 0 }, revenue: { then: 6, replayed: 6 } });
  expect(body.groups.every(({ configuration, target }) => configuration.plan === target?.plan)).toBe(true);
});

test("streams progress first, then the report", async () => {
  const response = await api.app.request("/api/v1/services/tasker/replay", {
    method: "POST",
    headers: { "x-api-key": key, accept: "application/x-ndjson", "content-type": "application/json" },
    body: JSON.stringify({ pricingVersion: "2.0.0", keepPlans: true }),
  });
  const lines = (await response.text()).trim().split("\n");
  const read = lines.map((line) => JSON.parse(line) as { progress?: object; report?: ReplayReport });
  expect(read[0]).toEqual({ progress: { contracts: 0, of: 2 } });
  expect(read.at(-2)).toEqual({ progress: { contracts: 2, of: 2 } });
  expect(read.at(-1)?.report?.totals.denied.movements).toBe(2);
});

test("one replay of an organization runs at a time, and the end of its caller ends it", async () => {
  const { client } = api.database.connection;
  const isWaiting = async () => {
    const waiting = await client`
      select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
    return waiting.length > 0;
  };
  const left = new AbortController();
  // The lock keeps the first one from ending before the second one asks.
  const lock = await client.reserve();
  await lock`begin`;
  await lock`lock table usage_ledger in access exclusive mode`;
  const first = api.app.request("/api/v1/services/tasker/replay", {
    method: "POST",
    headers: { "x-api-key": key, accept: "application/x-ndjson", "content-type": "application/json" },
    body: JSON.stringify({ pricingVersion: "2.0.0" }),
    signal: left.signal,
  });
  await expect.poll(isWaiting, { timeout: 30_000 }).toBe(true);
  const second = await replay({ pricingVersion: "2.0.0" });
  expect(second).toMatchObject({
    status: 429,
    body: { error: "A replay of this organization is running. Try again in 5 seconds" },
  });
  expect(second.headers.get("retry-after")).toBe("5");
  await lock`commit`;
  lock.release();
  await (await first).body?.cancel();
  await expect.poll(async () => (await replay({ pricingVersion: "2.0.0" })).status, { timeout: 30_000 }).toBe(200);
});

test.each([
  [{}, 400, "INVALID DATA: A replay needs a pricingVersion or a pricing"],
  [{ pricingVersion: "9.9.9" }, 404, "Pricing version 9.9.9 not found for service Tasker"],
  [{ pricingVersion: "2.0.0", from: "soon" }, 422, "The from field must be an ISO 8601 date"],
  [{ pricingVersion: "2.0.0", to: 5 }, 422, "The to field must be an ISO 8601 date"],
  [{ pricingVersion: "2.0.0", top: 101 }, 422, "The top field must be a whole number from 0 to 100"],
  [{ pricingVersion: "2.0.0", groups: 1 }, 422, "The groups field must be a list"],
  [{ pricingVersion: "2.0.0", foo: 1 }, 422, "Unknown field: foo"],
  [{ pricingVersion: "2.0.0", to: "2025-06-15T10:00:00.001Z" }, 400, "INVALID DATA: to must not be in the future"],
  [{ pricingVersion: "2.0.0", from: "2025-06-01" }, 400, "INVALID DATA: from must be before to"],
  [
    { pricingVersion: "2.0.0", from: "2025-01-01", to: "2025-05-01" },
    400,
    "INVALID DATA: At most 92 days can be replayed at once",
  ],
  [
    { pricingVersion: "2.0.0", groups: [{ configuration: { plan: "GOLD" }, target: { plan: "PRO" } }] },
    400,
    "INVALID DATA: groups[0] has a configuration that no contract has",
  ],
])("refuses %j", async (body, status, error) => {
  expect(await replay(body)).toMatchObject({ status, body: { error } });
});

test("refuses a draft with problems, with their lines", async () => {
  const form = new FormData();
  form.append("pricing", new Blob([draft("3.0.0").replace("price: 9", "price: [9]")]), "pricing.yml");
  const { status, body } = await api.call<Answer>("POST", "/services/tasker/replay", { key, body: form });
  expect(status).toBe(400);
  expect(body.problems?.[0]).toMatchObject({ line: expect.any(Number), column: expect.any(Number) });
});

test("names what the target lacks, and what only the target has", async () => {
  const form = new FormData();
  const other = draft("4.0.0").replaceAll("maxTasks", "maxJobs");
  form.append("pricing", new Blob([other]), "pricing.yml");
  const { body } = await api.call<Answer>("POST", "/services/tasker/replay", { key, body: form });
  expect(body).toMatchObject({
    totals: { denied: { movements: 6, reasons: { gone: 6 } } },
    unknown: ["tasker-maxJobs"],
  });
});

test("refuses a version and a draft at once", async () => {
  const form = new FormData();
  form.append("pricing", new Blob([draft("3.0.0")]), "pricing.yml");
  form.append("pricingVersion", "2.0.0");
  expect(await api.call<Answer>("POST", "/services/tasker/replay", { key, body: form })).toMatchObject({
    status: 400,
    body: { error: "INVALID DATA: A replay needs a pricingVersion or a pricing" },
  });
});

test("moves configurations to their best fit, or where groups and renames send them", async () => {
  const placed = async (body: object) => {
    const { groups, totals } = (await replay({ pricingVersion: "2.0.0", ...body })).body;
    return { target: groups.find(({ configuration }) => configuration.plan === "PRO")?.target, totals };
  };
  const best = await placed({});
  expect(best.target).not.toEqual({ plan: "PRO", addOns: {} });
  expect(best.totals.denied.movements).toBe(0);
  const groups = [{ configuration: { plan: "PRO" }, target: { plan: "BUSINESS" } }];
  expect((await placed({ groups })).target).toEqual({ plan: "BUSINESS", addOns: {} });
  const form = new FormData();
  form.append("pricing", new Blob([draft("3.0.0").replaceAll(/\bPRO\b/g, "TEAM")]), "pricing.yml");
  form.append("renames", JSON.stringify({ PRO: "TEAM" }));
  const { body } = await api.call<Answer>("POST", "/services/tasker/replay", { key, body: form });
  expect(body.groups.find(({ configuration }) => configuration.plan === "PRO")?.target?.plan).toBe("TEAM");
});

test("follows a trial to the plan after it", async () => {
  const { key: own } = await api.newOrganization(await api.newUser());
  api.setNow(new Date("2025-04-20T00:00:00.000Z"));
  await upload(api, own, SAMPLE);
  await upload(api, own, draft("2.0.0"));
  api.setNow(new Date(MAY));
  const then = { subscriptionPlans: { tasker: "FREE" }, subscriptionAddOns: {} };
  await contract(api, own, "eve", { trial: { days: 10, then } });
  for (const day of [1, 2, 3, 4, 12]) {
    api.setNow(new Date(MAY + day * DAY));
    await consume(api, own, "eve");
  }
  api.setNow(TODAY);
  const { body } = await replay({ pricingVersion: "2.0.0", keepPlans: true }, own);
  expect(body).toMatchObject({ contracts: 1, movements: 5, totals: { denied: { movements: 1 } } });
  const plans = body.groups.map(({ configuration, denied }) => [configuration.plan, denied.movements]);
  expect(plans).toEqual([
    ["PRO", 1],
    ["FREE", 0],
  ]);
});

test("reads the movements of a contract in several texts", async () => {
  const { db } = api.resources;
  const rows = await db.execute<{ contract: string; service: string; organization: string }>(sql`
    select c.id as contract, cs.service_id as service, c.organization_id as organization
    from contracts c join contract_services cs on cs.contract_id = c.id where c.user_id = 'ada' limit 1`);
  const [
    { contract: id, service: serviceId, organization: organizationId } = {
      contract: "",
      service: "",
      organization: "",
    },
  ] = rows;
  const filter = { organizationId, serviceId, from: new Date(MAY), to: new Date("2025-06-01T00:00:00.000Z") };
  const read = (most: number) =>
    db.transaction(async (tx) => {
      const texts: string[] = [];
      for (const record of await readReplayRecords(tx, filter, [id], most)) {
        texts.push(JSON.stringify((JSON.parse(record.text) as { movements: unknown }).movements));
        for await (const text of readMoreMovements(tx, filter, record, most)) texts.push(text);
      }
      return texts.map((text) => JSON.parse(text) as unknown[]);
    });
  const [all = []] = await read(100);
  expect(all).toHaveLength(5);
  expect(await read(2)).toEqual([all.slice(0, 2), all.slice(2, 4), all.slice(4)]);
  expect(await read(5)).toEqual([all]);
});

test("the client sends versions and drafts", async () => {
  const faregate = new Faregate({
    url: "http://faregate.test",
    apiKey: key,
    fetch: (input, init) => Promise.resolve(api.app.request(new Request(input, init))),
  });
  const report = await faregate.services.replay("Tasker", { pricing: draft("5.0.0"), keepPlans: true });
  expect(report).toMatchObject({ targetVersion: "5.0.0", totals: { denied: { movements: 2 } } });
  expect((await faregate.services.replay("Tasker", { pricingVersion: "1.0.0" })).totals.denied.movements).toBe(0);
});

test("leaves out contracts that are deleted, and those of other organizations", async () => {
  const other = await api.newOrganization(await api.newUser());
  await upload(api, other.key, SAMPLE);
  api.setNow(new Date(MAY));
  await contract(api, other.key, "ada");
  await contract(api, key, "gone");
  await consume(api, other.key, "ada");
  await consume(api, key, "gone");
  api.setNow(TODAY);
  expect((await replay({ pricingVersion: "1.0.0" })).body).toMatchObject({ contracts: 3, movements: 7 });
  await api.call("DELETE", "/contracts/gone", { key });
  expect((await replay({ pricingVersion: "1.0.0" })).body).toMatchObject({ contracts: 2, movements: 6 });
  expect((await replay({ pricingVersion: "1.0.0" }, other.key)).body).toMatchObject({ contracts: 1, movements: 1 });
});

test("decides with the members of that time", async () => {
  const own = await api.newOrganization(api.callers.owner, "Desks");
  const desk = (version: string, seats: number) => `
saasName: Desk
syntaxVersion: "3.0"
version: "${version}"
createdAt: "2025-01-01"
currency: EUR
custom: { faregate: { seats: seats } }
features:
  mail:
    valueType: BOOLEAN
    defaultValue: true
    type: DOMAIN
    expression: subscriptionContext['seats'] <= pricingContext['usageLimits']['seats'] && subscriptionContext['mails'] < pricingContext['usageLimits']['mails']
usageLimits:
  seats: { valueType: NUMERIC, defaultValue: ${seats}, unit: seat, type: NON_RENEWABLE, trackable: true }
  mails: { valueType: NUMERIC, defaultValue: 100, unit: mail, type: RENEWABLE, period: { value: 1, unit: MONTH } }
plans:
  TEAM: { price: 10, features: null }
`;
  api.setNow(new Date(MAY));
  await upload(api, own.key, desk("1.0.0", 5), desk("2.0.0", 2));
  await contract(api, own.key, "firm", {
    contractedServices: { desk: "1.0.0" },
    subscriptionPlans: { desk: "TEAM" },
    subscriptionAddOns: {},
    billingPeriod: { autoRenew: true, renewalDays: 60 },
  });
  const change = (method: "PUT" | "DELETE", member: string) =>
    api.call(method, `/contracts/firm/members/${member}`, { key: own.key, ...(method === "PUT" ? { body: {} } : {}) });
  const mail = () =>
    api.call("POST", "/features/firm/desk-mail", { key: own.key, body: { "desk-mails": 1, "desk-seats": 0 } });
  for (const [day, changes] of [
    [0, [() => change("PUT", "a"), () => change("PUT", "b")]],
    [2, [() => change("PUT", "c")]],
    [4, [() => change("DELETE", "a")]],
  ] as const) {
    api.setNow(new Date(MAY + day * DAY + 3_600_000));
    for (const each of changes) expect((await each()).status).toBeLessThan(300);
    api.setNow(new Date(MAY + day * DAY + 7_200_000));
    expect(await mail()).toMatchObject({ status: 200, body: { eval: true, error: null } });
  }
  api.setNow(TODAY);
  const body = { pricingVersion: "2.0.0", keepPlans: true };
  const report = await api.call<Answer>("POST", "/services/desk/replay", { key: own.key, body });
  expect(report.body).toMatchObject({ complete: true, movements: 3, totals: { denied: { movements: 1 } } });
  expect(report.body.days.flatMap(({ day, denied }) => (denied > 0 ? [day] : []))).toEqual(["2025-05-03"]);
});

test("counts what was denied in reality, and follows a renamed service", async () => {
  const { userId } = { userId: "full" };
  api.setNow(new Date(MAY + DAY));
  await contract(api, key, userId, { subscriptionPlans: { tasker: "FREE" } });
  await consume(api, key, userId, { "tasker-maxTasks": 20 });
  await consume(api, key, userId);
  await api.resources.callCounter.flush();
  api.setNow(new Date(MAY + 2 * DAY));
  await api.call("PUT", "/services/tasker", { key, body: { name: "Tool" } });
  api.setNow(TODAY);
  const { body } = await api.call<Answer>("POST", "/services/tool/replay", { key, body: { pricingVersion: "1.0.0" } });
  expect(body.totals.denied.movements).toBe(0);
  expect(body.totals.deniedThen).toEqual({ "tasker-board": 1 });
  await api.call("PUT", "/services/tool", { key, body: { name: "Tasker" } });
});

describe("a replay with budgets", () => {
  const withBudget = (version: string, amount: number, window: string) =>
    `${draft(version, 200, 6)}\ncustom: { faregate: { budgets: { each: { limit: maxTasks, spender: "*", amount: ${amount}, window: ${window} } } } }\n`;

  test("decides by those of the target and those that the contract had, from their balances at the start", async () => {
    const { key: own } = await api.newOrganization(await api.newUser());
    const spend = async (at: string, count: number) => {
      for (let n = 0; n < count; n += 1) {
        api.setNow(new Date(Date.parse(at) + n * 1_000));
        const body = { "tasker-maxTasks": 1 };
        const { body: answer } = await api.call("POST", "/features/dan/tasker-board?spender=ada", { key: own, body });
        expect(answer).toMatchObject({ eval: true });
      }
    };
    api.setNow(new Date("2025-04-20T00:00:00.000Z"));
    await upload(api, own, withBudget("1.0.0", 50, "life"));
    await upload(api, own, withBudget("2.0.0", 3, "life"));
    await upload(api, own, withBudget("3.0.0", 3, "period"));
    await contract(api, own, "dan", {
      billingPeriod: { autoRenew: true, renewalPeriod: { value: 1, unit: "MONTH" } },
    });
    const budget = { limit: "tasker-maxTasks", spender: "*", window: "life" };
    const put = (amount: number) =>
      api.call("PUT", "/contracts/dan/budgets/own", { key: own, body: { ...budget, amount } });
    expect((await put(5)).status).toBe(201);
    await spend("2025-04-22T00:00:00.000Z", 2);
    await spend("2025-05-02T00:00:00.000Z", 3);
    expect((await put(100)).status).toBe(200);
    await spend("2025-05-12T00:00:00.000Z", 2);
    api.setNow(TODAY);
    const denied = async (pricingVersion: string) => {
      const { status, body } = await replay({ pricingVersion, keepPlans: true, from: "2025-05-01" }, own);
      expect(status, JSON.stringify(body)).toBe(200);
      expect(body.movements).toBe(5);
      return body.totals.denied.reasons;
    };
    const none = { LIMIT_REACHED: 0, NOT_GRANTED: 0, BUDGET_REACHED: 0, gone: 0 };
    expect(await denied("1.0.0")).toEqual(none);
    expect(await denied("2.0.0"), "two of three were used before").toEqual({ ...none, BUDGET_REACHED: 4 });
    expect(await denied("3.0.0"), "another window begins without use").toEqual({ ...none, BUDGET_REACHED: 2 });
  });
});

test("needs one connection, also for a pricing whose replay does not fit the event loop", async () => {
  const small = await createTestApi({ connections: 1 });
  try {
    const { key } = small.callers.all;
    small.setNow(new Date(MAY));
    await upload(small, key, SAMPLE);
    await upload(small, key, draft("2.0.0").replace("A dark colour scheme", "dark ".repeat(10_000)));
    await contract(small, key, "ada");
    await consume(small, key, "ada");
    small.setNow(TODAY);
    expect(
      await small.call("POST", "/services/tasker/replay", { key, body: { pricingVersion: "2.0.0" } }),
    ).toMatchObject({ status: 200, body: { contracts: 1, movements: 1 } });
  } finally {
    await small.close();
  }
});

test("refuses a range whose movements were summed up", async () => {
  await api.resources.db.execute(sql`
    insert into usage_ledger_start (at) values ('2025-05-10T00:00:00Z')
    on conflict (singleton) do update set at = excluded.at`);
  expect(await replay({ pricingVersion: "2.0.0" })).toMatchObject({
    status: 400,
    body: { error: "INVALID DATA: Movements before 2025-05-10T00:00:00.000Z were summed up: from must be later" },
  });
});
