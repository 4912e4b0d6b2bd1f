import { inject } from "vitest";
import { type Connection, connect } from "../../src/db/postgres/connect.ts";
import { onServer, withDatabase } from "./postgres-server.ts";

/** A migrated, empty database of one's own, and an open pool to it. */
export interface TestDatabase {
  url: string;
  connection: Connection;
  /** Closes the pool and removes the database, whoever is still connected. */
  drop(): Promise<void>;
}

/**
 * Clones the template: about 0.1 s, so a file (or a test) has its own and files run side by side.
 * `const database = await createTestDatabase()` in beforeAll, `database.drop()` in afterAll.
 */
export async function createTestDatabase(): Promise<TestDatabase> {
  const { url: server, template } = inject("postgres");
  const name = `faregate_${crypto.randomUUID().replaceAll("-", "")}_test`;
  await onServer(server, `create database ${name} template ${template}`);
  const url = withDatabase(server, name);
  const connection = connect(url, { applicationName: "faregate-test" });
  return {
    url,
    connection,
    drop: async () => {
      await connection.close(0);
      await onServer(server, `drop database if exists ${name} with (force)`);
    },
  };
}
