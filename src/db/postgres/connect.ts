import { drizzle, type PostgresJsDatabase } from "drizzle-orm/postgres-js";
import postgres from "postgres";
import * as schema from "../schema.ts";
import { detectHungServer } from "./hung-server.ts";

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
  /** Statements and transactions that wait for a connection, and how many gave that up. */
  waiting: { now: number; refused: number };
  /** Lets running queries finish for at most `timeoutSeconds`, then closes every connection. */
  close(timeoutSeconds?: number): Promise<void>;
}

/** Bounds of a pool, in milliseconds; 0 or absent: none. Postgres ends what lasts longer, and changes nothing then. */
export interface Timeouts {
  statement?: number;
  /** Waiting for somebody else's lock. */
  lock?: number;
  /** A transaction in which nobody says anything. */
  idleInTransaction?: number;
  /** Waiting for a connection of the pool, and for any word of a server that may be gone; see silence.ts. */
  acquire?: number;
}

/**
 * Opens a pool that connects lazily.
 * Back-off between attempts is short and fixed: the driver's own grows to 20 s, shared by the pool, and keeps a server
 * deaf long after Postgres is back.
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

/** A statement of the driver: `state` is the connection that has taken it. */
interface Waiting {
  state: object | null;
  cancel(): void;
  then(done: () => void, failed: () => void): void;
}

/**
 * Gives up statements that no connection has taken for so long: the driver alone would let them wait for ever. They fail
 * as cancelled ones do, having done nothing. The driver tells of them by a hook of patch-driver.ts; who does not wait costs
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
    const over = () => {
      counts.now -= 1;
      clearTimeout(timer);
    };
    query.then(over, over);
  };
}

/** Uses of a text after which it is worth a prepared statement. */
const FREQUENT = 3;
/** Prepared statements cost the server memory a connection: what comes after so many texts is sent as it is. */
const MAX_PREPARED = 200;
const MAX_COUNTED = 2000;
/** Characters of a text that is counted: callers decide how long the lists in some texts are. */
const MAX_TEXT_LENGTH = 8192;

/** Says of each statement's text whether it is one of those that are sent all the time. */
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
  const found = databaseError(error);
  // Other errors name an index too: that what it was to hold is too long, for one.
  return found?.constraint === constraint && found.code.startsWith("23");
}
