import { execFile } from "node:child_process";
import { statSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { requireUndistributed } from "../../db/distribution.ts";
import { parseDatabaseUrl } from "../../db/postgres/address.ts";
import { connect, StartupProblem } from "../../db/postgres/connect.ts";

/*
 * Runs pg_dump and pg_restore for an external database. The password is passed by environment: arguments are visible to
 * other users.
 */

const run = promisify(execFile);
const FILE = "database.dump";

/**
 * Dumps the database into `folder`.
 * @returns the size in bytes.
 * @throws StartupProblem without a pg_dump at least as new as the server, or for a distributed database.
 */
export async function dumpDatabase(databaseUrl: string, folder: string): Promise<number> {
  const server = await majorOf(databaseUrl);
  await requireTool("pg_dump", server);
  await requireWhole(databaseUrl);
  const file = join(folder, FILE);
  await tool("pg_dump", ["--format=custom", "--no-owner", "--no-privileges", `--file=${file}`], databaseUrl);
  return statSync(file).size;
}

/** Rejects a distributed database: a dump of its coordinator cannot be restored. @throws StartupProblem */
async function requireWhole(databaseUrl: string): Promise<void> {
  const connection = connect(databaseUrl, { maxConnections: 1, applicationName: "faregate-backup" });
  try {
    await requireUndistributed(
      connection.db,
      "Citus distributes this database: back up the coordinator and all workers with the tools of Postgres, to one moment.",
    );
  } finally {
    await connection.close();
  }
}

/**
 * Restores a dump into an empty database in one transaction.
 * @throws StartupProblem when the database has tables.
 */
export async function restoreDump(databaseUrl: string, folder: string): Promise<void> {
  const server = await majorOf(databaseUrl);
  await requireTool("pg_restore", server);
  const connection = connect(databaseUrl, { maxConnections: 1, applicationName: "faregate-restore" });
  try {
    const [found] = await connection.client`
      select 1 from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where n.nspname in ('public', 'drizzle') and c.relkind = 'r' limit 1`;
    if (found !== undefined) {
      throw new StartupProblem("The database has tables: restore into an empty one, nothing is written over.");
    }
    // The dump creates this schema itself.
    await connection.client`drop schema if exists drizzle`;
  } finally {
    await connection.close();
  }
  const args = ["--no-owner", "--no-privileges", "--single-transaction", "--exit-on-error"];
  const { database = "" } = parseDatabaseUrl(databaseUrl) ?? {};
  await tool("pg_restore", [...args, `--dbname=${database}`, join(folder, FILE)], databaseUrl);
}

async function majorOf(databaseUrl: string): Promise<number> {
  const connection = connect(databaseUrl, { maxConnections: 1, applicationName: "faregate-backup" });
  try {
    const [row] = await connection.client<{ version: number }[]>`
      select current_setting('server_version_num')::int / 10000 as version`;
    return row?.version ?? 0;
  } catch (cause) {
    throw new StartupProblem("The database cannot be reached: is it running, and is DATABASE_URL right?", { cause });
  } finally {
    await connection.close();
  }
}

async function requireTool(name: string, server: number): Promise<void> {
  const version = await run(name, ["--version"]).then(
    ({ stdout }) => Number(/(\d+)/.exec(stdout.replace(name, ""))?.[1]),
    () => undefined,
  );
  if (version !== undefined && version >= server) return;
  const found = version === undefined ? `There is no ${name} here` : `The ${name} here is of version ${version}`;
  throw new StartupProblem(
    `${found}, and the server is PostgreSQL ${server}: install postgresql-client-${server}, or run this where it is.`,
  );
}

async function tool(name: string, args: readonly string[], databaseUrl: string): Promise<void> {
  const address = parseDatabaseUrl(databaseUrl);
  if (address === undefined) throw new StartupProblem("DATABASE_URL is not an address of Postgres.");
  const { parameters } = address;
  const kept = Object.entries(process.env).filter(([variable]) => !variable.startsWith("PG"));
  const sslmode = parameters.get("sslmode") ?? parameters.get("ssl");
  const session = parameters.get("target_session_attrs");
  const environment = {
    ...Object.fromEntries(kept),
    PGHOST: address.names.join(","),
    PGPORT: address.ports.join(","),
    PGUSER: address.username,
    PGPASSWORD: address.password,
    PGDATABASE: address.database,
    ...(session === null ? {} : { PGTARGETSESSIONATTRS: session }),
    ...(sslmode === null ? {} : { PGSSLMODE: sslmode === "true" ? "require" : sslmode }),
  };
  try {
    await run(name, args, { env: environment, maxBuffer: 16 * 1024 * 1024 });
  } catch (error) {
    const said =
      error instanceof Error && "stderr" in error ? String(error.stderr).trim().split("\n")[0] : String(error);
    throw new StartupProblem(`${name} failed: ${said}`, { cause: error });
  }
}
