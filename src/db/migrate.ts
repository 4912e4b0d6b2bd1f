import { sql } from "drizzle-orm";
import { migrate as runMigrations } from "drizzle-orm/postgres-js/migrator";
import { connect } from "./connect.ts";

/** Any constant will do; it only has to be ours. */
const MIGRATION_LOCK = 5403_0001;

/**
 * Brings the schema up to date; any number of processes may call it at once and exactly one of them migrates.
 * Needs a direct connection (no transaction pooler): the lock belongs to the session.
 */
export async function migrate(databaseUrl: string, migrationsFolder: string): Promise<void> {
  const connection = connect(databaseUrl, { maxConnections: 1, applicationName: "faregate-migrate" });
  try {
    await connection.db.execute(sql`select pg_advisory_lock(${MIGRATION_LOCK})`);
    await runMigrations(connection.db, { migrationsFolder });
  } finally {
    await connection.close();
  }
}
