import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { connect, type Connection, databaseError } from "../../src/db/postgres/connect.ts";
import { checkLedger } from "../../src/db/invariants.ts";
import { directly, type Pooler } from "../../src/db/postgres/pooler.ts";
import { migrate } from "../../src/db/migrate.ts";
import { makePartitions } from "../../src/db/queries/ledger-partitions.ts";
import { compactLedger, pruneAuditLog } from "../../src/db/queries/retention.ts";
import { examineDatabase } from "../../src/entries/commands/doctor-database.ts";
import type { Finding } from "../../src/entries/commands/doctor-finding.ts";
import { readConfig } from "../../src/entries/process/config.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { contract, tasker, upload } from "../support/contracting.ts";
import type { TestDatabase } from "../support/database.ts";
import { startEventServer } from "../support/event-server.ts";
import { callStep, changeAccounts, changeServices, type Take } from "../support/every-change.ts";
import { MIGRATIONS, onServer, withDatabase } from "../support/postgres-server.ts";

/*
 * Applies src/db/roles.sql as its header says: before the first migration and after it. Then runs everything as its
 * roles.
 */

const ROLES = fileURLToPath(new URL("../../src/db/roles.sql", import.meta.url));
const name = `faregate_roles_${crypto.randomUUID().replaceAll("-", "")}_test`;
const password = crypto.randomUUID();

let admin: Connection;
let api: TestApi;
let appUrl: string;

function urlAs(role: string): string {
  const url = new URL(withDatabase(inject("postgres").url, name));
  url.username = role;
  url.password = password;
  return url.href;
}

beforeAll(async () => {
  const { url } = inject("postgres");
  await onServer(url, `create database ${name}`);
  admin = connect(withDatabase(url, name), { maxConnections: 1 });
  await admin.client.file(ROLES);
  for (const role of ["faregate_owner", "faregate_app", "faregate_read"]) {
    await admin.client.unsafe(`alter role ${role} password '${password}'`);
  }
  await migrate(urlAs("faregate_owner"), MIGRATIONS);
  await admin.client.file(ROLES);
  appUrl = urlAs("faregate_app");
  const connection = connect(appUrl);
  const database: TestDatabase = { url: appUrl, connection, drop: () => connection.close(0) };
  api = await createTestApi({ database });
});
afterAll(async () => {
  await api.close();
  await admin.close(0);
  const { url } = inject("postgres");
  await onServer(url, `drop database if exists ${name} with (force)`);
  await onServer(url, "drop role if exists faregate_owner, faregate_app, faregate_read");
});

const codeOf = (work: PromiseLike<unknown>) =>
  work.then(
    () => "done",
    (error: unknown) => databaseError(error)?.code ?? String(error),
  );

