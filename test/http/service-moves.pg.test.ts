import { afterAll, beforeAll, expect, it } from "vitest";
import { compactLedger } from "../../src/db/queries/retention.ts";
import { createRollUp } from "../../src/db/queries/usage-rollup.ts";
import { makeDeliveries } from "../../src/events/webhook-rows.ts";
import { createTestApi, type TestApi, type TestOrganization } from "../support/api.ts";
import { ADD_ONS_ONLY, consumed, contract, contractFor, tasker, upload } from "../support/contracting.ts";
import { keepsMovements } from "../support/distributed-database.ts";
import { expectBalancesMatchLedger } from "../support/invariants.ts";
import { rowsOfOtherOrganizations } from "../support/organizations.ts";

/* Moving a service to another organization moves every row of it and of the contracts that go along. */

const START = Date.parse("2025-06-15T10:00:00.000Z");
const DAY = 86_400_000;
const BULK = { "tasker-maxTasks": 1, "tasker-maxExports": 1 };
const PRO = {
  contractedServices: { tasker: "1.0.0" },
  subscriptionPlans: { tasker: "PRO" },
  subscriptionAddOns: {},
};
const BOTH = {
  contractedServices: { tasker: "1.0.0", extras: "1.0.0" },
  subscriptionPlans: { tasker: "PRO" },
  subscriptionAddOns: { extras: { reporting: 1 } },
};

let api: TestApi;
let from: TestOrganization;
let target: TestOrganization;
beforeAll(async () => {
  api = await createTestApi();
  from = await api.newOrganization(api.callers.owner, "Origin");
  target = await api.newOrganization(api.callers.owner, "Target");
});
afterAll(() => api.close());

const setNow = (days: number) => api.setNow(new Date(START + days * DAY));
async function call<T = { id: string }>(method: "GET" | "POST" | "PUT" | "DELETE", path: string, body?: object) {
  const answer = await api.call<T>(method, path, { key: from.key, body });
  expect(answer.status, `${path} ${JSON.stringify(answer.body)}`).toBeLessThan(300);
  return answer.body;
}

/** Schedules a change of Tasker with Extras, and cancels it. */
async function scheduleAndCancel(userId: string): Promise<void> {
  const { id } = await call("POST", `/contracts/${userId}/scheduled`, { at: "2026-01-01", ...BOTH });
  await call("DELETE", `/contracts/${userId}/scheduled/${id}`);
}

/** Gives Tasker rows in every table that has any of a service or contract. */
async function fill(): Promise<void> {
  const gate = `/organizations/${from.id}`;
  await api.call("PUT", `${gate}/gate`, {
    key: api.callers.owner.key,
    body: { rules: [{ rule: "noFeatureLost", atMost: { percent: 100 } }] },
  });
  await call("POST", "/webhooks", { url: "https://hooks.example" });
  for (const version of ["1.0.0", "2.0.0", "3.0.0"]) {
    await upload(api, from.key, tasker({ version, createdAt: `2025-01-0${version[0] ?? ""}` }));
  }
  await upload(api, from.key, ADD_ONS_ONLY);
  const archived = "/services/Tasker/pricings/2.0.0";
  await call("PUT", `${archived}?availability=archived`, { subscriptionPlan: "PRO" });
  await call("DELETE", archived);
  await call("PUT", "/services/Tasker/pricings/3.0.0?availability=archived&at=2030-01-01", { subscriptionPlan: "PRO" });

  const billing = { billingPeriod: { autoRenew: true, renewalDays: 365 } };
  await contract(api, from.key, "ada", { ...PRO, ...billing });
  await contract(api, from.key, "bob", { ...BOTH, ...billing });
  await call("POST", "/contracts", { ...contractFor("carol"), trial: { days: 300, then: "end" } });
  await scheduleAndCancel("ada");
  await scheduleAndCancel("bob");
  await call("PUT", "/contracts/ada", { ...BOTH });
  await call("PUT", "/contracts/ada", PRO);
  for (const days of [0, 40, 80]) {
    setNow(days);
    for (const user of ["ada", "bob"]) await call("POST", `/features/${user}/tasker-bulk`, BULK);
  }
  // Compaction leaves the reset moments of renewals behind.
  await compactLedger(api.resources.db, new Date(), 30);
  for (const user of ["ada", "bob"]) {
    await call("POST", `/features/${user}/tasker-bulk`, BULK);
    await call("POST", `/features/${user}/tasker-bulk?hold=PT10M`, BULK);
    await call("POST", `/features/${user}/tasker-bulk/leases`, { for: "PT10M", amounts: BULK });
    await call("PUT", `/contracts/${user}/overrides/tasker/usageLimits/maxTasks`, {
      mode: "add",
      value: 50,
      reason: "Launch week",
    });
    await call("PUT", `/contracts/${user}/members`, { data: [{ id: "grace" }] });
    await call("POST", `/contracts/${user}/scheduled`, { at: "2026-01-01", ...BOTH });
  }
  const rollUp = createRollUp(api.resources.db);
  while ((await rollUp()) === 0);
  while ((await makeDeliveries(api.resources.db)) === undefined);
}

