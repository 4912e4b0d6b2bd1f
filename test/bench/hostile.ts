import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { connect } from "../../src/db/postgres/connect.ts";
import { startEmbeddedPostgres } from "../../src/db/postgres/embedded.ts";
import { migrate } from "../../src/db/migrate.ts";
import { startRestServer } from "../support/event-server.ts";
import { COMPUTATIONS, createTenants, percentile, REPETITIONS, watchAttack } from "../support/hostile-tenant.ts";
import type { BenchRow } from "./pricing.ts";

/*
 * Measures by wall clock how one tenant's attacks delay another tenant. Needs an otherwise idle machine; the fault test
 * bounds the same attacks in processor time.
 */

const MIGRATIONS = fileURLToPath(new URL("../../src/db/migrations", import.meta.url));
const REST = [process.execPath, "--import", "tsx", "src/entries/node.ts"] as const;
const MAX_EVALUATION_MS = 100;
const MAX_LIVE_MS = 250;
const MAX_PEAK_MB = 600;

/** Only when named: `npm run bench -- hostile`. Three rows for each attack. */
export async function run({ quick = false } = {}): Promise<BenchRow[]> {
  const folder = await mkdtemp(join(tmpdir(), "faregate-bench-"));
  const database = await startEmbeddedPostgres({ dataDir: folder, password: crypto.randomUUID() });
  const rows: BenchRow[] = [];
  try {
    await migrate(database.url, MIGRATIONS);
    const connection = connect(database.url);
    const tenants = await createTenants(connection);
    for (const attack of [...COMPUTATIONS, ...REPETITIONS]) {
      await tenants.prepare(attack);
      const server = await startRestServer(REST, database.url);
      const limits = { minEvaluations: quick ? 100 : 1_000, maxMs: 30_000 };
      const seen = await watchAttack({ url: server.url, pid: server.process.pid ?? 0 }, tenants, attack, limits);
      server.process.kill("SIGKILL");
      const figure = (name: string, value: number, most: number, failed: number): BenchRow => ({
        name: `${name}, during ${attack.name}`,
        value,
        target: `< ${most}`,
        ok: failed === 0 && value < most,
        ...(failed === 0 ? {} : { detail: `${failed} not answered` }),
      });
      rows.push(
        figure(
          "evaluation, p99 (ms)",
          percentile(seen.evaluation.tookMs, 0.99),
          MAX_EVALUATION_MS,
          seen.evaluation.failed,
        ),
        figure("/live, slowest (ms)", Math.max(...seen.live.tookMs), MAX_LIVE_MS, seen.live.failed),
        figure("memory, most (MB)", seen.peakMB, MAX_PEAK_MB, 0),
      );
    }
    await connection.close();
  } finally {
    await database.stop();
    await rm(folder, { recursive: true, force: true });
  }
  return rows;
}
