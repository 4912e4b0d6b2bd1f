import { fileURLToPath } from "node:url";
import { connect } from "../../src/db/postgres/connect.ts";

export const MIGRATIONS = fileURLToPath(new URL("../../src/db/migrations", import.meta.url));

/** Replaces the database in a connection URL. */
export function withDatabase(url: string, database: string): string {
  const changed = new URL(url);
  changed.pathname = `/${database}`;
  return changed.href;
}

/** Runs one statement outside of any transaction. */
export async function onServer(url: string, statement: string): Promise<void> {
  const connection = connect(url, { maxConnections: 1, applicationName: "faregate-test-server" });
  try {
    await connection.client.unsafe(statement);
  } finally {
    await connection.close();
  }
}
