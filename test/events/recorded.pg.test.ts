import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { announceExpired } from "../../src/operations/contracts/expiry.ts";
import { connect, type Connection } from "../../src/db/postgres/connect.ts";
import { numberEvents, OUTBOX_CHANNEL } from "../../src/db/queries/outbox.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import {
  consume,
  contract,
  type ContractBody,
  contractFor,
  factsOf,
  show,
  tasker,
  upload,
} from "../support/contracting.ts";

let api: TestApi;
let key: string;
let listener: Connection;
let after = 0;
const notified: string[] = [];

beforeAll(async () => {
  api = await createTestApi();
  key = api.callers.all.key;
  await upload(api, key, tasker(), tasker({ version: "2.0.0", createdAt: "2025-02-01", maxTasks: 5 }));
  listener = connect(api.database.url, { maxConnections: 1 });
  await listener.client.listen(OUTBOX_CHANNEL, (id) => notified.push(id));
});
afterAll(async () => {
  await listener.close(0);
  await api.close();
});
beforeEach(async () => {
  api.setNow(new Date("2025-06-15T10:00:00.000Z"));
  await recorded();
  notified.length = 0;
});

/** Returns the events since the last call, in order, and checks that their ids have no gaps. */
async function recorded(): Promise<{ code: string; details: Record<string, unknown>; mine: boolean }[]> {
  await numberEvents(api.resources.db);
  const rows = await api.database.connection.client<
    { id: string; code: string; details: Record<string, unknown>; organizationId: string }[]
  >`select id, code, details, organization_id as "organizationId" from outbox where id > ${after} order by id`;
  expect(rows.map(({ id }) => Number(id))).toEqual(rows.map((_, i) => after + 1 + i));
  after += rows.length;
  return rows.map(({ code, details, organizationId }) => ({
    code,
    details,
    mine: organizationId === api.callers.organizationId,
  }));
}
const event = (code: string, details: object) => ({ code, details, mine: true });
type Facts = ReturnType<typeof factsOf>;
/** An event with the facts before and after it. */
const changed = (code: string, before: Facts | null, after: Facts, fields: object = {}) =>
  event(code, { contractId: after.id, userId: after.userContact["userId"], ...fields, before, after });
const created = (made: ContractBody) => changed("CONTRACT_CREATED", null, factsOf(made));
const shown = async (userId: string) => factsOf(await show(api, key, userId));

it("a contract that is created and novated, alone or with its group, is recorded; one that is refused is not", async () => {
  const one = await contract(api, key, "one", { groupId: "g" });
  const two = await contract(api, key, "two", { groupId: "g" });
  expect((await api.call("POST", "/contracts", { key, body: { userContact: {} } })).status).toBe(422);
  expect((await api.call("POST", "/contracts", { key, body: contractFor("one") })).status).toBe(409);
  expect(await recorded()).toEqual([created(one), created(two)]);
  const novation = {
    contractedServices: { tasker: "2.0.0" },
    subscriptionPlans: { tasker: "BASIC" },
    subscriptionAddOns: {},
  };
  expect((await api.call("PUT", "/contracts/one", { key, body: novation })).status).toBe(200);
  const between = await shown("one");
  api.setNow(new Date("2025-06-16T10:00:00.000Z"));
  expect((await api.call("PUT", "/contracts?groupId=g", { key, body: novation })).status).toBe(200);
  expect(await recorded()).toEqual([
    changed("CONTRACT_NOVATED", factsOf(one), between),
    changed("CONTRACT_NOVATED", between, await shown("one")),
    changed("CONTRACT_NOVATED", factsOf(two), await shown("two")),
  ]);
  expect(notified).toEqual([]);
});

it("archiving a version records the archiving and each contract that it moved, in one transaction", async () => {
  await upload(api, key, tasker({ version: "3.0.0", createdAt: "2025-03-01" }));
  const moved = await contract(api, key, "moved");
  await recorded();
  notified.length = 0;
  const body = { subscriptionPlan: "PRO", subscriptionAddOns: {} };
  const answer = await api.call("PUT", "/services/Tasker/pricings/1.0.0?availability=archived", { key, body });
  expect(answer.status).toBe(200);
  const events = await recorded();
  expect(events).toEqual([
    event("PRICING_ARCHIVED", { serviceName: "Tasker", pricingVersion: "1.0.0" }),
    changed("CONTRACT_NOVATED", factsOf(moved), await shown("moved")),
  ]);
  await expect.poll(() => notified).toEqual([String(after)]);
});

