import postgres from "postgres";
import { forDriver } from "./address.ts";
import type { MaybePromise } from "../../core/maybe-promise.ts";

/** How a process reaches its database. */
export interface Endpoint {
  readonly url: string;
  /**
   * Undefined for a direct connection, which has a session of its own. A promise while the database has not been examined:
   * until it resolves, pools work as behind a pooler that keeps nothing.
   */
  readonly pooler: MaybePromise<Pooler | undefined>;
}

/** Returns the endpoint of a direct connection. */
export const directly = (url: string): Endpoint => ({ url, pooler: undefined });

/** A connection pooler between this process and Postgres, such as PgBouncer. */
export interface Pooler {
  /** True if a connection keeps its session, settings included, between transactions. */
  readonly keepsSessions: boolean;
  /** True if the pooler makes named prepared statements known to every backend, as PgBouncer 1.21 does. */
  readonly keepsStatements: boolean;
}

/*
 * Finds a connection pooler by its behaviour. In transaction mode it changes the backend of a connection, and serves two
 * connections with one, neither of which happens to direct ones. Other clients change who gets which backend, so one round
 * proves nothing.
 */

const ROUNDS = 16;
/** Rounds where the number of the backend at login is that of the backend itself. Poolers invent one. */
const DIRECT_ROUNDS = 2;
/** Time for a statement that waits for a backend of a small pooler. */
const WAIT_MS = 1000;
const TIMEOUT_MS = 10_000;

interface Backend {
  pid: number;
  /** True if the login named the same backend. */
  isOwn: boolean;
}

/**
 * Returns the pooler between this process and the database; undefined for a direct connection. Takes about ten round trips
 * on two connections.
 * @throws the driver's error when the database is unreachable.
 */
export async function detectPooler(databaseUrl: string): Promise<Pooler | undefined> {
  const options = {
    max: 1,
    connect_timeout: 5,
    fetch_types: false,
    onnotice: () => {},
    connection: { application_name: "faregate-detect" },
  };
  const open = () => postgres(...forDriver(databaseUrl, options));
  const [first, second] = [open(), open()];
  try {
    return await within(TIMEOUT_MS, detect(first, second));
  } finally {
    // A statement may still wait for a backend.
    await Promise.all([first.end({ timeout: 0 }), second.end({ timeout: 0 })]);
  }
}

async function detect(first: postgres.Sql, second: postgres.Sql): Promise<Pooler | undefined> {
  const before = await backendOf(first);
  const rounds = before.isOwn ? DIRECT_ROUNDS : ROUNDS;
  for (let round = 0; round < rounds; round += 1) {
    const seen = [
      await second.begin((tx) => backendOf(tx)).then(({ pid }) => pid === before.pid),
      // Asked twice: two backends may take turns, so that each connection always gets the same one.
      (await backendOf(first)).pid !== before.pid,
      (await backendOf(first)).pid !== before.pid,
    ];
    if (seen.includes(true)) {
      return { keepsSessions: false, keepsStatements: await keepsStatements(first, second) };
    }
  }
  return before.isOwn ? undefined : { keepsSessions: true, keepsStatements: true };
}

async function backendOf(client: postgres.ISql): Promise<Backend> {
  // Without parameters, `unsafe` prepares nothing.
  const result = await client.unsafe<{ pid: number }[]>("select pg_backend_pid() as pid");
  const pid = result[0]?.pid ?? 0;
  return { pid, isOwn: result.state.pid === pid };
}

/**
 * Prepares a statement on one backend and runs it until another backend gets it.
 * The second connection keeps one backend busy meanwhile. Returns false unless the statement succeeds.
 */
async function keepsStatements(first: postgres.Sql, second: postgres.Sql): Promise<boolean> {
  const named = () => first<{ pid: number }[]>`select pg_backend_pid() as pid where ${1}::integer = 1`;
  const prepared = (await named())[0]?.pid;
  const isKept = async () => {
    const again = named();
    const rows = await within(WAIT_MS, again).catch(() => undefined);
    // The driver prepares a lost statement again, and logs why.
    if (rows === undefined || "retried" in again) return false;
    return rows[0]?.pid === prepared ? undefined : true;
  };
  for (let round = 0; round < ROUNDS; round += 1) {
    const found = (await isKept()) ?? (await second.begin((tx) => backendOf(tx).then(isKept)));
    if (found !== undefined) return found;
  }
  return false;
}

async function within<T>(milliseconds: number, work: PromiseLike<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${milliseconds} ms`)), milliseconds);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
