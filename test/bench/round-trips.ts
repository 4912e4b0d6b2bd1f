import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "../../src/db/postgres/connect.ts";
import { startEmbeddedPostgres } from "../../src/db/postgres/embedded.ts";
import { cpuMsOf, postmasterOf } from "./processes.ts";
import type { BenchRow } from "./pricing.ts";

/*
 * Compares a round trip to the embedded Postgres over its Unix-domain socket with one over loopback. Counts the processor
 * time of this process and of Postgres. Both ways alternate in one run.
 */

interface Cost {
  ours: number;
  postgres: number;
}

/** Mean of the middle half: a tick of /proc is a tenth of a round, and a busy machine disturbs some rounds. */
function middle(values: readonly number[]): number {
  const quarter = Math.floor(values.length / 4);
  const half = values.toSorted((a, b) => a - b).slice(quarter, values.length - quarter);
  return half.reduce((sum, value) => sum + value, 0) / half.length;
}

export async function run({ quick = false } = {}): Promise<BenchRow[]> {
  const [rounds, trips] = quick ? [9, 4000] : [41, 8000];
  const folder = await mkdtemp(join(tmpdir(), "faregate-bench-"));
  const database = await startEmbeddedPostgres({ dataDir: folder, password: crypto.randomUUID() });
  try {
    if (database.localUrl === database.url) throw new Error("there is no Unix-domain socket here");
    const postmaster = postmasterOf(folder);
    const rows: BenchRow[] = [];
    for (const [clients, connections] of [
      [1, 1],
      [64, 10],
    ] as const) {
      const ways = [database.url, database.localUrl].map((url) => ({
        connection: connect(url, { maxConnections: connections }),
        costs: [] as Cost[],
      }));
      for (let round = -1; round < rounds; round += 1) {
        for (const { connection, costs } of ways) {
          const ask = async () => {
            for (let n = 0; n < trips / clients; n += 1) await connection.client`select ${n}::int`;
          };
          const before = { ours: process.cpuUsage(), postgres: cpuMsOf(postmaster) };
          await Promise.all(Array.from({ length: clients }, ask));
          const { user, system } = process.cpuUsage(before.ours);
          const postgres = (cpuMsOf(postmaster) - before.postgres) * 1000;
          // The first round warms up.
          if (round >= 0) costs.push({ ours: (user + system) / trips, postgres: postgres / trips });
        }
      }
      for (const { connection } of ways) await connection.close();
      const [tcp = [], socket = []] = ways.map(({ costs }) => costs);
      const both = (cost: Cost) => cost.ours + cost.postgres;
      const ratios = tcp.map((cost, round) => both(cost) / both(socket[round] ?? cost));
      const value = middle(tcp.map(both)) / middle(socket.map(both));
      const micros = (costs: readonly Cost[]) =>
        (["ours", "postgres"] as const).map((of) => middle(costs.map((cost) => cost[of])).toFixed(1)).join(" + ");
      rows.push({
        name: `round trip to Postgres, ${clients} in flight, processor time over TCP / over a Unix-domain socket`,
        detail: `Node and Postgres: ${micros(tcp)} of ${micros(socket)} µs, ratio ${Math.min(...ratios).toFixed(2)}–${Math.max(...ratios).toFixed(2)}`,
        value,
        target: ">= 1",
        ok: value >= 1,
      });
    }
    return rows;
  } finally {
    await database.stop();
    await rm(folder, { recursive: true, force: true });
  }
}
