import { afterAll, beforeAll, expect, it } from "vitest";
import { createTestApi, type TestApi } from "../support/api.ts";
import { contract, tasker, upload } from "../support/contracting.ts";

interface Overview {
  contracts: Record<string, number>;
  near: { share: number; total: number; users: Record<string, unknown>[] };
  limitsReached: { hours: number; total: number };
  services: number;
  activeVersions: number;
}

const DAY = 86_400_000;
const START = Date.UTC(2025, 5, 15, 10);
let api: TestApi;
let key: string;
beforeAll(async () => {
  api = await createTestApi();
  key = api.callers.all.key;
});
afterAll(() => api.close());

const path = (query = "") => `/organizations/${api.callers.organizationId}/overview${query}`;
const ask = (query = "") => api.call<Overview>("GET", path(query), { key: api.callers.evaluator.key });
const use = (userId: string, amounts: Record<string, number>) =>
  api.call("PUT", `/contracts/${userId}/usageLevels`, { key, body: { tasker: amounts } });

it("an organization without anything has an overview of zeros", async () => {
  expect((await ask()).body).toEqual({
    contracts: { total: 0, active: 0, renewing: 0, ending: 0, expired: 0 },
    near: { share: 0.8, total: 0, users: [] },
    limitsReached: { hours: 24, total: 0 },
    denials: { hours: 24, total: 0 },
    services: 0,
    activeVersions: 0,
    billing: { unapplied: 0 },
  });
});

it("contracts are counted by where they are in their billing periods, and versions that can be contracted", async () => {
  await upload(api, key, tasker(), tasker({ version: "2.0.0", maxTasks: 40 }), tasker({ name: "Gone" }));
  await api.call("DELETE", "/services/gone", { key });
  const billing = { ada: { renewalDays: 30 }, bob: { renewalDays: 3 }, eve: { renewalDays: 1 } };
  for (const [user, { renewalDays }] of Object.entries(billing)) {
    await contract(api, key, user, { billingPeriod: { renewalDays } });
  }
  await contract(api, key, "joe", { billingPeriod: { renewalDays: 1, autoRenew: true } });
  api.setNow(new Date(START + 2 * DAY));
  expect((await ask()).body).toMatchObject({
    contracts: { total: 4, active: 1, renewing: 1, ending: 1, expired: 1 },
    services: 1,
    activeVersions: 2,
  });
});

it("who is near a limit is known by plan and add-ons, nearest first, each once", async () => {
  const addOns = { subscriptionAddOns: { tasker: { extraTasks: 2 } }, billingPeriod: { renewalDays: 365 } };
  await contract(api, key, "more", addOns);
  // 16 of 20 is 80 %; 16 of 20 + 2 × 10 is not.
  for (const user of ["ada", "more"]) await use(user, { maxTasks: 16 });
  await use("bob", { maxTasks: 15, maxExports: 11 });
  expect((await ask()).body.near).toEqual({
    share: 0.8,
    total: 2,
    users: [
      {
        userId: "bob",
        username: "bob",
        serviceName: "tasker",
        limitName: "maxExports",
        consumed: 11,
        limit: 10,
        resetTimeStamp: null,
      },
      expect.objectContaining({ userId: "ada", limitName: "maxTasks", consumed: 16, limit: 20 }),
    ],
  });
  expect((await ask("?near=0.4")).body.near).toMatchObject({ share: 0.4, total: 3 });
  expect((await ask("?near=1")).body.near).toMatchObject({ total: 1 });
  // Next month, last month's consumption no longer counts.
  api.setNow(new Date(START + 40 * DAY));
  expect((await ask()).body.near).toMatchObject({ total: 1, users: [{ userId: "bob" }] });
  api.setNow(new Date(START + 2 * DAY));
});

