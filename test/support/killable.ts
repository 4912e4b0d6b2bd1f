import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { connect, type Connection } from "../../src/db/postgres/connect.ts";
import { startEmbeddedPostgres } from "../../src/db/postgres/embedded.ts";
import { migrate } from "../../src/db/migrate.ts";
import { freePort, TEST_SECRETS } from "./event-server.ts";
import { MIGRATIONS } from "./postgres-server.ts";
import { contractUsers } from "./seed.ts";

const ROOT = resolve(import.meta.dirname, "../..");

/** REST processes and their Postgres, all of which can be killed and come back at the same ports. */
export interface Killable {
  /** Key of scope ALL of the contracted users' organization. */
  key: string;
  /** Address at a REST process, by its number. Default: the first. */
  url(path: string, process?: number): string;
  /** Kills a REST process and returns when another serves in its place. Default: the first. */
  killRest(process?: number): Promise<void>;
  killDatabase(): Promise<void>;
  /** True if every REST process has survived the kills of its database. */
  isRestRunning(): boolean;
  connect(): Connection;
  close(): Promise<void>;
}

/** Starts `processes` of REST and their Postgres, with contracts of the users in `seed`. */
export async function startKillable(
  seed: Parameters<typeof contractUsers>[1],
  { processes = 1 } = {},
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
  const ports = await Promise.all(Array.from({ length: processes }, freePort));
  const url = (path: string, process = 0) => `http://127.0.0.1:${ports[process]}/api/v1${path}`;
  const startRest = (port: number): ChildProcess =>
    spawn(process.execPath, ["--import", "tsx", "src/entries/node.ts"], {
      cwd: ROOT,
      env: { ...process.env, ...TEST_SECRETS, DATABASE_URL: database.url, PORT: String(port), LOG_LEVEL: "error" },
      stdio: "ignore",
    });
  const rests = ports.map(startRest);
  const serves = async (process: number) =>
    (await fetch(url(`/features/${seed.userIds[0]}`, process), { method: "POST", headers: { "x-api-key": key } })).ok;
  const allServe = async () => (await Promise.all(rests.map((_, process) => serves(process)))).every(Boolean);
  await until(allServe, "the first start");
  return {
    key,
    url,
    killRest: async (process = 0) => {
      const [rest, port] = [rests[process], ports[process]];
      if (rest === undefined || port === undefined) throw new Error(`there is no REST process ${process}`);
      const gone = new Promise((done) => rest.once("exit", done));
      rest.kill("SIGKILL");
      await gone;
      rests[process] = startRest(port);
      await until(() => serves(process), "REST's return");
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
  const deadline = Date.now() + 20_000;
  while (!(await condition().catch(() => false))) {
    if (Date.now() > deadline) throw new Error(`${what} took more than 20 s`);
    await new Promise((wait) => setTimeout(wait, 20));
  }
}
