import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { connect, type Connection } from "../../src/db/postgres/connect.ts";
import { startEmbeddedPostgres } from "../../src/db/postgres/embedded.ts";
import { migrate } from "../../src/db/migrate.ts";
import { freePort, METRICS_TOKEN, REST, TEST_SECRETS } from "./event-server.ts";
import { MIGRATIONS } from "./postgres-server.ts";
import { contractUsers } from "./seed.ts";
import { childrenOf, metricsOf, sumByWorker } from "./workers.ts";

const ROOT = resolve(import.meta.dirname, "../..");

export interface KillableAnswer<Body> {
  status: number;
  body: Body;
}

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
   * Kills a REST process and returns when another serves in its place. Default: the first. Of workers: the oldest; it
   * returns when each worker has answered.
   */
  killRest(process?: number): Promise<void>;
  killDatabase(): Promise<void>;
  /** Sends a call to one of the processes. Status 0 is a broken connection. */
  send<Body>(method: string, path: string, body?: object, idempotencyKey?: string): Promise<KillableAnswer<Body>>;
  /** Repeats a call until it is answered by a process that reaches its database. */
  sendUntilAnswered<Body>(
    method: string,
    path: string,
    body?: object,
    idempotencyKey?: string,
  ): Promise<KillableAnswer<Body>>;
  /** Reads the database over and over until the signal aborts, through kills of it. Returns the number of reads. */
  watch(signal: AbortSignal, read: (client: Connection["client"]) => Promise<void>): Promise<number>;
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
  const folder = await mkdtemp(join(tmpdir(), "faregate-faults-"));
  const password = crypto.randomUUID();
  const databasePort = await freePort();
  const startDatabase = () => startEmbeddedPostgres({ dataDir: folder, password, port: databasePort });
  let database = await startDatabase();
  await migrate(database.url, MIGRATIONS);
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
  const startRest = (port: number): ChildProcess =>
    spawn(program, args, {
      cwd: ROOT,
      env: {
        ...process.env,
        ...TEST_SECRETS,
        DATABASE_URL: database.url,
        PORT: String(port),
        LOG_LEVEL: "error",
        ...(areWorkers ? { WORKERS: String(processes), METRICS_TOKEN } : {}),
      },
      stdio: "ignore",
    });
  const rests = ports.map(startRest);
  const serves = async (process: number) =>
    (await fetch(url(`/features/${seed.userIds[0]}`, process), { method: "POST", headers })).ok;
  /** True if each process serves; each worker has to count a call first. */
  const allServe = async () => {
    const isServed = await Promise.all(Array.from({ length: processes }, (_, process) => serves(process)));
    if (!areWorkers) return isServed.every(Boolean);
    const calls = sumByWorker(await metricsOf(origin(0)), "faregate_http_requests_total", 'method="POST"');
    return isServed.every(Boolean) && calls.size === processes && [...calls.values()].every((count) => count > 0);
  };
  await until(allServe, "the first start");
  const send: Killable["send"] = async <Body>(
    method: string,
    path: string,
    body?: object,
    idempotencyKey?: string,
  ): Promise<KillableAnswer<Body>> => {
    try {
      const answer = await fetch(url(path, Math.floor(Math.random() * processes)), {
        method,
        headers: { ...headers, ...(idempotencyKey === undefined ? {} : { "idempotency-key": idempotencyKey }) },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        signal: AbortSignal.timeout(10_000),
      });
      const text = await answer.text();
      return { status: answer.status, body: JSON.parse(text || "{}") };
    } catch {
      return { status: 0, body: JSON.parse("{}") };
    }
  };
  return {
    send,
    sendUntilAnswered: async <Body>(method: string, path: string, body?: object, idempotencyKey?: string) => {
      for (;;) {
        const answer = await send<Body>(method, path, body, idempotencyKey);
        if (answer.status !== 0 && answer.status !== 503) return answer;
        await pause(100);
      }
    },
    watch: async (signal, read) => {
      let reads = 0;
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
      return reads;
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
        process.kill(oldest, "SIGKILL");
        await until(async () => !childrenOf(rest.pid).includes(oldest), "the end of a worker");
        return until(allServe, "a worker's return");
      }
      const gone = new Promise((done) => rest.once("exit", done));
      rest.kill("SIGKILL");
      await gone;
      rests[number] = startRest(port);
      return until(() => serves(number), "REST's return");
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
      for (const rest of rests) rest.kill("SIGKILL");
      await database.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function until(condition: () => Promise<boolean>, what: string): Promise<void> {
  const deadline = Date.now() + 60_000;
  while (!(await condition().catch(() => false))) {
    if (Date.now() > deadline) throw new Error(`${what} took more than a minute`);
    await pause(20);
  }
}
