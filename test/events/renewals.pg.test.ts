import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { numberEvents, readOutbox } from "../../src/db/queries/outbox.ts";
import { renewDueContracts } from "../../src/operations/contracts/expiry.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { consume, contract, show, tasker, upload } from "../support/contracting.ts";
import { startEventServer } from "../support/event-server.ts";
import { expectBalancesMatchLedger } from "../support/invariants.ts";

const START = new Date("2025-06-15T10:00:00.000Z");
const DAY_MS = 86_400_000;

let api: TestApi;
let key: string;
let seen = 0;
beforeAll(async () => {
  api = await createTestApi();
  ({ key } = api.callers.all);
  await upload(api, key, tasker());
});
beforeEach(async () => {
  api.setNow(START);
  await renewals();
});
afterEach(() => expectBalancesMatchLedger(api.database));
afterAll(() => api.close());

/** Returns the details of the renewals since the last call. */
async function renewals(): Promise<Record<string, unknown>[]> {
  await numberEvents(api.database.connection.db);
  const events = await readOutbox(api.database.connection.db, { after: seen, filter: {}, limit: 10_000 });
  seen = events.at(-1)?.id ?? seen;
  return events.flatMap(({ code, details }) => (code === "CONTRACT_RENEWED" ? [{ ...details }] : []));
}

const renewing = (userId: string, renewalDays = 10) =>
  contract(api, key, userId, { billingPeriod: { autoRenew: true, renewalDays } });
const sweep = (now: Date) => renewDueContracts(api.resources.db, now);

it("a contract is extended once its end has passed, by whole periods, without an evaluation", async () => {
  const { id, billingPeriod } = await renewing("quiet");
  await contract(api, key, "ending", { billingPeriod: { autoRenew: false, renewalDays: 10 } });
  const end = new Date(billingPeriod.endDate);
  expect(await sweep(end)).toBe(0);
  const late = new Date(end.getTime() + 25 * DAY_MS);
  api.setNow(late);
  expect(await sweep(late)).toBe(1);
  const endDate = new Date(end.getTime() + 30 * DAY_MS).toISOString();
  const before = { billingPeriod };
  const after = { billingPeriod: { ...billingPeriod, endDate } };
  const renewed = await renewals();
  expect(renewed).toMatchObject([{ contractId: id, userId: "quiet", endDate, before, after }]);
  expect(Object.keys(renewed[0] ?? {})).toEqual(["contractId", "userId", "endDate", "before", "after"]);
  expect((await show(api, key, "quiet")).billingPeriod).toEqual({ ...billingPeriod, endDate });
  expect((await consume(api, key, "quiet")).status).toBe(200);
  expect(await sweep(late)).toBe(0);
  expect(await renewals()).toEqual([]);
});

it("the sweep and an evaluation extend a contract to the same end", async () => {
  const swept = await renewing("swept", 7);
  await renewing("evaluated", 7);
  const late = new Date(Date.parse(swept.billingPeriod.endDate) + 15 * DAY_MS + 1);
  api.setNow(late);
  expect((await consume(api, key, "evaluated")).status).toBe(200);
  await sweep(late);
  const [one, other] = await Promise.all([show(api, key, "swept"), show(api, key, "evaluated")]);
  expect(one.billingPeriod).toEqual(other.billingPeriod);
});

