import * as fc from "fast-check";
import "../support/property-seed.ts";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { compactLedger } from "../../src/db/queries/retention.ts";
import { createRollUp, pruneRollUp } from "../../src/db/queries/usage-rollup.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { consume, contract, show, tasker, upload } from "../support/contracting.ts";
import { keepsMovements } from "../support/distributed-database.ts";
import { expectBalancesMatchLedger } from "../support/invariants.ts";

/* History of usage. Source: contract usage-records §5 and its cases in §13, by their numbers. */

const START = Date.parse("2025-06-15T12:00:00.000Z");
const HOUR = 3_600_000;
const DAY = 24 * HOUR;

let api: TestApi;
let key: string;
let now = START;
let users = 0;
let userId: string;
let rollUp: () => Promise<number>;
const setNow = (moment: number) => api.setNow(new Date((now = moment)));
const iso = (moment: number) => new Date(moment).toISOString();
const day = (moment: number) => iso(Math.floor(moment / DAY) * DAY);

interface Sums {
  service: string;
  limit: string;
  counted: number;
  cleared?: number;
  late: number;
}
type Row = Sums & Record<string, unknown>;
interface Report {
  by: string;
  from: string;
  to: string;
  totals: Sums[];
  data: Row[];
  next?: number | null;
  error?: string;
}

const get = (query = "", path = `/contracts/${userId}/usage`, as = key) =>
  api.call<Report>("GET", `${path}${query}`, { key: as });
const report = async (query = "", path?: string) => {
  const { status, body } = await get(query, path);
  expect(status, JSON.stringify(body)).toBe(200);
  return body;
};
const file = async (query: string, accept: string, path = `/contracts/${userId}/usage`) => {
  const answer = await api.app.request(`/api/v1${path}${query}`, { headers: { "x-api-key": key, accept } });
  return { status: answer.status, headers: answer.headers, text: await answer.text() };
};
const record = (items: object[], query = "") => api.call("POST", `/usage${query}`, { key, body: items });
const item = (itemKey: string, amount: number, more: object = {}) => ({
  userId,
  featureId: "tasker-board",
  amounts: { "tasker-maxTasks": amount },
  key: `${userId}-${itemKey}`,
  ...more,
});
const reset = () => api.call("PUT", `/contracts/${userId}/usageLevels?reset=true`, { key, body: {} });
const revert = () => api.call("POST", `/features/${userId}/tasker-board?revert=true`, { key, body: {} });
const adjust = (amount: number) =>
  api.call("PUT", `/contracts/${userId}/usageLevels`, { key, body: { tasker: { maxTasks: amount } } });
const ofLimit = (rows: readonly Sums[], limit = "maxTasks") => rows.filter((row) => row.limit === limit);
/** Brings the roll-up up to date. Transactions of other tests on the same server delay it. */
const rollUpAll = async () => {
  const isUpToDate = async () => {
    await rollUp();
    const [mark] = await api.database.connection.client<{ done: boolean }[]>`
      select up_to >= (select coalesce(max(id), 0) from usage_ledger) as done from usage_rollup`;
    return mark?.done;
  };
  await expect.poll(isUpToDate, { timeout: 30_000, interval: 10 }).toBe(true);
};

beforeAll(async () => {
  api = await createTestApi();
  key = api.callers.all.key;
  rollUp = createRollUp(api.database.connection.db);
  await upload(api, key, tasker({ maxTasks: 100_000 }));
});
afterAll(() => api.close());
beforeEach(async () => {
  setNow(START);
  userId = `history-${(users += 1)}`;
  await contract(api, key, userId);
  return () => expectBalancesMatchLedger(api.database);
});

