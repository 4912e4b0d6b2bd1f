import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { Agent } from "node:http";
import { join, resolve } from "node:path";
import { inject } from "vitest";
import { connect, type Connection } from "../../src/db/postgres/connect.ts";
import { startEmbeddedPostgres } from "../../src/db/postgres/embedded.ts";
import { copyCluster } from "./cluster-setup.ts";
import { makeDatabaseFolder } from "./database-folder.ts";
import { freePort, METRICS_TOKEN, REST, TEST_SECRETS } from "./event-server.ts";
import { exchange } from "./exchange.ts";
import { contractUsers } from "./seed.ts";
import { childrenOf, metricsOf, sumByWorker } from "./workers.ts";

const ROOT = resolve(import.meta.dirname, "../..");

export interface KillableAnswer<Body> {
  status: number;
  body: Body;
}

/** A later answer counts as a broken connection. */
const ANSWER_MS = 10_000;

const pause = (milliseconds: number) => new Promise((wait) => setTimeout(wait, milliseconds));

/** REST processes and their Postgres, all of which can be killed and come back at the same ports. */
export interface Killable {
  /** Key of scope ALL of the contracted users' organization. */
  key: string;
  /** Headers of a JSON request with that key. */
  headers: Record<string, string>;
  /** Address at a REST process, by its number. Default: the first. */
  url(path: string, process?: number): string;
  /**
   * Kills a REST process and returns when another listens in its place. Default: the first. Of workers: the oldest.
   */
  killRest(process?: number): Promise<void>;
  killDatabase(): Promise<void>;
  /** Sends a call to one of the processes. Default: a random one. Status 0 is a broken connection. */
  send<Body>(
    method: string,
    path: string,
    body?: object,
    idempotencyKey?: string,
    to?: { process?: number; withinMs?: number },
  ): Promise<KillableAnswer<Body>>;
  /** Repeats a call until it is answered by a process that reaches its database. */
  sendUntilAnswered<Body>(
    method: string,
    path: string,
    body?: object,
    idempotencyKey?: string,
  ): Promise<KillableAnswer<Body>>;
  /**
   * Reads the database over and over until the signal aborts, through kills of it. `reads` counts them, and `ended` resolves
   * after the last one.
   */
  watch(
    signal: AbortSignal,
    read: (client: Connection["client"]) => Promise<void>,
  ): { reads: () => number; ended: Promise<void> };
  /** True if every REST process has survived the kills of its database. Of workers: their primary process. */
  isRestRunning(): boolean;
  connect(): Connection;
  close(): Promise<void>;
}

export interface KillableOptions {
  /** REST processes. Default: 1. */
  processes?: number;
  /** The processes are workers behind one port. Each request takes a connection of its own, for any of them. */
  areWorkers?: boolean;
}

