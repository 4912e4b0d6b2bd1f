import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startEmbeddedPostgres } from "../../src/db/postgres/embedded.ts";
import { buildServer, isServerStale } from "../../src/entries/build/server.ts";
import { startImport } from "../support/import-space.ts";
import { largeInstallation, writeDump } from "../support/space-dump.ts";
import type { BenchRow } from "./pricing.ts";

/* Seconds of `faregate import-space` into an empty database, as an operator waits for them. */

/** Limit for 100,000 contracts on two cores. */
const MOST_SECONDS = 60;

/** Measures the whole command: start, migrations, import and report. */
export async function run({ quick = false } = {}): Promise<BenchRow[]> {
  if (isServerStale()) await buildServer();
  const contracts = quick ? 10_000 : 100_000;
  const folder = await mkdtemp(join(tmpdir(), "faregate-import-"));
  await chmod(folder, 0o755);
  const dump = await writeDump(largeInstallation(contracts));
  const postgres = await startEmbeddedPostgres({ dataDir: join(folder, "data"), password: crypto.randomUUID() });
  try {
    const from = performance.now();
    const run = startImport(dump.folder, postgres.url, join(folder, "report.json"));
    const code = await run.ended;
    const seconds = (performance.now() - from) / 1000;
    if (code !== 0) throw new Error(`the import ended with ${code}: ${run.output()}`);
    const name = `import-space, ${contracts} contracts (s)`;
    return [{ name, value: seconds, target: `<= ${MOST_SECONDS}`, ok: seconds <= MOST_SECONDS }];
  } finally {
    await postgres.stop();
    await dump.remove();
    await rm(folder, { recursive: true, force: true });
  }
}
