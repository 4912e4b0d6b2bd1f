import { drizzle, type PostgresJsDatabase } from "drizzle-orm/postgres-js";
import postgres from "postgres";
import * as schema from "../schema.ts";
import { detectHungServer } from "./hung-server.ts";

/** One sentence for the operator about why the process cannot start, and what to do. */
export class StartupProblem extends Error {
  override readonly name = "StartupProblem";
}

/** A Drizzle handle over the schema: the pool, or one transaction of it. */
export type Database = PostgresJsDatabase<typeof schema>;

/** A connection pool and its Drizzle handle. The opener closes it. */
export interface Connection {
  db: Database;
  client: postgres.Sql;
  /** Statements and transactions waiting for a connection, and the number that timed out. */
  waiting: { now: number; refused: number };
  /** Waits at most `timeoutSeconds` for running queries, then closes every connection. */
  close(timeoutSeconds?: number): Promise<void>;
}

/** Time-outs of a pool, in milliseconds. Default: none. Postgres cancels what takes longer, without effects. */
export interface Timeouts {
  statement?: number;
  /** Maximum wait for a lock. */
  lock?: number;
  /** Maximum idle time within a transaction. */
  idleInTransaction?: number;
  /** Maximum wait for a free connection, and for any reply of a hung server; see hung-server.ts. */
  acquire?: number;
}

/**
 * Opens a pool that connects lazily. Uses a short fixed back-off: the driver's own grows to 20 s for the whole pool,
 * which delays recovery long after Postgres is back.
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

/** A queued statement of the driver. `state` is the connection that took it. */
interface Waiting {
  state: object | null;
  cancel(): void;
  then(done: () => void, failed: () => void): void;
}

/**
 * Cancels statements that no connection has taken within `acquireMs`; the driver would queue them forever. They fail as
 * cancelled and had no effect. Uses a hook of patch-driver.ts, which costs statements that need not wait nothing.
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
    const over = () => {
      counts.now -= 1;
      clearTimeout(timer);
    };
    query.then(over, over);
  };
}

/** Number of uses after which a statement is prepared. */
const FREQUENT = 3;
/**
 * Maximum prepared statements, each of which costs the server memory per connection. Later texts are sent unprepared.
 */
const MAX_PREPARED = 200;
const MAX_COUNTED = 2000;
/** Longer texts are not counted: they contain lists whose length callers choose. */
const MAX_TEXT_LENGTH = 8192;

/** Creates a function that returns true for statements sent frequently. */
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
/** The methods of the driver's pool or transaction that Drizzle calls. */
interface Handle {
  unsafe: Unsafe;
  begin?: (...given: unknown[]) => unknown;
  savepoint?: (...given: unknown[]) => unknown;
}

/**
 * Makes the driver prepare the statements that Drizzle sends frequently. Drizzle sends others unprepared, so each is
 * parsed, planned and described in its own round trip; reading one contract took four times as long. A pool opened with
 * `prepare: false` prepares nothing.
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

/** Returns SQLSTATE and constraint of a database error anywhere in the chain of causes. Undefined for other errors. */
export function databaseError(error: unknown): { code: string; constraint: string | undefined } | undefined {
  for (let current = error, depth = 0; current instanceof Error && depth < 5; current = current.cause, depth += 1) {
    const { code, constraint_name } = current as Error & { code?: unknown; constraint_name?: unknown };
    if (typeof code === "string" && /^[0-9A-Z]{5}$/.test(code)) {
      return { code, constraint: typeof constraint_name === "string" ? constraint_name : undefined };
    }
  }
  return undefined;
}

/** True if the error violates exactly this constraint (unique, foreign key or check). */
export function violates(error: unknown, constraint: string): boolean {
  const found = databaseError(error);
  // Other errors name an index too, such as an entry that is too long.
  return found?.constraint === constraint && found.code.startsWith("23");
}