/** Starts REST processes and their Postgres, with contracts of the users in `seed`. */
export async function startKillable(
  seed: Parameters<typeof contractUsers>[1],
  { processes = 1, areWorkers = false }: KillableOptions = {},
): Promise<Killable> {
  const folder = makeDatabaseFolder("faults");
  const cluster = inject("cluster");
  copyCluster(cluster, folder);
  const { password } = cluster;
  const databasePort = await freePort();
  const startDatabase = () => startEmbeddedPostgres({ dataDir: folder, password, port: databasePort });
  let database = await startDatabase();
  const connection = connect(database.url);
  const key = await contractUsers(connection, seed);
  await connection.close();
  const headers = {
    "x-api-key": key,
    "content-type": "application/json",
    ...(areWorkers ? { connection: "close" } : {}),
  };
  const ports = await Promise.all(Array.from({ length: areWorkers ? 1 : processes }, freePort));
  const origin = (process: number) => `http://127.0.0.1:${ports[process % ports.length]}`;
  const url = (path: string, process = 0) => `${origin(process)}/api/v1${path}`;
  const [program, ...args] = REST;
  let output = "";
  const startRest = (port: number): ChildProcess => {
    const rest = spawn(program, args, {
      cwd: ROOT,
      env: {
        ...process.env,
        ...TEST_SECRETS,
        DATABASE_URL: database.url,
        PORT: String(port),
        LOG_LEVEL: areWorkers ? "warn" : "error",
        ...(areWorkers ? { WORKERS: String(processes), METRICS_TOKEN } : {}),
      },
      stdio: ["ignore", areWorkers ? "pipe" : "ignore", areWorkers ? "pipe" : "ignore"],
    });
    for (const stream of [rest.stdout, rest.stderr])
      stream?.on("data", (chunk: Buffer) => (output += chunk.toString()));
    return rest;
  };
  const rests = ports.map(startRest);
  const agent = new Agent({ keepAlive: !areWorkers });
  const send: Killable["send"] = async <Body>(
    method: string,
    path: string,
    body?: object,
    idempotencyKey?: string,
    { process = Math.floor(Math.random() * processes), withinMs = ANSWER_MS } = {},
  ): Promise<KillableAnswer<Body>> => {
    const given = {
      method,
      agent,
      timeout: withinMs,
      headers: { ...headers, ...(idempotencyKey === undefined ? {} : { "idempotency-key": idempotencyKey }) },
    };
    try {
      const { status, text } = await exchange(url(path, process), given, body && JSON.stringify(body));
      return { status, body: JSON.parse(text || "{}") };
    } catch {
      return { status: 0, body: JSON.parse("{}") };
    }
  };
  // Reads the database, and waits for no lock of the callers on a contract.
  const serves = async (process: number) =>
    (await send("GET", "/services", undefined, undefined, { process })).status === 200;
  /** True once a process has read its schema, with no need to wait for a connection of its pool. */
  const isListening = async (process: number) =>
    (await exchange(`${origin(process)}/live`, { agent, timeout: ANSWER_MS })).status === 200;
  const allServe = async () => {
    const isServed = await Promise.all(Array.from({ length: processes }, (_, process) => serves(process)));
    return isServed.every(Boolean);
  };
  const eachWorkerHasServed = async () => {
    const calls = sumByWorker(await metricsOf(origin(0)), "faregate_http_requests_total", 'method="GET"');
    return calls.size === processes && [...calls.values()].every((count) => count > 0);
  };
  await until(async () => (await allServe()) && (!areWorkers || (await eachWorkerHasServed())), "the first start");
  return {
    send,
    sendUntilAnswered: async <Body>(method: string, path: string, body?: object, idempotencyKey?: string) => {
      for (;;) {
        const answer = await send<Body>(method, path, body, idempotencyKey);
        if (answer.status !== 0 && answer.status !== 503) return answer;
        await pause(100);
      }
    },
    watch: (signal, read) => {
      let reads = 0;
      const watching = async () => {
        while (!signal.aborted) {
          const connection = connect(database.url);
          try {
            for (; !signal.aborted; reads += 1) {
              await read(connection.client);
              await pause(5);
            }
          } catch {
            await pause(50);
          } finally {
            await connection.close(0);
          }
        }
      };
      return { reads: () => reads, ended: watching() };
    },
    key,
    headers,
    url,
    killRest: async (number = 0) => {
      const [rest, port] = [rests[number % rests.length], ports[number % ports.length]];
      if (rest === undefined || port === undefined) throw new Error(`there is no REST process ${number}`);
      if (areWorkers) {
        const [oldest] = childrenOf(rest.pid);
        if (oldest === undefined) throw new Error("there is no worker");
        const returns = () => output.split(" is back.").length;
        const before = returns();
        process.kill(oldest, "SIGKILL");
        // Under load a scrape leaves out workers whose connections are all busy, so that metrics would tell it late.
        return until(async () => returns() > before, "a worker's return");
      }
      const gone = new Promise((done) => rest.once("exit", done));
      rest.kill("SIGKILL");
      await gone;
      rests[number] = startRest(port);
      return until(() => isListening(number), "REST's return");
    },
    killDatabase: async () => {
      const pid = Number.parseInt(readFileSync(join(folder, "postgres", "postmaster.pid"), "utf8"), 10);
      const gone = database.exited;
      process.kill(pid, "SIGKILL");
      await gone;
      database = await startDatabase();
      await until(allServe, "service after the database's return");
    },
    isRestRunning: () => rests.every((rest) => rest.exitCode === null),
    connect: () => connect(database.url),
    close: async () => {
      agent.destroy();
      for (const rest of rests) rest.kill("SIGKILL");
      await database.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function until(condition: () => Promise<boolean>, what: string): Promise<void> {
  const deadline = Date.now() + 120_000;
  while (!(await condition().catch(() => false))) {
    if (Date.now() > deadline) throw new Error(`${what} took more than two minutes`);
    await pause(20);
  }
}
