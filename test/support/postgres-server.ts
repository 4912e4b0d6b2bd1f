import { fileURLToPath } from "node:url";
import { connect } from "../../src/db/postgres/connect.ts";

export const MIGRATIONS = fileURLToPath(new URL("../../src/db/migrations", import.meta.url));

/** Replaces the database in a connection URL. */
export function withDatabase(url: string, database: string): string {
  const changed = new URL(url);
  changed.pathname = `/${database}`;
  return changed.href;
}

/** Name of the template with callers, which belongs to an empty template. */
export const callersTemplateOf = (template: string): string => template.replace(/_test$/, "_callers_test");

/** Runs one statement outside of any transaction. Returns its rows. */
export async function onServer(url: string, statement: string): Promise<readonly Record<string, unknown>[]> {
  const connection = connect(url, { maxConnections: 1, applicationName: "faregate-test-server" });
  try {
    return await connection.client.unsafe(statement);
  } finally {
    await connection.close();
  }
}