describe("the server's role", () => {
  const take: Take = (step, ids) => callStep(api, step, ids);

  it("can do everything that anybody may ask of the server", async () => {
    await changeAccounts(api, take);
    await changeServices(api, "", take);
    await changeServices(api, "/organizations/:organizationId", take);
  });

  it("is what the doctor recommends", async () => {
    const found: Finding[] = [];
    const database = { requests: directly(appUrl), sessions: undefined };
    const options = { config: readConfig({}), secrets: undefined, isEmbedded: false };
    await examineDatabase(database, options, (finding) => found.push(finding));
    const sentence = "faregate_app may read and write rows and change no table.";
    expect(found.filter(({ what }) => what === "role")).toEqual([{ what: "role", state: "ok", sentence }]);
  });

  it("has settings for statements outside of transactions, which a pooler gives to no other role, and keeps others", async () => {
    const names = ["idle_in_transaction_session_timeout", "jit", "lock_timeout", "statement_timeout"];
    const settings = async (as: string, pooler?: Pooler) => {
      const pool = connect({ url: as, pooler }, { maxConnections: 1 });
      const rows = await pool.client<{ setting: string }[]>`
        select setting from pg_settings where name = any(${names}) order by name`;
      await pool.close(0);
      return rows.map(({ setting }) => setting);
    };
    const pooler = { keepsSessions: false, keepsStatements: false };
    expect(await settings(appUrl, pooler)).toEqual(["30000", "off", "10000", "30000"]);
    expect(await settings(urlAs("faregate_owner"), pooler)).toEqual(["0", "on", "0", "0"]);
    expect(await settings(appUrl)).toEqual(["0", "off", "0", "0"]);
    await admin.client.unsafe(`alter role faregate_app in database ${name} set statement_timeout = '7s'`);
    await admin.client.file(ROLES);
    expect(await settings(appUrl, pooler)).toEqual(["30000", "off", "10000", "7000"]);
  });

  it("counts, reverts, renames, moves and deletes what has been counted", async () => {
    const { key } = api.callers.all;
    await upload(api, key, tasker());
    await contract(api, key, "ada");
    const consume = () =>
      api.call("POST", "/features/ada/tasker-board", {
        key,
        body: { "tasker-maxTasks": 2 },
        headers: { "idempotency-key": "k" },
      });
    expect((await consume()).status).toBe(200);
    expect((await consume()).headers.get("idempotent-replayed")).toBe("true");
    expect((await api.call("PUT", "/services/Tasker", { key, body: { name: "Jobber" } })).status).toBe(200);
    expect((await api.call("POST", "/features/ada/jobber-board?revert=true", { key })).status).toBe(204);
    const { id: organizationId, key: moved } = await api.newOrganization(api.callers.owner);
    expect((await api.call("PUT", "/services/Jobber", { key, body: { organizationId } })).status).toBe(200);
    expect((await checkLedger(api.resources.db)).violations).toEqual([]);
    expect((await api.call("DELETE", "/contracts/ada", { key: moved })).status).toBe(204);
    await api.resources.keyUses.flush();
    await api.resources.callCounter.flush();
  });

  it("is enough for a whole event server, which listens and is ready", async () => {
    const server = await startEventServer(appUrl);
    try {
      const answer = await fetch(`${server.url}/ready`);
      expect(await answer.text()).toBe('{"status":"ready"}');
      expect(server.output()).not.toMatch(/permission denied|42501/);
    } finally {
      await server.stop();
    }
  });

  it("prunes the audit log and the ledger by the functions that leave the last days alone", async () => {
    const { db } = api.resources;
    const client = api.database.connection.client;
    const [before] = await client<
      { entries: string }[]
    >`select count(*) as entries from audit_log where at > now() - interval '7 days'`;
    const tomorrow = new Date(Date.now() + 86_400_000);
    expect(await pruneAuditLog(db, tomorrow, 0)).toBeGreaterThan(0);
    const [after] = await client<
      { entries: string }[]
    >`select count(*) as entries from audit_log where at > now() - interval '7 days'`;
    expect(after).toEqual(before);
    expect(await compactLedger(db, tomorrow, 0)).toBe(0);
    await admin.client`insert into usage_ledger (contract_id, organization_id, service_id, limit_name, kind, operation_id, delta, created_at)
      values ('gone', 'gone', 'gone', 'gone', 'adjust', 'old', 0, now() - interval '60 days')`;
    expect(await compactLedger(db, tomorrow, 30)).toBe(1);
    await makePartitions(db, new Date(Date.now() + 30 * 86_400_000));
    const made = await client<{ name: string }[]>`
      select inhrelid::regclass::text as name from pg_inherits where inhparent = 'usage_ledger'::regclass`;
    expect(made.length).toBeGreaterThan(6);
    for (const { name } of made) expect(await codeOf(client.unsafe(`delete from ${name}`))).toBe("42501");
  });

  it.each([
    "update audit_log set action = 'nothing'",
    "delete from audit_log",
    "truncate audit_log",
    "delete from usage_ledger",
    "update contract_states set since = now()",
    "delete from deleted_pricings",
    "update usage_ledger_start set at = null",
    "update usage_ledger set delta = 0",
    "delete from usage_ledger_first",
    "update usage_ledger_default set delta = 0",
    "insert into usage_ledger_next table usage_ledger",
    "alter table usage_ledger detach partition usage_ledger_first",
    "truncate contracts cascade",
    "alter table contracts add column x integer",
    "drop table contracts",
    "create table x (id integer)",
    "create or replace function prune_audit_log(older_than timestamptz, batch integer) returns integer language sql as 'select 1'",
    "update drizzle.__drizzle_migrations set created_at = 0",
    "create schema x",
    "alter role faregate_read superuser",
  ])("may not: %s", async (statement) => {
    expect(await codeOf(api.database.connection.client.unsafe(statement))).toBe("42501");
  });
});

describe("the role for reports", () => {
  let reader: Connection;
  beforeAll(() => {
    reader = connect(urlAs("faregate_read"), { maxConnections: 1 });
  });
  afterAll(() => reader.close(0));

  it.each([
    "select * from contracts",
    "select * from usage_ledger",
    "select * from audit_log",
    "select username, role from users",
    "select scope, last_used_at from organization_keys",
  ])("may: %s", async (statement) => {
    expect(await codeOf(reader.client.unsafe(statement))).toBe("done");
  });

  it.each([
    "select password_hash from users",
    "select * from users",
    "select api_key_sealed, previous_api_key_hash from users",
    "select key_hash from organization_keys",
    "select key_sealed from organization_keys",
    "select secret_sealed from webhook_endpoints",
    "select body from idempotency_keys",
    "insert into contracts (id) values ('x')",
    "delete from contracts",
    "select prune_audit_log(now(), 1)",
    "select faregate_move_service('', '{}', '', now())",
  ])("may not: %s", async (statement) => {
    expect(await codeOf(reader.client.unsafe(statement))).toBe("42501");
  });
});
