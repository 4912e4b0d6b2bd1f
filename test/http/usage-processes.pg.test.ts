import { afterAll, beforeAll, expect, test } from "vitest";
import { type Connection, connect } from "../../src/db/postgres/connect.ts";
import { createApp } from "../../src/http/app.ts";
import { createResources } from "../../src/operations/resources.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { consumed, contract, show, tasker, upload } from "../support/contracting.ts";
import { expectBalancesMatchLedger } from "../support/invariants.ts";

/* Several applications with their own pools and batches share one database, like several processes. */

const LIMIT = 900;

let api: TestApi;
const connections: Connection[] = [];
const apps: ReturnType<typeof createApp>[] = [];

beforeAll(async () => {
  api = await createTestApi();
  await upload(api, api.callers.all.key, tasker({ maxTasks: LIMIT }));
  for (let i = 0; i < 3; i += 1) {
    const connection = connect(api.database.url);
    connections.push(connection);
    const { keyring, settings, now } = api.resources;
    const resources = createResources(connection, { keyring, settings, now });
    apps.push(createApp({ open: () => resources, settings: { allowedOrigins: [], baseUrlPath: "" } }));
  }
});
afterAll(async () => {
  await Promise.all(connections.map((connection) => connection.close(0)));
  await api.close();
});

interface Answer {
  eval: boolean;
  lease: { id: string; granted: Record<string, number>; spent: Record<string, number> } | null;
  error?: unknown;
}

/** Sends one call to one of the applications. */
async function send(process: number, method: string, path: string, body?: object) {
  const answer = await apps[process % apps.length]?.request(`/api/v1${path}`, {
    method,
    headers: { "x-api-key": api.callers.evaluation.key, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = (await answer?.text()) ?? "";
  return { status: answer?.status, body: (text === "" ? {} : JSON.parse(text)) as Answer };
}

const tasks = (amount: number) => ({ "tasker-maxTasks": amount });

test("consumers of one contract through three applications are granted exactly what the limit allows", async () => {
  const key = api.callers.all.key;
  await contract(api, key, "hot");
  let granted = 0;
  const ask = async (i: number) => {
    const answer = await apps[i % apps.length]?.request("/api/v1/features/hot/tasker-board", {
      method: "POST",
      headers: { "x-api-key": key, "content-type": "application/json" },
      body: '{"tasker-maxTasks":1}',
    });
    expect(answer?.status).toBe(200);
    const body = (await answer?.json()) as { eval: boolean } | undefined;
    if (body?.eval === true) granted += 1;
  };
  await Promise.all(
    Array.from({ length: 60 }, async (_, caller) => {
      for (let unit = 0; unit < 20; unit += 1) await ask(caller + unit);
    }),
  );
  expect(granted).toBe(LIMIT);
  expect(await consumed(api, key, "hot")).toBe(LIMIT);
  await expectBalancesMatchLedger(api.database);
});

test("leases, holds and strict consumption through three applications never pass the limit, and lose nothing", async () => {
  await contract(api, api.callers.all.key, "leased");
  const board = "/features/leased/tasker-board";
  const [settled, open] = [[] as number[], [] as string[]];
  const unexpected = new Set<string>();
  const expectStatus = (status: number | undefined, ...expected: number[]) => {
    if (!expected.includes(status ?? 0)) unexpected.add(String(status));
  };
  let denied = 0;
  /** Spends two fills of a lease. Then ends it with three calls at once, or leaves it open. */
  const hold = async (process: number, round: number) => {
    const opened = await send(process, "POST", `${board}/leases`, { for: "PT10M", amounts: tasks(5 + (round % 7)) });
    expectStatus(opened.status, 200, 201);
    const { lease } = opened.body;
    if (lease === null) return (denied += 1);
    const half = Math.ceil((lease.granted["tasker-maxTasks"] ?? 0) / 2);
    const path = `/leases/${lease.id}`;
    const filled = await send(process + 1, "POST", path, { spent: tasks(half), amounts: tasks(6) });
    expectStatus(filled.status, 200);
    const granted = filled.body.lease?.granted["tasker-maxTasks"] ?? 0;
    const spent = Math.max(half, granted - 1);
    if (round % 3 === 0) return open.push(lease.id);
    const last = { spent: tasks(spent), amounts: tasks(0) };
    const ends = await Promise.all([0, 1, 2].map((other) => send(process + other, "POST", path, last)));
    for (const { status } of ends) expectStatus(status, 200);
    return settled.push(spent);
  };
  const consume = async (process: number, round: number) => {
    const counted = await send(process, "POST", `${board}?strict=true`, tasks(round % 3));
    expectStatus(counted.status, 200);
    if (counted.body.eval) settled.push(round % 3);
    const taken = await send(process, "POST", `${board}?hold=PT1M`, tasks(4));
    expectStatus(taken.status, 200);
  };
  const stop = new AbortController();
  let [reads, most] = [0, 0];
  const watching = (async () => {
    for (; !stop.signal.aborted; reads += 1) {
      const [level] = await api.database.connection.client<{ usage: number }[]>`
        select (u.consumed + u.held)::float8 as usage from usage_levels u join contracts c on c.id = u.contract_id
        where c.user_id = 'leased' and u.limit_name = 'maxTasks'`;
      most = Math.max(most, level?.usage ?? 0);
    }
  })();
  await Promise.all(
    Array.from({ length: 24 }, async (_, process) => {
      for (let round = process; round < process + 8; round += 1) {
        await (process % 4 === 0 ? consume(process, round) : hold(process, round));
      }
    }),
  );
  stop.abort();
  await watching;
  expect([...unexpected]).toEqual([]);
  expect(reads).toBeGreaterThan(20);
  expect(denied).toBeGreaterThan(0);
  expect(most).toBeLessThanOrEqual(LIMIT);
  expect(most).toBeGreaterThan(LIMIT * 0.9);
  const left = await Promise.all(
    open.map(async (id, i) => {
      const reported = await send(i, "DELETE", `/leases/${id}`);
      expect(reported.status).toBe(204);
      const [row] = await api.database.connection.client<{ spent: number }[]>`
        select (lease->'spent'->0->>'amount')::float8 as spent from holds where id = ${id}`;
      return row?.spent ?? 0;
    }),
  );
  const spent = [...settled, ...left].reduce((sum, one) => sum + one, 0);
  const level = (await show(api, api.callers.all.key, "leased")).usageLevels["tasker"]?.["maxTasks"];
  expect(level?.consumed).toBe(spent);
  await expectBalancesMatchLedger(api.database);
});

test("one report that arrives at three applications at once counts once, and an older one not at all", async () => {
  await contract(api, api.callers.all.key, "reported");
  const opened = await send(0, "POST", "/features/reported/tasker-board/leases", { for: "PT10M", amounts: tasks(500) });
  const path = `/leases/${opened.body.lease?.id}`;
  for (let spent = 10; spent <= 100; spent += 10) {
    const reports = [spent, spent, spent, spent - 5].map((each, i) =>
      send(i, "POST", path, { spent: tasks(each), amounts: tasks(400) }),
    );
    const statuses = (await Promise.all(reports)).map(({ status }) => status);
    expect(statuses.slice(0, 3)).toEqual([200, 200, 200]);
    expect([200, 409]).toContain(statuses[3]);
  }
  const level = (await show(api, api.callers.all.key, "reported")).usageLevels["tasker"]?.["maxTasks"];
  expect(level).toMatchObject({ consumed: 100, held: 400 });
  await expectBalancesMatchLedger(api.database);
});