it("beyond the first thousand contracts every one counts, and the nearest twenty are named", async () => {
  const { client } = api.database.connection;
  const before = (await ask()).body;
  const [model] = await client`
    select c.*, cs.service_id, cs.pricing_id, cs.plan from contracts c join contract_services cs on cs.contract_id = c.id
    where c.user_id = 'ada'`;
  const of = (column: string) => String(model?.[column]);
  await client`insert into contracts (id, organization_id, user_id, username, start_date, end_date)
    select 'many-' || n, ${of("organization_id")}, 'many-' || n, 'many-' || n, '2025-06-01', '2025-12-01'
    from generate_series(1, 1500) n`;
  await client`insert into contract_services (contract_id, service_id, pricing_id, position, plan, add_ons)
    select 'many-' || n, ${of("service_id")}, ${of("pricing_id")}, 0, ${of("plan")}, '{}'
    from generate_series(1, 1500) n`;
  await client`insert into usage_levels (contract_id, service_id, limit_name, position, consumed)
    select 'many-' || n, ${of("service_id")}, 'maxTasks', 0, n % 20 from generate_series(1, 1500) n`;
  const { contracts, near } = (await ask()).body;
  expect(contracts["total"]).toBe((before.contracts["total"] ?? 0) + 1500);
  expect(contracts["active"]).toBe((before.contracts["active"] ?? 0) + 1500);
  expect(near.total).toBe(before.near.total + 300);
  expect(near.users).toHaveLength(20);
  await client`delete from contracts where id like 'many-%'`;
});

it("limits that were reached are counted as long as they are recent", async () => {
  await use("ada", { maxTasks: 3 });
  const consumed = { key, body: { "tasker-maxTasks": 1 } };
  expect((await api.call("POST", "/features/ada/tasker-board", consumed)).body).toMatchObject({ eval: true });
  expect((await ask()).body.limitsReached).toEqual({ hours: 24, total: 1 });
  await api.database.connection.client`update outbox set created_at = now() - interval '5 hours'
    where code = 'USAGE_LIMIT_REACHED'`;
  expect((await ask("?hours=4")).body.limitsReached).toEqual({ hours: 4, total: 0 });
  expect((await ask("?hours=6")).body.limitsReached).toEqual({ hours: 6, total: 1 });
});

it.each([
  ["near=0", "INVALID DATA: near must be a number above 0 and up to 1"],
  ["near=1.2", "INVALID DATA: near must be a number above 0 and up to 1"],
  ["near=most", "INVALID DATA: near must be a number above 0 and up to 1"],
  ["hours=0", "INVALID DATA: hours must be a whole number from 1 to 720"],
  ["hours=1.5", "INVALID DATA: hours must be a whole number from 1 to 720"],
  ["hours=", "INVALID DATA: hours must be a whole number from 1 to 720"],
])("%s is refused", async (query, error) => {
  expect(await ask(`?${query}`)).toMatchObject({ status: 400, body: { error } });
});

it("another organization's contracts are not in it", async () => {
  const other = await api.newOrganization(api.callers.outsider);
  const answer = await api.call<Overview>("GET", `/organizations/${other.id}/overview`, {
    key: api.callers.outsider.key,
  });
  expect(answer.body).toMatchObject({ contracts: { total: 0 }, near: { total: 0 }, limitsReached: { total: 0 } });
});

it("new contracts and denials are counted per UTC day, of this organization and the last 30 days only", async () => {
  const { outsider, organizationId } = api.callers;
  const now = Date.UTC(2025, 8, 30, 23, 59);
  const at = (daysAgo: number) => new Date(now - daysAgo * DAY);
  const deny = (daysAgo: number, organization: string, times: number) => {
    for (let i = 0; i < times; i += 1)
      api.resources.callCounter.countDenial(at(daysAgo), organization, "tasker-board", "NOT_GRANTED");
  };
  const other = await api.newOrganization(outsider);
  for (const [user, daysAgo] of [
    ["thirty", 30],
    ["first", 29],
    ["today1", 0],
    ["today2", 0],
  ] as const) {
    await contract(api, key, user);
    await api.database.connection
      .client`update contracts set created_at = ${at(daysAgo).toISOString()} where user_id = ${user}`;
  }
  deny(30, organizationId, 9);
  deny(29, organizationId, 2);
  deny(1, organizationId, 3);
  deny(1, other.id, 5);
  api.setNow(at(0));
  const trends = await api.call<Record<"days" | "newContracts" | "denials", unknown[]>>(
    "GET",
    `/organizations/${organizationId}/trends`,
    { key: api.callers.evaluator.key },
  );
  const { days, newContracts, denials } = trends.body;
  expect([days.length, days[0], days.at(-1)]).toEqual([30, "2025-09-01", "2025-09-30"]);
  expect(newContracts).toEqual([1, ...Array(28).fill(0), 2]);
  expect(denials).toEqual([2, ...Array(27).fill(0), 3, 0]);
});
