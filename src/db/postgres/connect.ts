import { drizzle, type PostgresJsDatabase, PostgresJsSession } from "drizzle-orm/postgres-js";
import postgres from "postgres";
import * as schema from "../schema.ts";
import { forDriver } from "./address.ts";
import { detectHungServer } from "./hung-server.ts";
import type { Endpoint, Pooler } from "./pooler.ts";
import { type Handle, prepareFrequent, throughPooler } from "./statements.ts";

/** An error that prevents the start. Its message tells the operator in one sentence what is wrong and what to do. */
export class StartupProblem extends Error {
  override readonly name = "StartupProblem";
}

/** A Drizzle handle with the whole schema: a pool or one transaction. */
export type Database = PostgresJsDatabase<typeof schema>;

/** Returns how many connections of a pool of this size are a share of it, at least one. */
export const shareOfPool = (poolSize: number, share: number): number => Math.max(1, Math.floor(poolSize * share));

/** Returns the driver's handle of a transaction, for statements that Drizzle does not build. */
export function driverOf(tx: Database): postgres.TransactionSql {
  const { session } = tx._;
  // Drizzle makes the session of a transaction with what the driver's `begin` passes.
  if (session instanceof PostgresJsSession) return session.client as postgres.TransactionSql;
  throw new Error("the handle is not one of postgres.js");
}

/** A connection pool with its Drizzle handle. The opener must call `close`. */
export interface Connection {
  db: Database;
  client: postgres.Sql;
  /** Statements and transactions that wait for a connection now, and the total cancelled while waiting. */
  waiting: { now: number; refused: number };
  /** Waits at most `timeoutSeconds` for running queries, then closes every connection. */
  close(timeoutSeconds?: number): Promise<void>;
}

/** Timeouts of a pool, in milliseconds. Default, and 0: none. Postgres rolls back what exceeds them. */
export interface Timeouts {
  statement?: number;
  /** Sets `lock_timeout`. */
  lock?: number;
  /** Sets `idle_in_transaction_session_timeout`. */
  idleInTransaction?: number;
  /** Maximum wait for a pooled connection, and for any reply of a hung server; see hung-server.ts. */
  acquire?: number;
}

/** Options of a pool. */
export interface ConnectOptions {
  maxConnections?: number;
  applicationName?: string;
  timeouts?: Timeouts;
}

const KEEPS_NOTHING: Pooler = { keepsSessions: false, keepsStatements: false };

/**
 * Opens a pool that connects lazily. A URL alone is that of a direct connection.
 * Reconnects after a fixed 100 ms: the driver's default back-off grows to 20 s for the whole pool and would keep a server
 * disconnected long after Postgres has recovered.
 *
 * Behind a pooler, settings hold in transactions only: it refuses them as startup parameters, and a statement outside of
 * transactions has the settings of its role (db/roles.sql). It accepts the time zone, as every JDBC client sends it.
 */
export function connect(database: string | Endpoint, options: ConnectOptions = {}): Connection {
  const { url, pooler } = typeof database === "string" ? { url: database, pooler: undefined } : database;
  const { timeouts = {} } = options;
  const given = {
    max: options.maxConnections ?? 10,
    connect_timeout: timeouts.acquire ? timeouts.acquire / 1000 : 5,
    backoff: () => 0.1,
    onnotice: () => {},
    connection: { application_name: options.applicationName ?? "faregate", TimeZone: "UTC" },
  };
  const driver = postgres(...forDriver(url, given));
  const parameters = driver.options.connection;
  const settings = settingsOf(timeouts);
  let current: Pooler | undefined;
  const usePooler = (found: Pooler | undefined) => {
    current = found;
    // The driver reads both for each connection and statement.
    const ofDriver = driver.options as { prepare: boolean; connection: object };
    ofDriver.prepare = found?.keepsStatements ?? true;
    ofDriver.connection = found === undefined ? { ...settings, ...parameters } : parameters;
  };
  usePooler(pooler instanceof Promise ? KEEPS_NOTHING : pooler);
  // Connections that were opened before keep no settings.
  if (pooler instanceof Promise) void pooler.then(usePooler);
  prepareFrequent(driver);
  const client = pooler === undefined ? driver : throughPooler(driver, () => current);
  const waiting = { now: 0, refused: 0 };
  if (timeouts.acquire) boundWaiting(client, waiting, timeouts.acquire);
  const stopWatching = timeouts.acquire
    ? detectHungServer(url, client, {
        timeoutMs: timeouts.acquire,
        statementMs: timeouts.statement,
        isPooled: () => current !== undefined,
      })
    : () => {};
  if (pooler !== undefined) setInTransactions(client, settings);
  return {
    db: drizzle(client, { schema }),
    client,
    waiting,
    close: (timeoutSeconds = 5) => {
      stopWatching();
      return client.end({ timeout: timeoutSeconds });
    },
  };
}

