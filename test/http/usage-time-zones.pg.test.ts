import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { createTestApi, type TestApi } from "../support/api.ts";
import { consume, contract, show, tasker, upload } from "../support/contracting.ts";

/*
 * The server's local time must not matter, with daylight saving and in Apia, which skipped a whole day. Setting TZ
 * changes the zone of a running Node process.
 */
const ZONES = ["UTC", "America/Sao_Paulo", "Europe/Madrid", "Pacific/Apia"];
const before = process.env["TZ"];

let api: TestApi;
let key: string;

beforeAll(async () => {
  api = await createTestApi();
  key = api.callers.all.key;
  await upload(
    api,
    key,
    tasker(),
    tasker({ name: "Daily" }).replace("period: { value: 1, unit: MONTH }", "period: { value: 1, unit: DAY }"),
  );
});
afterAll(async () => {
  if (before === undefined) delete process.env["TZ"];
  else process.env["TZ"] = before;
  await api.close();
});

/** Columns: creation, evaluation, then the end of the billing period, the monthly and the daily reset. */
const CASES: [created: string, evaluated: string, end: string, monthly: string, daily: string][] = [
  [
    "2024-01-31T23:30:00.000Z",
    "2024-02-10T00:00:00.000Z",
    "2024-03-01T23:30:00.000Z",
    "2024-02-29T23:30:00.000Z",
    "2024-02-10T23:30:00.000Z",
  ],
  [
    "2025-03-29T01:30:00.000Z",
    "2025-03-31T12:00:00.000Z",
    "2025-04-28T01:30:00.000Z",
    "2025-04-29T01:30:00.000Z",
    "2025-04-01T01:30:00.000Z",
  ],
  [
    "2025-10-25T00:30:00.000Z",
    "2025-11-26T00:00:00.000Z",
    "2025-12-24T00:30:00.000Z",
    "2025-12-25T00:30:00.000Z",
    "2025-11-26T00:30:00.000Z",
  ],
  [
    "2011-12-29T11:00:00.000Z",
    "2012-01-30T00:00:00.000Z",
    "2012-02-27T11:00:00.000Z",
    "2012-02-29T11:00:00.000Z",
    "2012-01-30T11:00:00.000Z",
  ],
  [
    "2018-11-04T02:59:59.999Z",
    "2018-12-31T23:59:59.999Z",
    "2019-01-03T02:59:59.999Z",
    "2019-01-04T02:59:59.999Z",
    "2019-01-01T02:59:59.999Z",
  ],
];

describe.each(ZONES)("in the time zone %s", (zone) => {
  beforeAll(async () => {
    process.env["TZ"] = zone;
    // Default time zone of sessions. Terminating them makes the pool reconnect with it.
    const { client } = api.database.connection;
    await client.unsafe(`alter database "${new URL(api.database.url).pathname.slice(1)}" set timezone = '${zone}'`);
    await client`
      select pg_terminate_backend(pid, 20000) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`;
    await client`select pg_terminate_backend(pg_backend_pid())`.catch(() => {});
    // Until each connection of the pool has noticed.
    const isServed = () =>
      Promise.all(Array.from({ length: 10 }, () => client`select 1`)).then(
        () => true,
        () => false,
      );
    await vi.waitUntil(isServed, { timeout: 20_000 });
  });

  test.each(CASES)(
    "a contract of %s evaluated at %s has the same moments",
    async (created, evaluated, end, monthly, daily) => {
      expect(new Date("2025-01-15T12:00:00Z").getTimezoneOffset() === 0).toBe(zone === "UTC");
      const userId = `${zone} ${created}`;
      api.setNow(new Date(created));
      await contract(api, key, userId, {
        billingPeriod: { autoRenew: true, renewalDays: 30 },
        contractedServices: { tasker: "1.0.0", daily: "1.0.0" },
        subscriptionPlans: { tasker: "PRO", daily: "PRO" },
      });
      await consume(api, key, userId, { "daily-maxTasks": 2 }, "daily-board");
      api.setNow(new Date(evaluated));
      await api.call("POST", `/features/${encodeURIComponent(userId)}`, { key });
      const { billingPeriod, usageLevels } = await show(api, key, userId);
      expect([billingPeriod.startDate, billingPeriod.endDate]).toEqual([created, end]);
      expect(usageLevels["tasker"]?.["maxTasks"]?.resetTimeStamp).toBe(monthly);
      expect(usageLevels["daily"]?.["maxTasks"]).toEqual({ resetTimeStamp: daily, consumed: 0 });
    },
  );

  test("an end date without an offset is in UTC", async () => {
    const userId = `${zone} ended`;
    api.setNow(new Date("2011-01-01T00:00:00.000Z"));
    await contract(api, key, userId);
    for (const endDate of ["2011-12-30T10:00", "2011-12-30T10:00:00.000"]) {
      const body = { endDate };
      const path = `/contracts/${encodeURIComponent(userId)}/billingPeriod`;
      expect((await api.call("PUT", path, { key, body })).body).toMatchObject({
        billingPeriod: { endDate: "2011-12-30T10:00:00.000Z" },
      });
    }
  });
});
