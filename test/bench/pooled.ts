import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "../../src/db/postgres/connect.ts";
import { startEmbeddedPostgres } from "../../src/db/postgres/embedded.ts";
import { migrate } from "../../src/db/migrate.ts";
import { builtRestOn } from "../runtimes/runtimes.ts";
import { type RunningServer, startRestServer } from "../support/event-server.ts";
import { startPgBouncer } from "../support/pgbouncer.ts";
import { MIGRATIONS } from "../support/postgres-server.ts";
import { contractUsers } from "../support/seed.ts";
import type { BenchRow } from "./pricing.ts";
import { compare, pricingOf, RUNTIME } from "./side-by-side.ts";
import type { Load } from "./wrk.ts";

/*
 * Compares a REST process behind Debian's PgBouncer in transaction mode with one that reaches Postgres directly. PgBouncer
 * takes processor time of the same machine.
 */

const CONTRACTS = 400;

export async function run({ quick = false } = {}): Promise<BenchRow[]> {
  const [rounds, seconds] = quick ? [3, 1] : [5, 4];
  const folder = await mkdtemp(join(tmpdir(), "faregate-bench-"));
  const database = await startEmbeddedPostgres({ dataDir: folder, password: crypto.randomUUID() });
  const pooler = await startPgBouncer(database.url);
  const servers: RunningServer[] = [];
  try {
    await migrate(database.url, MIGRATIONS);
    const connection = connect(database.url);
    const userIds = Array.from({ length: CONTRACTS }, (_, i) => `user-${i}`);
    const pricing = pricingOf("Meter", 30, true);
    const key = await contractUsers(connection, { pricing, service: "meter", plan: "ALL", userIds });
    await connection.close();
    const command = await builtRestOn(RUNTIME);
    const pooled = pooler.url("faregate");
    const direct = await startRestServer(command, database.url);
    const withDirect = await startRestServer(command, pooled, { DATABASE_DIRECT_URL: database.url });
    const without = await startRestServer(command, pooled);
    servers.push(direct, withDirect, without);
    const load = ({ url, process: { pid } }: RunningServer, feature: string, body: string): Load => ({
      url,
      pid,
      headers: { "x-api-key": key, "content-type": "application/json" },
      body,
      paths: userIds.map((userId) => `/api/v1/features/${userId}/meter-${feature}`),
    });
    const rows: BenchRow[] = [];
    for (const [what, feature, body, target] of [
      ["evaluate one feature without limits", "feature0", "{}", 0.8],
      ["evaluate one feature with its limit", "call", "{}", 0.8],
      ["consume, distinct contracts", "call", '{"meter-calls":1}', 0.7],
    ] as const) {
      for (const [of, where] of [
        [withDirect, "behind a pooler"],
        [without, "behind a pooler without DATABASE_DIRECT_URL"],
      ] as const) {
        const name = `${what}, ${where} / direct`;
        const asked = of === withDirect ? target : 0;
        const against = load(direct, feature, body);
        const row = await compare(
          { name, against, of: load(of, feature, body), connections: 64, target: asked },
          rounds,
          seconds,
        );
        rows.push(asked === 0 ? { ...row, target: "-", ok: true } : row);
      }
    }
    return rows;
  } finally {
    for (const server of servers) await server.stop();
    await pooler.stop();
    await database.stop();
    await rm(folder, { recursive: true, force: true });
  }
}
