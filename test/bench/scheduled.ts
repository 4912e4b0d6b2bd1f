import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "../../src/db/postgres/connect.ts";
import { startEmbeddedPostgres } from "../../src/db/postgres/embedded.ts";
import { migrate } from "../../src/db/migrate.ts";
import { builtRestOn } from "../runtimes/runtimes.ts";
import { contractMany, scheduleMany } from "../support/due-changes.ts";
import { startEventServer, startRestServer } from "../support/event-server.ts";
import { MIGRATIONS } from "../support/postgres-server.ts";
import type { BenchRow } from "./pricing.ts";

/*
 * Many scheduled changes are due at one moment: the sweep against as many novations by hand, one after the other, and
 * evaluations of other contracts meanwhile.
 */

const BY_HAND = 500;

/** Returns the 99th percentile of the times of calls, in milliseconds, until `isOver`. */
async function latency(ask: () => Promise<unknown>, isOver: () => boolean): Promise<number> {
  const times: number[] = [];
  while (!isOver()) {
    const started = performance.now();
    await ask();
    times.push(performance.now() - started);
    // A steady load that leaves the processors to the server.
    await new Promise((wait) => setTimeout(wait, 2));
  }
  return times.toSorted((one, other) => one - other)[Math.floor(times.length * 0.99)] ?? Number.NaN;
}

export async function run({ quick = false } = {}): Promise<BenchRow[]> {
  const changes = quick ? 1_000 : 10_000;
  const folder = await mkdtemp(join(tmpdir(), "faregate-bench-"));
  const database = await startEmbeddedPostgres({ dataDir: folder, password: crypto.randomUUID() });
  try {
    await migrate(database.url, MIGRATIONS);
    const connection = connect(database.url);
    const key = await contractMany(connection, changes + BY_HAND + 1);
    const [program = "", ...given] = await builtRestOn("Node 20");
    const rest = await startRestServer([program, ...given], database.url);
    const headers = { "x-api-key": key, "content-type": "application/json" };
    const call = async (method: string, path: string, body: string) => {
      const answer = await fetch(`${rest.url}/api/v1${path}`, { method, headers, body });
      if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
      return answer.text();
    };
    const novation = JSON.stringify({
      contractedServices: { meter: "1.0.0" },
      subscriptionPlans: { meter: "LARGE" },
      subscriptionAddOns: {},
    });
    const other = `/features/user-${changes + BY_HAND + 1}/meter-call`;
    for (let i = 0; i < 500; i += 1) await call("POST", other, "{}");
    const begun = performance.now();
    for (let i = 1; i <= BY_HAND; i += 1) await call("PUT", `/contracts/user-${changes + i}`, novation);
    const perNovation = (performance.now() - begun) / BY_HAND;
    const idleUntil = performance.now() + 5_000;
    const idle = await latency(
      () => call("POST", other, "{}"),
      () => performance.now() > idleUntil,
    );
    await scheduleMany(connection, { from: 1, to: changes, at: new Date() });
    const events = await startEventServer(database.url, { EVENTS_ONLY: "true" });
    const started = performance.now();
    let isOver = false;
    const busy = latency(
      () => call("POST", other, "{}"),
      () => isOver,
    );
    for (;;) {
      const [row] = await connection.client<{ count: number }[]>`
        select count(*)::integer as count from contracts where change_at is not null`;
      if (row?.count === 0) break;
      await new Promise((wait) => setTimeout(wait, 50));
    }
    const swept = performance.now() - started;
    isOver = true;
    const during = await busy;
    await Promise.all([events.stop(), rest.stop()]);
    await connection.close();
    const byHand = perNovation * changes;
    return [
      {
        name: `${changes} changes due at one moment / as many novations one after the other`,
        value: swept / byHand,
        target: "<= 1",
        ok: swept <= byHand,
        detail: `${(swept / 1000).toFixed(1)} of ${(byHand / 1000).toFixed(1)} s`,
      },
      {
        name: "evaluation meanwhile, 99th percentile / idle",
        value: during / idle,
        target: "<= 3",
        ok: during / idle <= 3,
        detail: `${during.toFixed(1)} of ${idle.toFixed(1)} ms`,
      },
    ];
  } finally {
    await database.stop();
    await rm(folder, { recursive: true, force: true });
  }
}
