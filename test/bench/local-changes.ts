import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "../../src/db/postgres/connect.ts";
import { startEmbeddedPostgres } from "../../src/db/postgres/embedded.ts";
import { migrate } from "../../src/db/migrate.ts";
import { createTenant, LOCAL_CHANGES, type LocalChange, observe, type Site, type Tenant } from "../local/changes.ts";
import { builtRestOn } from "../runtimes/runtimes.ts";
import { startRestServer } from "../support/event-server.ts";
import { MIGRATIONS } from "../support/postgres-server.ts";
import { contractUsers } from "../support/seed.ts";
import type { BenchRow } from "./pricing.ts";
import { pricingOf } from "./side-by-side.ts";

/*
 * Delay from a commit in one process to another answer of a local evaluator. The evaluator follows another process. One row per
 * operation. Source: contract tokens-and-leases §9.
 */

const REPETITIONS = 100;
const TARGET_MS = 100;
const TIMEOUT_MS = 30_000;

/** Delays of one operation in milliseconds, ascending. */
async function delaysOf(site: Site, operation: LocalChange, repetitions: number): Promise<number[]> {
  const delays: number[] = [];
  let tenant: Tenant | undefined;
  for (let n = 0; n < repetitions; n += 1) {
    tenant ??= await createTenant(site);
    const { delayMs, outdated } = await observe(tenant, await operation.prepare(tenant, n), TIMEOUT_MS);
    if (outdated.length > 0) throw new Error(`${operation.name}: ${JSON.stringify(outdated)}`);
    delays.push(delayMs);
    if (operation.isLast !== true) continue;
    await tenant.local.close();
    tenant = undefined;
  }
  await tenant?.local.close();
  return delays.toSorted((a, b) => a - b);
}

function rowOf(name: string, delays: readonly number[]): BenchRow {
  const at = (share: number) => delays[Math.ceil(delays.length * share) - 1] ?? Number.NaN;
  return {
    name: `${name}: milliseconds from the commit to another local answer, p99`,
    value: at(0.99),
    target: `<= ${TARGET_MS}`,
    ok: at(0.99) <= TARGET_MS,
    detail: `p50 ${at(0.5).toFixed(1)}, longest ${at(1).toFixed(1)} of ${delays.length}`,
  };
}

export async function run({ quick = false } = {}): Promise<BenchRow[]> {
  const folder = await mkdtemp(join(tmpdir(), "faregate-bench-"));
  const database = await startEmbeddedPostgres({ dataDir: folder, password: crypto.randomUUID() });
  try {
    await migrate(database.url, MIGRATIONS);
    const connection = connect(database.url);
    const seeded = { pricing: pricingOf("Plain", 1, false), service: "plain", plan: "ALL", userIds: [] };
    await contractUsers(connection, seeded);
    await connection.close();
    const command = await builtRestOn("Node 20");
    const [changing, followed] = await Promise.all([
      startRestServer(command, database.url),
      startRestServer(command, database.url),
    ]);
    const signedIn = await fetch(`${changing.url}/api/v1/users/authenticate`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ username: "admin", password: "password" }),
    });
    const { apiKey } = (await signedIn.json()) as { apiKey: string };
    const site = { changing: changing.url, followed: followed.url, userKey: apiKey };
    const rows: BenchRow[] = [];
    const all: number[] = [];
    for (const operation of LOCAL_CHANGES) {
      const delays = await delaysOf(site, operation, quick ? REPETITIONS / 5 : REPETITIONS);
      all.push(...delays);
      rows.push(rowOf(operation.name, delays));
    }
    await changing.stop();
    await followed.stop();
    const sorted = all.toSorted((a, b) => a - b);
    return [...rows, rowOf("every operation", sorted)];
  } finally {
    await database.stop();
    await rm(folder, { recursive: true, force: true });
  }
}
