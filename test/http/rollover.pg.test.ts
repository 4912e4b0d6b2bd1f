import { readFileSync } from "node:fs";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { checkLedger } from "../../src/db/invariants.ts";
import { pruneCarriedBlocks } from "../../src/db/queries/retention.ts";
import { renewDueContracts } from "../../src/operations/contracts/expiry.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { contract, upload } from "../support/contracting.ts";
import { allEventsDuring } from "../support/private-events.ts";

/* Rollover: contract credits §3, and cases 6 and 7 of §6. */

const SAMPLE = readFileSync(new URL("../../src/samples/tasker.yml", import.meta.url), "utf8");
const START = Date.parse("2025-06-15T10:00:00.000Z");
const MONTH = 30 * 86_400_000;
const TASKS = "tasker-maxTasks";

/** The sample under another name, whose tasks renew every 30 days and carry over. */
function carrying(name: string, rollover: string): string {
  return SAMPLE.replace("saasName: Tasker", `saasName: ${name}`)
    .replaceAll(/period:\n\s+value: 1\n\s+unit: MONTH/g, "period: { value: 30, unit: DAY }")
    .concat(`\ncustom:\n  faregate:\n    rollover:\n      maxTasks: ${rollover}\n`);
}

let api: TestApi;
let key: string;
const setNow = (moment: number) => api.setNow(new Date(moment));
const iso = (moment: number) => new Date(moment).toISOString();

beforeAll(async () => {
  api = await createTestApi();
  key = api.callers.all.key;
  await upload(api, key, carrying("Tasker", "{ max: 100, periods: 1 }"));
  await upload(api, key, carrying("Keeper", "{ max: null, periods: 3 }"));
});
beforeEach(() => setNow(START));
afterAll(async () => {
  expect((await checkLedger(api.resources.db)).violations).toEqual([]);
  await api.close();
});

let users = 0;
async function subscribed(service = "tasker", renewalDays = 365): Promise<string> {
  const userId = `user-${(users += 1)}`;
  await contract(api, key, userId, {
    contractedServices: { [service]: "1.0.0" },
    subscriptionPlans: { [service]: "PRO" },
    billingPeriod: { autoRenew: true, renewalDays },
  });
  return userId;
}

interface Block {
  amount: number;
  remaining: number;
  state: string;
  origin: string;
  expiresAt: string | null;
}
const blocks = async (userId: string, query = "") =>
  (await api.call<{ data: Block[] }>("GET", `/contracts/${userId}/blocks${query}`, { key })).body.data;
const ask = async (userId: string, amount = 0, service = "tasker") =>
  (
    await api.call<{ limit: Record<string, number>; used: Record<string, number>; eval: boolean }>(
      "POST",
      `/features/${userId}/${service}-board?strict=true`,
      { key, body: amount === 0 ? {} : { [`${service}-maxTasks`]: amount } },
    )
  ).body;
const limitOf = async (userId: string) => (await ask(userId)).limit[TASKS];

test("6: what is not used is carried once, up to the maximum", async () => {
  const userId = await subscribed();
  await ask(userId, 30);
  const limits = [];
  for (let month = 1; month <= 3; month += 1) {
    setNow(START + month * MONTH + 1);
    limits.push(await limitOf(userId));
  }
  expect(limits).toEqual([300, 300, 300]);
  expect(await blocks(userId)).toMatchObject([
    { amount: 100, state: "open", origin: "rollover", expiresAt: iso(START + 4 * MONTH + 1) },
    { amount: 100, state: "expired" },
    { amount: 100, state: "expired" },
  ]);
});

test("retention deletes what was carried over and has long stopped to count, and nothing that was given", async () => {
  const userId = await subscribed();
  const given = { service: "tasker", limit: "maxTasks", amount: 5, expiresAt: iso(START + MONTH), reason: "Sorry" };
  expect((await api.call("POST", `/contracts/${userId}/blocks`, { key, body: given })).status).toBe(201);
  for (let month = 1; month <= 4; month += 1) {
    setNow(START + month * MONTH + 1);
    // Draws from what was carried over.
    await ask(userId, 250);
    await ask(userId, 20);
  }
  const origins = async () => (await blocks(userId)).map(({ origin, state }) => `${origin} ${state}`).toSorted();
  const before = await origins();
  expect(before.filter((each) => each === "rollover spent" || each === "rollover expired").length).toBeGreaterThan(1);
  expect(await pruneCarriedBlocks(api.resources.db, new Date(START + 4 * MONTH + 1), 365)).toBe(0);
  expect(await pruneCarriedBlocks(api.resources.db, new Date(START + 5 * MONTH), 1)).toBeGreaterThan(1);
  expect((await origins()).filter((each) => !each.endsWith(" open"))).toEqual(["given expired"]);
  expect(await limitOf(userId)).toBeGreaterThanOrEqual(200);
  expect((await checkLedger(api.resources.db)).violations).toEqual([]);
});