const DAYS = { renewalDays: 10 };
const MONTHS = { renewalPeriod: { value: 1, unit: "MONTH" } };
it.each([
  ["days", DAYS, "2025-07-05T10:00:00.000Z", "2025-07-15T10:00:00.000Z", 10],
  ["months", MONTHS, "2025-08-15T10:00:00.000Z", "2025-09-15T10:00:00.000Z", 31],
] as const)(
  "a contract that renews by %s is renewed once at the exact end of a later period, and then in time",
  async (unit, chosen, boundary, next, days) => {
    const users = [`late-${unit}`, `asked-${unit}`];
    for (const user of users) {
      await contract(api, key, user, { billingPeriod: { autoRenew: true, ...chosen } });
    }
    const [swept = "", asked = ""] = users;
    const renew = async (moment: Date) => {
      api.setNow(moment);
      expect((await consume(api, key, asked, {})).status).toBe(200);
      await sweep(moment);
      // Contracts of the other tests renew, too.
      const ours = (await renewals()).filter(({ userId }) => users.includes(String(userId)));
      return ours.map(({ userId, endDate }) => [userId, endDate]);
    };
    const first = new Date((await show(api, key, swept)).billingPeriod.endDate);
    expect(await renew(first), "the last millisecond belongs to the period").toEqual([]);
    const due = new Date(boundary);
    expect(await renew(due)).toEqual(users.toReversed().map((user) => [user, next]));
    expect(await renew(new Date(due.getTime() + 1))).toEqual([]);
    for (const user of users) {
      expect((await show(api, key, user)).billingPeriod).toMatchObject({ endDate: next, renewalDays: days });
    }
    const end = new Date(next);
    expect(await renew(end)).toEqual([]);
    const renewed = await renew(new Date(end.getTime() + 1));
    expect(renewed.map(([user]) => user)).toEqual(users.toReversed());
  },
);

it("sweeps and evaluations at once extend each of many contracts exactly once", async () => {
  const users = Array.from({ length: 12 }, (_, number) => `raced-${number}`);
  const made = await Promise.all(users.map((user) => renewing(user)));
  const { client } = api.database.connection;
  // More than two batches.
  await client`
    insert into contracts (id, organization_id, user_id, username, start_date, end_date, auto_renew, renewal_days)
    select 'bulk-' || n, ${api.callers.organizationId}, 'bulk-' || n, 'bulk', ${START.toISOString()}::timestamptz,
      ${START.toISOString()}::timestamptz + n * interval '1 minute', true, 10 from generate_series(1, 450) n`;
  await renewals();
  const late = new Date("2025-07-01T00:00:00.000Z");
  api.setNow(late);
  const [first, second, third] = await Promise.all([
    sweep(late),
    sweep(late),
    sweep(late),
    ...users.map((user) => consume(api, key, user, {})),
  ]);
  // The sweep skipped a contract that another transaction had locked.
  const rest = await sweep(late);
  const events = await renewals();
  const ids = events.map(({ contractId }) => String(contractId));
  for (const { id } of made) expect(ids.filter((one) => one === id)).toHaveLength(1);
  expect(new Set(ids).size).toBe(ids.length);
  expect(ids.filter((id) => id.startsWith("bulk-"))).toHaveLength(450);
  expect(Number(first) + Number(second) + Number(third) + rest).toBeGreaterThanOrEqual(450);
  const [due] =
    await client`select count(*)::integer as n from contracts where auto_renew and end_date < ${late.toISOString()}::timestamptz`;
  expect(due).toEqual({ n: 0 });
});

it("a contract whose next end would be after the year 9999 ends with it and holds up no other", async () => {
  const { client } = api.database.connection;
  await renewing("far");
  await renewing("near");
  await client`update contracts set renewal_days = 2147483647, end_date = ${START.toISOString()}::timestamptz
    where user_id = 'far'`;
  await client`insert into contract_states
      (contract_id, since, cause, start_date, end_date, auto_renew, renewal_days, services, levels)
    select c.id, now(), 'record', c.start_date, c.end_date, c.auto_renew, c.renewal_days, s.services, s.levels
    from contracts c join contract_states s on s.contract_id = c.id where c.user_id = 'far'`;
  const late = new Date("2025-08-01T00:00:00.000Z");
  api.setNow(late);
  await sweep(late);
  expect((await show(api, key, "far")).billingPeriod.endDate).toBe("9999-12-31T23:59:59.999Z");
  expect(Date.parse((await show(api, key, "near")).billingPeriod.endDate)).toBeGreaterThan(late.getTime());
});

it("an event server extends what is due when it starts", async () => {
  const { id } = await renewing("served");
  await renewals();
  const server = await startEventServer(api.database.url);
  try {
    await expect
      .poll(async () => (await renewals()).map(({ contractId }) => contractId), { timeout: 20_000 })
      .toContain(id);
    expect(Date.parse((await show(api, key, "served")).billingPeriod.endDate)).toBeGreaterThan(Date.now());
  } finally {
    await server.stop();
  }
});