it("a limit that is reached is recorded once, with the use that reached it, however many consume together; use below it is not", async () => {
  const { id } = await contract(api, key, "busy", { contractedServices: { tasker: "2.0.0" } });
  await recorded();
  notified.length = 0;
  for (let use = 0; use < 4; use += 1) await consume(api, key, "busy");
  const threshold = (percent: number, consumed: number) =>
    event("USAGE_THRESHOLD_REACHED", {
      contractId: id,
      userId: "busy",
      serviceName: "tasker",
      limitName: "maxTasks",
      threshold: percent,
      limit: 5,
      consumed,
      resetTimeStamp: "2025-07-15T10:00:00.000Z",
    });
  expect(await recorded()).toEqual([threshold(80, 4)]);
  await Promise.all(Array.from({ length: 5 }, () => consume(api, key, "busy")));
  const details = {
    contractId: id,
    userId: "busy",
    serviceName: "tasker",
    limitName: "maxTasks",
    limit: 5,
    consumed: 5,
  };
  expect(await recorded()).toEqual([event("USAGE_LIMIT_REACHED", details), threshold(100, 5)]);
  await api.call("POST", "/features/busy/tasker-board?revert=true&latest=true", { key });
  await consume(api, key, "busy", { "tasker-maxTasks": 3 });
  expect(await recorded()).toEqual([event("USAGE_LIMIT_REACHED", { ...details, consumed: 7 })]);
  expect(notified).toEqual([]);
});

it("a contract that renews itself is recorded with its new end, once, by whoever comes first", async () => {
  const made = await contract(api, key, "renewing", {
    contractedServices: { tasker: "2.0.0" },
    billingPeriod: { autoRenew: true, renewalDays: 10 },
  });
  await recorded();
  api.setNow(new Date("2025-07-01T10:00:00.000Z"));
  await Promise.all(Array.from({ length: 5 }, () => consume(api, key, "renewing", {})));
  const after = await shown("renewing");
  const { endDate } = after.billingPeriod;
  expect(endDate).not.toBe(made.billingPeriod.endDate);
  expect(await recorded()).toEqual([changed("CONTRACT_RENEWED", factsOf(made), after, { endDate })]);
});

it("a contract that ends is recorded once for each end, however many look for it", async () => {
  const { db } = api.resources;
  const soon = { contractedServices: { tasker: "2.0.0" }, billingPeriod: { autoRenew: false, renewalDays: 10 } };
  const made = await contract(api, key, "ending", soon);
  await contract(api, key, "going on", { ...soon, billingPeriod: { autoRenew: true, renewalDays: 10 } });
  await recorded();
  const { endDate } = made.billingPeriod;
  await announceExpired(db, new Date(endDate));
  expect(await recorded()).toEqual([]);
  const late = new Date(Date.parse(endDate) + 1);
  const announced = await Promise.all([
    announceExpired(db, late),
    announceExpired(db, late),
    announceExpired(db, late),
  ]);
  expect(announced.reduce((sum, one) => sum + one)).toBe(1);
  const facts = factsOf(made);
  expect(await recorded()).toEqual([changed("CONTRACT_EXPIRED", facts, facts, { endDate })]);
  const prolonged = "2025-08-01T00:00:00.000Z";
  await api.call("PUT", "/contracts/ending/billingPeriod", { key, body: { endDate: prolonged } });
  expect(await announceExpired(db, late)).toBe(0);
  await announceExpired(db, new Date("2025-08-02T00:00:00.000Z"));
  const again = (await recorded()).filter(({ details }) => details["userId"] === "ending");
  expect(again).toEqual([
    expect.objectContaining({ code: "CONTRACT_UPDATED" }),
    changed("CONTRACT_EXPIRED", await shown("ending"), await shown("ending"), { endDate: prolonged }),
  ]);
});
