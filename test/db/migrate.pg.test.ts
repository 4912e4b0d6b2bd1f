import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { overTcp } from "../../src/db/postgres/address.ts";
import { connect, StartupProblem } from "../../src/db/postgres/connect.ts";
import { migrate, requireMigrated } from "../../src/db/migrate.ts";
import { MIGRATIONS, onServer, withDatabase } from "../support/postgres-server.ts";

const name = `faregate_${crypto.randomUUID().replaceAll("-", "")}_test`;
/** Over TCP: refusals name a host and a port. */
const server = () => overTcp(inject("postgres").url);

beforeAll(() => onServer(server(), `create database ${name}`));
afterAll(() => onServer(server(), `drop database if exists ${name} with (force)`));

it("any number of processes may migrate an empty database at once, and each migration is applied once", async () => {
  const url = withDatabase(server(), name);
  await Promise.all(Array.from({ length: 6 }, () => migrate(url, MIGRATIONS)));
  await migrate(url, MIGRATIONS);
  const connection = connect(url, { maxConnections: 1 });
  const [applied] = await connection.client`select count(*)::int as n, count(distinct hash)::int as distinct_n
    from drizzle.__drizzle_migrations`;
  const locks = await connection.client`select 1 from pg_locks where locktype = 'advisory'
    and database = (select oid from pg_database where datname = current_database())`;
  await connection.close();
  expect(applied?.["n"]).toBeGreaterThan(0);
  expect(applied?.["n"]).toBe(applied?.["distinct_n"]);
  expect(locks).toHaveLength(0);
});

it("a server is refused a schema that lacks its newest migration, and takes one that is ahead", async () => {
  const url = withDatabase(server(), name);
  const connection = connect(url, { maxConnections: 1 });
  await requireMigrated(url, MIGRATIONS);
  await connection.client`update drizzle.__drizzle_migrations set created_at = created_at + 1`;
  await requireMigrated(url, MIGRATIONS);
  await connection.client`delete from drizzle.__drizzle_migrations
    where created_at = (select max(created_at) from drizzle.__drizzle_migrations)`;
  await expect(requireMigrated(url, MIGRATIONS)).rejects.toThrow(/^The database's schema is older than this release: /);
  await connection.client`drop schema drizzle cascade`;
  await expect(requireMigrated(url, MIGRATIONS)).rejects.toThrow(StartupProblem);
  await connection.close();
  await requireMigrated("postgres://ada:sesame@127.0.0.1:1/rates", MIGRATIONS);
});

it("a database whose tables Citus distributes is refused by name, and one with Citus alone is taken", async () => {
  const own = `${name}_citus`;
  await onServer(server(), `create database ${own}`);
  const url = withDatabase(server(), own);
  await migrate(url, MIGRATIONS);
  const { client, close } = connect(url, { maxConnections: 1 });
  try {
    // Stands in for the catalog of Citus, which has these columns.
    await client`create table pg_dist_partition (logicalrelid regclass, partmethod "char", repmodel "char", colocationid int)`;
    await client`insert into pg_dist_partition values ('mails', 'n', 's', 0)`;
    await requireMigrated(url, MIGRATIONS);
    await migrate(url, MIGRATIONS);
    await client`insert into pg_dist_partition values
      ('holds', 'h', 's', 1), ('contracts', 'h', 's', 1), ('users', 'n', 't', 2), ('usage_levels', 'h', 's', 1)`;
    const refused =
      /^Citus distributes contracts, holds, usage_levels and 1 more, and Faregate needs all tables on one /;
    await expect(requireMigrated(url, MIGRATIONS)).rejects.toThrow(refused);
    await expect(migrate(url, MIGRATIONS)).rejects.toThrow(refused);
    await expect(migrate(url, MIGRATIONS)).rejects.toThrow(StartupProblem);
  } finally {
    await close();
    await onServer(server(), `drop database ${own} with (force)`);
  }
});

it("a migration that fails leaves the ones before it applied, and the next start goes on with it", async () => {
  const folder = mkdtempSync(join(tmpdir(), "faregate-migrations-"));
  const own = `${name}_each`;
  await onServer(server(), `create database ${own}`);
  const url = withDatabase(server(), own);
  const write = (second: string) => {
    mkdirSync(join(folder, "meta"), { recursive: true });
    const tags = ["0000_first", "0001_second"];
    const entries = tags.map((tag, idx) => ({ idx, version: "7", when: idx + 1, tag, breakpoints: true }));
    writeFileSync(join(folder, "meta/_journal.json"), JSON.stringify({ version: "7", dialect: "postgresql", entries }));
    writeFileSync(join(folder, "0000_first.sql"), "create table first ();");
    writeFileSync(join(folder, "0001_second.sql"), second);
  };
  try {
    write("create table half ();--> statement-breakpoint\nselect 1 / 0;");
    await expect(migrate(url, folder)).rejects.toThrow("select 1 / 0");
    const connection = connect(url, { maxConnections: 1 });
    const tables = async () => {
      const rows = await connection.client<{ name: string }[]>`
        select tablename as name from pg_tables where schemaname = 'public' order by 1`;
      return rows.map((row) => row.name);
    };
    expect(await tables()).toEqual(["first"]);
    write("create table second ();");
    await migrate(url, folder);
    expect(await tables()).toEqual(["first", "second"]);
    await connection.close();
  } finally {
    await onServer(server(), `drop database if exists ${own} with (force)`);
    rmSync(folder, { recursive: true });
  }
});

describe("what keeps it from migrating is one sentence without the password", () => {
  const problem = async (url: string) => {
    const error = await migrate(url, MIGRATIONS).then(
      () => undefined,
      (error: unknown) => error,
    );
    expect(error).toBeInstanceOf(StartupProblem);
    const { message } = error as StartupProblem;
    expect(message).not.toMatch(/sesame|\n/);
    return message;
  };

  it("nobody listens there", async () => {
    expect(await problem("postgres://ada:sesame@127.0.0.1:1/rates")).toBe(
      "The database 127.0.0.1:1/rates cannot be reached (ECONNREFUSED): is it running, and is DATABASE_URL right?",
    );
  });

  it("there is no such database", async () => {
    const url = new URL(withDatabase(server(), "nowhere"));
    expect(await problem(url.href)).toBe(
      `There is no database ${url.host}/nowhere: create it, or correct DATABASE_URL.`,
    );
  });

  it.skipIf(process.env["TEST_DATABASE_URL"])("the password is wrong", async () => {
    const url = new URL(server());
    url.password = "sesame";
    expect(await problem(url.href)).toBe(
      `The database ${url.host}${url.pathname} does not let faregate in: check the name and the password in DATABASE_URL.`,
    );
  });
});