test("what was used beyond the plan carries nothing, and what was carried is drawn", async () => {
  const userId = await subscribed();
  setNow(START + MONTH + 1);
  await ask(userId, 250);
  expect(await blocks(userId)).toMatchObject([{ amount: 100, remaining: 50 }]);
  setNow(START + 2 * MONTH + 1);
  expect(await limitOf(userId)).toBe(200);
});

test.each(["tasker", "keeper"])("7: two overdue resets of %s are as if each had been asked at", async (service) => {
  const [asked, late] = [await subscribed(service), await subscribed(service)];
  const facts = async (userId: string) =>
    (await blocks(userId)).map(({ amount, state, expiresAt, origin }) => ({ amount, state, expiresAt, origin }));
  for (const userId of [asked, late]) await ask(userId, 30, service);
  for (let month = 1; month <= 2; month += 1) {
    setNow(START + month * MONTH + 1);
    await ask(asked, 0, service);
  }
  const askedEvents = await allEventsDuring(api, () => ask(late, 0, service));
  expect(await facts(late)).toEqual(await facts(asked));
  expect((await ask(late, 0, service)).limit).toEqual((await ask(asked, 0, service)).limit);
  expect(askedEvents.filter(({ code }) => code === "BLOCK_GRANTED")).toHaveLength(2);
});

test("a snapshot is valid until a reset that will carry over, also before the first block", async () => {
  const userId = await subscribed();
  const snapshot = await api.call<{ users: { userId: string; validUntil: string | null }[] }>("POST", "/snapshot", {
    key,
    body: { users: [{ userId }] },
  });
  expect(snapshot.body.users).toMatchObject([{ userId, validUntil: iso(START + MONTH) }]);
});

test("blocks of several periods add up, and each ends with its own reset", async () => {
  const userId = await subscribed("keeper");
  const limits = [];
  for (let month = 1; month <= 5; month += 1) {
    setNow(START + month * MONTH + 1);
    limits.push((await ask(userId, 0, "keeper")).limit["keeper-maxTasks"]);
  }
  expect(limits).toEqual([400, 600, 800, 800, 800]);
});

test("an overdue reset that is noticed in the millisecond of the next one loses nothing that either carries over", async () => {
  const [asked, late] = [await subscribed("keeper"), await subscribed("keeper")];
  setNow(START + MONTH + 1);
  await ask(asked, 0, "keeper");
  setNow(START + 2 * MONTH);
  await ask(asked, 0, "keeper");
  await ask(late, 0, "keeper");
  setNow(START + 2 * MONTH + 1);
  expect((await ask(asked, 0, "keeper")).limit).toEqual({ "keeper-maxTasks": 600 });
  expect((await ask(late, 0, "keeper")).limit).toEqual({ "keeper-maxTasks": 600 });
});

test("a reset by call carries over as well", async () => {
  const userId = await subscribed();
  await ask(userId, 150);
  await api.call("PUT", `/contracts/${userId}/usageLevels?reset=true`, { key, body: {} });
  expect(await limitOf(userId)).toBe(250);
});

test("a past moment has its usage, also if the contract was extended before its due reset was written", async () => {
  const userId = await subscribed("tasker", 30);
  // The carried block makes the next reset count from its own moment, and not from the call that writes it.
  setNow(START + MONTH + 1);
  expect(await limitOf(userId)).toBe(300);
  await renewDueContracts(api.resources.db, new Date(START + 2 * MONTH + 1000));
  setNow(START + 2 * MONTH + 2000);
  expect(await ask(userId, 5)).toMatchObject({ used: { [TASKS]: 5 } });
  const at = encodeURIComponent(iso(START + 2 * MONTH + 2000));
  const then = await api.call("POST", `/features/${userId}/tasker-board?at=${at}`, { key });
  expect(then.body).toMatchObject({ used: { [TASKS]: 5 }, asOf: { cause: "renewal" } });
});

test("a thousand overdue resets are gone through, and those after them at once", async () => {
  const userId = await subscribed();
  setNow(START + 1002 * MONTH + 1);
  expect(await limitOf(userId)).toBe(200);
  expect(await blocks(userId, "?state=open")).toEqual([]);
});

test("terms that make no sense are refused, each with its place", async () => {
  for (const [terms, error] of [
    ["{ max: -1, periods: 1 }", "custom.faregate.rollover.maxTasks.max must be a number of at least 0, or null"],
    ["{ max: 1, periods: 13 }", "custom.faregate.rollover.maxTasks.periods must be a whole number from 1 to 12"],
    ["5", "custom.faregate.rollover.maxTasks must be an object"],
  ]) {
    const body = new FormData();
    body.set("pricing", new File([carrying("Wrong", terms ?? "")], "wrong.yml"));
    const answer = await api.call<{ error: string; problems: { line: number }[] }>("POST", "/services", { key, body });
    expect(answer.status).toBe(400);
    expect(answer.body.error).toContain(error);
  }
});
