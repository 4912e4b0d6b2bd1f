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

test("a call counts at the rates of the version that the contract has then", async () => {
  const userId = await subscribed();
  expect((await spend(userId, { a: 1, b: 1 })).body.amounts).toEqual({ [CREDITS]: 0.3 });
  await novate(userId, "3.0.0");
  expect((await spend(userId, { a: 1, b: 1 }, "?dryRun=true")).body.amounts).toEqual({ [CREDITS]: 3 });
  expect((await spend(userId, { a: 1, b: 1 })).body.used).toEqual({ [CREDITS]: 3.3 });
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
