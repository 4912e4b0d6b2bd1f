import { afterAll, expect, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

/* An installation can be split by organization: each row is the instance's or leads to one organization. */

const database: TestDatabase = await createTestDatabase();
afterAll(() => database.drop());

/** Tables of the instance: each part of a split installation has its own. They do not grow with customers. */
const INSTANCE = [
  "analytics_days",
  "cache_entries",
  "instances",
  "outbox_counter",
  "rate_counters",
  "space_imports",
  "token_keys",
  "usage_ledger_start",
  "usage_rollup",
  "webhook_cursor",
];
/** Accounts, and the organizations themselves. */
const DIRECTORY = ["organizations", "users"];
/** Tables with an organization in another column: null there, or another value, means the whole instance. */
const OWN_COLUMN: Readonly<Record<string, string>> = { idempotency_keys: "scope" };
/** Columns that lead to the organization, each with its table. */
const PARENTS: Readonly<Record<string, string>> = {
  change_id: "scheduled_changes",
  contract_id: "contracts",
  endpoint_id: "webhook_endpoints",
  service_id: "services",
};

async function columnsOfTables(): Promise<Map<string, { required: string[]; all: string[] }>> {
  const rows = await database.connection.client<{ name: string; required: string[] | null; all: string[] }[]>`
    select table_name as name, array_agg(column_name::text) as all,
      array_agg(column_name::text) filter (where is_nullable = 'NO') as required
    from information_schema.columns join information_schema.tables using (table_schema, table_name)
    where table_schema = 'public' and table_type = 'BASE TABLE' group by 1`;
  return new Map(rows.map(({ name, required, all }) => [name, { required: required ?? [], all }]));
}

it("each row of a table that grows with customers names its organization, or a contract, service, change or webhook of it", async () => {
  const tables = await columnsOfTables();
  const lost = [...tables].filter(([name, { required, all }]) => {
    if (INSTANCE.includes(name) || DIRECTORY.includes(name)) return false;
    if (all.includes(OWN_COLUMN[name] ?? "organization_id")) return false;
    return !required.some((column) => tables.get(PARENTS[column] ?? "")?.required.includes("organization_id"));
  });
  expect(lost.map(([name]) => name)).toEqual([]);
  expect([...INSTANCE, ...DIRECTORY].filter((name) => !tables.has(name))).toEqual([]);
});

it("tables of the instance know no organization, and no foreign key leads from one to the other", async () => {
  const tables = await columnsOfTables();
  expect(INSTANCE.filter((name) => tables.get(name)?.all.includes("organization_id"))).toEqual([]);
  const keys = await database.connection.client<{ of: string; to: string }[]>`
    select distinct conrelid::regclass::text as of, confrelid::regclass::text as to from pg_constraint where contype = 'f'`;
  expect(keys.filter(({ of, to }) => INSTANCE.includes(of) || INSTANCE.includes(to))).toEqual([]);
});
