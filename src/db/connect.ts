import { drizzle, type PostgresJsDatabase } from "drizzle-orm/postgres-js";
import postgres from "postgres";
import * as schema from "./schema.ts";

/** Why the system cannot start, in one sentence for whoever started it: what is wrong and what to do. */
export class StartupProblem extends Error {
  override readonly name = "StartupProblem";
}

/** A Drizzle handle over the whole schema: the pool, or one transaction of it. */
export type Database = PostgresJsDatabase<typeof schema>;

/** One pool and the Drizzle handle over it; whoever opened it ends it. */
export interface Connection {
  db: Database;
  client: postgres.Sql;
  /** Lets running queries finish for at most `timeoutSeconds`, then closes every connection. */
  close(timeoutSeconds?: number): Promise<void>;
}

/**
 * Opens a pool that connects lazily.
 * Back-off between attempts is short and fixed: the driver's own grows to 20 s, shared by the pool, and keeps a server
 * deaf long after Postgres is back.
 */
export function connect(
  databaseUrl: string,
  options: { maxConnections?: number; applicationName?: string; prepare?: boolean } = {},
): Connection {
  const client = postgres(databaseUrl, {
    max: options.maxConnections ?? 10,
    connect_timeout: 5,
    backoff: () => 0.1,
    prepare: options.prepare ?? true,
    onnotice: () => {},
    connection: { application_name: options.applicationName ?? "faregate", TimeZone: "UTC" },
  });
  return {
    db: drizzle(client, { schema }),
    client,
    close: (timeoutSeconds = 5) => client.end({ timeout: timeoutSeconds }),
  };
}

/** The SQLSTATE and constraint of a database error, wherever it sits in the chain of causes; undefined for other errors. */
export function databaseError(error: unknown): { code: string; constraint: string | undefined } | undefined {
  for (let current = error, depth = 0; current instanceof Error && depth < 5; current = current.cause, depth += 1) {
    const { code, constraint_name } = current as Error & { code?: unknown; constraint_name?: unknown };
    if (typeof code === "string" && /^[0-9A-Z]{5}$/.test(code)) {
      return { code, constraint: typeof constraint_name === "string" ? constraint_name : undefined };
    }
  }
  return undefined;
}

/** True when the error is a violation of exactly this constraint (unique, foreign key or check). */
export function violates(error: unknown, constraint: string): boolean {
  return databaseError(error)?.constraint === constraint;
}
