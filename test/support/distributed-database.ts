import type { Sql } from "postgres";
import { inject } from "vitest";
import { makeArchive } from "../../src/db/archive.ts";
import { connect } from "../../src/db/postgres/connect.ts";
import { onServer } from "./postgres-server.ts";

/*
 * Distributes databases of tests, on a Citus coordinator of their own.
 */

/** Host and port of a worker. */
export interface Worker {
  host: string;
  port: number;
}

/** Reads the workers of a coordinator. */
export async function readWorkers(url: string): Promise<Worker[]> {
  const rows = await onServer(
    url,
    "select nodename as host, nodeport as port from pg_dist_node where groupid <> 0 and isactive order by 2, 1",
  );
  if (rows.length === 0) throw new Error("CITUS_URL must lead to a database of a coordinator that has workers");
  return rows.map(({ host, port }) => ({ host: String(host), port: Number(port) }));
}

/** Replaces host and port in the URL of a database. */
export function atWorker(url: string, { host, port }: Worker): string {
  const changed = new URL(url);
  changed.hostname = host;
  changed.port = String(port);
  return changed.href;
}

/** True on a distributed database, which sums up no movements. */
export const keepsMovements = (): boolean => inject("postgres").workers.length > 0;

const databaseIn = (url: string) => new URL(url).pathname.slice(1);

/** Distributes a database, as `faregate-server distribute` does. Archives no movement yet. */
export async function distribute(url: string, workers: readonly Worker[]): Promise<void> {
  const name = databaseIn(url);
  for (const worker of workers) {
    const there = new URL(atWorker(url, worker));
    there.pathname = "/postgres";
    await onServer(there.href, `create database ${name}`);
    await onServer(atWorker(url, worker), "create extension citus");
  }
  const { client, close } = connect(url, { maxConnections: 1 });
  try {
    await client`create extension citus`;
    const { hostname, port, username, password } = new URL(url);
    await client`select citus_set_coordinator_host(${hostname}, ${Number(port)})`;
    for (const worker of workers) await client`select citus_add_node(${worker.host}, ${worker.port})`;
    await makeArchive(client, [{ name: username, password }]);
  } finally {
    await close();
  }
}

/** Archives all movements of partitions that have ended. Returns their number. */
export async function archive(client: Sql): Promise<number> {
  for (let moved = 0; ;) {
    const [row] = await client<[{ staged: boolean }]>`select faregate_stage_ledger(now() - interval '1 day') as staged`;
    if (!row.staged) return moved;
    const [swapped] = await client<[{ moved: string }]>`select faregate_swap_ledger() as moved`;
    moved += Number(swapped.moved);
  }
}

/** Drops the shards of a database. */
export async function dropOnWorkers(url: string, workers: readonly Worker[]): Promise<void> {
  for (const worker of workers) {
    const there = new URL(atWorker(url, worker));
    there.pathname = "/postgres";
    await onServer(there.href, `drop database if exists ${databaseIn(url)} with (force)`);
  }
}
