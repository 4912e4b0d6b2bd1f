import { drizzle, type PostgresJsDatabase } from "drizzle-orm/postgres-js";
import postgres from "postgres";
import * as schema from "../schema.ts";
import { detectHungServer } from "./hung-server.ts";

/** An error that prevents the start. Its message tells the operator in one sentence what is wrong and what to do. */
export class StartupProblem extends Error {
  override readonly name = "StartupProblem";
}

/** A Drizzle handle with the whole schema: a pool or one transaction. */
export type Database = PostgresJsDatabase<typeof schema>;

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

/**
 * Opens a pool that connects lazily.
 * Reconnects after a fixed 100 ms: the driver's default back-off grows to 20 s for the whole pool and would keep a server
 * disconnected long after Postgres has recovered.
 */
export function connect(
  databaseUrl: string,
  options: { maxConnections?: number; applicationName?: string; prepare?: boolean; timeouts?: Timeouts } = {},
): Connection {
  const { timeouts = {} } = options;
  const bounds = {
    ...(timeouts.statement ? { statement_timeout: timeouts.statement } : {}),
    ...(timeouts.lock ? { lock_timeout: timeouts.lock } : {}),
    ...(timeouts.idleInTransaction ? { idle_in_transaction_session_timeout: timeouts.idleInTransaction } : {}),
  };
  const client = postgres(databaseUrl, {
    max: options.maxConnections ?? 10,
    connect_timeout: timeouts.acquire ? timeouts.acquire / 1000 : 5,
    backoff: () => 0.1,
    prepare: options.prepare ?? true,
    onnotice: () => {},
    connection: { application_name: options.applicationName ?? "faregate", TimeZone: "UTC", ...bounds },
  });
  const waiting = { now: 0, refused: 0 };
  if (timeouts.acquire) boundWaiting(client, waiting, timeouts.acquire);
  const stopWatching = timeouts.acquire
    ? detectHungServer(databaseUrl, client, { timeoutMs: timeouts.acquire, statementMs: timeouts.statement })
    : () => {};
  prepareFrequent(client, frequentTexts());
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

/** Executions of a statement text before the driver prepares it. */
const FREQUENT = 3;
/** Maximum prepared texts: each prepared statement costs the server memory per connection. */
const MAX_PREPARED = 200;
const MAX_COUNTED = 2000;
/** Maximum characters of a preparable text: callers control the length of lists in some texts. */
const MAX_TEXT_LENGTH = 8192;

/** Returns a counter of statement texts: true once a text is frequent enough to prepare. */
function frequentTexts(): (text: string) => boolean {
  const frequent = new Set<string>();
  let uses = new Map<string, number>();
  return (text) => {
    if (frequent.has(text)) return true;
    if (frequent.size >= MAX_PREPARED || text.length > MAX_TEXT_LENGTH) return false;
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
/** The methods of the driver's pool and transaction handles that Drizzle calls. */
interface Handle {
  unsafe: Unsafe;
  begin?: (...args: unknown[]) => unknown;
  savepoint?: (...args: unknown[]) => unknown;
}

/**
 * Makes the driver prepare statements that Drizzle sends often. Drizzle disables preparation except for queries named one
 * by one: Postgres then parses, plans and describes each execution with an extra round trip, and reading one contract took
 * four times as long. A pool opened with `prepare: false` still prepares nothing.
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
    handle[name] = (...args) => {
      const work = args.pop() as (inner: object) => unknown;
      return open(...args, (inner: object) => {
        prepareFrequent(inner, isFrequent);
        return work(inner);
      });
    };
  }
}

/** Finds the SQLSTATE and constraint of a database error in the chain of causes; undefined for other errors. */
export function databaseError(error: unknown): { code: string; constraint: string | undefined } | undefined {
  for (let current = error, depth = 0; current instanceof Error && depth < 5; current = current.cause, depth += 1) {
    const { code, constraint_name } = current as Error & { code?: unknown; constraint_name?: unknown };
    if (typeof code === "string" && /^[0-9A-Z]{5}$/.test(code)) {
      return { code, constraint: typeof constraint_name === "string" ? constraint_name : undefined };
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
