import { commandLine } from "../core/command-line.ts";
import { sql } from "drizzle-orm";
import { readMigrationFiles } from "drizzle-orm/migrator";
import { renewArchive } from "./archive.ts";
import { findDistributedTables, isArchive, requireKnownPlacement } from "./distribution.ts";
import { prepareLedger, releaseLedger } from "./ledger-migration.ts";
import { parseDatabaseUrl } from "./postgres/address.ts";
import { connect, type Connection, databaseError, StartupProblem } from "./postgres/connect.ts";
import type { Endpoint } from "./postgres/pooler.ts";

/** Advisory lock key: an arbitrary constant that no other application on the database should use. */
const MIGRATION_LOCK = 5403_0001;
/** Time to wait for a database that answers "starting up" (57P03). */
const STARTING_UP_MS = 30_000;
/** Time to retry while long transactions, such as a backup, hold a table that a migration locks. */
const BUSY_MS = 60_000;
/**
 * Time that a migration waits for a lock, while writers queue behind it. Shorter than Postgres's deadlock_timeout of 1 s, so that a
 * migration gives way to the writers with which it waits in a circle, and none of them fails.
 */
const LOCK_MS = 500;
const OLDEST_VERSION = 15;

/**
 * Applies pending migrations. Processes that call it concurrently serialize on an advisory lock, so one migrates.
 * Needs an endpoint that keeps sessions: the lock belongs to the session.
 * @throws StartupProblem when the database is unreachable, denies access, is too old, or distributes tables.
 */
export async function migrate(database: string | Endpoint, migrationsFolder: string): Promise<void> {
  const deadline = Date.now() + STARTING_UP_MS;
  for (;;) {
    const connection = connect(database, { maxConnections: 1, applicationName: "faregate-migrate" });
    try {
      const [server] = await connection.client<[{ version: number; name: string }]>`
        select current_setting('server_version_num')::int as version, current_setting('server_version') as name`;
      if (server.version < OLDEST_VERSION * 10_000) {
        throw new StartupProblem(
          `The database is PostgreSQL ${server.name}, and Faregate needs ${OLDEST_VERSION} or later.`,
        );
      }
      await requireKnownPlacement(connection.client);
      // Polled: a statement that waits for the lock would keep an index from being built concurrently.
      while (!(await tryLock(connection))) await new Promise((resolve) => setTimeout(resolve, 100));
      return await runPrepared(connection, migrationsFolder);
    } catch (error) {
      if (databaseError(error)?.code !== "57P03" || Date.now() > deadline) throw explain(error, database);
      await new Promise((resolve) => setTimeout(resolve, 250));
    } finally {
      await connection.close();
    }
  }
}

async function tryLock(connection: Connection): Promise<boolean> {
  const [row] = await connection.client<
    [{ locked: boolean }]
  >`select pg_try_advisory_lock(${MIGRATION_LOCK}) as locked`;
  return row.locked;
}

/** Retries while others hold the tables that a migration locks: it waits only briefly, because writers queue behind it. */
async function runPrepared(connection: Connection, migrationsFolder: string): Promise<void> {
  const { client } = connection;
  if ((await schemaVersion(client)) >= newestMigration(migrationsFolder)) return;
  const deadline = Date.now() + BUSY_MS;
  await prepareLedger(client);
  for (;;) {
    try {
      await applyPending(connection, migrationsFolder);
      break;
    } catch (error) {
      if (databaseError(error)?.code !== "55P03" || Date.now() > deadline) {
        await releaseLedger(client).catch(() => {});
        throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, 1_000));
    }
  }
  // The migration may have replaced functions of the archive.
  if (isArchive((await findDistributedTables(client)) ?? [])) await renewArchive(client);
}

/** Applies each pending migration in a transaction of its own, so that none holds its locks while later ones run. */
async function applyPending({ client, db }: Connection, migrationsFolder: string): Promise<void> {
  const applied = await schemaVersion(client);
  await db.execute(sql`create schema if not exists drizzle`);
  await db.execute(sql`create table if not exists drizzle.__drizzle_migrations (
    id serial primary key, hash text not null, created_at bigint)`);
  for (const { sql: statements, hash, folderMillis } of readMigrationFiles({ migrationsFolder })) {
    if (folderMillis <= applied) continue;
    await db.transaction(async (tx) => {
      await tx.execute(sql.raw(`set local lock_timeout = '${LOCK_MS}ms'`));
      for (const statement of statements) await tx.execute(sql.raw(statement));
      await tx.execute(
        sql`insert into drizzle.__drizzle_migrations (hash, created_at) values (${hash}, ${folderMillis})`,
      );
    });
  }
}