describe("a contract's usage", () => {
  test("25: without use there are 30 rows of zeros for each tracked limit", async () => {
    const { by, from, to, data, totals } = await report();
    expect({ by, from, to }).toEqual({ by: "day", from: day(now - 29 * DAY), to: day(now + DAY) });
    expect(data).toHaveLength(60);
    expect(data.slice(0, 2)).toEqual([
      { at: day(now - 29 * DAY), service: "tasker", limit: "maxExports", counted: 0, cleared: 0, late: 0 },
      { at: day(now - 29 * DAY), service: "tasker", limit: "maxTasks", counted: 0, cleared: 0, late: 0 },
    ]);
    expect(totals).toHaveLength(2);
    expect((await report("?by=hour")).data).toHaveLength(96);
    expect((await report("?by=month")).data).toHaveLength(24);
    expect((await report("?by=feature")).data).toEqual([]);
    expect((await report("?limit=maxTasks")).data).toHaveLength(30);
    expect((await report("?service=TASKER&limit=maxtasks")).data).toEqual([]);
  });

  test("23: every kind of movement is listed and summed", async () => {
    await consume(api, key, userId, { "tasker-maxTasks": 5 });
    await revert();
    await adjust(3);
    await reset();
    const { data, totals, next } = await report("?by=movement&limit=maxTasks");
    expect(data.map(({ kind, amount, featureId }) => [kind, amount, featureId]).toReversed()).toEqual([
      ["consume", 5, "tasker-board"],
      ["revert", -5, "tasker-board"],
      ["adjust", 3, null],
      ["reset", -3, null],
    ]);
    expect(Object.keys(data[0] ?? {})).toEqual([
      "id",
      "at",
      "recordedAt",
      "service",
      "limit",
      "kind",
      "amount",
      "featureId",
      "operation",
    ]);
    expect(next).toBeNull();
    expect(totals).toEqual([{ service: "tasker", limit: "maxTasks", counted: 3, cleared: 3, late: 0 }]);
    expect((await report("?by=feature&limit=maxTasks")).data).toEqual([
      { service: "tasker", limit: "maxTasks", featureId: null, counted: 3, late: 0 },
      { service: "tasker", limit: "maxTasks", featureId: "tasker-board", counted: 0, late: 0 },
    ]);
  });

  test("a sum beyond the largest number is the largest number, never null", async () => {
    for (let i = 0; i < 2; i += 1) {
      await adjust(Number.MAX_VALUE);
      await reset();
    }
    const most = { counted: Number.MAX_VALUE, late: 0 };
    const { totals, data } = await report("?limit=maxTasks");
    expect(totals).toEqual([{ service: "tasker", limit: "maxTasks", ...most, cleared: Number.MAX_VALUE }]);
    expect(data.at(-1)).toMatchObject({ ...most, cleared: Number.MAX_VALUE });
    expect((await report("?by=user&limit=maxTasks", "/usage")).data).toContainEqual(
      expect.objectContaining({ userId, ...most }),
    );
    expect((await report("?by=feature&limit=maxTasks")).data).toEqual([
      { service: "tasker", limit: "maxTasks", featureId: null, ...most },
    ]);
    // Other tests of this file sum the organization.
    await api.call("DELETE", `/contracts/${userId}`, { key });
  });

  test("24: usage counts in the bucket of its moment, and is recorded now", async () => {
    const midnight = Math.floor(START / DAY) * DAY + DAY;
    setNow(midnight + HOUR);
    await record([item("yesterday", 4, { at: iso(midnight - 1) })]);
    const days = ofLimit((await report()).data);
    expect(days.slice(-2).map(({ counted }) => counted)).toEqual([4, 0]);
    const [movement] = (await report("?by=movement")).data;
    expect(movement).toMatchObject({
      at: iso(midnight - 1),
      recordedAt: iso(now),
      operation: `${userId}-yesterday`,
      kind: "consume",
    });
  });

  test("20: late usage is in the history of its day and moves nothing", async () => {
    setNow(START + DAY);
    await reset();
    await record([item("late", 7, { at: iso(START + HOUR) })]);
    const { data, totals } = await report("?limit=maxTasks");
    expect(data.filter(({ late }) => late > 0)).toEqual([
      { at: day(START), service: "tasker", limit: "maxTasks", counted: 0, cleared: 0, late: 7 },
    ]);
    expect(totals).toEqual([{ service: "tasker", limit: "maxTasks", counted: 0, cleared: 0, late: 7 }]);
    expect((await report("?by=movement&limit=maxTasks")).data[0]).toMatchObject({ kind: "late", amount: 7 });
    expect((await report("?by=feature")).data).toMatchObject([{ featureId: "tasker-board", counted: 0, late: 7 }]);
  });

  test("a read writes renewals that are due first", async () => {
    await consume(api, key, userId, { "tasker-maxTasks": 5 });
    setNow(START + 40 * DAY);
    expect((await report("?by=month&limit=maxTasks")).totals).toMatchObject([{ counted: 5, cleared: 5 }]);
    expect((await show(api, key, userId)).usageLevels["tasker"]?.["maxTasks"]?.consumed).toBe(0);
  });

  test("movements come page by page, newest first", async () => {
    for (let i = 1; i <= 5; i += 1) await consume(api, key, userId, { "tasker-maxTasks": i });
    const first = await report("?by=movement&top=2");
    expect(first.data.map(({ amount }) => amount)).toEqual([5, 4]);
    const second = await report(`?by=movement&top=2&before=${first.next}`);
    expect(second.data.map(({ amount }) => amount)).toEqual([3, 2]);
    const third = await report(`?by=movement&top=2&before=${second.next}`);
    expect([third.data.map(({ amount }) => amount), third.next]).toEqual([[1], null]);
    expect(third.totals.find(({ limit }) => limit === "maxTasks")?.counted).toBe(15);
  });

  test("a range of movements is exact, others are rounded to whole buckets and capped at now", async () => {
    await consume(api, key, userId, { "tasker-maxTasks": 1 });
    setNow(START + 90_000);
    await consume(api, key, userId, { "tasker-maxTasks": 2 });
    const query = `&limit=maxTasks&from=${iso(START + 1)}&to=${iso(START + 90_001)}`;
    const exact = await report(`?by=movement${query}`);
    expect([exact.from, exact.to, exact.totals[0]?.counted]).toEqual([iso(START + 1), iso(START + 90_001), 2]);
    const rounded = await report(`?by=hour${query}`);
    expect([rounded.from, rounded.to, rounded.totals[0]?.counted]).toEqual([iso(START), iso(START + HOUR), 3]);
    expect((await report("?by=day&to=2030-01-01")).to).toBe(day(now + DAY));
    expect((await report("?by=month&from=2024-02-29&to=2024-05-02")).data).toHaveLength(8);
  });

  test("a renamed service keeps the ids of its features, and reverts find them", async () => {
    await upload(api, key, tasker({ name: "Planner" }));
    await contract(api, key, `${userId}-p`, {
      contractedServices: { planner: "1.0.0" },
      subscriptionPlans: { planner: "PRO" },
    });
    const amounts = { "planner-maxTasks": 3 };
    await consume(api, key, `${userId}-p`, amounts, "planner-board");
    await rollUpAll();
    await api.call("PUT", "/services/Planner", { key, body: { name: "Organizer" } });
    await consume(api, key, `${userId}-p`, { "organizer-maxTasks": 1 }, "organizer-board");
    const byFeature = async () =>
      (await report("?by=feature", `/contracts/${userId}-p/usage`)).data.map(({ service, featureId, counted }) => [
        service,
        featureId,
        counted,
      ]);
    expect(await byFeature()).toEqual([
      ["organizer", "planner-board", 3],
      ["organizer", "organizer-board", 1],
    ]);
    await api.call("POST", `/features/${userId}-p/organizer-board?revert=true`, { key, body: {} });
    expect((await byFeature()).map(([, , counted]) => counted)).toEqual([0, 0]);
  });
});

