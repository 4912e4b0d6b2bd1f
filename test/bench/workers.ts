import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "../../src/db/postgres/connect.ts";
import { startEmbeddedPostgres } from "../../src/db/postgres/embedded.ts";
import { migrate } from "../../src/db/migrate.ts";
import { builtRestOn } from "../runtimes/runtimes.ts";
import { type RunningServer, startRestServer } from "../support/event-server.ts";
import { MIGRATIONS } from "../support/postgres-server.ts";
import { contractUsers } from "../support/seed.ts";
import type { BenchRow } from "./pricing.ts";
import { compare, pricingOf, RUNTIME } from "./side-by-side.ts";
import type { Load } from "./wrk.ts";

/*
 * Compares two workers behind one port with one process. The generator and Postgres need a processor too, so the figure is
 * computed from processor time per request: what two processors would answer that do nothing else.
 */

const CONTRACTS = 400;
const WORKERS = 2;

export async function run({ quick = false } = {}): Promise<BenchRow[]> {
  const [rounds, seconds] = quick ? [3, 1] : [5, 4];
  const folder = await mkdtemp(join(tmpdir(), "faregate-bench-"));
  const database = await startEmbeddedPostgres({ dataDir: folder, password: crypto.randomUUID() });
  const servers: RunningServer[] = [];
  try {
    await migrate(database.url, MIGRATIONS);
    const connection = connect(database.url);
    const userIds = Array.from({ length: CONTRACTS }, (_, i) => `user-${i}`);
    const pricing = pricingOf("Meter", 30, true);
    const key = await contractUsers(connection, { pricing, service: "meter", plan: "ALL", userIds });
    await connection.close();
    const command = await builtRestOn(RUNTIME, { hasWorkers: true });
    for (const workers of [1, WORKERS]) {
      servers.push(await startRestServer(command, database.url, { WORKERS: String(workers) }));
    }
    const loads = (feature: string, body: string) =>
      servers.map(({ url, process: { pid } }): Load => ({
        url,
        pid,
        headers: { "x-api-key": key, "content-type": "application/json" },
        body,
        paths: userIds.map((userId) => `/api/v1/features/${userId}/meter-${feature}`),
      }));
    const rows: BenchRow[] = [];
    for (const [what, feature, body] of [
      ["evaluate one feature without limits", "feature0", "{}"],
      ["evaluate one feature with its limit", "call", "{}"],
      ["consume, distinct contracts", "call", '{"meter-calls":1}'],
    ] as const) {
      const [against, of] = loads(feature, body);
      if (against === undefined || of === undefined) throw new Error("a server is missing");
      const name = `${what}, ${WORKERS} workers / one process, per processor time`;
      const row = await compare({ name, against, of, connections: 64, target: 0 }, rounds, seconds);
      const value = WORKERS * (row.cpuRatio ?? Number.NaN);
      // Two queues batch half as many consumptions each, so that Postgres and the workers do more of them.
      const target = what.startsWith("consume") ? "-" : ">= 1.6";
      rows.push({ ...row, value, target, ok: target === "-" || value >= 1.6 });
    }
    return rows;
  } finally {
    for (const server of servers) await server.stop();
    await database.stop();
    await rm(folder, { recursive: true, force: true });
  }
}