/**
 * Rejects a schema that lacks a migration of this release. Accepts a newer schema, because migrations only add. Accepts an
 * unreachable database too, which has not been examined: it may recover before the first request.
 * @throws StartupProblem when a migration is missing, or tables are distributed.
 */
export async function requireMigrated(database: string | Endpoint, migrationsFolder: string): Promise<void> {
  if (typeof database !== "string" && database.pooler instanceof Promise) return;
  const connection = connect(database, { maxConnections: 1, applicationName: "faregate-migrate" });
  try {
    await requireKnownPlacement(connection.client);
    if ((await schemaVersion(connection.client)) >= newestMigration(migrationsFolder)) return;
  } catch (error) {
    if (error instanceof StartupProblem) throw error;
    return;
  } finally {
    await connection.close();
  }
  throw new StartupProblem(
    `The database's schema is older than this release: ${commandLine("migrate")} brings it up to date.`,
  );
}

/** Creation time of this release's newest migration, in milliseconds since 1970; 0 without migrations. */
export function newestMigration(migrationsFolder: string): number {
  return readMigrationFiles({ migrationsFolder }).at(-1)?.folderMillis ?? 0;
}

/**
 * Creation time of the newest migration applied to the database, in milliseconds since 1970; 0 for none.
 * @throws the driver's error when the database is unreachable or the role may not read the migrations table.
 */
export async function schemaVersion(client: Connection["client"]): Promise<number> {
  const [table] = await client<{ found: boolean }[]>`
    select to_regclass('drizzle.__drizzle_migrations') is not null as found`;
  if (table?.found !== true) return 0;
  const [row] = await client<{ newest: string | null }[]>`
    select max(created_at)::text as newest from drizzle.__drizzle_migrations`;
  return Number(row?.newest ?? 0);
}

/** Turns errors that an operator can correct into a StartupProblem; returns others unchanged. */
function explain(error: unknown, target: string | Endpoint): unknown {
  if (error instanceof StartupProblem) return error;
  // Quote host, database and user only: the URL contains the password.
  const {
    hosts = "",
    database: name = "",
    username = "",
  } = parseDatabaseUrl(typeof target === "string" ? target : target.url) ?? {};
  const database = `${hosts}/${name}`;
  const cause = { cause: error };
  switch (databaseError(error)?.code) {
    case "28P01":
    case "28000":
      return new StartupProblem(
        `The database ${database} does not let ${username || "this user"} in: check the name and the password in DATABASE_URL.`,
        cause,
      );
    case "3D000":
      return new StartupProblem(`There is no database ${database}: create it, or correct DATABASE_URL.`, cause);
    case "42501":
      return new StartupProblem(
        `In the database ${database} this role may not create tables: grant it CREATE on the database and on its schema.`,
        cause,
      );
    case "55P03":
      return new StartupProblem(
        `In the database ${database} a long transaction, such as a backup, holds a table that is to be migrated: try again once it has ended.`,
        cause,
      );
    case "53300":
      return new StartupProblem(`The database ${database} has no connection left: raise max_connections.`, cause);
    case "57P03":
      return new StartupProblem(`The database ${database} is still starting up: try again later.`, cause);
    default:
  }
  const code = networkCode(error);
  if (code === undefined) return error;
  return new StartupProblem(
    `The database ${database} cannot be reached (${code}): is it running, and is DATABASE_URL right?`,
    cause,
  );
}

/** Returns the code of a failed connection, such as ECONNREFUSED. Undefined for other errors. */
function networkCode(error: unknown): string | undefined {
  for (let current = error, depth = 0; current instanceof Error && depth < 5; current = current.cause, depth += 1) {
    const { code } = current as Error & { code?: unknown };
    if (typeof code === "string" && /^(E[A-Z]{3,}|EAI_AGAIN|CONNECT_TIMEOUT|CONNECTION_[A-Z]+)$/.test(code))
      return code;
  }
  return undefined;
}
