import { readFileSync } from "node:fs";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createTestApi, type TestApi } from "../support/api.ts";
import { contract, upload } from "../support/contracting.ts";

/* Rates by unit: contract credits §4, and case 9 of §6. */

const SAMPLE = readFileSync(new URL("../../src/samples/scribe.yml", import.meta.url), "utf8");
const START = Date.parse("2026-03-01T10:00:00.000Z");
const CREDITS = "scribe-credits";

let api: TestApi;
let key: string;
const setNow = (moment: number) => api.setNow(new Date(moment));
const iso = (moment: number) => new Date(moment).toISOString();

/** The sample with other rates. */
const priced = (version: string, rates: string) =>
  SAMPLE.replace('version: "1.0.0"', `version: "${version}"`).replace(
    /(\n {6}credits:\n)(?: {8}small[\s\S]*)$/,
    `$1${rates}`,
  );

beforeAll(async () => {
  api = await createTestApi();
  setNow(START);
  key = api.callers.all.key;
  await upload(
    api,
    key,
    SAMPLE,
    priced("2.0.0", "        a: 0.1\n        b: 0.2\n"),
    priced("3.0.0", "        a: 1\n        b: 2\n"),
  );
});
beforeEach(() => setNow(START));
afterAll(() => api.close());

let users = 0;
async function subscribed(version = "2.0.0", limit?: number): Promise<string> {
  const userId = `user-${(users += 1)}`;
  await contract(api, key, userId, {
    contractedServices: { scribe: version },
    subscriptionPlans: { scribe: "PRO" },
    billingPeriod: { renewalDays: 365 },
  });
  if (limit !== undefined) {
    const path = `/contracts/${userId}/overrides/scribe/usageLimits/credits`;
    await api.call("PUT", path, { key, body: { mode: "set", value: limit, reason: "Test" } });
  }
  return userId;
}
const novate = (userId: string, version: string) =>
  api.call("PUT", `/contracts/${userId}`, {
    key,
    body: { contractedServices: { scribe: version }, subscriptionPlans: { scribe: "PRO" }, subscriptionAddOns: {} },
  });

interface Answer {
  eval: boolean;
  used: Record<string, number>;
  amounts?: Record<string, number>;
  hold?: { id: string };
  error?: unknown;
}
const spend = (userId: string, units: object, query = "?strict=true") =>
  api.call<Answer>("POST", `/features/${userId}/scribe-write${query}`, { key, body: { [CREDITS]: units } });

test("9: sums are exact", async () => {
  const userId = await subscribed("2.0.0", 3);
  for (let i = 1; i <= 10; i += 1) {
    const { body } = await spend(userId, { a: 1, b: 1 });
    expect(body).toMatchObject({ eval: true, amounts: { [CREDITS]: 0.3 } });
  }
  const { body } = await spend(userId, { a: 1, b: 1 });
  expect(body).toMatchObject({ eval: false });
  const plain = await api.call<Answer>("POST", `/features/${userId}/scribe-write?explain=true`, { key, body: {} });
  expect(plain.body.used).toEqual({ [CREDITS]: 3 });
  expect(plain.body).not.toHaveProperty("amounts");
});

test("unknown units, and limits without rates, are refused", async () => {
  const userId = await subscribed();
  expect(await spend(userId, { x: 1 })).toMatchObject({
    status: 422,
    body: { error: `Unknown unit of ${CREDITS}: x` },
  });
  expect(await spend(userId, { x: 1 }, "?dryRun=true")).toMatchObject({ status: 422 });
  const body = { "scribe-pages": { a: 1 } };
  const foreign = await api.call<Answer>("POST", `/features/${userId}/scribe-write`, { key, body });
  expect(foreign).toMatchObject({ status: 422, body: { error: "scribe-pages has no rates" } });
  for (const wrong of [{}, { a: "1" }, [1]]) expect(await spend(userId, wrong)).toMatchObject({ status: 422 });
  expect(await spend(userId, { a: -1 })).toMatchObject({
    body: { error: "All values must be non-negative finite numbers" },
  });
});

const TOO_LARGE = "All values must be at most 9007199254740991";
/** Rates under which units cost more than an amount may be. */
const DEAR = "        huge: 1.0e+300\n        big: 3\n        one: 1\n";