test("the query is checked in order, then the contract", async () => {
  const sentence = async (query: string, path?: string) => {
    const { status, body } = await get(query, path);
    return `${status} ${body.error}`;
  };
  const bad: [string, string][] = [
    ["?by=user&from=x", "by must be one of hour, day, month, feature, spender, unit, block, movement"],
    ["?from=x&to=y", "from must be an ISO 8601 date"],
    ["?to=y&top=0", "to must be an ISO 8601 date"],
    ["?top=0", "top must be a whole number from 1 to 1000"],
    ["?top=1001", "top must be a whole number from 1 to 1000"],
    ["?by=movement&before=x", "before must be the id of an entry"],
    ["?from=2030-01-01", "from must be before to"],
    ["?by=hour&from=2025-05-01", "At most 1000 hours can be asked for at once"],
    ["?by=day&from=2020-05-01", "At most 1000 days can be asked for at once"],
    ["?by=month&from=1900-05-01", "At most 1000 months can be asked for at once"],
  ];
  for (const [query, why] of bad) {
    expect(await sentence(query, "/contracts/nobody/usage")).toBe(`400 INVALID DATA: ${why}`);
  }
  expect(await sentence("", "/contracts/nobody/usage")).toBe("404 Contract with userId nobody not found");
  expect(await sentence("?by=hour", "/usage")).toBe(
    "400 INVALID DATA: by must be one of day, feature, user, spender, unit, block",
  );
  const admin = api.callers.platformAdmin.key;
  const named = await get("", "/usage", admin);
  expect(named).toMatchObject({
    status: 400,
    body: { error: "INVALID DATA: The organizationId query parameter is required" },
  });
  expect((await get("?organizationId=65f0c0ffee00000000000001", "/usage", admin)).status).toBe(404);
});

