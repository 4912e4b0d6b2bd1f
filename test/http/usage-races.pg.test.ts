import { sql } from "drizzle-orm";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createTestApi, type Answer, type TestApi } from "../support/api.ts";
import {
  consume,
  consumed,
  contract,
  contractFor,
  type ContractBody,
  show,
  statuses,
  tasker,
  upload,
} from "../support/contracting.ts";
import { expectBalancesMatchLedger } from "../support/invariants.ts";

let api: TestApi;
let key: string;
let users = 0;
let userId: string;

const START = new Date("2025-06-15T12:00:00.000Z");
const PLENTY = 1_000_000;

beforeAll(async () => {
  api = await createTestApi({ connections: 10 });
  key = api.callers.all.key;
  await upload(
    api,
    key,
    tasker({ maxTasks: PLENTY }),
    tasker({ version: "2.0.0", createdAt: "2025-02-01", maxTasks: PLENTY }),
  );
});
afterAll(() => api.close());
beforeEach(async () => {
  api.setNow(START);
  userId = `racer-${(users += 1)}`;
  await contract(api, key, userId, { billingPeriod: { autoRenew: true, renewalDays: 30 }, groupId: `group-${users}` });
});
afterEach(() => expectBalancesMatchLedger(api.database));

/** Sends this many calls concurrently. */
const atOnce = <T>(times: number, work: (i: number) => Promise<T>) =>
  Promise.all(Array.from({ length: times }, (_, i) => work(i)));
const put = (path: string, body: unknown) =>
  api.call<ContractBody>("PUT", `/contracts/${userId}${path}`, { key, body });
const novation = (version: string) => ({
  contractedServices: { tasker: version },
  subscriptionPlans: { tasker: "PRO" },
  subscriptionAddOns: {},
});

describe("one counter", () => {
  test("64 callers who consume 10 times each count exactly 640, and every answer shows a total of its own", async () => {
    const totals: number[] = [];
    await atOnce(64, async () => {
      for (let i = 0; i < 10; i += 1) {
        const answer = await consume(api, key, userId);
        expect(answer).toMatchObject({ status: 200, body: { eval: true } });
        totals.push((answer.body["used"] as Record<string, number>)["tasker-maxTasks"] ?? 0);
      }
    });
    expect(await consumed(api, key, userId)).toBe(640);
    expect(totals.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 640 }, (_, i) => i + 1));
  }, 60_000);

  test("of the callers at the limit exactly the ones that fit are granted", async () => {
    const limit = await contract(api, key, `${userId}-small`, { subscriptionPlans: { tasker: "BASIC" } });
    const answers = await atOnce(40, () => consume(api, key, limit.userContact["userId"] ?? ""));
    expect(answers.filter((answer) => answer.body["eval"]).length).toBe(5);
    expect(await consumed(api, key, `${userId}-small`)).toBe(5);
  });

  test("amounts, increments and fractions of different callers add up exactly", async () => {
    await atOnce<Answer<unknown>>(60, (i) =>
      i % 2 === 0
        ? consume(api, key, userId, { "tasker-maxTasks": 0.1 })
        : put("/usageLevels", { tasker: { maxTasks: 0.2 } }),
    );
    expect(await consumed(api, key, userId)).toBe(9);
  });

  test("two limits of one feature move together, in whatever company", async () => {
    await atOnce(60, (i) =>
      i % 3 === 0
        ? consume(api, key, userId)
        : consume(api, key, userId, { "tasker-maxTasks": 1, "tasker-maxExports": 1 }, "tasker-bulk"),
    );
    const { usageLevels } = await show(api, key, userId);
    const exports = usageLevels["tasker"]?.["maxExports"]?.consumed ?? 0;
    expect(exports).toBe(10);
    expect(usageLevels["tasker"]?.["maxTasks"]?.consumed).toBe(20 + exports);
  });
});

