import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { migrate } from "../../src/db/migrate.ts";
import { connect } from "../../src/db/postgres/connect.ts";
import { startEmbeddedPostgres } from "../../src/db/postgres/embedded.ts";
import { numberEvents } from "../../src/db/queries/outbox.ts";
import { debianPostgres } from "../support/debian-postgres.ts";
import { MIGRATIONS } from "../support/postgres-server.ts";
import type { BenchRow } from "./pricing.ts";

/*
 * Compares transactions of many connections that change a row and record a private event with the same transactions
 * without event. The load comes from pgbench; this process numbers staged events as often as a busy event server.
 */

const ROWS = 20_000;
const ORGANIZATIONS = 100;
const CONNECTIONS = 16;
const NUMBER_EVERY_MS = 100;

const event = JSON.stringify({
  contractId: "0123456789abcdef01234567",
  userId: "end-user",
  limit: "meter-calls",
  threshold: 80,
});
const record = `select faregate_record_events(json_build_array(json_build_object('position', 0,
  'organization_id', 'organization-' || :row % ${ORGANIZATIONS}, 'code', 'USAGE_THRESHOLD_REACHED',
  'details', '${event}'::json)));`.replaceAll("\n", " ");
const script = (last: string) =>
  `\\set row random(1, ${ROWS})\nbegin;\nupdate bench_rows set n = n + 1 where id = :row;\n${last}\ncommit;\n`;

/** Runs a script on all connections, and returns its transactions per second. */
async function rateOf(databaseUrl: string, file: string, seconds: number): Promise<number> {
  const given = ["-n", "-M", "prepared", "-c", String(CONNECTIONS), "-j", "1", "-T", String(seconds), "-f", file];
  const child = spawn(join(debianPostgres(), "pgbench"), [...given, databaseUrl]);
  let told = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (piece) => (told += String(piece)));
  await new Promise((done) => child.once("close", done));
  const [, rate] = /^tps = ([\d.]+)/m.exec(told) ?? [];
  if (rate === undefined) throw new Error(`pgbench: ${told}`);
  return Number(rate);
}

export async function run({ quick = false } = {}): Promise<BenchRow[]> {
  const [rounds, seconds] = quick ? [3, 2] : [5, 5];
  const folder = await mkdtemp(join(tmpdir(), "faregate-bench-"));
  const database = await startEmbeddedPostgres({ dataDir: folder, password: crypto.randomUUID() });
  const connection = connect(database.url, { maxConnections: 1 });
  let numbering: Promise<void> = Promise.resolve();
  let timer: ReturnType<typeof setInterval> | undefined;
  try {
    await migrate(database.url, MIGRATIONS);
    await connection.client`create table bench_rows (id int primary key, n int not null) with (fillfactor = 70)`;
    await connection.client`insert into bench_rows select i, 0 from generate_series(1, ${ROWS}::int) i`;
    const [without, recording] = [join(folder, "without.sql"), join(folder, "recording.sql")];
    await Promise.all([writeFile(without, script("")), writeFile(recording, script(record))]);
    timer = setInterval(() => {
      numbering = numbering.then(() => numberEvents(connection.db));
    }, NUMBER_EVERY_MS);
    const pairs: { none: number; some: number }[] = [];
    for (let round = 0; round < rounds; round += 1) {
      pairs.push({
        none: await rateOf(database.url, without, seconds),
        some: await rateOf(database.url, recording, seconds),
      });
    }
    const middle = pairs.toSorted((a, b) => a.some / a.none - b.some / b.none)[Math.floor(pairs.length / 2)];
    const { none = 0, some = 0 } = middle ?? {};
    return [
      {
        name: `transactions that record an event, ${CONNECTIONS} connections / the same without event`,
        detail: `${Math.round(some)}/s of ${Math.round(none)}/s`,
        value: some / none,
        target: ">= 0.4",
        ok: some / none >= 0.4,
      },
    ];
  } finally {
    clearInterval(timer);
    await numbering;
    await connection.close();
    await database.stop();
    await rm(folder, { recursive: true, force: true });
  }
}
