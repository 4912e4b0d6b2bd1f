import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { createTestApi, type Answer, type TestApi } from "../support/api.ts";
import { contract, type ContractBody, show, tasker, upload } from "../support/contracting.ts";

const NOON = new Date("2025-06-15T12:00:00.000Z");
/** Time at which the previous lock holder commits. */
const LATER = new Date("2025-06-15T12:00:05.000Z");

let api: TestApi;
let key: string;

beforeAll(async () => {
  api = await createTestApi();
  key = api.callers.all.key;
});
afterAll(() => api.close());
beforeEach(() => api.setNow(NOON));
afterEach(async () => {
  await api.call("DELETE", "/contracts", { key });
  await api.call("DELETE", "/services", { key });
});

/** On a busy machine. */
const SOON = { timeout: 20_000 };

/** Starts `doing` while another transaction holds `lock` and commits at LATER with `last`. */
async function waiting<T>(lock: string, doing: () => Promise<T>, last = ""): Promise<T> {
  const { client } = api.database.connection;
  let answer: Promise<T> | undefined;
  await client.begin(async (tx) => {
    await tx.unsafe(lock);
    answer = doing();
    await vi.waitUntil(async () => {
      const blocked = await client`
        select 1 from pg_stat_activity
        where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0`;
      return blocked.length === 1;
    }, SOON);
    if (last !== "") await tx.unsafe(last);
    api.setNow(LATER);
  });
  if (answer === undefined) throw new Error("nothing was begun");
  return answer;
}

const novation = {
  contractedServices: { tasker: "1.0.0" },
  subscriptionPlans: { tasker: "BASIC" },
  subscriptionAddOns: {},
};
const heldContract = "select 1 from contracts where user_id = 'held' for update";

/** Start times of the contract's states. */
async function moments(): Promise<Date[]> {
  const rows = await api.database.connection.client<{ since: Date }[]>`
    select since from contract_states join contracts c on c.id = contract_id where user_id = 'held' order by contract_states.id`;
  return rows.map((row) => new Date(row.since));
}

test.each<[what: string, doing: () => Promise<Answer<unknown>>, services: object]>([
  ["a novation", () => api.call("PUT", "/contracts/held", { key, body: novation }), { tasker: "1.0.0" }],
  [
    "a novation of a group",
    () => api.call("PUT", "/contracts?groupId=waiting", { key, body: novation }),
    { tasker: "1.0.0" },
  ],
  ["disabling a service", () => api.call("DELETE", "/services/Tasker", { key }), {}],
  ["pruning services", () => api.call("DELETE", "/services", { key }), {}],
])("%s that waited for a contract begins when it holds it", async (_, doing, contractedServices) => {
  await upload(api, key, tasker());
  await contract(api, key, "held", { groupId: "waiting" });
  // Writes the state that a concurrent novation leaves, whose time lies within the wait.
  const changed = "update contracts set start_date = '2025-06-15T12:00:03Z' where user_id = 'held'";
  expect((await waiting(heldContract, doing, changed)).status).toBeLessThan(300);
  expect(await show(api, key, "held")).toMatchObject({
    contractedServices,
    billingPeriod: { startDate: LATER.toISOString() },
    history: [{ startDate: "2025-06-15T12:00:03.000Z", endDate: LATER.toISOString() }],
  });
  expect(await moments()).toEqual([NOON, LATER]);
});

test("a contract that waited for its service begins when nobody changes that any more", async () => {
  await upload(api, key, tasker());
  const made = await waiting("select 1 from services for update", () => contract(api, key, "created"));
  expect(made.billingPeriod).toMatchObject({
    startDate: LATER.toISOString(),
    endDate: "2025-07-15T12:00:05.000Z",
  } satisfies Partial<ContractBody["billingPeriod"]>);
});