describe("consumption and a change of the contract at once", () => {
  test("novation to and fro keeps every unit that was granted", async () => {
    const changes = atOnce(12, (i) => put("", novation(i % 2 === 0 ? "2.0.0" : "1.0.0")));
    const answers = await atOnce(150, () => consume(api, key, userId));
    expect(statuses(await changes)).toEqual({ 200: 12 });
    expect(statuses(answers)).toEqual({ 200: 150 });
    expect(await consumed(api, key, userId)).toBe(150);
    expect((await show(api, key, userId)).history).toHaveLength(12);
  });

  test("a smaller plan decides from the moment it is answered", async () => {
    await consume(api, key, userId, { "tasker-maxTasks": 5 });
    const downgrade = put("", { ...novation("1.0.0"), subscriptionPlans: { tasker: "BASIC" } }).then(() => "done");
    const during = atOnce(30, () => consume(api, key, userId));
    await downgrade;
    const after = await atOnce(10, () => consume(api, key, userId));
    expect(after.some((answer) => answer.body["eval"])).toBe(false);
    const granted = (await during).filter((answer) => answer.body["eval"]).length;
    expect(await consumed(api, key, userId)).toBe(5 + granted);
  });

  test("archiving the version starts the counters again, with what was granted after it", async () => {
    const name = `Archived${users}`;
    await upload(
      api,
      key,
      tasker({ name, maxTasks: PLENTY }),
      tasker({ name, version: "2", createdAt: "2025-02-01", maxTasks: PLENTY }),
    );
    const service = name.toLowerCase();
    await contract(api, key, `${userId}-a`, {
      contractedServices: { [name]: "1.0.0" },
      subscriptionPlans: { [name]: "PRO" },
    });
    const one = () => consume(api, key, `${userId}-a`, { [`${service}-maxTasks`]: 1 }, `${service}-board`);
    const answers = atOnce(80, one);
    const archived = await api.call("PUT", `/services/${name}/pricings/1.0.0?availability=archived`, {
      key,
      body: { subscriptionPlan: "PRO" },
    });
    expect(archived.status).toBe(200);
    const granted = (await answers).map(
      (answer) => (answer.body["used"] as Record<string, number>)[`${service}-maxTasks`],
    );
    const shown = await show(api, key, `${userId}-a`);
    const left = shown.usageLevels[service]?.["maxTasks"]?.consumed ?? -1;
    expect(shown.contractedServices).toEqual({ [service]: "2" });
    const counted = (total: number) => granted.filter((used) => used === total).length;
    for (let total = 1; total <= left; total += 1) expect(counted(total)).toBeGreaterThanOrEqual(1);
    expect(granted).toHaveLength(80);
  });

  test("resets void what was before them and nothing after", async () => {
    const resets = atOnce(8, () => put("/usageLevels?usageLimit=maxTasks", {}));
    const answers = await atOnce(100, () => consume(api, key, userId));
    expect(statuses(await resets)).toEqual({ 200: 8 });
    expect(statuses(answers)).toEqual({ 200: 100 });
    const [moved] = await api.resources.db.execute<{ consumed: string; reset: string }>(sql`
      select sum(delta) filter (where kind = 'consume') as consumed, sum(delta) filter (where kind = 'reset') as reset
      from usage_ledger l join contracts c on c.id = l.contract_id where c.user_id = ${userId}`);
    expect(Number(moved?.consumed)).toBe(100);
    expect(await consumed(api, key, userId)).toBe(100 + Number(moved?.reset));
  });

  test("a deletion and a new contract in the midst never answer 5xx", async () => {
    const answers: Answer[] = [];
    const calls = atOnce(60, async () => answers.push(await consume(api, key, userId)));
    for (let i = 0; i < 6; i += 1) {
      answers.push(await api.call("DELETE", `/contracts/${userId}`, { key }));
      answers.push(await api.call("POST", "/contracts", { key, body: contractFor(userId) }));
    }
    await calls;
    expect(Object.keys(statuses(answers)).every((status) => ["200", "201", "204", "404"].includes(status))).toBe(true);
  });
});

