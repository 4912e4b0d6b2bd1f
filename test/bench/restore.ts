import { execFile } from "node:child_process";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { connect } from "../../src/db/postgres/connect.ts";
import { startEmbeddedPostgres } from "../../src/db/postgres/embedded.ts";
import { migrate } from "../../src/db/migrate.ts";
import { readConfig } from "../../src/entries/process/config.ts";
import { loadOrCreateSecrets } from "../../src/entries/process/secrets.ts";
import { MIGRATIONS } from "../support/postgres-server.ts";
import { contractUsers, spread } from "../support/seed.ts";
import type { BenchRow } from "./pricing.ts";
import { pricingOf } from "./side-by-side.ts";

/*
 * Restore drill with a large database. Fills it, backs it up while it runs, and restores it elsewhere, by the
 * operator's own commands. Fails when a balance of the copy disagrees with its movements or is missing.
 */

const ROOT = resolve(import.meta.dirname, "../..");
/** Movements per balance. */
const MOVEMENTS = 30;
/** Limit for a gigabyte; smaller databases may take as long. */
const MOST_SECONDS = 300;

/** Runs `npm run <name>` without npm, over the embedded database in `dataDir`. Returns its output and duration. */
async function command(name: string, dataDir: string, ...given: string[]): Promise<{ says: string; seconds: number }> {
  const inherited = Object.entries(process.env).filter(([variable]) => !/^(npm_|NODE_|DATABASE_URL)/.test(variable));
  const from = performance.now();
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ["--import", import.meta.resolve("tsx"), join(ROOT, `src/entries/commands/${name}.ts`), ...given],
    { env: { ...Object.fromEntries(inherited), DATA_DIR: dataDir } },
  );
  return { says: stdout.trim(), seconds: (performance.now() - from) / 1000 };
}

/** Starts an embedded database and fills it; it runs until stopped. */
async function fill(dataDir: string, organizations: number, contracts: number) {
  const { databasePassword } = loadOrCreateSecrets(readConfig({ DATA_DIR: dataDir }));
  const postgres = await startEmbeddedPostgres({ dataDir, password: databasePassword });
  await migrate(postgres.url, MIGRATIONS);
  const connection = connect(postgres.url);
  const { client } = connection;
  const pricing = pricingOf("Meter", 0, true);
  await contractUsers(connection, { pricing, service: "meter", plan: "ALL", userIds: ["user-0"] });
  await spread(client, { organizations, contracts });
  await client`
    insert into usage_ledger
      (contract_id, organization_id, service_id, limit_name, kind, feature_id, operation_id, delta, created_at)
    select contract_id, organization_id, service_id, limit_name, 'consume', 'meter-call', 'seeded-' || n, 1, now() - n * interval '1 hour'
    from generate_series(${MOVEMENTS}::int, 1, -1) n, usage_levels`;
  await client`update usage_levels set consumed = consumed + ${MOVEMENTS}::int`;
  const [size] = await client<{ mb: number }[]>`
    select round(pg_database_size(current_database()) / 1048576.0)::int as mb`;
  await connection.close();
  return { postgres, mb: size?.mb ?? 0 };
}

/** Measures backup and restore. The restore's seconds include starting the copy and checking its balances. */
export async function run({ quick = false } = {}): Promise<BenchRow[]> {
  const [organizations, contracts] = quick ? [100, 10_000] : [1000, 100_000];
  const folder = await mkdtemp(join(tmpdir(), "faregate-restore-"));
  await chmod(folder, 0o755);
  const [dataDir, backup, elsewhere] = ["data", "backup", "elsewhere"].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  try {
    const { postgres, mb } = await fill(dataDir, organizations, contracts);
    const backedUp = await command("backup", dataDir, backup).finally(() => postgres.stop());
    const restored = await command("restore", elsewhere, backup);
    const checked = await command("check-ledger", elsewhere);
    for (const { says, seconds } of [backedUp, restored, checked]) console.log(`     ${seconds.toFixed(1)} s: ${says}`);
    const isWhole = checked.says === `${contracts + 1} balances, ${(contracts + 1) * MOVEMENTS} movements: all agree.`;
    const of = `${contracts} contracts of ${organizations} organizations, ${mb} MB`;
    return [
      { name: `backup, ${of} (s)`, value: backedUp.seconds, target: `<= ${MOST_SECONDS}` },
      { name: `restore, ${of} (s)`, value: restored.seconds, target: `<= ${MOST_SECONDS}` },
    ].map((row) => ({ ...row, ok: isWhole && row.value <= MOST_SECONDS }));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
