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
  prepareFrequent(client, frequentTexts());
  return {
    db: drizzle(client, { schema }),
    client,
    close: (timeoutSeconds = 5) => client.end({ timeout: timeoutSeconds }),
  };
}

/** Uses of a text after which it is worth a prepared statement. */
const FREQUENT = 3;
/** Prepared statements cost the server memory a connection: what comes after so many texts is sent as it is. */
const MAX_PREPARED = 200;
const MAX_COUNTED = 2000;

/** Says of each statement's text whether it is one of those that are sent all the time. */
function frequentTexts(): (text: string) => boolean {
  const frequent = new Set<string>();
  let uses = new Map<string, number>();
  return (text) => {
    if (frequent.has(text)) return true;
    if (frequent.size >= MAX_PREPARED) return false;
    const count = (uses.get(text) ?? 0) + 1;
    if (count > FREQUENT) {
      uses.delete(text);
      frequent.add(text);
      return true;
    }
    if (uses.size >= MAX_COUNTED) uses = new Map();
    uses.set(text, count);
    return false;
  };
}

type Unsafe = (text: string, parameters?: unknown, options?: object) => unknown;
/** The parts of the driver's handle, of a pool or a transaction, that Drizzle calls. */
interface Handle {
  unsafe: Unsafe;
  begin?: (...given: unknown[]) => unknown;
  savepoint?: (...given: unknown[]) => unknown;
}

/**
 * Makes the driver prepare the statements that Drizzle sends often. Drizzle asks it not to, except for queries that were
 * named one by one: each is then parsed, planned, and described in a round trip of its own, every time; reading one contract
 * took four times as long. Where the pool was opened with `prepare: false`, nothing is prepared all the same.
 */
function prepareFrequent(client: object, isFrequent: (text: string) => boolean): void {
  const handle = client as Handle;
  const unsafe = handle.unsafe;
  handle.unsafe = (text, parameters, options) =>
    Array.isArray(parameters) && parameters.length > 0 && isFrequent(text)
      ? unsafe(text, parameters, { ...options, prepare: true })
      : unsafe(text, parameters, options);
  for (const name of ["begin", "savepoint"] as const) {
    const open = handle[name];
    if (open === undefined) continue;
    handle[name] = (...given) => {
      const work = given.pop() as (inner: object) => unknown;
      return open(...given, (inner: object) => {
        prepareFrequent(inner, isFrequent);
        return work(inner);
      });
    };
  }
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
