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

/** A REST process and its Postgres, both of which can be killed and come back at the same ports. */
export interface Killable {
  /** Key of scope ALL of the contracted users' organization. */
  key: string;
  url(path: string): string;
  killRest(): Promise<void>;
  killDatabase(): Promise<void>;
  /** True if REST has survived the kills of its database. */
  isRestRunning(): boolean;
  connect(): Connection;
  close(): Promise<void>;
}

/** Starts both, with contracts of these users. */
export async function startKillable(seed: Parameters<typeof contractUsers>[1]): Promise<Killable> {
  const folder = await mkdtemp(join(tmpdir(), "faregate-faults-"));
  const password = crypto.randomUUID();
  const databasePort = await freePort();
  const startDatabase = () => startEmbeddedPostgres({ dataDir: folder, password, port: databasePort });
  let database = await startDatabase();
  await migrate(database.url, MIGRATIONS);
  const connection = connect(database.url);
  const key = await contractUsers(connection, seed);
  await connection.close();
  const port = await freePort();
  const url = (path: string) => `http://127.0.0.1:${port}/api/v1${path}`;
  const startRest = (): ChildProcess =>
    spawn(process.execPath, ["--import", "tsx", "src/entries/node.ts"], {
      cwd: ROOT,
      env: { ...process.env, ...TEST_SECRETS, DATABASE_URL: database.url, PORT: String(port), LOG_LEVEL: "error" },
      stdio: "ignore",
    });
  let rest = startRest();
  const serves = async () =>
    (await fetch(url(`/features/${seed.userIds[0]}`), { method: "POST", headers: { "x-api-key": key } })).ok;
  await until(serves, "the first start");
  return {
    key,
    url,
    killRest: async () => {
      const gone = new Promise((done) => rest.once("exit", done));
      rest.kill("SIGKILL");
      await gone;
      rest = startRest();
      await until(serves, "REST's return");
    },
    killDatabase: async () => {
      const pid = Number.parseInt(readFileSync(join(folder, "postgres", "postmaster.pid"), "utf8"), 10);
      const gone = database.exited;
      process.kill(pid, "SIGKILL");
      await gone;
      database = await startDatabase();
      await until(serves, "service after the database's return");
    },
    isRestRunning: () => rest.exitCode === null,
    connect: () => connect(database.url),
    close: async () => {
      rest.kill("SIGKILL");
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
