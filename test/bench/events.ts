import { type ChildProcess, fork } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { connect, type Connection } from "../../src/db/postgres/connect.ts";
import { buildServer, isServerStale } from "../../src/entries/build/server.ts";
import { startEmbeddedPostgres } from "../../src/db/postgres/embedded.ts";
import { migrate } from "../../src/db/migrate.ts";
import { OUTBOX_CHANNEL, recordEvent } from "../../src/db/queries/outbox.ts";
import { HANDSHAKE } from "../events/in-process.ts";
import { openPricings, openRaw, type RawClient } from "../events/raw-client.ts";
import { type RunningServer, startEventServer } from "../support/event-server.ts";
import type { BenchRow } from "./pricing.ts";
import { forkClients, megabytesOf } from "./processes.ts";

const ROUNDS = 1000;
const SOCKETS = 10_000;

const at = (sorted: readonly number[], share: number) => sorted[Math.floor((sorted.length - 1) * share)] ?? Number.NaN;

/** Waits for the frame with this index and returns the time of its arrival. */
async function arrival(client: RawClient, index: number): Promise<number> {
  while (client.frames.length <= index) await client.next();
  return performance.now();
}

/**
 * Measures milliseconds from commit to arrival at each client, over ROUNDS consecutive events. Returns sorted values
 * per client.
 */
async function latencies({ db }: Connection, clients: readonly RawClient[]): Promise<number[][]> {
  const all: number[][] = clients.map(() => []);
  const before = clients.map(({ frames }) => frames.length);
  for (let round = 0; round < ROUNDS; round += 1) {
    const arrivals = clients.map((client, i) => arrival(client, (before[i] ?? 0) + round));
    await db.transaction((tx) =>
      recordEvent(tx, null, { code: "SERVICE_DISABLED", details: { serviceName: `S${round}` } }),
    );
    const committed = performance.now();
    for (const [i, arrived] of arrivals.entries()) all[i]?.push(Math.max(0, (await arrived) - committed));
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  for (const one of all) one.sort((a, b) => a - b);
  return all;
}

/** Starts the hand-written baseline in its own process: LISTEN, and each payload to every WebSocket. */
async function openBare(databaseUrl: string): Promise<{ url: string; stop(): void }> {
  const script = fileURLToPath(new URL("./bare-events.ts", import.meta.url));
  const child = fork(script, [databaseUrl, OUTBOX_CHANNEL], { execArgv: ["--import", "tsx"] });
  const port = await new Promise((resolve) => child.once("message", resolve));
  return { url: `ws://127.0.0.1:${String(port)}/`, stop: () => child.disconnect() };
}

type FromClients = { ready?: number; all?: string; at?: number };

function next(child: ChildProcess, wanted: keyof FromClients): Promise<FromClients> {
  return new Promise((resolve, reject) => {
    const listen = (message: FromClients) => {
      if (message[wanted] === undefined) return;
      child.off("message", listen);
      resolve(message);
    };
    child.on("message", listen);
    child.once("exit", (code) => reject(new Error(`the clients' process ended with ${code}`)));
  });
}

/** Measures the median of five fan-outs to the last of many clients, and the server's memory afterwards. */
async function fanOut(options: {
  server: RunningServer;
  connection: Connection;
  sockets: number;
}): Promise<{ ms: number; mb: number }> {
  const { server, connection, sockets } = options;
  const child = forkClients(server.url, sockets);
  await next(child, "ready");
  const all: number[] = [];
  for (let round = 0; round < 5; round += 1) {
    const arrived = next(child, "all");
    await connection.db.transaction((tx) =>
      recordEvent(tx, null, { code: "SERVICE_DISABLED", details: { serviceName: `F${round}` } }),
    );
    const committed = Date.now();
    all.push(((await arrived).at ?? Infinity) - committed);
  }
  const mb = megabytesOf(server.process.pid);
  child.disconnect();
  return {
    ms: at(
      all.sort((a, b) => a - b),
      0.5,
    ),
    mb,
  };
}

async function measure(databaseUrl: string, sockets: number): Promise<BenchRow[]> {
  const connection = connect(databaseUrl, { maxConnections: 2, applicationName: "faregate-bench-events" });
  if (isServerStale()) await buildServer();
  const server = await startEventServer(databaseUrl, { LOG_LEVEL: "error" }, "built Node");
  try {
    const own = await openPricings(server.url.replace("http", "ws") + HANDSHAKE);
    const bareServer = await openBare(databaseUrl);
    const other = await openRaw(bareServer.url);
    // Both receive the same events, so machine noise affects both. The first run warms up the JIT compilers.
    await latencies(connection, [own, other]);
    const [ours = [], bare = []] = await latencies(connection, [own, other]);
    own.close();
    other.close();
    bareServer.stop();
    const { ms, mb } = await fanOut({ server, connection, sockets });
    const p99 = at(ours, 0.99);
    const ratio = p99 / at(bare, 0.99);
    return [
      { name: "event, commit to client, p50 (ms)", value: at(ours, 0.5), target: "-", ok: true },
      { name: "event, commit to client, p99 (ms)", value: p99, target: "< 25", ok: p99 < 25 },
      { name: "bare LISTEN and ws, commit to client, p99 (ms)", value: at(bare, 0.99), target: "-", ok: true },
      { name: "event, p99 / bare LISTEN and ws", value: ratio, target: "<= 2", ok: ratio <= 2 },
      { name: `event to the last of ${sockets} sockets (ms)`, value: ms, target: "<= 350", ok: ms <= 350 },
      { name: `event server with ${sockets} sockets (MB)`, value: mb, target: "<= 260", ok: mb <= 260 },
    ];
  } finally {
    await server.stop();
    await connection.close();
  }
}

/**
 * Compares commit-to-client latency with a bare LISTEN and WebSocket, and measures 10,000 clients. Requires Linux and
 * some 10,100 open files for each of two processes (`ulimit -n 20000`); `quick` takes 500 clients.
 */
export async function run({ quick = false } = {}): Promise<BenchRow[]> {
  const folder = await mkdtemp(join(tmpdir(), "faregate-bench-"));
  const database = await startEmbeddedPostgres({ dataDir: folder, password: crypto.randomUUID() });
  try {
    await migrate(database.url, fileURLToPath(new URL("../../src/db/migrations", import.meta.url)));
    return await measure(database.url, quick ? 500 : SOCKETS);
  } finally {
    await database.stop();
    await rm(folder, { recursive: true, force: true });
  }
}
