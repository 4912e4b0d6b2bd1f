import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { requireMigrated } from "../../src/db/migrate.ts";
import { overTcp } from "../../src/db/postgres/address.ts";
import { connect } from "../../src/db/postgres/connect.ts";
import { listenForInvalidations } from "../../src/db/postgres/invalidations.ts";
import { detectPooler } from "../../src/db/postgres/pooler.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { MIGRATIONS } from "../support/postgres-server.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());

test("an address as hosts print it, with parameters of libpq and of ORMs, serves every connection", async () => {
  const url = `${overTcp(database.url)}?sslmode=disable&channel_binding=require&pgbouncer=true&connection_limit=1&target_session_attrs=any&application_name=printed`;
  expect(await detectPooler(url)).toBeUndefined();
  await requireMigrated(url, MIGRATIONS);
  const pool = connect(url, { maxConnections: 1 });
  expect(await pool.client`select current_setting('application_name') as name`).toEqual([{ name: "printed" }]);
  await pool.close(0);
  const changes = listenForInvalidations(url, { applicationName: "faregate-test" });
  await vi.waitUntil(() => changes.isFresh(), { timeout: 20_000 });
  await changes.close();
});
