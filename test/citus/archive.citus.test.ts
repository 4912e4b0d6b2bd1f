import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { checkLedger } from "../../src/db/invariants.ts";
import { renewArchive } from "../../src/db/archive.ts";
import { migrate, requireMigrated } from "../../src/db/migrate.ts";
import { isDistributed } from "../../src/db/distribution.ts";
import { connect } from "../../src/db/postgres/connect.ts";
import { exportFolder } from "../../src/entries/platform/organization-folder.ts";
import { exportOrganization, freezeOrganization, leaveOrganization } from "../../src/operations/moving.ts";
import { createRollUp } from "../../src/db/queries/usage-rollup.ts";
import { createOnOneServer } from "../support/database.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { consume, contract, consumed, tasker, upload } from "../support/contracting.ts";
import { archive, atWorker, distribute, dropOnWorkers } from "../support/distributed-database.ts";
import { expectBalancesMatchLedger } from "../support/invariants.ts";
import { MIGRATIONS } from "../support/postgres-server.ts";

/* The archive of movements on a Citus coordinator: what is asked is answered as before, from wherever movements are. */

const DAY = 86_400_000;
const START = Date.now() - 40 * DAY;
const USERS = ["ada", "bob", "carol", "dan"];
/** Users whose answers are not compared. */
const OTHERS = ["eve", "fay"];

let api: TestApi;
let key: string;
const sql = () => api.database.connection.client;
const at = (days: number) => new Date(START + days * DAY);

async function rollUpAll(): Promise<void> {
  const rollUp = createRollUp(api.database.connection.db);
  const isUpToDate = async () => {
    await rollUp();
    const [mark] = await sql()<{ done: boolean }[]>`
      select up_to >= (select coalesce(max(id), 0) from usage_ledger) as done from usage_rollup`;
    return mark?.done;
  };
  await expect.poll(isUpToDate, { timeout: 30_000, interval: 50 }).toBe(true);
}

/** Number of movements of a contract on workers. */
async function archived(userId: string): Promise<number> {
  const [row] = await sql()<[{ count: number }]>`
    select count(*)::int as count from usage_archive where contract_id = (select id from contracts where user_id = ${userId})`;
  return row.count;
}

/** Everything that the server says about the past. */
async function answers(): Promise<unknown[]> {
  const queries = ["", "?by=hour", "?by=month", "?by=feature", "?by=movement", "?by=unit", "?by=spender"];
  const range = `from=${at(0).toISOString().slice(0, 10)}`;
  const paths = USERS.flatMap((user) => [
    ...queries.map((query) => `/contracts/${user}/usage${query}${query === "" ? "?" : "&"}${range}`),
    `/contracts/${user}?at=${at(12).toISOString()}`,
    `/contracts/${user}`,
  ]);
  paths.push(`/organizations/${api.callers.organizationId}/usage?by=user&${range}`);
  const got = [];
  for (const path of paths) {
    const { status, body } = await api.call("GET", path, { key });
    expect(status, `${path} ${JSON.stringify(body)}`).toBeLessThan(500);
    got.push({ path, status, body });
  }
  return got;
}

beforeAll(async () => {
  api = await createTestApi();
  key = api.callers.all.key;
  api.setNow(at(0));
  await upload(api, key, tasker({ maxTasks: 100_000 }));
  const billing = { billingPeriod: { autoRenew: true, renewalDays: 365 } };
  for (const user of [...USERS, ...OTHERS]) await contract(api, key, user, billing);
  for (let days = 0; days <= 39; days += 3) {
    api.setNow(at(days));
    for (const [i, user] of [...USERS, ...OTHERS].entries())
      await consume(api, key, user, { "tasker-maxTasks": days + i + 1 });
    if (days === 15) await api.call("PUT", "/contracts/bob/usageLevels?reset=true", { key, body: {} });
  }
  api.setNow(at(40));
});
afterAll(() => api.close());

