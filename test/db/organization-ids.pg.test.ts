import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Sql } from "postgres";
import { afterAll, afterEach, beforeAll, expect, inject, it } from "vitest";
import { migrate } from "../../src/db/migrate.ts";
import { connect } from "../../src/db/postgres/connect.ts";
import { rowsOfOtherOrganizations } from "../support/organizations.ts";
import { MIGRATIONS, onServer, withDatabase } from "../support/postgres-server.ts";

/* The migration that gives rows their organization, and rows of processes of before it. */

const MIGRATION = "0033_organization_ids";

/** Rows of two organizations as processes of before the migration write them. */
const ROWS = `
  insert into users (id, username, password_hash, role) values ('u', 'ada', 'x', 'ADMIN');
  insert into organizations (id, name, owner_id) values ('one', 'One', 'u'), ('two', 'Two', 'u');
  insert into services (id, organization_id, name, name_key) select 's-' || id, id, 'S', 's' from organizations;
  insert into pricings (id, service_id, version, version_key, availability, source, model, model_hash, declared_at)
    select 'p-' || id, id, '1', '1', 'active', '', '{}', '', now() from services;
  insert into deleted_pricings (id, service_id, model, model_hash, deleted_at) select 'd-' || id, id, '{}', '', now() from services;
  insert into contracts (id, organization_id, user_id, username, start_date, end_date)
    select 'c-' || id, id, 'end', 'end', now(), now() from organizations;
  insert into contract_services (contract_id, service_id, pricing_id, position)
    select c.id, s.id, 'p-' || s.id, 0 from contracts c join services s using (organization_id);
  insert into contract_overrides (contract_id, service_id, kind, name, mode, value, starts_at, reason, set_at, actor_kind)
    select contract_id, service_id, 'features', 'f', 'set', 'true', now(), '', now(), 'key' from contract_services;
  insert into contract_history (contract_id, start_date, end_date, contracted_services, subscription_plans, subscription_add_ons)
    select id, now(), now(), '{}', '{}', '{}' from contracts;
  insert into contract_states (contract_id, since, cause, start_date, end_date, auto_renew, renewal_days, services, levels)
    select id, now(), 'creation', now(), now(), false, 30, '[]', '[]' from contracts;
  insert into usage_levels (contract_id, service_id, limit_name, position, consumed)
    select contract_id, service_id, 'calls', 0, 1 from contract_services;
  insert into usage_ledger (contract_id, service_id, limit_name, kind, operation_id, delta, created_at)
    select contract_id, service_id, 'calls', 'consume', 'o', 1, now() from contract_services;
  insert into usage_resets (contract_id, service_id, limit_name, at, reset_at)
    select contract_id, service_id, 'calls', now(), now() from contract_services;
  insert into holds (id, contract_id, feature_id, amounts, on_expiry, state, created_at, until)
    select 'h-' || id, id, 's-f', '[]', 'release', 'open', now(), now() from contracts;
  insert into scheduled_changes (id, organization_id, kind, state, contract_id, at, created_at, actor_kind)
    select 'x-' || id, organization_id, 'novation', 'done', id, now(), now(), 'key' from contracts;
  insert into scheduled_subscriptions (change_id, position, service_id, pricing_id, service_name, version)
    select 'x-' || contract_id, 0, service_id, pricing_id, 's', '1' from contract_services;
  insert into webhook_endpoints (id, organization_id, url, state, secret_sealed, after_event_id)
    select 'w-' || id, id, '', 'enabled', '', 0 from organizations;
  insert into webhook_deliveries (endpoint_id, event_id, code, payload, next_attempt_at)
    select id, 1, 'CODE', '{}', now() from webhook_endpoints;
  insert into audit_log (at, organization_id, actor_kind, action, target)
    values (now(), null, 'user', 'user.create', 'ada'), (now(), 'one', 'user', 'service.create', 's');`;

/** Rows that processes of before the migration could not write after it, or did not write any more. */
const OLDER_ROWS = `
  insert into usage_hours (contract_id, hour, service_id, limit_name, counted, cleared, late, entries)
    select contract_id, now(), service_id, 'calls', 1, 0, 0, 1 from contract_services;
  insert into usage_days (contract_id, day, service_id, limit_name, feature_id, counted, cleared, late, entries)
    select contract_id, now(), service_id, 'calls', '', 1, 0, 0, 1 from contract_services;
  insert into idempotency_keys (scope, key, fingerprint, created_at) values ('one', 'k', '', now()), ('user:u', 'k', '', now());
  insert into pricing_decisions (service_id, action, at, actor_kind, rules, report)
    select id, 'disable', now(), 'key', '[]', '{}' from services;
  -- A service that left the organization is named by a change that is over.
  insert into scheduled_subscriptions (change_id, position, service_id, pricing_id, service_name, version)
    values ('x-c-one', 1, 's-two', 'p-s-two', 's', '1');`;

/** Statements that an operator may run before the migration. */
const PREPARATION = `
  alter table usage_ledger add column organization_id text;
  update usage_ledger l set organization_id = c.organization_id from contracts c where c.id = l.contract_id and l.id between 1 and 1;
  create unique index usage_ledger_pk on usage_ledger (id, organization_id);
  update audit_log set organization_id = '' where organization_id is null;
  create unique index audit_log_pk on audit_log (id, organization_id);`;

