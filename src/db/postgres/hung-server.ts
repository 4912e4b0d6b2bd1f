import postgres from "postgres";
import { forDriver } from "./address.ts";

/*
 * A hung server or dead host neither replies nor closes the socket, so queries on it would wait forever. Their outcome is
 * unknown, but callers receive an error in time.
 */

/** Interval at which a pool's connections are checked. */
const CHECK_INTERVAL_MS = 200;
/** Time past `statement_timeout` before a connection is dropped. */
const GRACE_MS = 2000;

/** Nobody listens at the port, or at the Unix-domain socket: a server that is gone is not hung. */
const GONE = new Set<string | undefined>(["ECONNREFUSED", "ENOENT"]);

/** A driver connection as patch-driver.ts exposes it: `current` is the query in flight, `drop` closes the socket. */
interface DriverConnection {
  readonly current: object | null;
  drop(): void;
}

const connectionsOf = (client: object) => (client as { connections?: readonly DriverConnection[] }).connections ?? [];

const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/**
 * Monitors a pool for a hung server, at no cost per statement. When a statement waits for 400 ms, a probe opens a new
 * connection. If the probe times out, queries in flight fail within `timeoutMs` with CONNECTION_CLOSED, as they may have
 * been executed, and new ones fail immediately with CONNECT_TIMEOUT until the server replies. A statement that outlives
 * `statementMs` by 2 s fails alone.
 * @returns a function that stops the monitor.
 */
export function detectHungServer(
  databaseUrl: string,
  client: postgres.Sql,
  bounds: { timeoutMs: number; statementMs: number | undefined; isPooled: () => boolean },
): () => void {
  const connections = connectionsOf(client);
  const options = client.options as object as { silent?: boolean };
  const maxAgeMs = bounds.statementMs ? bounds.statementMs + GRACE_MS : Infinity;
  /** The query in flight per connection, with the time of the check that first saw it. */
  const inFlight = new Map<DriverConnection, { query: object; since: number }>();
  let probing = false;
  let lastAnswerAt = -Infinity;

  const checkServer = async () => {
    probing = true;
    const before = connections.map((connection) => connection.current);
    const silent = !(await probe(databaseUrl, bounds.timeoutMs * 0.45, bounds.isPooled()));
    // A reply on any pooled connection also proves that the server works.
    const replied = connections.some((connection, i) => before[i] && connection.current !== before[i]);
    if (!silent || replied) lastAnswerAt = performance.now();
    options.silent = silent && !replied;
    if (options.silent) for (const connection of connections) connection.drop();
    probing = false;
  };
  const checkConnections = () => {
    const now = performance.now();
    let oldest = 0;
    for (const connection of connections) {
      const current = connection.current;
      const previous = inFlight.get(connection);
      if (current === null) inFlight.delete(connection);
      else if (previous?.query !== current) inFlight.set(connection, { query: current, since: now });
      else if (now - previous.since > maxAgeMs) connection.drop();
      else oldest = Math.max(oldest, now - previous.since);
    }
    const doubtful = oldest >= 2 * CHECK_INTERVAL_MS && now - lastAnswerAt > bounds.timeoutMs * 0.35;
    if (!probing && (options.silent === true || doubtful)) void checkServer();
  };
  const timer = setInterval(checkConnections, CHECK_INTERVAL_MS);
  return () => clearInterval(timer);
}

/**
 * Opens a new connection and returns true if the server replies at all, even with a refusal. A pooler replies by accepting
 * the connection: its statements wait while every backend is busy.
 */
async function probe(databaseUrl: string, timeoutMs: number, isPooled: boolean): Promise<boolean> {
  let onAccepted = () => {};
  const accepted = new Promise<true>((resolve) => (onAccepted = () => resolve(true)));
  const options = {
    max: 1,
    fetch_types: false,
    onnotice: () => {},
    // A server reports its parameters once it has accepted a connection.
    ...(isPooled ? { onparameter: onAccepted } : {}),
    connection: { application_name: "faregate-probe" },
  };
  const client = postgres(...forDriver(databaseUrl, options));
  const replied = client`select 1`.then(
    () => true,
    (error: { name?: string; code?: string }) => error.name === "PostgresError" || GONE.has(error.code),
  );
  // Wait in short turns: after a blocked event loop, arrived replies are processed before the timeout elapses.
  const timedOut = async () => {
    for (let turns = Math.ceil(timeoutMs / 50); turns > 0; turns -= 1) await pause(50);
    return false;
  };
  const isAlive = await Promise.race([replied, accepted, timedOut()]);
  // `end` alone waits for the hung server to close its side.
  void client.end({ timeout: 0 }).finally(() => connectionsOf(client)[0]?.drop());
  return isAlive;
}
