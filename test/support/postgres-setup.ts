import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { startEmbeddedPostgres } from "../../src/db/postgres/embedded.ts";
import { detectPooler, type Pooler } from "../../src/db/postgres/pooler.ts";
import { migrate } from "../../src/db/migrate.ts";
import { createDebianCluster, startDebianPostgres } from "./debian-postgres.ts";
import { POOLED_SERVER, POOLER, serverOf } from "./event-server.ts";
import { startPgBouncer } from "./pgbouncer.ts";
import { MIGRATIONS, onServer, withDatabase } from "./postgres-server.ts";

declare module "vitest" {
  interface ProvidedContext {
    /**
     * Server on which tests may create databases, and the migrated template that they clone. `pooled` is set where the
     * application reaches the server through a transaction pooler.
     */
    postgres: { url: string; template: string; pooled: { url: string; pooler: Pooler | undefined } | undefined };
  }
}

/** Projects whose tests prove durability. */
const NEEDS_DURABILITY = new Set(["faults", "runtimes", "e2e"]);

/**
 * Starts one Postgres for the whole run and migrates one template database. TEST_DATABASE_URL (a role that may create
 * databases) selects an existing server. Default: an embedded one in a temporary folder. There commits do not wait for
 * the disk, except in the projects that kill what they start.
 *
 * With TEST_DATABASE_DIRECT_URL, TEST_DATABASE_URL is a transaction pooler in front of that server. TEST_POOLER=true starts
 * one, and TEST_POSTGRES=debian starts Debian's Postgres instead of the embedded one.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const server = await openServers();
  const template = `faregate_template_${crypto.randomUUID().slice(0, 8)}_test`;
  const dropTemplate = () => onServer(server.url, `drop database if exists ${template} with (force)`);
  try {
    await onServer(server.url, `create database ${template}`);
    await migrate(withDatabase(server.url, template), MIGRATIONS);
    if (server.isOwn && !NEEDS_DURABILITY.has(project.name)) {
      await onServer(server.url, "alter system set synchronous_commit = off");
      await onServer(server.url, "select pg_reload_conf()");
    }
    const { pooledUrl } = server;
    const pooled = pooledUrl === undefined ? undefined : { url: pooledUrl, pooler: await detectPooler(pooledUrl) };
    project.provide("postgres", { url: server.url, template, pooled });
    // For the processes that tests start; see event-server.ts.
    process.env[POOLED_SERVER] = serverOf(server.url);
    process.env[POOLER] = server.pooledUrl === undefined ? "" : new URL(server.pooledUrl).host;
  } catch (error) {
    await dropTemplate().catch(() => {});
    await server.stop();
    throw error;
  }
  return async () => {
    await dropTemplate().catch(() => {});
    await server.stop();
  };
}

interface Server {
  url: string;
  isOwn: boolean;
  stop(): Promise<void>;
}

async function openServers(): Promise<Server & { pooledUrl: string | undefined }> {
  const { TEST_DATABASE_URL: given = "", TEST_DATABASE_DIRECT_URL: direct = "", TEST_POOLER: isPooled } = process.env;
  if (given !== "") {
    const stop = async () => {};
    if (direct === "") return { url: given, pooledUrl: undefined, isOwn: false, stop };
    return { url: direct, pooledUrl: given, isOwn: false, stop };
  }
  const server = await openServer();
  if (isPooled !== "true") return { ...server, pooledUrl: undefined };
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

async function openServer(): Promise<Server> {
  const dataDir = await mkdtemp(join(tmpdir(), "faregate-test-"));
  try {
    await chmod(dataDir, 0o755);
    const password = crypto.randomUUID();
    const server =
      process.env["TEST_POSTGRES"] === "debian"
        ? await openDebian(dataDir, password)
        : await startEmbeddedPostgres({ dataDir, password });
    return {
      url: server.url,
      isOwn: true,
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
