import { spawn } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { isPackaged } from "../core/command-line.ts";
import { parseDatabaseUrl } from "../db/postgres/address.ts";
import { StartupProblem } from "../db/postgres/connect.ts";
import { openDataFolder } from "../db/postgres/embedded-machine.ts";
import { type EmbeddedPostgres, startEmbeddedPostgres } from "../db/postgres/embedded.ts";
import { directly, type Endpoint } from "../db/postgres/pooler.ts";
import { isConsoleStale } from "./build/console.ts";
import { buildServer, isServerStale } from "./build/server.ts";
import { type Config, readConfig, warningsOf, workerCount } from "./process/config.ts";
import { requireSecrets, type Secrets } from "./process/given-secrets.ts";
import { requireRepairedDriver } from "./platform/driver.ts";
import { requireFreePort } from "./platform/http-server.ts";
import { sessionsOf } from "./process/database-access.ts";
import { sentenceOf } from "./process/lifecycle.ts";
import { lockFolder } from "./process/lock.ts";
import { createLog } from "./process/log.ts";
import { prepareDatabase } from "./process/prepare-database.ts";
import { commandsOf, runtimeOf } from "./launcher/runtimes.ts";
import { loadOrCreateSecrets } from "./process/secrets.ts";
import { createBackoff, supervise, type Supervised } from "./launcher/supervisor.ts";

/*
 * `npm start` and `npx faregate-server`: starts the database, migrates it, creates the first ADMIN, then runs the REST process and the event
 * server until a signal. Any fatal failure stops everything, so that no partial system keeps running. The launcher runs
 * on Node; its argument selects the runtime of REST.
 */

/** npm repeats a terminal's Ctrl-C. Only a later signal counts as the second one. */
const SAME_SIGNAL_MS = 1000;

/** Closed in reverse order. */
const opened: (() => Promise<void> | void)[] = [];
const children: Supervised[] = [];
const stopping = new AbortController();
const stopRequested = once(stopping.signal, "abort");
let stoppedAt = 0;
let exitCode = 0;
let running = false;
/** A stop during a step takes effect when the step has finished. */
class Stopped extends Error {}

function report(sentence: string): void {
  process.stderr.write(`${sentence}\n`);
}

async function end(): Promise<never> {
  for (const undo of opened.toReversed()) {
    try {
      await undo();
    } catch (error) {
      report(sentenceOf(error));
      exitCode = 1;
    }
  }
  process.exit(exitCode);
}

function stop(code: number): void {
  if (stopping.signal.aborted) {
    if (Date.now() - stoppedAt < SAME_SIGNAL_MS) return;
    // The database's watchdog stops it once the children are gone.
    for (const child of children) child.kill();
    process.exit(1);
  }
  stoppedAt = Date.now();
  exitCode = code;
  stopping.abort();
  if (running) void end();
}

function giveUp(sentence: string): void {
  if (stopping.signal.aborted) return;
  report(sentence);
  stop(1);
}

/**
 * Awaits a step of the start.
 * @throws Stopped when the operator has requested a stop.
 */
async function step<T>(work: Promise<T>): Promise<T> {
  const result = await work;
  if (stopping.signal.aborted) throw new Stopped();
  return result;
}

async function main(): Promise<void> {
  requireRepairedDriver();
  const config = readConfig(process.env);
  const runtime = runtimeOf(process.argv[2]);
  // Checked before anything is created; the children detect later conflicts.
  for (const variable of ["PORT", "EVENTS_PORT"] as const) {
    await step(requireFreePort(config[variable], config.HOST, variable));
  }
  const building = runtime === "bun" ? Promise.resolve(false) : prepareServer();
  const consoleNote = buildConsoleMeanwhile();
  const { database, variables, secrets, place } = await step(openDatabase(config));
  const signIn = await step(prepareDatabase(config, secrets, database));
  const databaseUrl = variables["DATABASE_URL"] ?? config.DATABASE_URL;
  const commands = commandsOf(runtime, {
    isBuilt: await step(building),
    hasWorkers: workerCount(config) > 1,
    databaseUrl,
  });

  let position: number | undefined;
  const environment = {
    ...process.env,
    ...variables,
    JWT_SECRET: secrets.jwtSecret,
    JWT_SALT: secrets.jwtSalt,
    API_KEYS_SECRET: secrets.apiKeysSecret,
    ADMIN_PASSWORD: undefined,
    DATABASE_OWNER_URL: undefined,
    RESUME_AFTER: undefined,
  };
  const common = { report, onGivingUp: giveUp, drainDelayMs: config.DRAIN_DELAY * 1000 };
  children.push(
    supervise({
      ...common,
      name: "REST process",
      command: commands.rest,
      environment: () => environment,
    }),
    supervise({
      ...common,
      name: "event server",
      command: commands.events,
      environment: () => ({ ...environment, RESUME_AFTER: position?.toString() }),
      onMessage: (message) => {
        if (message.type === "position") position = message.id;
      },
    }),
  );
  opened.push(async () => void (await Promise.all(children.map((child) => child.stop()))));
  const ready = Promise.all(children.map((child) => child.ready));
  await step(Promise.race([ready, stopRequested]));
  process.stdout.write(banner(config, { place, signIn, consoleNote }));
}

