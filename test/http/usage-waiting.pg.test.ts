import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestApi, type TestApi } from "../support/api.ts";
import { consume, consumed, contract, tasker, upload } from "../support/contracting.ts";
import { expectBalancesMatchLedger } from "../support/invariants.ts";

let api: TestApi;
let key: string;

beforeAll(async () => {
  api = await createTestApi();
  key = api.callers.all.key;
  await upload(api, key, tasker({ maxTasks: 1_000_000 }));
  await contract(api, key, "held");
  await contract(api, key, "free");
});
afterAll(() => api.close());

/** Holds the contract's row lock, like a long novation, until released. */
async function hold(userId: string): Promise<() => Promise<unknown>> {
  let release = () => {};
  const released = new Promise<void>((done) => (release = done));
  let ready = () => {};
  const isHeld = new Promise<void>((done) => (ready = done));
  const holding = api.database.connection.client.begin(async (tx) => {
    await tx`select 1 from contracts where user_id = ${userId} for update`;
    ready();
    await released;
  });
  await isHeld;
  return () => {
    release();
    return holding;
  };
}

test("while somebody holds a contract its consumers wait for a bounded time, then are told to come back", async () => {
  const release = await hold("held");
  const started = performance.now();
  const refused = await Promise.all(Array.from({ length: 20 }, () => consume(api, key, "held")));
  const waited = performance.now() - started;
  await release();
  for (const answer of refused) {
    expect(answer.status).toBe(503);
    expect(answer.headers.get("retry-after")).toBe("1");
    expect(answer.body).toEqual({ error: "The contract is locked by other requests. Please try again" });
  }
  expect(waited).toBeGreaterThan(2900);
  expect(await consumed(api, key, "held")).toBe(0);
});

test("a contract that somebody holds does not hold up the others", async () => {
  const release = await hold("held");
  let isAnswered = false;
  const waiting = consume(api, key, "held").finally(() => (isAnswered = true));
  for (let i = 0; i < 5; i += 1) expect((await consume(api, key, "free")).status).toBe(200);
  expect(isAnswered).toBe(false);
  await release();
  expect((await waiting).status).toBe(200);
  expect(await consumed(api, key, "free")).toBe(5);
  expect(await consumed(api, key, "held")).toBe(1);
  await expectBalancesMatchLedger(api.database);
});

test("calls with a transaction of their own wait for the same time: keyed consumption, holds and leases", async () => {
  const board = "/features/held/tasker-board";
  const body = { "tasker-maxTasks": 1 };
  const leased = await api.call<{ lease: { id: string } }>("POST", `${board}/leases`, {
    key,
    body: { for: "PT10M", amounts: body },
  });
  const held = await api.call<{ hold: { id: string } }>("POST", `${board}?hold=PT10M`, { key, body });
  const release = await hold("held");
  const lease = `/leases/${leased.body.lease.id}`;
  const calls = [
    () => api.call("POST", board, { key, body, headers: { "idempotency-key": "waits" } }),
    () => api.call("POST", `${board}/leases`, { key, body: { for: "PT10M", amounts: body } }),
    () => api.call("POST", lease, { key, body: { spent: body } }),
    () => api.call("DELETE", lease, { key }),
    () => api.call("DELETE", `/holds/${held.body.hold.id}`, { key }),
  ];
  const refused = await Promise.all(calls.map((call) => call()));
  await release();
  for (const answer of refused) {
    expect(answer).toMatchObject({
      status: 503,
      body: { error: "The contract is locked by other requests. Please try again" },
    });
    expect(answer.headers.get("retry-after")).toBe("1");
  }
  for (const call of calls) expect([200, 201, 204]).toContain((await call()).status);
  await expectBalancesMatchLedger(api.database);
});