test("26: who may record and read", async () => {
  const evaluation = api.callers.evaluation.key;
  expect((await api.call("POST", "/usage", { key: evaluation, body: [] })).status).toBe(200);
  expect((await get("", "/usage", evaluation)).status).toBe(403);
  const inside = `/organizations/${api.callers.organizationId}`;
  for (const path of [`${inside}/usage`, `${inside}/contracts/${userId}/usage`]) {
    expect((await get("", path, api.callers.evaluator.key)).status).toBe(200);
    expect((await get("", path)).body).toMatchObject({
      error: "This route requires a user API key. Organization API keys are not allowed",
    });
  }
  const put = await api.call("PUT", "/usage", { key, body: {} });
  expect(put).toMatchObject({ status: 403, body: { details: "No permission rule found for PUT /usage" } });
});

describe("files", () => {
  test("CSV has a header, quotes what needs it, and defuses formulas", async () => {
    const rows = ["=cmd", 'a,"b', "plain"];
    for (const [i, name] of rows.entries()) {
      await contract(api, key, name);
      await consume(api, key, name, { "tasker-maxTasks": 10 - i });
    }
    const { status, headers, text } = await file("?by=user&limit=maxTasks", "text/csv", "/usage");
    expect([status, headers.get("content-type"), headers.get("content-disposition")]).toEqual([
      200,
      "text/csv; charset=utf-8",
      'attachment; filename="usage.csv"',
    ]);
    const lines = text.split("\r\n");
    expect(lines[0]).toBe("service,limit,userId,counted,late");
    expect(lines).toEqual(expect.arrayContaining(["tasker,maxTasks,'=cmd,10,0", 'tasker,maxTasks,"a,""b",9,0']));
    expect(lines.at(-1)).toBe("");
    const top = await report("?by=user&service=tasker&top=1&limit=maxTasks", "/usage");
    expect(top.data).toHaveLength(1);
    expect(top.totals[0]?.counted).toBe(
      (await report("?by=day&service=tasker&limit=maxTasks", "/usage")).totals[0]?.counted,
    );
  });

  test("the first type that Accept names wins, and errors are JSON", async () => {
    const type = async (accept: string) => (await file("", accept)).headers.get("content-type");
    expect(await type("application/json, text/csv")).toBe("application/json; charset=utf-8");
    expect(await type("text/html, application/x-ndjson;q=0.5, text/csv")).toBe("application/x-ndjson");
    expect(await type("*/*")).toBe("application/json; charset=utf-8");
    const wrong = await file("?by=nothing", "text/csv");
    expect([wrong.status, wrong.headers.get("content-type")]).toEqual([400, "application/json; charset=utf-8"]);
  });

  test("movements come all, as many as there are, unless top is given", async () => {
    const items = Array.from({ length: 1200 }, (_, i) => item(`${i}`, 1));
    await record(items.slice(0, 1000));
    await record(items.slice(1000));
    const { text } = await file("?by=movement", "application/x-ndjson");
    const ids = text
      .trimEnd()
      .split("\n")
      .map((line) => (JSON.parse(line) as { id: number }).id);
    expect([ids.length, new Set(ids).size]).toEqual([1200, 1200]);
    expect(ids).toEqual(ids.toSorted((a, b) => b - a));
    const csv = (await file("?by=movement", "text/csv")).text.split("\r\n");
    expect([csv.length, csv[1]?.split(",").length]).toEqual([1202, 9]);
    const top = await file("?by=movement&top=5", "application/x-ndjson");
    expect(top.text.trimEnd().split("\n")).toHaveLength(5);
  });
});

