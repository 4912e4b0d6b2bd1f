import { rm } from "node:fs/promises";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { numberEvents } from "../../src/db/queries/outbox.ts";
import { connect, type Connection } from "../../src/db/postgres/connect.ts";
import { type EmbeddedPostgres, startEmbeddedPostgres } from "../../src/db/postgres/embedded.ts";
import { readFacts } from "../../src/db/queries/contract-facts.ts";
import { checkLedger } from "../../src/db/invariants.ts";
import { copyCluster } from "../support/cluster-setup.ts";
import { makeDatabaseFolder } from "../support/database-folder.ts";
import { contractMany, scheduleMany } from "../support/due-changes.ts";
import { REST, type RunningServer, startEventServer, startRestServer } from "../support/event-server.ts";

/*
 * Two event servers and two REST processes carry out changes that are due at one moment, while clients consume. SIGKILL
 * hits one of each in the middle. Every change is made exactly once, and no unit is lost.
 */

const CONTRACTS = 2_000;
/** Consumed per call: a hundredth of LARGE's limit. */
const AMOUNT = 1_000;

interface Facts {
  subscriptionPlans: Record<string, string>;
}

let folder: string;
let database: EmbeddedPostgres;
let connection: Connection;
let key: string;

beforeAll(async () => {
  folder = makeDatabaseFolder("due");
  const cluster = inject("cluster");
  copyCluster(cluster, folder);
  database = await startEmbeddedPostgres({ dataDir: folder, password: cluster.password });
  connection = connect(database.url);
  key = await contractMany(connection, CONTRACTS);
  await connection.client`update organizations set usage_thresholds = '[1]'`;
}, 120_000);

afterAll(async () => {
  await connection.close();
  await database.stop();
  await rm(folder, { recursive: true, force: true });
});

const pending = async () => {
  const [row] = await connection.client<{ count: number }[]>`
    select count(*)::integer as count from scheduled_changes where state = 'pending'`;
  return row?.count ?? 0;
};

/** Checks that each contract's one event says what it was and what it is. */
async function expectMirrored(): Promise<void> {
  await numberEvents(connection.db);
  const events = await connection.client<{ id: string; before: Facts; after: Facts }[]>`
    select details ->> 'contractId' as id, details -> 'before' as before, details -> 'after' as after
    from outbox where code = 'CONTRACT_NOVATED'`;
  const facts = await readFacts(
    connection.db,
    events.map(({ id }) => id),
  );
  for (const { id, before, after } of events) {
    expect(before.subscriptionPlans).toEqual({ meter: "SMALL" });
    expect(after).toEqual(JSON.parse(facts.get(id)?.text ?? ""));
  }
}

/** Checks that the threshold of each limit was raised once for each user, and for each that has used enough. */
async function expectAlertedOnce(userIds: readonly string[]): Promise<void> {
  await numberEvents(connection.db);
  const raised = await connection.client<{ userId: string; n: number }[]>`
    select details ->> 'userId' as "userId", count(*)::integer as n
    from outbox where code = 'USAGE_THRESHOLD_REACHED' group by 1, details ->> 'limit'`;
  expect(raised.filter(({ n }) => n !== 1)).toEqual([]);
  const alerted = new Set(raised.map(({ userId }) => userId));
  expect(userIds.filter((userId) => !alerted.has(userId))).toEqual([]);
}

test("what is due at one moment happens once each, whoever dies", async () => {
  const servers: RunningServer[] = await Promise.all([
    startRestServer(REST, database.url),
    startRestServer(REST, database.url),
    startEventServer(database.url, { EVENTS_ONLY: "true" }),
    startEventServer(database.url, { EVENTS_ONLY: "true" }),
  ]);
  const [surviving, dying, survivingEvents, dyingEvents] = servers as [
    RunningServer,
    RunningServer,
    RunningServer,
    RunningServer,
  ];
  try {
    await scheduleMany(connection, { from: 1, to: CONTRACTS, at: new Date(Date.now() - 1_000) });
    const stop = new AbortController();
    const acknowledged = new Map<string, number>();
    const clients = [surviving, dying, surviving, dying].map(async ({ url }, client) => {
      for (let i = client; !stop.signal.aborted; i += 7) {
        const userId = `user-${(i % CONTRACTS) + 1}`;
        const isCounted = await fetch(`${url}/api/v1/features/${userId}/meter-call`, {
          method: "POST",
          headers: { "x-api-key": key, "content-type": "application/json" },
          body: `{"meter-calls":${AMOUNT}}`,
        }).then(
          (answer) => answer.ok,
          () => false,
        );
        if (isCounted) acknowledged.set(userId, (acknowledged.get(userId) ?? 0) + AMOUNT);
        else await new Promise((wait) => setTimeout(wait, 20));
      }
    });
    // In the middle: after the first changes, before the last ones.
    while ((await pending()) > CONTRACTS / 2) await new Promise((wait) => setTimeout(wait, 5));
    dyingEvents.process.kill("SIGKILL");
    dying.process.kill("SIGKILL");
    const deadline = Date.now() + 240_000;
    while ((await pending()) > 0 && Date.now() < deadline) await new Promise((wait) => setTimeout(wait, 50));
    await expect.poll(() => acknowledged.size, { timeout: 240_000 }).toBeGreaterThan(10);
    stop.abort();
    await Promise.all(clients);

    await numberEvents(connection.db);
    const [done] = await connection.client<Record<"plans" | "states" | "histories" | "events" | "once", number>[]>`
      select (select count(*)::integer from contract_services where plan = 'LARGE') as plans,
        (select count(*)::integer from contract_states where cause = 'scheduled') as states,
        (select count(*)::integer from contract_history) as histories,
        (select count(*)::integer from outbox where code = 'CONTRACT_NOVATED') as events,
        (select count(distinct details ->> 'scheduledId')::integer from outbox where code = 'CONTRACT_NOVATED') as once`;
    expect(done).toEqual({
      plans: CONTRACTS,
      states: CONTRACTS,
      histories: CONTRACTS,
      events: CONTRACTS,
      once: CONTRACTS,
    });
    const counted = await connection.client<{ userId: string; consumed: string }[]>`
      select c.user_id as "userId", u.consumed from usage_levels u join contracts c on c.id = u.contract_id`;
    for (const { userId, consumed } of counted) {
      expect(Number(consumed), userId).toBeGreaterThanOrEqual(acknowledged.get(userId) ?? 0);
    }
    await expectMirrored();
    await expectAlertedOnce([...acknowledged.keys()]);
    expect((await checkLedger(connection.db)).violations).toEqual([]);
  } finally {
    await Promise.all([surviving.stop(), survivingEvents.stop()]);
  }
}, 600_000);
