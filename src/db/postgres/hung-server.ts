import postgres from "postgres";

/*
 * A server that is frozen, or a host that is gone without a word, neither answers nor closes a connection: what was sent to
 * it would be waited for as long as it likes. Nobody can say what became of that, but callers can be told so in time.
 */

/** How often the connections of a pool are looked at. */
const CHECK_INTERVAL_MS = 200;
/** For how long the server's own time-out may be overdue. */
const GRACE_MS = 2000;

/** A connection of the driver, as patch-driver.ts shows it: what it waits for, and a way to give it up. */
interface DriverConnection {
  readonly current: object | null;
  drop(): void;
}

const connectionsOf = (client: object) => (client as { connections?: readonly DriverConnection[] }).connections ?? [];

const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/**
 * Watches a pool, at no cost to its statements. When one is not answered for a moment and a connection of its own is not
 * either, the server is silent: all that is under way fails within `timeoutMs` (as CONNECTION_CLOSED, because it may have
 * been carried out) and what comes fails at once (as CONNECT_TIMEOUT), until the server says something. A statement that
 * the server should have ended by itself after `statementMs` fails alone. Returns what ends the watch.
 */
export function detectHungServer(
  databaseUrl: string,
  client: postgres.Sql,
  bounds: { timeoutMs: number; statementMs: number | undefined },
): () => void {
  const connections = connectionsOf(client);
  const options = client.options as object as { silent?: boolean };
  const maxAgeMs = bounds.statementMs ? bounds.statementMs + GRACE_MS : Infinity;
  /** What each connection waits for, and since when as far as was seen. */
  const waits = new Map<DriverConnection, { for: object; since: number }>();
  let probing = false;
  let lastAnswerAt = -Infinity;

  const checkServer = async () => {
    probing = true;
    const before = connections.map((connection) => connection.current);
    const silent = !(await probe(databaseUrl, bounds.timeoutMs * 0.45));
    // An answer to anything else is a word too.
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

/** Whether the server says anything, be it that it refuses, to somebody who comes now. */
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
  // Turn by turn, so that a process that was held up itself still looks at what has arrived meanwhile.
  const late = async () => {
    for (let turns = Math.ceil(timeoutMs / 50); turns > 0; turns -= 1) await pause(50);
    return false;
  };
  const word = await Promise.race([said, late()]);
  // A connection that is only ended waits for the other side.
  void client.end({ timeout: 0 }).finally(() => connectionsOf(client)[0]?.drop());
  return word;
}