describe("the roll-up", () => {
  test("answers are the same before and after each of its steps", async () => {
    const answers = async () => [
      await report("?by=hour"),
      await report("?by=feature"),
      await report("?by=month"),
      await report("?by=user", "/usage"),
    ];
    await consume(api, key, userId, { "tasker-maxTasks": 5 });
    await record([item("a", 0.1), item("b", 0.2)]);
    const before = await answers();
    await rollUp();
    expect(await answers()).toEqual(before);
    await rollUpAll();
    expect(await answers()).toEqual(before);
    await expectBalancesMatchLedger(api.database);
    expect(await rollUp()).toBe(0);
  });

  test("its mark does not pass a transaction that is in flight", async () => {
    const { client } = api.database.connection;
    await rollUpAll();
    const slow = await client.reserve();
    await slow`begin`;
    await slow`select 1 from contracts where user_id = ${userId} for no key update`;
    await slow`
      insert into usage_ledger (contract_id, organization_id, service_id, limit_name, kind, operation_id, delta, created_at)
      select contract_id, organization_id, service_id, limit_name, 'adjust', 'slow', 1, ${iso(now)}::text::timestamptz
      from usage_levels where contract_id = (select id from contracts where user_id = ${userId}) and limit_name = 'maxTasks'`;
    await slow`
      update usage_levels set consumed = consumed + 1
      where contract_id = (select id from contracts where user_id = ${userId}) and limit_name = 'maxTasks'`;
    const other = `${userId}-other`;
    await contract(api, key, other);
    await consume(api, key, other, { "tasker-maxTasks": 2 });
    for (let i = 0; i < 3; i += 1) expect(await rollUp()).toBe(0);
    expect((await report("?limit=maxTasks", `/contracts/${other}/usage`)).totals[0]?.counted).toBe(2);
    await slow`commit`;
    slow.release();
    expect((await report("?limit=maxTasks")).totals[0]?.counted).toBe(1);
    await rollUpAll();
    expect((await report("?limit=maxTasks")).totals[0]?.counted).toBe(1);
  });

  test("a process that stops ends it after a batch, and the next one goes on", async () => {
    await consume(api, key, userId, { "tasker-maxTasks": 5 });
    const stopping = createRollUp(api.database.connection.db, () => true);
    expect([await stopping(), await stopping()]).toEqual([0, 0]);
    await rollUpAll();
  });

  test("sums go with their contract, also while they are added", async () => {
    const names = Array.from({ length: 10 }, (_, i) => `${userId}-${i}`);
    for (const name of names) {
      await contract(api, key, name);
      await consume(api, key, name, { "tasker-maxTasks": 1 });
    }
    const deleting = names.map((name) => api.call("DELETE", `/contracts/${name}`, { key }));
    await Promise.all([...deleting, rollUpAll(), rollUpAll()]);
    await rollUpAll();
    await expectBalancesMatchLedger(api.database);
  });
});

