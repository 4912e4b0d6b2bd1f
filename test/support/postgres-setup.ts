import { chmod, rm } from "node:fs/promises";
import { join } from "node:path";
import type { ProvidedContext } from "vitest";
import type { TestProject } from "vitest/node";
import { startEmbeddedPostgres } from "../../src/db/postgres/embedded.ts";
import { detectPooler, type Pooler } from "../../src/db/postgres/pooler.ts";
import { migrate } from "../../src/db/migrate.ts";
import { isInMemory, makeDatabaseFolder } from "./database-folder.ts";
import { createDebianCluster, startDebianPostgres } from "./debian-postgres.ts";
import { putInFront } from "./event-server.ts";
import { readWorkers, type Worker } from "./distributed-database.ts";
import { startPgBouncer } from "./pgbouncer.ts";
import { forgetStatements } from "./recorded-statements.ts";
import { callersTemplateOf, MIGRATIONS, onServer, withDatabase } from "./postgres-server.ts";

declare module "vitest" {
  interface ProvidedContext {
    /**
     * Server on which tests may create databases, and the migrated template that they clone, with the quickest strategy.
     * `pooled` is set where the application reaches the server through a transaction pooler.
     */
    postgres: {
      url: string;
      template: string;
      strategy: Strategy;
      pooled: { url: string; pooler: Pooler | undefined } | undefined;
      /** Workers of the coordinator at `url`, on which databases are distributed. Empty on one Postgres. */
      workers: readonly Worker[];
    };
  }
}

const SHARED = Symbol.for("faregate.test-servers");

/** Strategy of CREATE DATABASE. */
type Strategy = "file_copy" | "wal_log";

/** Servers of projects that do not share one: versions of Postgres, poolers, and the coordinator at CITUS_URL. */
const VERSIONS: Readonly<Record<string, Wanted | "citus">> = {
  citus: "citus",
  "versions-debian-pooled": { isDebian: true, isPooled: true },
  "versions-debian": { isDebian: true, isPooled: false },
  "versions-embedded-pooled": { isDebian: false, isPooled: true },
};

/** Projects that reach the embedded server over its Unix-domain socket, which takes less processor time than TCP. */
const OVER_SOCKET = new Set(["postgres", "slow", "faults"]);

/** Projects whose tests prove durability. */
const NEEDS_DURABILITY = new Set(["faults", "runtimes", "e2e"]);

/** A started server with its migrated template. */
interface Running {
  provided: ProvidedContext["postgres"];
  localUrl: string;
  pooledUrl: string | undefined;
  stop(): Promise<void>;
}

/** Servers that projects of this process share, by whether commits wait for the disk. Each project loads this module anew. */
const shared: Map<boolean, { users: number; running: Promise<Running> }> = ((
  globalThis as { [SHARED]?: typeof shared }
)[SHARED] ??= new Map());

/**
 * Starts one Postgres for the whole run and migrates one template database. TEST_DATABASE_URL (a role that may create
 * databases) selects an existing server. Default: an embedded one in a temporary folder, in memory where that has room.
 * There commits do not wait for the disk, except in the projects that kill what they start.
 *
 * With TEST_DATABASE_DIRECT_URL, TEST_DATABASE_URL is a transaction pooler in front of that server. TEST_POOLER=true starts
 * one, and TEST_POSTGRES=debian starts Debian's Postgres instead of the embedded one. The projects of VERSIONS start their own.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  if (project.name === "postgres") forgetStatements();
  const isDurable = NEEDS_DURABILITY.has(project.name);
  const version = VERSIONS[project.name];
  const { provided, localUrl, pooledUrl, stop } = await (version === undefined
    ? shareServer(isDurable)
    : start(version, isDurable));
  const isLocal = OVER_SOCKET.has(project.name) && pooledUrl === undefined;
  project.provide("postgres", isLocal ? { ...provided, url: localUrl } : provided);
  // For the processes that tests start.
  if (pooledUrl !== undefined) putInFront(pooledUrl, provided.url);
  return stop;
}

/** Starts the server for the first project. The last one stops it. */
async function shareServer(isDurable: boolean): Promise<Running> {
  let entry = shared.get(isDurable);
  if (entry === undefined) {
    entry = { users: 0, running: start(undefined, isDurable) };
    shared.set(isDurable, entry);
  }
  const used = entry;
  used.users += 1;
  const running = await used.running;
  return {
    ...running,
    stop: async () => {
      used.users -= 1;
      if (used.users > 0) return;
      shared.delete(isDurable);
      await running.stop();
    },
  };
}