test("units that cost more than an amount may be are refused wherever units are priced", async () => {
  const most = Number.MAX_SAFE_INTEGER;
  await upload(api, key, priced("4.0.0", DEAR));
  const userId = await subscribed("4.0.0", 100_000_000);
  const refused = { status: 422, body: { error: TOO_LARGE } };
  const tooDear = [{ huge: most }, { huge: most, one: 1 }, { big: most }, { one: most, big: 1 }];
  for (const units of tooDear)
    for (const query of ["", "?dryRun=true", "?strict=true", "?hold=PT10M", `?at=${iso(START)}&dryRun=true`])
      expect(await spend(userId, units, query)).toMatchObject(refused);
  expect(await spend(userId, { one: most }, "?dryRun=true")).toMatchObject({ body: { amounts: { [CREDITS]: most } } });

  const { hold } = (await spend(userId, { one: 5 }, "?hold=PT10M")).body;
  for (const units of tooDear) {
    const body = { [CREDITS]: units };
    expect(await api.call("POST", `/holds/${hold?.id}`, { key, body })).toMatchObject(refused);
    const keep = (report: object) => api.call("POST", `/holds/${hold?.id}?keep=true`, { key, body: report });
    expect(await keep({ spent: body })).toMatchObject(refused);
    expect(await keep({ spent: { [CREDITS]: { one: 1 } }, amounts: body })).toMatchObject(refused);
  }

  const items = [...tooDear, { one: 1 }].map((units, i) => ({
    userId,
    featureId: "scribe-write",
    amounts: { [CREDITS]: units },
    key: `${userId} ${i}`,
  }));
  const { body } = await api.call<{ items: object[] }>("POST", "/usage", { key, body: items });
  expect(body.items).toMatchObject([
    ...tooDear.map(() => ({ verdict: "refused", reason: "INVALID_EXPECTED_CONSUMPTION", error: TOO_LARGE })),
    { verdict: "counted" },
  ]);
});

test("a call counts at the rates of the version that the contract has then", async () => {
  const userId = await subscribed();
  expect((await spend(userId, { a: 1, b: 1 })).body.amounts).toEqual({ [CREDITS]: 0.3 });
  await novate(userId, "3.0.0");
  expect((await spend(userId, { a: 1, b: 1 }, "?dryRun=true")).body.amounts).toEqual({ [CREDITS]: 3 });
  expect((await spend(userId, { a: 1, b: 1 })).body.used).toEqual({ [CREDITS]: 3.3 });
});

test("a hold of an amount, settled in units, counts at the budget of these units", async () => {
  const userId = await subscribed();
  const budget = { limit: CREDITS, unit: "a", amount: 0.3 };
  expect(await api.call("PUT", `/contracts/${userId}/budgets/as`, { key, body: budget })).toMatchObject({
    status: 201,
  });
  const hold = async () => {
    const path = `/features/${userId}/scribe-write?hold=PT10M`;
    return (await api.call<Answer>("POST", path, { key, body: { [CREDITS]: 5 } })).body.hold?.id;
  };
  const settle = async (id: string | undefined, units: object) =>
    (await api.call<Answer>("POST", `/holds/${id}`, { key, body: { [CREDITS]: units } })).body;
  const first = await hold();
  expect(await settle(first, { a: 4 })).toMatchObject({ eval: false, budget: { name: "as", used: 0 } });
  expect(await settle(first, { a: 2, b: 9 })).toMatchObject({ eval: true });
  const second = await hold();
  expect(await settle(second, { a: 2 })).toMatchObject({ eval: false, budget: { name: "as", used: 0.2 } });
  expect(await settle(second, { a: 1 })).toMatchObject({ eval: true });
  const shown = await api.call("GET", `/contracts/${userId}/budgets/as`, { key });
  expect(shown.body["balances"]).toMatchObject([{ used: 0.3, held: 0, remaining: 0 }]);
});

test("a hold is settled at the rates with which it was taken", async () => {
  const userId = await subscribed();
  const taken = (await spend(userId, { a: 10 }, "?hold=PT10M")).body;
  expect(taken).toMatchObject({ eval: true, amounts: { [CREDITS]: 1 } });
  setNow(START + 1000);
  await novate(userId, "3.0.0");
  const settle = (units: object) =>
    api.call<Answer>("POST", `/holds/${taken.hold?.id}`, { key, body: { [CREDITS]: units } });
  expect(await settle({ x: 1 })).toMatchObject({ status: 422 });
  expect((await settle({ a: 5 })).body).toMatchObject({ eval: true, amounts: { [CREDITS]: 0.5 } });
});

test("an item of a batch counts at the rates of its moment", async () => {
  const userId = await subscribed();
  setNow(START + 60_000);
  await novate(userId, "3.0.0");
  const item = (name: string, units: object, more: object = {}) => ({
    userId,
    featureId: "scribe-write",
    amounts: { [CREDITS]: units },
    key: `${userId} ${name}`,
    ...more,
  });
  const body = [
    item("now", { a: 1 }),
    item("then", { a: 1 }, { at: iso(START + 1000) }),
    item("wrong", { x: 1 }),
    item("now", { a: 1 }),
  ];
  const recorded = await api.call<{ items: object[] }>("POST", "/usage", { key, body });
  expect(recorded.body.items).toMatchObject([
    { verdict: "counted" },
    { verdict: "counted" },
    { verdict: "refused", reason: "INVALID_EXPECTED_CONSUMPTION", error: `Unknown unit of ${CREDITS}: x` },
    { verdict: "duplicate" },
  ]);
  const plain = await api.call<Answer>("POST", `/features/${userId}/scribe-write?explain=true`, { key, body: {} });
  expect(plain.body.used).toEqual({ [CREDITS]: 1.1 });
});

