import type { Sql } from "postgres";
import { afterAll, expect, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { REFERENCE_TABLES } from "../support/organizations.ts";

/*
 * The tables can be split by organization: each is a reference table, or has `organization_id` in all its keys, as Citus requires
 * of a distribution column.
 */

const database: TestDatabase = await createTestDatabase();
afterAll(() => database.drop());

const isReference = (table: string) => Object.hasOwn(REFERENCE_TABLES, table);

/** Distributed tables without a column `organization_id` of type text that is never null. */
async function tablesWithoutOrganization(sql: Sql): Promise<string[]> {
  const rows = await sql<{ name: string }[]>`
    select c.relname as name from pg_class c
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not exists (
      select from pg_attribute a where a.attrelid = c.oid and a.attname = 'organization_id' and a.attnotnull
        and a.atttypid = 'text'::regtype)
    order by 1`;
  return rows.map(({ name }) => name).filter((name) => !isReference(name));
}

/** Tables without a key: a sequence makes the ids of the ledger unique, and a key would cost every consumption an index entry. */
const KEYLESS = new Set(["usage_ledger", "usage_ledger_next"]);

/** Unique keys of distributed tables that lack the organization, and tables without a primary key. */
async function keysWithoutOrganization(sql: Sql): Promise<string[]> {
  const keys = await sql<{ table: string; name: string | null; has: boolean }[]>`
    select c.relname as table, i.indexrelid::regclass::text as name, exists (
        select from pg_attribute a where a.attrelid = c.oid and a.attname = 'organization_id'
          and a.attnum = any((i.indkey::smallint[])[0:i.indnkeyatts - 1])) as has
    from pg_class c left join pg_index i on i.indrelid = c.oid and i.indisunique
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition order by 1, 2`;
  return keys
    .filter(({ table, name, has }) => !isReference(table) && !has && !(name === null && KEYLESS.has(table)))
    .map(({ table, name }) => `${table}: ${name}`);
}

/**
 * Foreign keys that a distributed table cannot have: to another distributed table without the organization at the same place of
 * both sides, with an action that changes the organization, or from a reference table to a distributed one.
 */
async function keysAcrossOrganizations(sql: Sql): Promise<string[]> {
  const keys = await sql<
    { name: string; of: string; to: string; columns: string[]; referenced: string[]; update: string; set: string[] }[]
  >`
    select k.conname as name, k.conrelid::regclass::text as of, k.confrelid::regclass::text as to, k.confupdtype as update,
      ${columnsOf(sql, "conrelid", "conkey")} as columns, ${columnsOf(sql, "confrelid", "confkey")} as referenced,
      case when k.confdeltype in ('n', 'd') then ${columnsOf(sql, "conrelid", "confdelsetcols")} else '{}' end as set
    from pg_constraint k where k.contype = 'f' and k.connamespace = 'public'::regnamespace order by 1`;
  return keys
    .filter(({ of, to, columns, referenced, update, set }) => {
      if (isReference(to)) return false;
      const at = columns.indexOf("organization_id");
      return isReference(of) || at < 0 || referenced[at] !== "organization_id" || update !== "a" || !isPartial(set);
    })
    .map(({ name }) => name);
}

const isPartial = (set: readonly string[] | null) => set !== null && !set.includes("organization_id");

const columnsOf = (sql: Sql, table: string, columns: string) => sql`(
    select array_agg(a.attname::text order by place) from unnest(k.${sql(columns)}) with ordinality as u (number, place)
    join pg_attribute a on a.attrelid = k.${sql(table)} and a.attnum = u.number)`;

it("each table is a named reference table or has organization_id, and in all its keys", async () => {
  const { client } = database.connection;
  expect(await tablesWithoutOrganization(client)).toEqual([]);
  expect(await keysWithoutOrganization(client)).toEqual([]);
  expect(await keysAcrossOrganizations(client)).toEqual([]);
  const tables = await client<{ name: string }[]>`
    select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'`;
  const names = tables.map(({ name }) => name);
  expect(Object.keys(REFERENCE_TABLES).filter((name) => !names.includes(name))).toEqual([]);
});

it.each([
  [
    "a table without the column",
    tablesWithoutOrganization,
    "create table orders (id text primary key, organization_id text)",
    "orders",
  ],
  [
    "a primary key without it",
    keysWithoutOrganization,
    "alter table usage_hours drop constraint usage_hours_pk, add constraint usage_hours_pk primary key (contract_id, hour)",
    "usage_hours: usage_hours_pk",
  ],
  [
    "a unique index that only includes it",
    keysWithoutOrganization,
    "create unique index one_at_a_time on holds (contract_id) include (organization_id)",
    "holds: one_at_a_time",
  ],
  [
    "a table without a key",
    keysWithoutOrganization,
    "create table orders (organization_id text not null)",
    "orders: null",
  ],
  [
    "a foreign key without it",
    keysAcrossOrganizations,
    `alter table contracts add constraint contracts_id unique (id);
     alter table holds add constraint holds_contract_fk foreign key (contract_id) references contracts (id)`,
    "holds_contract_fk",
  ],
  [
    "a foreign key that compares it with something else",
    keysAcrossOrganizations,
    `alter table holds add constraint holds_contract_fk foreign key (organization_id, contract_id)
     references contracts (id, organization_id)`,
    "holds_contract_fk",
  ],
  [
    "a foreign key that deletes it",
    keysAcrossOrganizations,
    `alter table holds add constraint holds_contract_fk foreign key (contract_id, organization_id)
     references contracts (id, organization_id) on delete set null`,
    "holds_contract_fk",
  ],
  [
    "a foreign key that updates it",
    keysAcrossOrganizations,
    `alter table holds add constraint holds_contract_fk foreign key (contract_id, organization_id)
     references contracts (id, organization_id) on update cascade`,
    "holds_contract_fk",
  ],
  [
    "a reference table that refers to a distributed one",
    keysAcrossOrganizations,
    `alter table members add column contract_id text, add constraint members_contract_fk
     foreign key (contract_id, organization_id) references contracts (id, organization_id)`,
    "members_contract_fk",
  ],
])("finds %s", async (_, find, change, name) => {
  const session = await database.connection.client.reserve();
  try {
    await session.unsafe(`begin; ${change}`);
    expect(await find(session)).toEqual([name]);
  } finally {
    await session`rollback`;
    session.release();
  }
});

it("a service that is deleted leaves its place in changes, which keep their organization", async () => {
  const { client: sql } = database.connection;
  await sql.unsafe(`
    insert into users (id, username, password_hash, role) values ('u', 'ada', 'x', 'ADMIN');
    insert into organizations (id, name, owner_id) values ('one', 'One', 'u');
    insert into services (id, organization_id, name, name_key) values ('s', 'one', 'S', 's');
    insert into pricings (id, organization_id, service_id, version, version_key, availability, source, model, model_hash, declared_at)
      values ('p', 'one', 's', '1', '1', 'active', '', '{}', '', now());
    insert into contracts (id, organization_id, user_id, username, start_date, end_date)
      values ('c', 'one', 'end', 'end', now(), now());
    insert into scheduled_changes (id, organization_id, kind, state, contract_id, service_id, pricing_id, at, created_at, actor_kind)
      values ('x', 'one', 'novation', 'done', 'c', 's', 'p', now(), now(), 'key');
    insert into scheduled_subscriptions (change_id, organization_id, position, service_id, pricing_id, service_name, version)
      values ('x', 'one', 0, 's', 'p', 's', '1');`);
  await sql`delete from services where id = 's'`;
  const left = { organization_id: "one", service_id: null, pricing_id: null };
  expect(await sql`select organization_id, service_id, pricing_id from scheduled_changes`).toEqual([left]);
  expect(await sql`select organization_id, service_id, pricing_id from scheduled_subscriptions`).toEqual([left]);
});
