import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { TestProject } from "vitest/node";
import { connect } from "../../src/db/postgres/connect.ts";
import { startEmbeddedPostgres } from "../../src/db/postgres/embedded.ts";
import { migrate } from "../../src/db/migrate.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** Server on which tests may create databases, and the migrated template that they clone. */
    postgres: { url: string; template: string };
  }
}

export const MIGRATIONS = fileURLToPath(new URL("../../src/db/migrations", import.meta.url));

/** Projects whose tests prove durability. */
const NEEDS_DURABILITY = new Set(["faults", "runtimes", "e2e"]);

/**
 * Starts one Postgres for the whole run and migrates one template database. TEST_DATABASE_URL (a role that may create
 * databases) selects an existing server. Default: an embedded one in a temporary folder. There commits do not wait for
 * the disk, except in the projects that kill what they start.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const server = await openServer(process.env["TEST_DATABASE_URL"]);
  const template = `faregate_template_${crypto.randomUUID().slice(0, 8)}_test`;
  const dropTemplate = () => onServer(server.url, `drop database if exists ${template} with (force)`);
  try {
    await onServer(server.url, `create database ${template}`);
    await migrate(withDatabase(server.url, template), MIGRATIONS);
    if (server.isOwn && !NEEDS_DURABILITY.has(project.name)) {
      await onServer(server.url, "alter system set synchronous_commit = off");
      await onServer(server.url, "select pg_reload_conf()");
    }
    project.provide("postgres", { url: server.url, template });
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

async function openServer(given: string | undefined): Promise<{ url: string; isOwn: boolean; stop(): Promise<void> }> {
  if (given !== undefined && given !== "") return { url: given, isOwn: false, stop: async () => {} };
  const dataDir = await mkdtemp(join(tmpdir(), "faregate-test-"));
  try {
    await chmod(dataDir, 0o755);
    const server = await startEmbeddedPostgres({ dataDir, password: crypto.randomUUID() });
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

/** Replaces the database in a connection URL. */
export function withDatabase(url: string, database: string): string {
  const changed = new URL(url);
  changed.pathname = `/${database}`;
  return changed.href;
}

/** Runs one statement outside of any transaction. */
export async function onServer(url: string, statement: string): Promise<void> {
  const connection = connect(url, { maxConnections: 1, applicationName: "faregate-test-server" });
  try {
    await connection.client.unsafe(statement);
  } finally {
    await connection.close();
  }
}
