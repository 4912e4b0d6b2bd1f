import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Sql } from "postgres";
import { connect, type Connection } from "../../src/db/postgres/connect.ts";
import { startEmbeddedPostgres } from "../../src/db/postgres/embedded.ts";
import { migrate } from "../../src/db/migrate.ts";
import { MIGRATIONS, withDatabase } from "../support/postgres-server.ts";
import { migrateToReleased } from "../support/released.ts";
import { insertContracts, insertMovements } from "./metered.ts";
import { cpuMsOf } from "./processes.ts";
import type { BenchRow } from "./pricing.ts";

/*
 * Measures what a consumption costs Postgres: bytes of WAL and processor time of its backend, in batches of 32 contracts as
 * db/queries/consumption.ts sends them. The partitioned ledger, empty and with three million movements of the last four weeks, and the
 * unpartitioned ledger of the first schema alternate in one run.
 */

const CONTRACTS = 10_000;
const MOVEMENTS = 3_000_000;
const PER_BATCH = 32;

interface Cost {
  micros: number;
  bytes: number;
}

/** A database whose contracts are consumed in turn. */
interface Metered {
  connection: Connection;
  pid: number;
  /** Row version of each contract, and that of its level. */
  versions: Map<string, { contract: string; level: string }>;
  costs: Cost[];
}

export async function run({ quick = false } = {}): Promise<BenchRow[]> {
  const rounds = quick ? 5 : 15;
  const movements = quick ? MOVEMENTS / 10 : MOVEMENTS;
  const folder = await mkdtemp(join(tmpdir(), "faregate-bench-"));
  const database = await startEmbeddedPostgres({ dataDir: folder, password: crypto.randomUUID() });
  const opened: Metered[] = [];
  const open = async (name: string, prepare: (url: string) => Promise<void>, count: number) => {
    const server = connect(database.url, { maxConnections: 1 });
    await server.client.unsafe(`create database ${name}`);
    await server.close();
    const url = withDatabase(database.url, name);
    await prepare(url);
    const metered = await openMetered(url, count);
    opened.push(metered);
    return metered;
  };
  try {
    const toNewest = (url: string) => migrate(url, MIGRATIONS).then(() => {});
    const first = await open("first", migrateToReleased, 0);
    const empty = await open("empty", toNewest, 0);
    const filled = await open("filled", toNewest, movements);
    await filled.connection.client.unsafe("checkpoint");
    // The first round writes full pages and caches plans.
    for (let round = -1; round < rounds; round += 1)
      for (const one of opened) {
        const cost = await consumeAll(one);
        if (round >= 0) one.costs.push(cost);
      }
    return [
      compare("consumption, partitioned ledger / that of the first schema", empty, first, 1),
      compare(`consumption, ${movements} movements in the ledger / none`, filled, empty, 1.25),
    ];
  } finally {
    for (const { connection } of opened) await connection.close(0);
    await database.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

const median = (values: readonly number[]) => values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN;

function compare(name: string, of: Metered, against: Metered, most: number): BenchRow {
  const micros = (one: Metered) => median(one.costs.map((cost) => cost.micros));
  const bytes = (one: Metered) => median(one.costs.map((cost) => cost.bytes)).toFixed(0);
  const value = micros(of) / micros(against);
  return {
    name: `${name}, processor time of Postgres`,
    detail: `${micros(of).toFixed(1)} of ${micros(against).toFixed(1)} µs; ${bytes(of)} of ${bytes(against)} B of WAL`,
    value,
    target: `<= ${most}`,
    ok: value <= most,
  };
}

async function openMetered(url: string, movements: number): Promise<Metered> {
  const connection = connect(url, { maxConnections: 1 });
  const { client } = connection;
  await insertContracts(client, CONTRACTS, movements / CONTRACTS);
  const [begins, span] = ["now() - interval '28 days'", "interval '28 days'"];
  if (movements > 0) await insertMovements(client, { contracts: CONTRACTS, movements, begins, span });
  await client.unsafe("vacuum analyze");
  const [backend] = await client<{ pid: number }[]>`select pg_backend_pid() as pid`;
  return { connection, pid: backend?.pid ?? 0, versions: await versionsOf(client), costs: [] };
}

async function versionsOf(sql: Sql): Promise<Metered["versions"]> {
  const rows = await sql<{ id: string; contract: string; level: string }[]>`
    select c.id, c.xmin::text as contract, u.xmin::text as level
    from contracts c join usage_levels u on u.contract_id = c.id order by md5(c.id)`;
  return new Map(rows.map(({ id, contract, level }) => [id, { contract, level }]));
}

/** Consumes 1 of every contract. Returns the cost per consumption. */
async function consumeAll({ connection: { client }, pid, versions }: Metered): Promise<Cost> {
  const ids = [...versions.keys()];
  const written = async () => {
    const [row] = await client<{ bytes: number }[]>`select (pg_current_wal_insert_lsn() - '0/0')::float8 as bytes`;
    return row?.bytes ?? Number.NaN;
  };
  const before = { bytes: await written(), cpu: cpuMsOf(pid) };
  for (let first = 0; first < ids.length; first += PER_BATCH) {
    const batch = ids.slice(first, first + PER_BATCH);
    const stamps = batch.map((id) => `${versions.get(id)?.contract} ${versions.get(id)?.level}`);
    const amounts = batch.map((contractId) => ({
      contractId,
      serviceId: "s",
      limitName: "maxCalls",
      amount: 1,
      featureId: "s-call",
      operationId: "0123456789abcdef",
    }));
    const [row] = await client<{ outcomes: string; transaction: string }[]>`
      select outcomes, transaction
      from faregate_consume(${batch}::text[], ${stamps}::text[], ${batch}::text[], ${JSON.stringify(amounts)}::text::json, now())`;
    if (row?.outcomes !== "u".repeat(batch.length)) throw new Error(`a batch was answered ${row?.outcomes}`);
    for (const id of batch) versions.set(id, { contract: versions.get(id)?.contract ?? "", level: row.transaction });
  }
  const cpu = cpuMsOf(pid) - before.cpu;
  return { micros: (cpu * 1_000) / ids.length, bytes: ((await written()) - before.bytes) / ids.length };
}