/** Builds a missing or outdated server. Returns false if that is not possible: the sources run then, but start slower. */
async function prepareServer(): Promise<boolean> {
  if (isPackaged || !isServerStale()) return true;
  try {
    await buildServer();
    return true;
  } catch (error) {
    const isInstalled = !(error instanceof Error && "code" in error && error.code === "ERR_MODULE_NOT_FOUND");
    if (isInstalled) report(`The server could not be built, so its sources run: ${sentenceOf(error)}`);
    return false;
  }
}

/**
 * Builds a missing or outdated console during the rest of the start. Without development dependencies, the previous
 * build is served. Returns a remark for the operator.
 */
function buildConsoleMeanwhile(): string {
  if (isPackaged || !isConsoleStale()) return "";
  const { resolve } = createRequire(import.meta.url);
  try {
    resolve("vite/package.json");
  } catch {
    return "";
  }
  const script = fileURLToPath(new URL("./build/console.ts", import.meta.url));
  const build = spawn(process.execPath, ["--import", import.meta.resolve("tsx"), script], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  let said = "";
  build.stderr.setEncoding("utf8").on("data", (text: string) => (said += text));
  build.once("exit", (code) => {
    if (code !== null && code !== 0) report(`The console could not be built: ${said}`);
  });
  opened.push(() => void build.kill());
  return " (being built, some seconds)";
}

/** The database of this installation. */
interface OpenDatabase {
  database: Endpoint;
  /** For the processes that use it. */
  variables: Readonly<Record<string, string | undefined>>;
  secrets: Secrets;
  place: string;
}

/** Returns the given database, or starts an embedded one and keeps it running. */
async function openDatabase(config: Config): Promise<OpenDatabase> {
  if (config.DATABASE_URL !== undefined) {
    const { hosts = "", database = "" } = parseDatabaseUrl(config.DATABASE_URL) ?? {};
    const secrets = requireSecrets(config);
    return {
      database: await sessionsOf(config, config.DATABASE_URL),
      variables: {},
      secrets,
      place: `PostgreSQL ${hosts}/${database}`,
    };
  }
  const dataDir = openDataFolder(config.DATA_DIR);
  opened.push(lockFolder(dataDir));
  const secrets = loadOrCreateSecrets({ ...config, DATA_DIR: dataDir });
  const log = createLog(config.LOG_LEVEL, "database");
  const start = (port?: number) =>
    startEmbeddedPostgres({
      dataDir,
      password: secrets.databasePassword,
      port,
      log: (line) => log(/ (FATAL|PANIC): (?!.*starting up)/.test(line) ? "warn" : "debug", line),
    });
  let database = await start();
  let comingBack: Promise<void> | undefined;
  const backoff = createBackoff();
  const comeBack = async (reason: string) => {
    const delay = backoff();
    if (delay === undefined) return giveUp(`${reason}; it keeps ending, so everything is stopped.`);
    report(`${reason}; starting the database again.`);
    await Promise.race([new Promise((resolve) => setTimeout(resolve, delay)), stopRequested]);
    if (stopping.signal.aborted) return;
    try {
      // Restart on the same port and socket, where the children look for it.
      const { url, localUrl } = database;
      database = await start(Number(new URL(url).port));
      if (database.localUrl !== localUrl) throw new StartupProblem("The database is not where it was.");
      watch(database);
      report("The database is back.");
    } catch (error) {
      giveUp(`${sentenceOf(error)} Everything is stopped.`);
    }
  };
  const watch = (watched: EmbeddedPostgres) => {
    void watched.exited.then((reason) => {
      if (!stopping.signal.aborted) comingBack = comeBack(reason);
    });
  };
  watch(database);
  opened.push(async () => {
    await comingBack;
    await database.stop();
  });
  const variables = { DATABASE_URL: database.localUrl, DATABASE_DIRECT_URL: undefined, DATABASE_POOLER: "false" };
  return { database: directly(database.localUrl), variables, secrets, place: dataDir };
}

function banner(config: Config, notes: { place: string; signIn: string; consoleNote: string }): string {
  const any = config.HOST === undefined || config.HOST === "0.0.0.0" || config.HOST === "::";
  const host = any ? "localhost" : config.HOST?.includes(":") === true ? `[${config.HOST}]` : config.HOST;
  return `
Faregate is running; Ctrl-C stops it.
  Console       http://${host}:${config.PORT}${config.BASE_URL_PATH}/${notes.consoleNote}
  REST          http://${host}:${config.PORT}${config.BASE_URL_PATH}/api/v1
  Event server  http://${host}:${config.EVENTS_PORT}${config.BASE_URL_PATH}${config.EVENTS_ONLY ? "/events" : " (Socket.IO at /events, and everything REST answers)"}
  Data          ${notes.place}
  Sign in       ${notes.signIn}:
                POST /api/v1/users/authenticate
${warningsOf(config)
  .map((sentence) => `  Warning       ${sentence}\n`)
  .join("")}`;
}

// Under npm there is a shell that dies of the forwarded signal without notice.
if (process.env["npm_lifecycle_event"] !== undefined) {
  const parent = process.ppid;
  setInterval(() => {
    if (process.ppid !== parent && !stopping.signal.aborted) stop(0);
  }, 250).unref();
}
process.on("SIGINT", () => stop(0));
process.on("SIGTERM", () => stop(0));
const fail = (error: unknown) => giveUp(sentenceOf(error));
process.on("uncaughtException", fail);
process.on("unhandledRejection", fail);

try {
  await main();
  running = true;
  if (stopping.signal.aborted) await end();
} catch (error) {
  if (!(error instanceof Stopped)) {
    report(sentenceOf(error));
    exitCode = 1;
  }
  stopping.abort();
  await end();
}
