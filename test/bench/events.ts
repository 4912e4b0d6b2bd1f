import { type ChildProcess, fork } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { connect, type Connection } from "../../src/db/connect.ts";
import { startEmbeddedPostgres } from "../../src/db/embedded.ts";
import { migrate } from "../../src/db/migrate.ts";
import { OUTBOX_CHANNEL, recordEvent } from "../../src/db/outbox.ts";
import { HANDSHAKE } from "../events/in-process.ts";
import { openPricings, openRaw, type RawClient } from "../events/raw-client.ts";
import { type RunningServer, startEventServer } from "../support/event-server.ts";
import type { BenchRow } from "./pricing.ts";

const ROUNDS = 300;
const SOCKETS = 5000;

const at = (sorted: readonly number[], share: number) => sorted[Math.floor((sorted.length - 1) * share)] ?? Number.NaN;

/** Milliseconds from the commit to the client, of so many events one after the other. */
async function latencies({ db }: Connection, arrived: (index: number) => Promise<unknown>): Promise<number[]> {
  const all: number[] = [];
  for (let index = 0; index < ROUNDS; index += 1) {
    await db.transaction((tx) =>
      recordEvent(tx, null, { code: "SERVICE_DISABLED", details: { serviceName: `S${index}` } }),
    );
    const committed = performance.now();
    await arrived(index);
    all.push(performance.now() - committed);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  return all.sort((a, b) => a - b);
}

/** Waits without the pauses of `frame`, which are longer than what is measured. */
async function arrival({ frames }: RawClient, index: number): Promise<void> {
  while (frames.length <= index) await new Promise((resolve) => setImmediate(resolve));
}

interface BareServer {
  clients: Set<{ send(text: string): void }>;
  on(event: "connection", listener: () => void): void;
}

/** What one would write by hand: LISTEN, and the payload to every WebSocket. */
async function bareLatencies(connection: Connection): Promise<number[]> {
  const { WebSocketServer } = createRequire(createRequire(import.meta.url).resolve("engine.io"))("ws") as {
    WebSocketServer: new (options: { server: object }) => BareServer;
  };
  const server = createServer();
  const sockets = new WebSocketServer({ server });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const listening = await connection.client.listen(OUTBOX_CHANNEL, (id) => {
    for (const client of sockets.clients) client.send(id);
  });
  const client = await openRaw(`ws://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  const measured = await latencies(connection, (index) => arrival(client, index));
  client.close();
  await listening.unlisten();
  server.close();
  return measured;
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

const megabytes = (pid: number | undefined) =>
  Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024;

/** How long an event takes to the last of many clients, the median of five, and what the server then weighs. */
async function fanOut(options: {
  server: RunningServer;
  connection: Connection;
  sockets: number;
}): Promise<{ ms: number; mb: number }> {
  const { server, connection, sockets } = options;
  const script = fileURLToPath(new URL("./event-clients.ts", import.meta.url));
  const given = [server.url.replace("http", "ws") + HANDSHAKE, String(sockets)];
  const child = fork(script, given, { execArgv: ["--import", "tsx"] });
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
  const mb = megabytes(server.process.pid);
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
  const server = await startEventServer(databaseUrl, { LOG_LEVEL: "error" });
  try {
    const client = await openPricings(server.url.replace("http", "ws") + HANDSHAKE);
    // The first hundreds are for the compilers.
    await latencies(connection, (index) => arrival(client, 2 + index));
    const ours = await latencies(connection, (index) => arrival(client, 2 + ROUNDS + index));
    client.close();
    await bareLatencies(connection);
    const bare = await bareLatencies(connection);
    const { ms, mb } = await fanOut({ server, connection, sockets });
    const p99 = at(ours, 0.99);
    const ratio = p99 / at(bare, 0.99);
    return [
      { name: "event, commit to client, p50 (ms)", value: at(ours, 0.5), target: "-", ok: true },
      { name: "event, commit to client, p99 (ms)", value: p99, target: "< 25", ok: p99 < 25 },
      { name: "bare LISTEN and ws, commit to client, p99 (ms)", value: at(bare, 0.99), target: "-", ok: true },
      { name: "event, p99 / bare LISTEN and ws", value: ratio, target: "<= 2", ok: ratio <= 2 },
      { name: `event to the last of ${sockets} sockets (ms)`, value: ms, target: "< 1000", ok: ms < 1000 },
      { name: `event server with ${sockets} sockets (MB)`, value: mb, target: "< 500", ok: mb < 500 },
    ];
  } finally {
    await server.stop();
    await connection.close();
  }
}

/**
 * Commit to client, beside a bare LISTEN and WebSocket in the same run, and what 5,000 clients cost. Linux, and some 5,100
 * open files for each of two processes (`ulimit -n 20000`); `quick` takes 500 clients.
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
