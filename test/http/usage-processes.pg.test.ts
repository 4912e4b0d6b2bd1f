import { afterAll, beforeAll, expect, test } from "vitest";
import { type Connection, connect } from "../../src/db/postgres/connect.ts";
import { createApp } from "../../src/http/app.ts";
import { createResources } from "../../src/operations/resources.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { consumed, contract, tasker, upload } from "../support/contracting.ts";
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