it("gives up a compaction that one Postgres had staged, and loses nothing", async () => {
  const database = await createOnOneServer();
  const { client, db } = database.connection;
  await client`
    insert into usage_ledger (contract_id, organization_id, service_id, limit_name, kind, operation_id, delta, created_at)
    select 'a', 'o', 's', 'l', 'consume', i, 1, now() - interval '90 days' from generate_series(1, 10) i`;
  await client`update usage_rollup set up_to = (select max(id) from usage_ledger)`;
  const stage = () => client<[{ staged: boolean }]>`select faregate_stage_ledger(now() - interval '30 days') as staged`;
  expect(await stage()).toEqual([{ staged: true }]);
  const { workers } = inject("postgres");
  await distribute(database.url, workers);
  await client`select faregate_swap_ledger()`;
  expect(await client`select count(*)::int as count, sum(delta)::int from usage_ledger`).toEqual([
    { count: 10, sum: 10 },
  ]);
  expect(await archive(client)).toBe(10);
  expect(await client`select count(*)::int as count, sum(delta)::int from usage_ledger`).toEqual([
    { count: 10, sum: 10 },
  ]);
  expect(await isDistributed(db)).toBe(true);
  await database.drop();
  await dropOnWorkers(database.url, workers);
});

/** Adds a movement of nothing. */
const addMovement = (userId: string, moment: Date) => sql()`
  insert into usage_ledger (contract_id, organization_id, service_id, limit_name, kind, operation_id, delta, created_at)
  select u.contract_id, u.organization_id, u.service_id, u.limit_name, 'adjust', 'late', 0, ${moment.toISOString()}::timestamptz
  from usage_levels u join contracts c on c.id = u.contract_id where c.user_id = ${userId} and u.limit_name = 'maxTasks'`;

it("takes along what is written, and leaves out what is deleted, between the two steps of a partition", async () => {
  await rollUpAll();
  const [{ id }] = await sql()<[{ id: string }]>`select id from contracts where user_id = 'fay'`;
  const before = await checkLedger(api.database.connection.db);
  const [stage] = await sql()<[{ staged: boolean }]>`select faregate_stage_ledger(now() - interval '1 day') as staged`;
  expect(stage.staged).toBe(true);
  expect(await checkLedger(api.database.connection.db)).toEqual(before);
  const copied = await archived("eve");
  expect(copied).toBeGreaterThan(0);
  await addMovement("eve", at(3));
  expect((await api.call("DELETE", "/contracts/fay", { key })).status).toBe(204);
  await sql()`select faregate_swap_ledger()`;
  expect(await archived("eve")).toBe(copied + 1);
  const [left] = await sql()<[{ count: number }]>`
    select count(*)::int as count from usage_archive where contract_id = ${id}`;
  expect(left.count).toBe(0);
  await expectBalancesMatchLedger(api.database);
});

describe("the archive", () => {
  it("answers everything about the past as before, and holds what is old", async () => {
    await rollUpAll();
    const before = await answers();
    const count = await archived("ada");
    expect(await archive(sql())).toBeGreaterThan(0);
    expect(await archived("ada")).toBeGreaterThan(count);
    expect(await answers()).toEqual(before);
    await expectBalancesMatchLedger(api.database);
    const [parts] = await sql()<[{ foreign: number; old: number }]>`
      select count(*) filter (where c.relkind = 'f')::int as foreign,
        count(*) filter (where c.relkind = 'r' and p.ends < now() - interval '1 day')::int as old
      from faregate_ledger_partitions() p join pg_class c on c.oid = p.part`;
    expect(parts).toEqual({ foreign: 1, old: 0 });
  });

  it("leaves consumption and its revert as they are", async () => {
    const before = await consumed(api, key, "ada");
    await consume(api, key, "ada", { "tasker-maxTasks": 5 });
    expect(await consumed(api, key, "ada")).toBe(before + 5);
    await api.call("POST", "/features/ada/tasker-board?revert=true", { key, body: {} });
    expect(await consumed(api, key, "ada")).toBe(before);
    await expectBalancesMatchLedger(api.database);
  });

  it("takes a movement that is late for its partition", async () => {
    const count = await archived("bob");
    await addMovement("bob", at(3));
    expect(await archived("bob")).toBe(count + 1);
  });

  it("loses its movements with their contract", async () => {
    const [{ id }] = await sql()<[{ id: string }]>`select id from contracts where user_id = 'carol'`;
    expect((await api.call("DELETE", "/contracts/carol", { key })).status).toBe(204);
    const [left] = await sql()<[{ archive: number; days: number; ledger: number }]>`
      select (select count(*) from usage_archive where contract_id = ${id})::int as archive,
        (select count(*) from usage_days where contract_id = ${id})::int as days,
        (select count(*) from usage_ledger where contract_id = ${id})::int as ledger`;
    expect(left).toEqual({ archive: 0, days: 0, ledger: 0 });
    await expectBalancesMatchLedger(api.database);
  });

  it("follows a service into another organization", async () => {
    const target = await api.newOrganization(api.callers.owner, "Target");
    const moved = await api.call("PUT", "/services/Tasker", { key, body: { organizationId: target.id } });
    expect(moved.status, JSON.stringify(moved.body)).toBe(200);
    const [{ others }] = await sql()<[{ others: number }]>`
      select count(*)::int as others from usage_archive where organization_id <> ${target.id}`;
    expect(others).toBe(0);
    key = target.key;
    await expectBalancesMatchLedger(api.database);
  });
});