/** Tables that have rows of the organization. */
async function tablesOf(organizationId: string): Promise<string[]> {
  const { client } = api.database.connection;
  const tables = await client<{ name: string }[]>`
    select relname as name from pg_class c
    where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition and exists (
      select from pg_attribute where attrelid = c.oid and attname = 'organization_id') order by 1`;
  const found: string[] = [];
  for (const { name } of tables) {
    const rows = await client`select 1 from ${client(name)} where organization_id = ${organizationId} limit 1`;
    if (rows.length > 0) found.push(name);
  }
  return found;
}

const MOVED = [
  "contract_history",
  "contract_members",
  "contract_overrides",
  "contract_services",
  "contract_states",
  "contracts",
  "deleted_pricings",
  "holds",
  "pricings",
  "scheduled_changes",
  "scheduled_subscriptions",
  "services",
  "usage_days",
  "usage_hours",
  "usage_ledger",
  "usage_levels",
  // Compaction leaves them.
  ...(keepsMovements() ? [] : ["usage_resets"]),
];

it("takes every row of the service and of contracts with it, and leaves what is of the organization", async () => {
  await fill();
  const { client } = api.database.connection;
  expect(await tablesOf(from.id)).toEqual(expect.arrayContaining(MOVED));
  expect((await tablesOf(target.id)).filter((table) => MOVED.includes(table))).toEqual([]);
  await expectBalancesMatchLedger(api.database);

  await call("PUT", "/services/Tasker", { organizationId: target.id });
  expect(await rowsOfOtherOrganizations(client)).toEqual([]);
  await expectBalancesMatchLedger(api.database);
  expect(await tablesOf(target.id)).toEqual(expect.arrayContaining(MOVED));
  // Bob keeps his contract here, with what it did of Tasker.
  const left = ["given_trials", "pricing_decisions", "usage_ledger", "webhook_deliveries", "webhook_endpoints"];
  expect(await tablesOf(from.id)).toEqual(expect.arrayContaining(left));
  const movedContracts = await client`select user_id from contracts where organization_id = ${target.id} order by 1`;
  expect(movedContracts.map((row) => row["user_id"])).toEqual(["ada", "carol"]);
  const names = await client`
    select c.organization_id = ${target.id} as moved, s.service_name, s.service_id is null as is_gone
    from scheduled_subscriptions s join scheduled_changes c on c.contract_id = s.contract_id and c.id = s.change_id
    where c.kind = 'novation' and c.state = 'cancelled' order by 1, 2`;
  expect(names.map((row) => Object.values(row))).toEqual(
    expect.arrayContaining([
      [false, "extras", false],
      [false, "tasker", true],
      [true, "extras", true],
      [true, "tasker", false],
    ]),
  );

  expect(await consumed(api, target.key, "ada")).toBe(2);
  const counted = await api.call("POST", "/features/ada/tasker-bulk", { key: target.key, body: BULK });
  expect(counted).toMatchObject({ status: 200, body: { eval: true, used: { "tasker-maxTasks": 5 } } });
  await expectBalancesMatchLedger(api.database);
});

it("a moved contract is deleted with everything that it has", async () => {
  for (const user of ["ada", "carol"]) {
    expect((await api.call("DELETE", `/contracts/${user}`, { key: target.key })).status).toBe(204);
  }
  const left = await tablesOf(target.id);
  expect(left.filter((table) => MOVED.includes(table)).toSorted()).toEqual([
    "deleted_pricings",
    "pricings",
    "scheduled_changes",
    "services",
  ]);
});

it("the service can come back, and a trial that was given here stays given", async () => {
  const back = await api.call("PUT", "/services/Tasker", { key: target.key, body: { organizationId: from.id } });
  expect(back.status).toBe(200);
  expect((await tablesOf(target.id)).filter((table) => MOVED.includes(table))).toEqual([]);
  const again = await api.call("POST", "/contracts", {
    key: from.key,
    body: { ...contractFor("carol"), trial: { days: 3, then: "end" } },
  });
  expect(again).toMatchObject({
    status: 409,
    body: { error: "CONFLICT: User carol has had a trial of tasker already" },
  });
  const decisions = await call<{ data: object[] }>("GET", "/services/Tasker/decisions");
  expect(decisions.data).toMatchObject([{ action: "disable" }, { action: "archive" }]);
  await expectBalancesMatchLedger(api.database);
});
