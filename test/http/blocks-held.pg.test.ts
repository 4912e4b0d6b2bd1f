import { readFileSync } from "node:fs";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { checkLedger } from "../../src/db/invariants.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { contract, upload } from "../support/contracting.ts";
import { allEventsDuring } from "../support/private-events.ts";

/*
 * Holds that are open over the end of a block: what they hold of it stays in the limit as long as they need it. Source: contract
 * credits §2 and §6, cases 8 and 10.
 */

const SAMPLE = readFileSync(new URL("../../src/samples/tasker.yml", import.meta.url), "utf8");
const START = Date.parse("2025-06-15T10:00:00.000Z");
const END = START + 60_000;
const TASKS = "tasker-maxTasks";

let api: TestApi;
let key: string;
const setNow = (moment: number) => api.setNow(new Date(moment));

beforeAll(async () => {
  api = await createTestApi();
  key = api.callers.all.key;
  await upload(api, key, SAMPLE);
});
beforeEach(() => setNow(START));
afterAll(async () => {
  expect((await checkLedger(api.resources.db)).violations).toEqual([]);
  await api.close();
});

let users = 0;
/** Contracts a new end user to 200 tasks a month, of which some are used. */
async function subscribed(used: number): Promise<string> {
  const userId = `held-${(users += 1)}`;
  await contract(api, key, userId, { subscriptionPlans: { tasker: "PRO" }, billingPeriod: { renewalDays: 365 } });
  await use(userId, used);
  return userId;
}
interface Answer {
  eval: boolean;
  limit: Record<string, number>;
  used: Record<string, number>;
  remaining: Record<string, number>;
  hold?: { id: string } | null;
}
const ask = async (userId: string, query: string, body: object = {}) =>
  (await api.call<Answer>("POST", `/features/${userId}/tasker-board${query}`, { key, body })).body;
const use = async (userId: string, amount: number) => {
  expect((await ask(userId, "?strict=true", { [TASKS]: amount })).eval).toBe(true);
};
async function give(userId: string, amount: number, expiresAt: number | null = END): Promise<string> {
  const at = expiresAt === null ? null : new Date(expiresAt).toISOString();
  const body = { service: "tasker", limit: "maxTasks", amount, reason: "Agreed", expiresAt: at };
  return (await api.call<{ id: string }>("POST", `/contracts/${userId}/blocks`, { key, body })).body.id;
}
async function hold(userId: string, amount: number, query = "?hold=PT10M"): Promise<string> {
  const { hold: taken } = await ask(userId, query, { [TASKS]: amount });
  if (!taken) throw new Error(`a hold of ${amount} was refused`);
  return taken.id;
}
const settle = async (id: string, amount: number) =>
  (await api.call<Answer>("POST", `/holds/${id}`, { key, body: { [TASKS]: amount } })).body;
/** Limit, use and remaining amount, as an evaluation shows them. */
async function state(userId: string, query = ""): Promise<number[]> {
  const { limit, used, remaining } = await ask(userId, `?explain=true${query}`);
  return [limit[TASKS] ?? NaN, used[TASKS] ?? NaN, remaining[TASKS] ?? NaN];
}
const blockOf = async (userId: string, id: string) => {
  const { body } = await api.call<{ data: { id: string; used: number; remaining: number; state: string }[] }>(
    "GET",
    `/contracts/${userId}/blocks`,
    { key },
  );
  return body.data.find((block) => block.id === id);
};
/** Consumed, held and limit, as balances show them. */
async function balance(userId: string): Promise<number[]> {
  const { body } = await api.call<{ limit: string; consumed: number; held: number; limitNow: number }[]>(
    "GET",
    `/contracts/${userId}/balances`,
    { key },
  );
  const found = body.find(({ limit }) => limit === "maxTasks");
  return [found?.consumed ?? NaN, found?.held ?? NaN, found?.limitNow ?? NaN];
}