let before: string;
let url: string;
beforeAll(async () => {
  before = await mkdtemp(join(tmpdir(), "faregate-migrations-"));
  await cp(MIGRATIONS, before, { recursive: true });
  const path = join(before, "meta/_journal.json");
  const journal: { entries: { tag: string }[] } = JSON.parse(await readFile(path, "utf8"));
  const entries = journal.entries.filter(({ tag }) => tag < MIGRATION);
  await writeFile(path, JSON.stringify({ ...journal, entries }));
});
afterAll(() => rm(before, { recursive: true }));
afterEach(() =>
  onServer(inject("postgres").url, `drop database if exists ${new URL(url).pathname.slice(1)} with (force)`),
);

/** Runs `work` on an empty database that is migrated up to the folder's newest migration. */
async function onDatabase(migrations: string, work: (sql: Sql) => Promise<void>): Promise<void> {
  const name = `faregate_${crypto.randomUUID().replaceAll("-", "")}_test`;
  await onServer(inject("postgres").url, `create database ${name}`);
  url = withDatabase(inject("postgres").url, name);
  await migrate(url, migrations);
  const { client, close } = connect(url, { maxConnections: 1 });
  await work(client);
  await close();
}

/** Tables with rows, by organization. */
async function organizationsOf(sql: Sql, tables: readonly string[]): Promise<Record<string, string[]>> {
  const found: Record<string, string[]> = {};
  for (const table of tables) {
    const rows = await sql<{ id: string }[]>`select distinct organization_id as id from ${sql(table)} order by 1`;
    found[table] = rows.map(({ id }) => id);
  }
  return found;
}

const OF_BOTH = [
  "pricings",
  "deleted_pricings",
  "contract_services",
  "contract_overrides",
  "contract_history",
  "contract_states",
  "usage_levels",
  "usage_ledger",
  "usage_resets",
  "holds",
  "scheduled_subscriptions",
  "webhook_deliveries",
];
const both = (tables: readonly string[]) => Object.fromEntries(tables.map((table) => [table, ["one", "two"]]));

it.each([
  ["existing rows get", ""],
  ["rows of a prepared ledger get", PREPARATION],
])("%s the organization of their parent", async (_, preparation) => {
  await onDatabase(before, async (sql) => {
    await sql.unsafe(ROWS + OLDER_ROWS + preparation);
    await migrate(url, MIGRATIONS);
    const tables = [...OF_BOTH, "usage_hours", "usage_days", "pricing_decisions"];
    expect(await organizationsOf(sql, tables)).toEqual(both(tables));
    expect(await organizationsOf(sql, ["audit_log", "idempotency_keys"])).toEqual({
      audit_log: ["", "one"],
      idempotency_keys: ["", "one"],
    });
    expect(await rowsOfOtherOrganizations(sql)).toEqual([]);
    const [left] =
      await sql`select service_id, pricing_id, service_name from scheduled_subscriptions where position = 1`;
    expect(left).toEqual({ service_id: null, pricing_id: null, service_name: "s" });
  });
});

it("rows of processes of before the migration get it when they are inserted", async () => {
  await onDatabase(MIGRATIONS, async (sql) => {
    await sql.unsafe(ROWS);
    const hold = {
      contractId: "c-two",
      featureId: "s-f",
      onExpiry: "release",
      createdAt: new Date(),
      until: new Date(),
    };
    const taken = JSON.stringify([{ id: "taken", ...hold, amounts: [] }]);
    await sql`select faregate_change_holds(null, ${taken}::text::json, null)`;
    expect(await sql`select organization_id from holds where id = 'taken'`).toEqual([{ organization_id: "two" }]);
    expect(await organizationsOf(sql, OF_BOTH)).toEqual(both(OF_BOTH));
    expect(await organizationsOf(sql, ["audit_log"])).toEqual({ audit_log: ["", "one"] });
    expect(await rowsOfOtherOrganizations(sql)).toEqual([]);
    await expect(sql`insert into holds (id, contract_id, feature_id, amounts, on_expiry, state, created_at, until)
      values ('h', 'nobody', 's-f', '[]', 'release', 'open', now(), now())`).rejects.toMatchObject({ code: "23502" });
  });
});

it("a service that is deleted leaves its place in changes, which keep their organization", async () => {
  await onDatabase(MIGRATIONS, async (sql) => {
    await sql.unsafe(ROWS);
    await sql`update scheduled_changes set service_id = 's-one', pricing_id = 'p-s-one' where contract_id = 'c-one'`;
    await sql`delete from contract_services where service_id = 's-one'`;
    await sql`delete from services where id = 's-one'`;
    expect(
      await sql`select organization_id, service_id, pricing_id from scheduled_changes where contract_id = 'c-one'`,
    ).toEqual([{ organization_id: "one", service_id: null, pricing_id: null }]);
    expect(
      await sql`select organization_id, service_id, pricing_id from scheduled_subscriptions where change_id = 'x-c-one'`,
    ).toEqual([{ organization_id: "one", service_id: null, pricing_id: null }]);
  });
});