describe("renewal", () => {
  const ledger = (kind: string) =>
    api.resources.db.execute<{ delta: string }>(sql`
      select delta from usage_ledger l join contracts c on c.id = l.contract_id where c.user_id = ${userId} and l.kind = ${kind}`);

  test("at its boundary a level starts again once, under 64 evaluations of every kind", async () => {
    await consume(api, key, userId, { "tasker-maxTasks": 7 });
    api.setNow(new Date("2025-07-15T12:00:00.001Z"));
    const answers = await atOnce(64, (i) =>
      i % 4 === 0
        ? api.call("POST", `/features/${userId}`, { key })
        : i % 4 === 1
          ? api.call("POST", `/features/${userId}/pricing-token`, { key })
          : consume(api, key, userId, i % 4 === 2 ? { "tasker-maxTasks": 2 } : {}),
    );
    expect(statuses(answers)).toEqual({ 200: 64 });
    expect((await ledger("renew")).map((row) => Number(row.delta))).toEqual([-7]);
    const { usageLevels, billingPeriod } = await show(api, key, userId);
    expect(usageLevels["tasker"]?.["maxTasks"]).toEqual({ resetTimeStamp: "2025-08-15T12:00:00.000Z", consumed: 32 });
    expect(billingPeriod.endDate).toBe("2025-08-14T12:00:00.000Z");
  });

  test("does not happen at the boundary itself, only after it", async () => {
    await consume(api, key, userId, { "tasker-maxTasks": 7 });
    api.setNow(new Date("2025-07-15T12:00:00.000Z"));
    await api.call("POST", `/features/${userId}`, { key });
    expect(await consumed(api, key, userId)).toBe(7);
  });

  test("several periods late catches up in one step, contract and level, under 64 callers", async () => {
    await consume(api, key, userId, { "tasker-maxTasks": 7 });
    api.setNow(new Date("2026-03-02T00:00:00.000Z"));
    expect(statuses(await atOnce(64, () => api.call("POST", `/features/${userId}`, { key })))).toEqual({ 200: 64 });
    const { usageLevels, billingPeriod, history } = await show(api, key, userId);
    expect(usageLevels["tasker"]?.["maxTasks"]).toEqual({ resetTimeStamp: "2026-03-15T12:00:00.000Z", consumed: 0 });
    expect(billingPeriod).toEqual({
      startDate: "2025-06-15T12:00:00.000Z",
      endDate: "2026-03-12T12:00:00.000Z",
      autoRenew: true,
      renewalDays: 30,
    });
    expect(history).toEqual([]);
    expect(await ledger("renew")).toHaveLength(1);
  });

  test("keeps the day of the first period through months that do not have it", async () => {
    api.setNow(new Date("2024-01-31T10:00:00.000Z"));
    await contract(api, key, `${userId}-31`, { billingPeriod: { autoRenew: true, renewalDays: 5000 } });
    const reset = async () =>
      (await show(api, key, `${userId}-31`)).usageLevels["tasker"]?.["maxTasks"]?.resetTimeStamp;
    expect(await reset()).toBe("2024-02-29T10:00:00.000Z");
    for (const [now, expected] of [
      ["2024-03-01T00:00:00.000Z", "2024-03-31T10:00:00.000Z"],
      ["2024-04-01T00:00:00.000Z", "2024-04-30T10:00:00.000Z"],
      ["2024-05-01T00:00:00.000Z", "2024-05-31T10:00:00.000Z"],
      ["2025-02-01T00:00:00.000Z", "2025-02-28T10:00:00.000Z"],
      ["2028-02-10T00:00:00.000Z", "2028-02-29T10:00:00.000Z"],
    ] as const) {
      api.setNow(new Date(now));
      await api.call("POST", `/features/${userId}-31`, { key });
      expect(await reset()).toBe(expected);
    }
    await api.call("PUT", `/contracts/${userId}-31/usageLevels?reset=true`, { key, body: {} });
    expect(await reset()).toBe("2028-03-31T10:00:00.000Z");
  });
});

describe("revert", () => {
  const revert = (query = "") => api.call("POST", `/features/${userId}/tasker-board?revert=true${query}`, { key });

  test("in the company of others takes back each consumption at most once, and nothing of theirs", async () => {
    await atOnce(20, () => consume(api, key, userId, { "tasker-maxTasks": 3 }));
    const others = atOnce(40, () => put("/usageLevels", { tasker: { maxTasks: 1 } }));
    expect(statuses(await atOnce(30, () => revert("&latest=true")))).toEqual({ 204: 30 });
    expect(statuses(await others)).toEqual({ 200: 40 });
    expect(await consumed(api, key, userId)).toBe(40);
  });

  test("of everything, by many at once, with consumption going on, leaves exactly what was not reverted", async () => {
    const answers = atOnce(60, () => consume(api, key, userId));
    await atOnce(8, () => revert());
    await answers;
    const [open] = await api.resources.db.execute<{ open: string }>(sql`
      select coalesce(sum(delta), 0) as open from usage_ledger l join contracts c on c.id = l.contract_id
      where c.user_id = ${userId} and l.kind = 'consume' and l.reverted_at is null`);
    expect(await consumed(api, key, userId)).toBe(Number(open?.open));
    await revert();
    expect(await consumed(api, key, userId)).toBe(0);
  });
});

describe("contracts", () => {
  test("20 creations of one end user at once make one, and tell the others that it exists", async () => {
    const answers = await atOnce(20, () =>
      api.call("POST", "/contracts", { key, body: contractFor(`${userId}-twin`) }),
    );
    expect(statuses(answers)).toEqual({ 201: 1, 409: 19 });
    for (const { status, body } of answers) {
      if (status === 409) expect(body).toEqual({ error: `CONFLICT: Contract for user ${userId}-twin already exists` });
    }
  });

  test("changes of contact, billing and usage at once do not undo each other", async () => {
    await Promise.all([
      put("/userContact", { firstName: "Ada" }),
      put("/userContact", { lastName: "Lovelace" }),
      put("/billingPeriod", { renewalDays: 11 }),
      put("/billingPeriod", { autoRenew: false }),
      ...Array.from({ length: 10 }, () => put("/usageLevels", { tasker: { maxTasks: 1 } })),
      put("", novation("2.0.0")),
    ]);
    expect(await show(api, key, userId)).toMatchObject({
      userContact: { firstName: "Ada", lastName: "Lovelace" },
      billingPeriod: { renewalDays: 11, autoRenew: false },
      usageLevels: { tasker: { maxTasks: { consumed: 10 } } },
      contractedServices: { tasker: "2.0.0" },
    });
  });
});