async function start(version: Wanted | "citus" | undefined, isDurable: boolean): Promise<Running> {
  const server = await serverOf(version);
  const template = `faregate_template_${crypto.randomUUID().slice(0, 8)}_test`;
  const dropTemplates = async () => {
    for (const name of [callersTemplateOf(template), template])
      await onServer(server.url, `drop database if exists ${name} with (force)`);
  };
  const stop = async () => {
    await dropTemplates().catch(() => {});
    await server.stop();
  };
  try {
    await onServer(server.url, `create database ${template}`);
    await migrate(withDatabase(server.url, template), MIGRATIONS);
    if (server.isOwn && !isDurable) {
      await onServer(server.url, "alter system set synchronous_commit = off");
      await onServer(server.url, "select pg_reload_conf()");
    }
    const { pooledUrl } = server;
    // As the doctor advises behind a pooler.
    if (server.isOwn && pooledUrl !== undefined) await onServer(server.url, "alter role current_user set jit = off");
    const pooled = pooledUrl === undefined ? undefined : { url: pooledUrl, pooler: await detectPooler(pooledUrl) };
    const { url, localUrl, strategy, workers = [] } = server;
    return { provided: { url, template, strategy, pooled, workers }, localUrl, pooledUrl, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

function serverOf(version: Wanted | "citus" | undefined): Promise<Servers> {
  if (version === undefined) return givenServer();
  return version === "citus" ? coordinator() : openServers(version);
}

interface Server {
  url: string;
  localUrl: string;
  /** Default: none. */
  workers?: readonly Worker[];
  isOwn: boolean;
  strategy: Strategy;
  stop(): Promise<void>;
}

type Servers = Server & { pooledUrl: string | undefined };

interface Wanted {
  isDebian: boolean;
  isPooled: boolean;
}

/** Returns the server that the environment names, or starts the one that it describes. */
async function givenServer(): Promise<Servers> {
  const { TEST_DATABASE_URL: given = "", TEST_DATABASE_DIRECT_URL: direct = "" } = process.env;
  if (given === "") {
    const { TEST_POSTGRES, TEST_POOLER } = process.env;
    return openServers({ isDebian: TEST_POSTGRES === "debian", isPooled: TEST_POOLER === "true" });
  }
  const server = { isOwn: false, strategy: "wal_log", stop: async () => {} } as const;
  if (direct === "") return { ...server, url: given, localUrl: given, pooledUrl: undefined };
  return { ...server, url: direct, localUrl: direct, pooledUrl: given };
}

/** Returns the coordinator at CITUS_URL, whose role may create databases there and on all workers. */
async function coordinator(): Promise<Servers> {
  const { CITUS_URL: url = "" } = process.env;
  const workers = await readWorkers(url);
  return { url, localUrl: url, workers, isOwn: false, strategy: "wal_log", stop: async () => {}, pooledUrl: undefined };
}

async function openServers({ isDebian, isPooled }: Wanted): Promise<Servers> {
  const server = await openServer(isDebian);
  if (!isPooled) return { ...server, pooledUrl: undefined };
  const pooler = await startPgBouncer(server.url);
  return {
    ...server,
    pooledUrl: pooler.url("postgres"),
    stop: async () => {
      await pooler.stop();
      await server.stop();
    },
  };
}

async function openServer(isDebian: boolean): Promise<Server> {
  const dataDir = makeDatabaseFolder("test");
  try {
    await chmod(dataDir, 0o755);
    const password = crypto.randomUUID();
    const server = isDebian ? await openDebian(dataDir, password) : await startEmbeddedPostgres({ dataDir, password });
    return {
      url: server.url,
      localUrl: "localUrl" in server ? server.localUrl : server.url,
      isOwn: true,
      // Copies of files in memory cost less than a log entry for each page.
      strategy: isInMemory(dataDir) ? "file_copy" : "wal_log",
      stop: async () => {
        await server.stop();
        await rm(dataDir, { recursive: true, force: true });
      },
    };
  } catch (error) {
    await rm(dataDir, { recursive: true, force: true });
    throw error;
  }
}

function openDebian(folder: string, password: string) {
  const data = join(folder, "postgres");
  createDebianCluster(data, password);
  return startDebianPostgres(data, password);
}
