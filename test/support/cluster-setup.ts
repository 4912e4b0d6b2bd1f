import { execFileSync } from "node:child_process";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { startEmbeddedPostgres } from "../../src/db/postgres/embedded.ts";
import { migrate } from "../../src/db/migrate.ts";
import { makeDatabaseFolder } from "./database-folder.ts";
import { MIGRATIONS } from "./postgres-server.ts";

/** A cluster of which nobody runs a server. `faregate` is its migrated database. */
export interface Cluster {
  folder: string;
  password: string;
}

declare module "vitest" {
  interface ProvidedContext {
    /** For tests that kill a server of their own. */
    cluster: Cluster;
  }
}

/** Creates and migrates one cluster for the whole run: a copy takes a tenth of the time. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const dataDir = makeDatabaseFolder("cluster");
  const password = crypto.randomUUID();
  const server = await startEmbeddedPostgres({ dataDir, password });
  await migrate(server.url, MIGRATIONS);
  await server.stop();
  project.provide("cluster", { folder: join(dataDir, "postgres"), password });
  return () => rm(dataDir, { recursive: true, force: true });
}

/** Copies the cluster into a data folder, with its owner. */
export const copyCluster = ({ folder }: Cluster, dataDir: string) => execFileSync("cp", ["-a", folder, dataDir]);
