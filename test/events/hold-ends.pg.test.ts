import { afterAll, beforeAll, expect, test } from "vitest";
import { numberEvents, readOutbox } from "../../src/db/queries/outbox.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { contract, tasker, upload } from "../support/contracting.ts";
import { startEventServer } from "../support/event-server.ts";
import { expectBalancesMatchLedger } from "../support/invariants.ts";

/* The sweep of an event server, without any call to REST. */

const HOUR = 3_600_000;

let api: TestApi;
let key: string;
beforeAll(async () => {
  api = await createTestApi();
  ({ key } = api.callers.all);
  await upload(api, key, tasker());
});
afterAll(() => api.close());

test("an event server writes the ends of holds and leases that are due, and no others", async () => {
  const started = Date.now();
  api.setNow(new Date(started - HOUR));
  await contract(api, key, "ada");
  await contract(api, key, "bob");
  const hold = async (userId: string, amount: number, query: string) => {
    const body = { "tasker-maxTasks": amount };
    const { status } = await api.call("POST", `/features/${userId}/tasker-board?hold=${query}`, { key, body });
    expect(status).toBe(200);
  };
  const lease = async (userId: string, amount: number, duration: string) => {
    const body = { for: duration, amounts: { "tasker-maxTasks": amount } };
    const { status } = await api.call("POST", `/features/${userId}/tasker-board/leases`, { key, body });
    expect(status).toBe(201);
  };
  await hold("ada", 1, "PT1M");
  await hold("ada", 2, "PT2M&onExpiry=consume");
  await lease("ada", 8, "PT3M");
  await hold("ada", 1, "PT2H");
  await lease("bob", 20, "PT1M");
  const { client } = api.database.connection;
  const states = async () =>
    client<{ userId: string; kind: string; state: string; amount: number }[]>`
      select c.user_id as "userId", h.kind, h.state, (h.amounts->0->>'amount')::float8 as amount
      from holds h join contracts c on c.id = h.contract_id order by h.id`;
  const server = await startEventServer(api.database.url);
  try {
    await expect
      .poll(async () => (await states()).filter(({ state }) => state === "open"), { timeout: 30_000 })
      .toEqual([{ userId: "ada", kind: "hold", state: "open", amount: 1 }]);
  } finally {
    await server.stop();
  }
  expect((await states()).filter(({ state }) => state === "expired")).toHaveLength(4);
  const levels = await client<{ userId: string; consumed: number; held: number }[]>`
    select c.user_id as "userId", u.consumed::float8 as consumed, u.held::float8 as held from usage_levels u
    join contracts c on c.id = u.contract_id where u.limit_name = 'maxTasks' order by c.user_id`;
  expect([...levels]).toEqual([
    { userId: "ada", consumed: 10, held: 1 },
    { userId: "bob", consumed: 20, held: 0 },
  ]);
  const [movement] = await client<{ at: number }[]>`
    select (extract(epoch from l.created_at) * 1000)::float8 as at from usage_ledger l join contracts c on c.id = l.contract_id where c.user_id = 'bob'`;
  expect(movement?.at).toBe(started - HOUR + 60_000);
  await numberEvents(api.resources.db);
  const events = await readOutbox(api.resources.db, { after: 0, filter: {}, limit: 1000 });
  const reached = events.filter(({ code }) => code === "USAGE_LIMIT_REACHED");
  expect(reached.map(({ details }) => details.userId)).toEqual(["bob"]);
  await expectBalancesMatchLedger(api.database);
});