interface UnitRow {
  limit: string;
  unit: string;
  featureId: string;
  units: number;
  counted: number;
  late: number;
}
async function unitsOf(path: string, given = key): Promise<(string | number)[][]> {
  const { status, body } = await api.call<{ data: UnitRow[]; error?: string }>("GET", path, { key: given });
  expect(status, body.error).toBe(200);
  return body.data.map(({ unit, featureId, units, counted, late }) => [unit, featureId, units, counted, late]);
}

test("the history by unit sums numbers and costs of units, however they were counted", async () => {
  const userId = await subscribed();
  await spend(userId, { a: 10, b: 5 });
  await spend(userId, { a: 1 });
  // A hold, settled by units of its own.
  const { body: held } = await spend(userId, { a: 50 }, "?hold=PT1H");
  await api.call("POST", `/holds/${held.hold?.id}`, { key, body: { [CREDITS]: { b: 2 } } });
  // A batch, and a call with an idempotency key, which counts in its own transaction.
  const item = { userId, featureId: "scribe-write", amounts: { [CREDITS]: { b: 3 } }, key: `${userId}-1` };
  await api.call("POST", "/usage", { key, body: [item] });
  await api.call("POST", `/features/${userId}/scribe-write`, {
    key,
    body: { [CREDITS]: { a: 4 } },
    headers: { "idempotency-key": `${userId}-2` },
  });
  // Amounts without units are not in it.
  await api.call("POST", `/features/${userId}/scribe-write`, { key, body: { [CREDITS]: 7 } });
  const own = `/contracts/${userId}/usage?by=unit`;
  expect(await unitsOf(own)).toEqual([
    ["b", "scribe-write", 10, 2, 0],
    ["a", "scribe-write", 15, 1.5, 0],
  ]);
  expect(await unitsOf(`${own}&top=1`)).toEqual([["b", "scribe-write", 10, 2, 0]]);
  expect(await unitsOf(`${own}&limit=other`)).toEqual([]);
  const { organizationId, owner } = api.callers;
  const all = await unitsOf(`/organizations/${organizationId}/usage?by=unit&service=scribe`, owner.key);
  expect(all).toContainEqual(["a", "scribe-write", expect.any(Number), expect.any(Number), 0]);
  // A revert gives the newest call back, with its units.
  await spend(userId, { b: 100 });
  await api.call("POST", `/features/${userId}/scribe-write?revert=true&latest=true`, { key });
  expect(await unitsOf(own)).toEqual([
    ["b", "scribe-write", 10, 2, 0],
    ["a", "scribe-write", 15, 1.5, 0],
  ]);
  // The sums are those of the movements.
  const { body } = await api.call<{ totals: { counted: number }[] }>("GET", own, { key });
  expect(body.totals).toMatchObject([{ counted: 10.5 }]);
});

test("late usage by unit is in the history apart", async () => {
  const userId = await subscribed();
  await spend(userId, { a: 10 });
  setNow(Date.parse("2026-05-03T10:00:00.000Z"));
  const amounts = { [CREDITS]: { b: 5 } };
  const item = { userId, featureId: "scribe-write", amounts, key: `${userId}-late`, at: iso(START + 3_600_000) };
  await api.call("POST", "/usage", { key, body: [item] });
  const path = `/contracts/${userId}/usage?by=unit&from=2026-03-01`;
  expect((await unitsOf(path)).toSorted()).toEqual([
    ["a", "scribe-write", 10, 1, 0],
    ["b", "scribe-write", 5, 0, 1],
  ]);
});

test("a movement without units is as large as before", async () => {
  const userId = await subscribed();
  await api.call("POST", `/features/${userId}/scribe-write`, { key, body: { [CREDITS]: 7 } });
  const [row] = await api.resources.db.execute<{ before: number; now: number; units: unknown }>(`
    select pg_column_size(row(l.*)) as now, l.units,
      pg_column_size(row(id, contract_id, organization_id, service_id, limit_name, kind, feature_id, operation_id, delta, reset_at,
        created_at, reverted_at, used_at, late_amount, renamed_feature_id, spender, budgets)) as before
    from usage_ledger l where contract_id = (select id from contracts where user_id = '${userId}') and kind = 'consume'`);
  expect(row).toMatchObject({ units: null, now: row?.before });
});

test("an offer shows what units of a limit cost, and nothing for limits without rates", async () => {
  interface Offered {
    limits: { name: string; rates?: { unit: string; value: number; text: string }[] }[];
  }
  const { body } = await api.call<Offered>("GET", "/services/scribe/offer?pricingVersion=1.0.0", { key });
  const { rates } = body.limits.find(({ name }) => name === "credits") ?? {};
  expect(rates).toContainEqual({ unit: "large.output", value: 0.01, text: "0.01 credit per large.output" });
  expect(rates).toHaveLength(5);
  await upload(api, key, readFileSync(new URL("../../src/samples/tasker.yml", import.meta.url), "utf8"));
  const tasker = await api.call<Offered>("GET", "/services/tasker/offer", { key });
  expect(tasker.body.limits.every((limit) => !("rates" in limit))).toBe(true);
});
