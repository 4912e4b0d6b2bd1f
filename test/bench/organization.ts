import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Sql } from "postgres";
import { connect } from "../../src/db/postgres/connect.ts";
import { startEmbeddedPostgres } from "../../src/db/postgres/embedded.ts";
import { migrate } from "../../src/db/migrate.ts";
import { hashApiKey } from "../../src/operations/credentials.ts";
import { builtRestOn } from "../runtimes/runtimes.ts";
import { tasker } from "../support/contracting.ts";
import { startRestServer, testKeyring } from "../support/event-server.ts";
import { MIGRATIONS } from "../support/postgres-server.ts";
import { contractUsers } from "../support/seed.ts";
import type { BenchRow } from "./pricing.ts";

/*
 * Measures what reads all contracts of an organization: the overview, and the list of contracts that are near a limit. The
 * consumed shares of one limit are spread evenly, so a fifth of the contracts are near it.
 */

const ADMIN_KEY = `usr_${"1".padStart(64, "0")}`;
const CALLS = 21;

/** Measures the median time of each call, after one that is not measured. */
export async function run({ quick = false } = {}): Promise<BenchRow[]> {
  const contracts = quick ? 20_000 : 100_000;
  const folder = await mkdtemp(join(tmpdir(), "faregate-bench-"));
  const database = await startEmbeddedPostgres({ dataDir: folder, password: crypto.randomUUID() });
  try {
    await migrate(database.url, MIGRATIONS);
    const connection = connect(database.url);
    const key = await contractUsers(connection, {
      pricing: tasker(),
      service: "tasker",
      plan: "PRO",
      userIds: ["user-0"],
    });
    const organizationId = await fill(connection.client, contracts);
    await connection.client.unsafe("vacuum analyze");
    await connection.close();
    const [program = "", ...given] = await builtRestOn("Node 20");
    const server = await startRestServer([program, ...given], database.url);
    try {
      const rows: BenchRow[] = [];
      for (const [name, path, target] of [
        ["contracts near a limit", "/contracts?near=0.8&limit=20", 100],
        ["contracts near a limit, the last 20", "/contracts?near=0.8&limit=20&order=desc", 100],
        ["contracts at a limit", "/contracts?near=0.99&limit=20", 100],
        ["overview", `/organizations/${organizationId}/overview`, 150],
      ] as const) {
        const { median, longest } = await time(
          `${server.url}/api/v1${path}`,
          path.startsWith("/contracts") ? key : ADMIN_KEY,
        );
        rows.push({
          name: `${name}, one organization of ${contracts} contracts (ms)`,
          detail: `longest of ${CALLS}: ${Math.round(longest)} ms`,
          value: median,
          target: `<= ${target}`,
          ok: median <= target,
        });
      }
      return rows;
    } finally {
      await server.stop();
    }
  } finally {
    await database.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

/** Copies the only contract, and returns its organization. */
async function fill(sql: Sql, contracts: number): Promise<string> {
  const [model] = await sql<{ organization: string }[]>`select organization_id as organization from contracts`;
  const copies = sql`generate_series(1, ${contracts}::int) n`;
  await sql`insert into contracts (id, organization_id, user_id, username, start_date, end_date, auto_renew)
    select 'copy-' || n, organization_id, 'end-' || n, 'end-' || n, start_date, end_date, auto_renew from contracts, ${copies}`;
  await sql`insert into contract_services (contract_id, service_id, pricing_id, position, plan, add_ons)
    select 'copy-' || n, service_id, pricing_id, position, plan, add_ons from contract_services, ${copies}`;
  await sql`insert into usage_levels (contract_id, service_id, limit_name, position, limit_value, consumed)
    select 'copy-' || n, service_id, limit_name, position, limit_value,
      case limit_name when 'maxTasks' then (hashint4(n) & 127) * limit_value / 128 else 0 end from usage_levels, ${copies}`;
  await sql`update users set api_key_hash = ${await hashApiKey(await testKeyring(), ADMIN_KEY)}`;
  return model?.organization ?? "";
}

async function time(url: string, key: string): Promise<{ median: number; longest: number }> {
  const times: number[] = [];
  for (let call = 0; call <= CALLS; call += 1) {
    const begun = performance.now();
    const answer = await fetch(url, { headers: { "x-api-key": key } });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${url}: ${answer.status} ${text}`);
    times.push(performance.now() - begun);
  }
  const sorted = times.slice(1).toSorted((a, b) => a - b);
  return { median: sorted[Math.floor(CALLS / 2)] ?? Number.NaN, longest: sorted.at(-1) ?? Number.NaN };
}