it("a migration that adds a column to the ledger and the archive leaves histories readable", async () => {
  await sql()`alter table usage_ledger add column note text`;
  await sql()`alter table usage_archive add column note text`;
  await renewArchive(sql());
  const [row] = await sql()<[{ notes: number }]>`select count(note)::int as notes from usage_ledger`;
  expect(row.notes).toBe(0);
});

it("a worker that loses its connections in the middle costs a history, and no consumption", async () => {
  const workers = inject("postgres").workers;
  const before = await consumed(api, key, "dan");
  const ending = new AbortController();
  const kill = async () => {
    while (!ending.signal.aborted) {
      for (const worker of workers) {
        const { client, close } = connect(atWorker(api.database.url, worker), { maxConnections: 1 });
        await client`select pg_terminate_backend(pid) from pg_stat_activity
          where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'`;
        await close();
      }
    }
  };
  const killing = kill();
  const rollUp = createRollUp(api.database.connection.db);
  const outcomes: number[] = [];
  for (let i = 0; i < 50; i += 1) {
    outcomes.push((await consume(api, key, "dan", { "tasker-maxTasks": 1 })).status);
    await rollUp().catch(() => {});
    await api.call("GET", "/contracts/dan/usage?by=movement", { key });
  }
  ending.abort();
  await killing;
  expect(outcomes.filter((status) => status !== 200)).toEqual([]);
  expect(await consumed(api, key, "dan")).toBe(before + 50);
  await rollUpAll();
  await expect.poll(() => sql()`select 1 from pg_prepared_xacts`.then((rows) => rows.length)).toBe(0);
  await expectBalancesMatchLedger(api.database);
});

it("an organization is exported with its archived movements, and leaves none behind", async () => {
  const { db } = api.database.connection;
  const [{ id: organizationId, count }] = await sql()<[{ id: string; count: number }]>`
    select organization_id as id, count(*)::int as count from usage_ledger group by 1 order by 2 desc limit 1`;
  const folder = exportFolder(mkdtempSync(join(tmpdir(), "faregate-archive-")));
  await freezeOrganization(db, organizationId, new Date());
  const manifest = await exportOrganization(db, folder, { organizationId, now: new Date(), schema: 0 });
  expect(manifest.tables["usage_ledger"]?.rows).toBe(count);
  expect(Object.keys(manifest.tables)).not.toContain("usage_archive");
  await leaveOrganization(db, folder, { manifest, to: "https://two.example.com" });
  const [left] = await sql()<[{ count: number }]>`
    select count(*)::int as count from usage_archive where organization_id = ${organizationId}`;
  expect(left.count).toBe(0);
  await expectBalancesMatchLedger(api.database);
});

it("a distributed database is migrated and served, and one that is distributed in another way is refused", async () => {
  const { url } = api.database;
  await migrate(url, MIGRATIONS);
  await requireMigrated(url, MIGRATIONS);
  const more = connect(url, { maxConnections: 1 });
  await more.client`select create_distributed_table('usage_keys', 'organization_id')`;
  await more.close();
  await expect(requireMigrated(url, MIGRATIONS)).rejects.toThrow(/^Citus distributes usage_keys, and Faregate needs /);
});