/**
 * Returns settings of Postgres, which override those of a role, also where a timeout is 0. Without jit: Postgres expects many rows of
 * tables that it has not analyzed yet, and compiles statements for longer than they run.
 */
function settingsOf(timeouts: Timeouts): Readonly<Record<string, string>> {
  return {
    statement_timeout: String(timeouts.statement ?? 0),
    lock_timeout: String(timeouts.lock ?? 0),
    idle_in_transaction_session_timeout: String(timeouts.idleInTransaction ?? 0),
    jit: "off",
  };
}

/** Sends settings with the BEGIN of each transaction, which costs no round trip. */
function setInTransactions(client: object, settings: Readonly<Record<string, string>>): void {
  const statements = Object.entries(settings).map(([name, value]) => `; set local ${name} = ${value}`);
  const handle = client as Handle;
  const unsafe = handle.unsafe;
  // The driver begins its transactions with this method of its pool, and with no other text that begins so.
  handle.unsafe = (text, ...rest) => unsafe(text.startsWith("begin ") ? text + statements.join("") : text, ...rest);
}

/** A statement of the driver. `state` is null until a connection sends it. */
interface Waiting {
  state: object | null;
  cancel(): void;
  then(done: () => void, failed: () => void): void;
}

/**
 * Cancels statements that wait longer than `acquireMs` for a connection: the driver has no such timeout. They fail as
 * cancelled and had no effect. The `onwait` hook of patch-driver.ts reports only statements that must wait, so others cost
 * nothing.
 */
function boundWaiting(client: postgres.Sql, counts: Connection["waiting"], acquireMs: number): void {
  const options = client.options as object as { onwait?: (query: Waiting) => void };
  options.onwait = (query) => {
    counts.now += 1;
    const timer = setTimeout(() => {
      if (query.state !== null) return;
      counts.refused += 1;
      query.cancel();
    }, acquireMs);
    const settle = () => {
      counts.now -= 1;
      clearTimeout(timer);
    };
    query.then(settle, settle);
  };
}

/** An error of Postgres: its SQLSTATE, the constraint that it names, and the function of Postgres that raised it. */
interface DatabaseError {
  code: string;
  constraint: string | undefined;
  routine: string | undefined;
}

/** Finds a database error in the chain of causes; undefined for other errors. */
export function databaseError(error: unknown): DatabaseError | undefined {
  for (let current = error, depth = 0; current instanceof Error && depth < 5; current = current.cause, depth += 1) {
    const { code, constraint_name, routine } = current as Error & Record<string, unknown>;
    if (typeof code === "string" && /^[0-9A-Z]{5}$/.test(code)) {
      const text = (value: unknown) => (typeof value === "string" ? value : undefined);
      return { code, constraint: text(constraint_name), routine: text(routine) };
    }
  }
  return undefined;
}

/** True if the error violates exactly this unique, foreign key or check constraint. */
export function violates(error: unknown, constraint: string): boolean {
  const found = databaseError(error);
  // Errors outside class 23 name an index too, such as "index row size exceeds maximum".
  return found?.constraint === constraint && found.code.startsWith("23");
}