test("a hold over the end of its block keeps exactly what it holds beyond the plan", async () => {
  const userId = await subscribed(150);
  const block = await give(userId, 100);
  await hold(userId, 80);
  setNow(END);
  expect(await state(userId)).toEqual([230, 230, 0]);
  expect(await balance(userId)).toEqual([150, 80, 230]);
  expect((await ask(userId, "?strict=true", { [TASKS]: 1 })).eval).toBe(false);
  expect((await ask(userId, "?hold=PT1M", { [TASKS]: 1 })).eval).toBe(false);
  // It is not used yet.
  expect(await blockOf(userId, block)).toMatchObject({ used: 0, remaining: 100, state: "expired" });
});

test.each([
  ["settled whole", 80, [280, 280, 0], 80],
  ["settled with less", 30, [230, 230, 0], 30],
  ["settled with nothing", 0, [200, 200, 0], 0],
])("a hold that is %s leaves the limit what it has drawn", async (_, amount, expected, used) => {
  const userId = await subscribed(200);
  const block = await give(userId, 100);
  const id = await hold(userId, 80);
  setNow(END + 1);
  const [limit = NaN, usage, remaining] = expected;
  expect(await settle(id, amount)).toMatchObject({
    eval: true,
    limit: { [TASKS]: limit },
    used: { [TASKS]: usage },
    remaining: { [TASKS]: remaining },
  });
  expect(await state(userId)).toEqual(expected);
  expect(await blockOf(userId, block)).toMatchObject({ used, remaining: 100 - used, state: "expired" });
  expect((await api.call<{ data: object[] }>("GET", `/contracts/${userId}/usage?by=block`, { key })).body.data).toEqual(
    used === 0 ? [] : [expect.objectContaining({ drawn: used })],
  );
});

test("a settlement of more than is held is decided by the limit with what the hold keeps", async () => {
  const userId = await subscribed(200);
  await give(userId, 100);
  const id = await hold(userId, 80);
  setNow(END);
  expect(await settle(id, 81)).toMatchObject({ eval: false, limit: { [TASKS]: 280 } });
  expect(await balance(userId)).toEqual([200, 80, 280]);
});

test.each(["release", "consume"])("a hold that expires with %s", async (onExpiry) => {
  const userId = await subscribed(200);
  await give(userId, 100);
  await hold(userId, 80, `?hold=PT10M&onExpiry=${onExpiry}`);
  setNow(START + 10 * 60_000 - 1);
  expect(await balance(userId)).toEqual([200, 80, 280]);
  setNow(START + 20 * 60_000);
  expect(await balance(userId)).toEqual(onExpiry === "consume" ? [280, 0, 280] : [200, 0, 200]);
  // Nobody asked at these moments.
  const at = (moment: number) => state(userId, `&at=${new Date(moment).toISOString()}`);
  expect(await at(END - 1)).toEqual([300, 280, 20]);
  expect(await at(END)).toEqual([280, 280, 0]);
  expect(await at(START + 11 * 60_000)).toEqual(onExpiry === "consume" ? [280, 280, 0] : [200, 200, 0]);
});

test("a hold that is released gives up what it kept, and nothing is granted of it again", async () => {
  const userId = await subscribed(150);
  await give(userId, 100);
  const id = await hold(userId, 80);
  setNow(END);
  await state(userId);
  expect((await api.call("DELETE", `/holds/${id}`, { key })).status).toBe(204);
  expect(await state(userId)).toEqual([200, 150, 50]);
  expect((await ask(userId, "?strict=true", { [TASKS]: 51 })).eval).toBe(false);
  await use(userId, 50);
  expect(await state(userId)).toEqual([200, 200, 0]);
});

test("two holds over one end give up their parts one by one", async () => {
  const userId = await subscribed(200);
  const block = await give(userId, 100);
  const [first, second] = [await hold(userId, 40), await hold(userId, 50)];
  setNow(END);
  expect(await balance(userId)).toEqual([200, 90, 290]);
  await settle(first, 40);
  expect(await balance(userId)).toEqual([240, 50, 290]);
  expect(await blockOf(userId, block)).toMatchObject({ used: 40, remaining: 60 });
  await settle(second, 10);
  expect(await balance(userId)).toEqual([250, 0, 250]);
  expect(await blockOf(userId, block)).toMatchObject({ used: 50, remaining: 50 });
});

