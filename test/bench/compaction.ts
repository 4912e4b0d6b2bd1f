import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Sql } from "postgres";
import { checkLedger } from "../../src/db/invariants.ts";
import { connect } from "../../src/db/postgres/connect.ts";
import { startEmbeddedPostgres } from "../../src/db/postgres/embedded.ts";
import { migrate } from "../../src/db/migrate.ts";
import { compactPartitions } from "../../src/db/queries/ledger-partitions.ts";
import { MIGRATIONS } from "../support/postgres-server.ts";
import { insertContracts, insertMovements } from "./metered.ts";
import { cpuMsOf } from "./processes.ts";
import type { BenchRow } from "./pricing.ts";

/*
 * Measures the compaction of one day of movements, and how long consumption takes beside it. Consumption is that of db/queries/consumption.ts
 * without a server in front, at a fixed pace, so that its percentiles are those of locks and input.
 */

const DAY_MS = 86_400_000;
const PACE_MS = 2;

export async function run({ quick = false } = {}): Promise<BenchRow[]> {
  const contracts = quick ? 2_000 : 100_000;
  const movements = contracts * 100;
  const folder = await mkdtemp(join(tmpdir(), "faregate-bench-"));
  const database = await startEmbeddedPostgres({ dataDir: folder, password: crypto.randomUUID() });
  const { client, close } = connect(database.url, { maxConnections: 4 });
  // One connection: the bench reads the processor time of its backend.
  const compaction = connect(database.url, { maxConnections: 1 });
  const { db } = compaction;
  try {
    await migrate(database.url, MIGRATIONS);
    await fill(client, contracts, movements);
    const alone = await consumeFor(client, contracts, Promise.resolve(pause(quick ? 3_000 : 15_000)));
    const [backend] = await compaction.client<{ pid: number }[]>`select pg_backend_pid() as pid`;
    const [begun, cpuBefore] = [performance.now(), cpuMsOf(backend?.pid)];
    const compacting = compactPartitions(db, new Date(Date.now() - 7 * DAY_MS)).then((removed) => ({
      removed,
      seconds: (performance.now() - begun) / 1_000,
      cpu: (cpuMsOf(backend?.pid) - cpuBefore) / 1_000,
    }));
    const beside = await consumeFor(client, contracts, compacting);
    const { removed, seconds, cpu } = await compacting;
    if (removed !== movements) throw new Error(`${removed} of ${movements} movements were summed up`);
    const { violations } = await checkLedger(db);
    if (violations.length > 0) throw new Error(JSON.stringify(violations[0]));
    return [
      {
        name: `summing up ${movements} movements of ${contracts} contracts (s)`,
        detail: `${cpu.toFixed(1)} s of processor time`,
        value: seconds,
        target: "<= 60",
        ok: seconds <= 60,
      },
      {
        name: "consumption beside it / alone, p99",
        detail: `${beside.toFixed(1)} ms of ${alone.toFixed(1)} ms`,
        value: beside / alone,
        target: "<= 2",
        ok: beside / alone <= 2,
      },
    ];
  } finally {
    await compaction.close(0);
    await close(0);
    await database.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Fills one day, nine days ago. */
async function fill(sql: Sql, contracts: number, movements: number): Promise<void> {
  await insertContracts(sql, contracts, movements / contracts);
  const begins = "date_trunc('week', now(), 'UTC') - interval '9 days'";
  await insertMovements(sql, { contracts, movements, begins, span: "interval '1 day'" });
  await sql.unsafe("vacuum analyze");
  await sql.unsafe("checkpoint");
}

/** Consumes 1 of changing contracts until `over` settles. Returns the 99th percentile in milliseconds. */
async function consumeFor(sql: Sql, contracts: number, over: Promise<unknown>): Promise<number> {
  const done = new AbortController();
  void over.finally(() => done.abort());
  const times: number[] = [];
  const session = await sql.reserve();
  for (let i = 0; !done.signal.aborted; i += 1) {
    const begun = performance.now();
    const [row] = await session<{ outcome: string }[]>`
      with stamp as (
        select c.id, c.xmin::text || coalesce((
          select string_agg(' ' || u.xmin::text, '' order by u.position, u.service_id collate "C")
          from usage_levels u where u.contract_id = c.id), '') as stamp
        from contracts c where c.id = ${`contract-000000-${((i * 7919) % contracts) + 1}`}
      )
      select faregate_consume_one(id, stamp, 's', 'maxCalls', 1, 's-call', 'used', null, now()) as outcome from stamp`;
    times.push(performance.now() - begun);
    if (row?.outcome.startsWith("u") !== true) throw new Error(`a consumption was answered ${row?.outcome}`);
    await pause(PACE_MS);
  }
  session.release();
  return times.toSorted((a, b) => a - b)[Math.floor(times.length * 0.99)] ?? Number.NaN;
}
