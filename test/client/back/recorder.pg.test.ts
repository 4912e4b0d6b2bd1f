import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { Faregate, type ItemVerdict, UnrecordedUsageError, type UsageItem } from "../../../src/client/client.ts";
import { createTestApi, type TestApi } from "../../support/api.ts";
import { consumed, contract, tasker, upload } from "../../support/contracting.ts";

/* Batches of the client, and its recorder, against the whole application in process, over a network that loses answers. */

let api: TestApi;
let key: string;
let users = 0;
let userId: string;
/** Fate of the next calls: `lost` after the service has done its work, or a status of a proxy before it. */
let fates: ("lost" | number)[];
let batches: number[];

const send: typeof fetch = async (input, init) => {
  const request = new Request(input, init);
  const fate = fates.shift();
  if (typeof fate === "number") return Response.json({ error: "proxy" }, { status: fate });
  const body = (await request.clone().json()) as unknown[];
  const answer = await api.app.fetch(request);
  if (fate === "lost") throw new TypeError("fetch failed");
  batches.push(body.length);
  return answer;
};
const usageOf = (retries = 3) => new Faregate({ url: "http://faregate.test", apiKey: key, fetch: send, retries }).usage;
const item = (amount = 1, more: object = {}): UsageItem => ({
  userId,
  featureId: "tasker-board",
  amounts: { "tasker-maxTasks": amount },
  ...more,
});

beforeAll(async () => {
  api = await createTestApi();
  key = api.callers.all.key;
  await upload(api, key, tasker({ maxTasks: 100_000 }));
});
afterAll(() => api.close());
beforeEach(async () => {
  fates = [];
  batches = [];
  userId = `recorder-${(users += 1)}`;
  await contract(api, key, userId);
});

test("a batch whose answer is lost is sent again with the same keys, and counts once", async () => {
  fates = ["lost", 503];
  const { counts, items } = await usageOf().record([item(2), item(3, { key: `${userId}-mine` })]);
  expect(counts).toMatchObject({ counted: 0, duplicate: 2 });
  expect(items[1]).toEqual({ key: `${userId}-mine`, verdict: "duplicate" });
  expect(await consumed(api, key, userId)).toBe(5);
  await expect(usageOf().record(Array.from({ length: 1001 }, () => item()))).rejects.toThrow("at most 1000 items");
});

test("usage is read back by contract and by organization", async () => {
  const usage = usageOf();
  await usage.record([item(4, { at: new Date("2025-06-15T10:00:00Z") })]);
  const read = new Faregate({
    url: "http://faregate.test",
    apiKey: key,
    fetch: async (input, init) => api.app.fetch(new Request(input, init)),
  }).usage;
  const { totals } = await read.ofContract(userId, { by: "month", limit: "maxTasks", from: new Date("2025-06-01") });
  expect(totals).toEqual([{ service: "tasker", limit: "maxTasks", counted: 4, cleared: 0, late: 0 }]);
  const { data } = await read.ofOrganization({ by: "user", limit: "maxTasks" });
  expect(data).toContainEqual({ service: "tasker", limit: "maxTasks", userId, counted: 4, late: 0 });
});

test("a recorder sends when it has enough items, or after a time, and each item gets its verdict", async () => {
  const verdicts: ItemVerdict[] = [];
  const recorder = usageOf().recorder({ maxItems: 5, maxDelayMs: 30, onVerdict: (_item, one) => verdicts.push(one) });
  for (let i = 0; i < 12; i += 1) await recorder.add(item());
  await expect.poll(() => verdicts.length, { timeout: 30_000 }).toBe(12);
  expect(Math.max(...batches)).toBe(5);
  expect(await consumed(api, key, userId)).toBe(12);
  await recorder.close();
  await expect(recorder.add(item())).rejects.toThrow("The recorder is closed");
});

test("no item is lost or counted twice while the network loses answers and proxies fail", async () => {
  const recorder = usageOf(0).recorder({ maxItems: 10, maxDelayMs: 5, maxWaiting: 20 });
  fates = ["lost", 502, "lost", 503, 401];
  await Promise.all(Array.from({ length: 60 }, () => recorder.add(item())));
  await recorder.flush();
  expect(await consumed(api, key, userId)).toBe(60);
  await recorder.close();
});

test("an item that the service cannot read does not hold up the others, and is reported", async () => {
  const recorder = usageOf().recorder({ maxItems: 50 });
  const broken = item(-1);
  for (const one of [item(), item(), broken, item()]) await recorder.add(one);
  const failure: unknown = await recorder.flush().catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(UnrecordedUsageError);
  expect((failure as UnrecordedUsageError).items).toMatchObject([broken]);
  expect(await consumed(api, key, userId)).toBe(3);
  await recorder.close();
});

test.each([
  ["a date that is none", { at: new Date(Number.NaN) }],
  ["an amount that JSON cannot have", { amounts: { "tasker-maxTasks": Object(1n) } }],
])("an item with %s, which cannot be sent at all, does not hold up the others either", async (_, more) => {
  const recorder = usageOf().recorder({ maxItems: 50 });
  for (const one of [item(), item(1, more), item()]) await recorder.add(one);
  const failure: unknown = await recorder.close({ deadlineMs: 5000 }).catch((error: unknown) => error);
  expect((failure as UnrecordedUsageError).items).toMatchObject([more]);
  expect(await consumed(api, key, userId)).toBe(2);
});

test("a shutdown gives up at its deadline, and reports what is left with its keys", async () => {
  const recorder = usageOf(0).recorder({ maxItems: 2 });
  fates = Array.from({ length: 1000 }, () => 503);
  await recorder.add(item());
  await recorder.add(item());
  const failure: unknown = await recorder.close({ deadlineMs: 100 }).catch((error: unknown) => error);
  const left = (failure as UnrecordedUsageError).items;
  expect(left.map(({ key: itemKey }) => typeof itemKey)).toEqual(["string", "string"]);
  fates = [];
  expect((await usageOf().record(left)).counts).toMatchObject({ counted: 2 });
});
