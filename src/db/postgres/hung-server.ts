import postgres from "postgres";

/*
 * A hung server or dead host neither replies nor closes the socket, so queries on it would wait forever. Their outcome
 * is unknown, but callers get an error in time.
 */

/** Interval between checks of a pool's connections. */
const CHECK_INTERVAL_MS = 200;
/** Extra time for the server's own time-out to take effect. */
const GRACE_MS = 2000;

/** A connection of the driver, as patch-driver.ts exposes it: its current query, and a way to drop it. */
interface DriverConnection {
  readonly current: object | null;
  drop(): void;
}

const connectionsOf = (client: object) => (client as { connections?: readonly DriverConnection[] }).connections ?? [];

const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/**
 * Watches a pool, without cost per statement. When a statement stays unanswered and a probe connection does too, the
 * server counts as hung. Everything in flight then fails within `timeoutMs` with CONNECTION_CLOSED, because it may have
 * been executed. New statements fail immediately with CONNECT_TIMEOUT until the server replies. A single statement that
 * outlives `statementMs` fails alone. Returns a function that stops the watch.
 */
export function detectHungServer(
  databaseUrl: string,
  client: postgres.Sql,
  bounds: { timeoutMs: number; statementMs: number | undefined },
): () => void {
  const connections = connectionsOf(client);
  const options = client.options as object as { silent?: boolean };
  const maxAgeMs = bounds.statementMs ? bounds.statementMs + GRACE_MS : Infinity;
  /** Current query of each connection, and the time at which it was first seen. */
  const waits = new Map<DriverConnection, { for: object; since: number }>();
  let probing = false;
  let lastAnswerAt = -Infinity;

  const checkServer = async () => {
    probing = true;
    const before = connections.map((connection) => connection.current);
    const silent = !(await probe(databaseUrl, bounds.timeoutMs * 0.45));
    // A reply to any other query proves that the server is alive.
    const moved = connections.some((connection, i) => before[i] && connection.current !== before[i]);
    if (!silent || moved) lastAnswerAt = performance.now();
    options.silent = silent && !moved;
    if (options.silent) for (const connection of connections) connection.drop();
    probing = false;
  };
  const checkConnections = () => {
    const now = performance.now();
    let oldest = 0;
    for (const connection of connections) {
      const current = connection.current;
      const known = waits.get(connection);
      if (current === null) waits.delete(connection);
      else if (known?.for !== current) waits.set(connection, { for: current, since: now });
      else if (now - known.since > maxAgeMs) connection.drop();
      else oldest = Math.max(oldest, now - known.since);
    }
    const doubtful = oldest >= 2 * CHECK_INTERVAL_MS && now - lastAnswerAt > bounds.timeoutMs * 0.35;
    if (!probing && (options.silent === true || doubtful)) void checkServer();
  };
  const timer = setInterval(checkConnections, CHECK_INTERVAL_MS);
  return () => clearInterval(timer);
}

/** True if the server replies to a new connection, even with a rejection. */
async function probe(databaseUrl: string, timeoutMs: number): Promise<boolean> {
  const client = postgres(databaseUrl, {
    max: 1,
    fetch_types: false,
    onnotice: () => {},
    connection: { application_name: "faregate-probe" },
  });
  const said = client`select 1`.then(
    () => true,
    (error: { name?: string; code?: string }) => error.name === "PostgresError" || error.code === "ECONNREFUSED",
  );
  // Split into short waits, so that a blocked event loop still processes replies that arrived meanwhile.
  const late = async () => {
    for (let turns = Math.ceil(timeoutMs / 50); turns > 0; turns -= 1) await pause(50);
    return false;
  };
  const word = await Promise.race([said, late()]);
  // `end` alone waits for the server to close the connection.
  void client.end({ timeout: 0 }).finally(() => connectionsOf(client)[0]?.drop());
  return word;
}
