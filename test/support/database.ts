import { inject } from "vitest";
import { type Connection, connect } from "../../src/db/postgres/connect.ts";
import { distribute, dropOnWorkers } from "./distributed-database.ts";
import { onServer, withDatabase } from "./postgres-server.ts";

/** A migrated, empty database with an open pool. */
export interface TestDatabase {
  /** Past any pooler. */
  url: string;
  /** As the application reaches the database: through the pooler, if there is one. */
  connection: Connection;
  /** Closes the pool and drops the database, even with other sessions connected. */
  drop(): Promise<void>;
}

/** Connections of a pool. Each one more costs Postgres the start of a process that knows no table and no statement yet. */
const MAX_CONNECTIONS = 4;

/**
 * Clones the template database in about 0.1 s. Each file or test has its own, so files run in parallel. Call
 * `createTestDatabase()` in beforeAll and `drop()` in afterAll. `template`: another database without connections.
 */
export async function createTestDatabase(
  template = inject("postgres").template,
  maxConnections = MAX_CONNECTIONS,
): Promise<TestDatabase> {
  const { workers } = inject("postgres");
  const database = await createOnOneServer(template, maxConnections);
  if (workers.length === 0) return database;
  await distribute(database.url, workers);
  return {
    ...database,
    drop: async () => {
      await database.drop();
      await dropOnWorkers(database.url, workers);
    },
  };
}

/** Clones the template database, and distributes nothing. */
export async function createOnOneServer(
  template = inject("postgres").template,
  maxConnections = MAX_CONNECTIONS,
): Promise<TestDatabase> {
  const { url: server, strategy, pooled } = inject("postgres");
  const name = `faregate_${crypto.randomUUID().replaceAll("-", "")}_test`;
  await onServer(server, `create database ${name} template ${template} strategy ${strategy}`);
  const url = withDatabase(server, name);
  const options = { applicationName: "faregate-test", maxConnections };
  const connection =
    pooled === undefined ? connect(url, options) : connect({ ...pooled, url: withDatabase(pooled.url, name) }, options);
  return {
    url,
    connection,
    drop: async () => {
      await connection.close(0);
      await onServer(server, `drop database if exists ${name} with (force)`);
    },
  };
}
