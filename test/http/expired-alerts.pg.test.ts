import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { createTestApi, type TestApi } from "../support/api.ts";
import { contract, tasker, upload } from "../support/contracting.ts";
import { expectBalancesMatchLedger } from "../support/invariants.ts";
import { allEventsDuring } from "../support/private-events.ts";

/*
 * Contract usage-records §6: an expiry that counts raises its limit and thresholds also when a novation or an adjustment
 * writes it. Each operation begins before the hold ends and waits for the contract's lock until afterwards.
 */

const BEFORE = new Date("2025-06-15T10:00:00.000Z");
const AFTER = new Date("2025-06-15T10:02:00.000Z");

let api: TestApi;
let key: string;
beforeAll(async () => {
  api = await createTestApi();
  ({ key } = api.callers.all);
});
afterAll(async () => {
  await expectBalancesMatchLedger(api.database);
  await api.close();
});

/** Creates a service, and a contract whose whole limit is held for 60 s, then counted. */
async function holdAll(service: string): Promise<void> {
  api.setNow(BEFORE);
  const versions = { name: service, maxTasks: 10 };
  await upload(
    api,
    key,
    tasker(versions),
    tasker({ ...versions, version: "2.0.0", createdAt: "2025-02-01", maxTasks: 20 }),
  );
  const billingPeriod = { autoRenew: true, renewalDays: 30 };
  await contract(api, key, service, { ...subscription(service), billingPeriod, groupId: service });
  const path = `/features/${service}/${service.toLowerCase()}-board?hold=PT1M&onExpiry=consume`;
  const body = { [`${service.toLowerCase()}-maxTasks`]: 10 };
  const held = await api.call<{ hold: object | null }>("POST", path, { key, body });
  expect(held.body.hold).not.toBeNull();
}

const subscription = (service: string, version = "1.0.0") => ({
  contractedServices: { [service.toLowerCase()]: version },
  subscriptionPlans: { [service.toLowerCase()]: "PRO" },
  subscriptionAddOns: {},
});

/** Runs `work` up to the lock of the contract, and the rest of it after the hold has ended. */
async function whileItEnds(userId: string, work: () => Promise<{ status: number }>): Promise<void> {
  const { client } = api.database.connection;
  let working: ReturnType<typeof work> | undefined;
  await client.begin(async (tx) => {
    await tx`select 1 from contracts where user_id = ${userId} for update`;
    working = work();
    await vi.waitFor(
      async () => {
        const blocked = await client`
          select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
        expect(blocked).toHaveLength(1);
      },
      // Until it waits; from then on it waits for 3 s at most.
      { timeout: 20_000 },
    );
    api.setNow(AFTER);
  });
  expect((await working)?.status).toBeLessThan(300);
}

/** Returns what the expiry raised: the limit as `L`, and thresholds. */
async function raised(work: () => Promise<unknown>): Promise<unknown[]> {
  const events = await allEventsDuring(api, work);
  return events.flatMap(({ code, details }): unknown[] => {
    if (code === "USAGE_LIMIT_REACHED") return [["L", details["limit"], details["consumed"]]];
    return code === "USAGE_THRESHOLD_REACHED" ? [[details["threshold"], details["limit"], details["consumed"]]] : [];
  });
}

const ALL = [
  ["L", 10, 10],
  [80, 10, 10],
  [100, 10, 10],
];

type Operation = (service: string) => Promise<{ status: number }>;
const call = (method: "POST" | "PUT" | "DELETE", path: string, body?: object) => api.call(method, path, { key, body });
const OPERATIONS: readonly [string, Operation][] = [
  ["Adjusted", (user) => call("PUT", `/contracts/${user}/usageLevels`, { [user.toLowerCase()]: { maxExports: 1 } })],
  ["Novated", (user) => call("PUT", `/contracts/${user}`, subscription(user, "2.0.0"))],
  ["Grouped", (user) => call("PUT", `/contracts?groupId=${user}`, subscription(user, "2.0.0"))],
  ["Moved", (service) => call("POST", `/services/${service}/novations`, { pricingVersion: "2.0.0" })],
  [
    "Archived",
    (service) => call("PUT", `/services/${service}/pricings/1.0.0?availability=archived`, { subscriptionPlan: "PRO" }),
  ],
  ["Disabled", (service) => call("DELETE", `/services/${service}`)],
];

test.each(OPERATIONS)("a counted expiry is raised once before the service is %s", async (service, operation) => {
  await holdAll(service);
  expect(await raised(() => whileItEnds(service, () => operation(service)))).toEqual(ALL);
  expect(await raised(() => api.call("GET", `/contracts/${service}`, { key }))).toEqual([]);
});

test("a counted expiry before a scheduled change is raised over the limit of then", async () => {
  await holdAll("Scheduled");
  const at = "2025-06-15T10:01:30.000Z";
  const scheduled = await api.call("POST", "/contracts/Scheduled/scheduled", {
    key,
    body: { at, ...subscription("Scheduled", "2.0.0") },
  });
  expect(scheduled.status).toBe(201);
  api.setNow(AFTER);
  expect(await raised(() => api.call("GET", "/contracts/Scheduled", { key }))).toEqual(ALL);
});

test("a counted expiry is raised before its service moves away from a contract with others", async () => {
  await holdAll("Leaving");
  await upload(api, key, tasker({ name: "Staying" }));
  const both = {
    contractedServices: { leaving: "1.0.0", staying: "1.0.0" },
    subscriptionPlans: { leaving: "PRO", staying: "PRO" },
    subscriptionAddOns: {},
  };
  expect((await api.call("PUT", "/contracts/Leaving", { key, body: both })).status).toBe(200);
  const owner = { key: api.callers.owner.key };
  const other = await api.call<{ id: string }>("POST", "/organizations", {
    ...owner,
    body: { name: "Elsewhere", owner: api.callers.owner.username },
  });
  expect(other.status).toBe(201);
  const move = () =>
    api.call("PUT", `/organizations/${api.callers.organizationId}/services/Leaving`, {
      ...owner,
      body: { organizationId: other.body.id },
    });
  expect(await raised(() => whileItEnds("Leaving", move))).toEqual(ALL);
});