test("whatever happens, all groupings agree with the balances at every moment", async () => {
  const step = fc.oneof(
    fc.record({ kind: fc.constant("consume" as const), amount: fc.integer({ min: 0, max: 9 }) }),
    fc.record({
      kind: fc.constant("batch" as const),
      amount: fc.integer({ min: 1, max: 9 }),
      ago: fc.integer({ min: 0, max: 40 * 24 }),
      late: fc.constantFrom("record", "count"),
    }),
    fc.record({ kind: fc.constantFrom("revert" as const, "reset" as const, "rollUp" as const) }),
    fc.record({ kind: fc.constant("adjust" as const), amount: fc.integer({ min: -20, max: 20 }) }),
    fc.record({ kind: fc.constant("wait" as const), hours: fc.integer({ min: 1, max: 24 * 20 }) }),
  );
  let keys = 0;
  const run = async (steps: readonly (typeof step extends fc.Arbitrary<infer T> ? T : never)[]) => {
    setNow(START);
    userId = `history-${(users += 1)}`;
    await contract(api, key, userId, { billingPeriod: { autoRenew: true, renewalDays: 3650 } });
    for (const one of steps) {
      if (one.kind === "consume") await consume(api, key, userId, { "tasker-maxTasks": one.amount });
      if (one.kind === "revert") await revert();
      if (one.kind === "reset") await reset();
      if (one.kind === "adjust") await adjust(one.amount);
      if (one.kind === "rollUp") await rollUpAll();
      if (one.kind === "wait") setNow(now + one.hours * HOUR + 1);
      if (one.kind === "batch") {
        const at = iso(now - one.ago * HOUR);
        const answer = await record([item(`${(keys += 1)}`, one.amount, { at })], `?late=${one.late}`);
        expect(answer.status).toBe(200);
      }
      // A reset and use in its very millisecond belong to both periods.
      setNow(now + 1);
    }
    const range = `from=${iso(START - 60 * DAY)}&limit=maxTasks`;
    const reports = await Promise.all(
      ["day", "month", "feature", "movement"].map((by) => report(`?by=${by}&${range}&top=1000`)),
    );
    const [first] = reports;
    const sums = (rows: readonly Row[]) => rows.reduce((sum, { counted }) => sum + counted, 0);
    for (const { totals } of reports) expect(totals).toEqual(first?.totals);
    for (const { by, data, totals } of reports) if (by !== "movement") expect(sums(data)).toBe(totals[0]?.counted);
    const { counted = 0, cleared = 0 } = first?.totals[0] ?? {};
    const level = (await show(api, key, userId)).usageLevels["tasker"]?.["maxTasks"];
    expect(counted - cleared).toBe(level?.consumed);
    // The counted usage of the running period is the balance.
    const [running] = await api.database.connection.client<{ since: string }[]>`
      select running_since::text as since from usage_levels u join contracts c on c.id = u.contract_id
      where c.user_id = ${userId} and u.limit_name = 'maxTasks'`;
    const since = new Date(String(running?.since)).toISOString();
    const inPeriod = await report(`?by=movement&limit=maxTasks&from=${since}`);
    expect(inPeriod.totals[0]?.counted).toBe(level?.consumed);
    await expectBalancesMatchLedger(api.database);
  };
  await fc.assert(fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 25 }), run), { numRuns: 25 });
}, 300_000);

test.skipIf(keepsMovements())(
  "sums survive retention: what is asked from the start of the ledger on stays as it was",
  async () => {
    await consume(api, key, userId, { "tasker-maxTasks": 5 });
    setNow(START + 10 * DAY);
    await consume(api, key, userId, { "tasker-maxTasks": 7 });
    const range = `?by=day&limit=maxTasks&from=${day(START + 5 * DAY)}`;
    const before = await report(range);
    await rollUpAll();
    const { db } = api.database.connection;
    await compactLedger(db, new Date(START + 6 * DAY), 1);
    await pruneRollUp(db);
    expect(await report(range)).toEqual(before);
    const early = await get(`?from=${day(START)}`);
    expect(early).toMatchObject({ status: 400 });
    expect(early.body.error).toMatch(/^INVALID DATA: The record of usage starts at 2025-/);
    const [start] = await api.database.connection.client<{ at: string }[]>`
    select extract(epoch from at) * 1000 as at from usage_ledger_start`;
    expect(Number(start?.at)).toBeGreaterThanOrEqual(START);
    const byDefault = await report("?limit=maxTasks");
    expect([byDefault.from, byDefault.totals[0]?.counted]).toEqual([day(Number(start?.at) + DAY), 7]);
    expect((await report("?by=movement")).data.map(({ amount }) => amount)).toEqual([7]);
    const answer = await api.call<{ items: unknown[] }>("POST", "/usage", {
      key,
      body: [item("old", 1, { at: iso(START - DAY) })],
    });
    expect(answer.body.items).toEqual([{ key: `${userId}-old`, verdict: "refused", reason: "TOO_OLD" }]);
  },
);