test("settlements and calls at once never see what an earlier one has given up", async () => {
  const userId = await subscribed(200);
  await give(userId, 100);
  const ids = [];
  for (let i = 0; i < 8; i += 1) ids.push(await hold(userId, 10));
  setNow(END);
  await balance(userId);
  const calls = ids.flatMap((id) => [() => settle(id, 5), () => ask(userId, "?strict=true", { [TASKS]: 1 })]);
  const answers = await Promise.all(calls.map((call) => call()));
  expect(answers.filter((answer) => answer.eval)).toHaveLength(8);
  expect(await balance(userId)).toEqual([240, 0, 240]);
});

test("of two blocks the open one covers a hold, and each that ends keeps only what the other does not", async () => {
  const userId = await subscribed(200);
  await give(userId, 60);
  await give(userId, 50, END + 1000);
  const id = await hold(userId, 80);
  setNow(END);
  expect(await balance(userId)).toEqual([200, 80, 280]);
  setNow(END + 1000);
  expect(await balance(userId)).toEqual([200, 80, 280]);
  await settle(id, 70);
  expect(await state(userId)).toEqual([270, 270, 0]);
});

test("a block that is given meanwhile covers the hold, and what was kept leaves the limit", async () => {
  const userId = await subscribed(200);
  await give(userId, 100);
  const id = await hold(userId, 80);
  setNow(END);
  await give(userId, 90, null);
  expect(await state(userId)).toEqual([290, 280, 10]);
  await settle(id, 80);
  expect(await state(userId)).toEqual([290, 280, 10]);
});

test("a block that is revoked keeps what a hold needs of it, and ends with one event", async () => {
  const userId = await subscribed(0);
  const block = await give(userId, 100, null);
  await use(userId, 210);
  const id = await hold(userId, 30);
  const events = await allEventsDuring(api, async () => {
    await api.call("DELETE", `/contracts/${userId}/blocks/${block}`, { key });
    expect(await state(userId)).toEqual([240, 240, 0]);
    await settle(id, 20);
  });
  expect(events.filter(({ code }) => code === "BLOCK_ENDED")).toMatchObject([
    { details: { state: "revoked", used: 10, remaining: 90 } },
  ]);
  expect(await state(userId)).toEqual([230, 230, 0]);
  expect(await blockOf(userId, block)).toMatchObject({ used: 30, remaining: 70, state: "revoked" });
});

test("reports of a hold give up what it no longer holds", async () => {
  const userId = await subscribed(200);
  const block = await give(userId, 100);
  const id = await hold(userId, 80);
  setNow(END);
  const report = (body: object) => api.call<Answer>("POST", `/holds/${id}?keep=true`, { key, body });
  const { status, body } = await report({ spent: { [TASKS]: 30 }, amounts: { [TASKS]: 20 } });
  expect([status, body.limit[TASKS], body.used[TASKS], body.remaining[TASKS]]).toEqual([200, 250, 250, 0]);
  expect(await balance(userId)).toEqual([230, 20, 250]);
  await settle(id, 25);
  expect(await balance(userId)).toEqual([225, 0, 225]);
  expect(await blockOf(userId, block)).toMatchObject({ used: 25, remaining: 75 });
});

test("a consumption that is taken back gives up what a hold then no longer needs", async () => {
  const userId = await subscribed(150);
  await give(userId, 100);
  await use(userId, 50);
  await hold(userId, 80);
  setNow(END);
  expect(await balance(userId)).toEqual([200, 80, 280]);
  await ask(userId, "?revert=true&latest=true");
  expect(await state(userId)).toEqual([230, 230, 0]);
  expect((await ask(userId, "?strict=true", { [TASKS]: 1 })).eval).toBe(false);
});

test("a reset keeps what a hold needs beyond the next period", async () => {
  const userId = await subscribed(0);
  const block = await give(userId, 100);
  const id = await hold(userId, 250);
  setNow(END);
  expect(await balance(userId)).toEqual([0, 250, 250]);
  await api.call("PUT", `/contracts/${userId}/usageLevels?reset=true`, { key, body: {} });
  expect(await balance(userId)).toEqual([0, 250, 250]);
  await settle(id, 240);
  expect(await balance(userId)).toEqual([240, 0, 240]);
  expect(await blockOf(userId, block)).toMatchObject({ used: 40, remaining: 60 });
});
