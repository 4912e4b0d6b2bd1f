import { appendFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { numberEvents } from "../../src/db/queries/outbox.ts";
import { checkLedger } from "../../src/db/invariants.ts";
import { migrate } from "../../src/db/migrate.ts";
import { connect, type Connection } from "../../src/db/postgres/connect.ts";
import { pricingOf } from "../bench/side-by-side.ts";
import { makeDatabaseFolder } from "../support/database-folder.ts";
import { createDebianCluster, runDebian, startDebianPostgres } from "../support/debian-postgres.ts";
import { REST, type RunningServer, startEventServer, startRestServer } from "../support/event-server.ts";
import { MIGRATIONS, onServer } from "../support/postgres-server.ts";
import { contractUsers } from "../support/seed.ts";

/*
 * The primary of two streaming PostgreSQL servers is killed under load, and the synchronous standby is promoted. The
 * processes know both addresses. Nothing that was acknowledged may be lost or happen twice.
 */

const USERS = Array.from({ length: 8 }, (_, index) => `user-${index}`);
/** Name of the standby in `synchronous_standby_names`. */
const STANDBY = "standby";
const password = crypto.randomUUID();

let folder: string;
let primary: Awaited<ReturnType<typeof startDebianPostgres>>;
let standby: Awaited<ReturnType<typeof startDebianPostgres>>;
const servers: RunningServer[] = [];
let key: string;

beforeAll(async () => {
  folder = makeDatabaseFolder("failover");
  const data = join(folder, "primary");
  createDebianCluster(data, password);
  appendFileSync(join(data, "postgresql.conf"), "wal_level = replica\nmax_wal_senders = 4\nhot_standby = on\n");
  primary = await startDebianPostgres(data, password);
  const { port } = new URL(primary.url);
  const copy = join(folder, "standby");
  const source = `host=127.0.0.1 port=${port} user=faregate password=${password} application_name=${STANDBY}`;
  runDebian("pg_basebackup", ["-D", copy, "-R", "-X", "stream", "-c", "fast", "-d", source]);
  standby = await startDebianPostgres(copy, password);
  await onServer(primary.url, `alter system set synchronous_standby_names = '${STANDBY}'`);
  await onServer(primary.url, "select pg_reload_conf()");
  const observer = connect(primary.url, { maxConnections: 1 });
  const inSync = () => observer.client`select from pg_stat_replication where sync_state = 'sync'`;
  await vi.waitUntil(async () => (await inSync()).length === 1, { timeout: 20_000, interval: 200 });
  await observer.close();

  const hosts = [primary, standby].map(({ url }) => new URL(url).host).join();
  const address = `postgres://faregate:${password}@${hosts}/postgres?target_session_attrs=read-write`;
  await migrate(address, MIGRATIONS);
  const connection = connect(address);
  const pricing = pricingOf("Meter", 1, true);
  key = await contractUsers(connection, { pricing, service: "meter", plan: "ALL", userIds: USERS });
  await connection.close();
  for (const _ of [1, 2]) servers.push(await startRestServer(REST, address));
  servers.push(await startEventServer(address));
}, 120_000);

afterAll(async () => {
  for (const server of servers) await server.stop();
  for (const server of [primary, standby]) server.process.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

/** Calls a server. Returns the status; 0 when the connection broke or nothing came back in time. */
async function call(server: RunningServer, path: string, body: object): Promise<number> {
  try {
    const answer = await fetch(`${server.url}/api/v1${path}`, {
      method: "POST",
      headers: { "x-api-key": key, "content-type": "application/json" },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(15_000),
    });
    await answer.text();
    return answer.status;
  } catch {
    return 0;
  }
}

const contractOf = (userId: string) => ({
  userContact: { userId, username: userId },
  contractedServices: { meter: "1.0.0" },
  subscriptionPlans: { meter: "ALL" },
  subscriptionAddOns: {},
});

/** Consumes and contracts until stopped, and counts what was acknowledged and what has an unknown outcome. */
function startLoad() {
  const stopping = new AbortController();
  const units = new Map(USERS.map((user) => [user, { acknowledged: 0, unknown: 0 }]));
  const contracts = { acknowledged: [] as string[], unknown: [] as string[] };
  const consume = async (user: string, index: number) => {
    const server = servers[index % 2];
    const counted = units.get(user);
    if (server === undefined || counted === undefined) throw new Error("the servers are not started");
    while (!stopping.signal.aborted) {
      const status = await call(server, `/features/${user}/meter-call`, { "meter-calls": 1 });
      if (status === 200) counted.acknowledged += 1;
      else counted.unknown += 1;
    }
  };
  const contract = async () => {
    for (let n = 0; !stopping.signal.aborted; n += 1) {
      const server = servers[n % 2];
      if (server === undefined) break;
      const status = await call(server, "/contracts", contractOf(`new-${n}`));
      if (status === 201) contracts.acknowledged.push(`new-${n}`);
      else contracts.unknown.push(`new-${n}`);
    }
  };
  const running = Promise.all([...USERS.map(consume), contract()]);
  return {
    units,
    contracts,
    stop: async () => {
      stopping.abort();
      await running;
    },
  };
}

const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

test("a killed primary and a promoted standby lose and double nothing that was acknowledged", async () => {
  const load = startLoad();
  const total = () => [...load.units.values()].reduce((sum, { acknowledged }) => sum + acknowledged, 0);
  await pause(3_000);
  await expect.poll(total).toBeGreaterThan(50);
  const before = total();

  primary.process.kill("SIGKILL");
  await pause(500);
  await onServer(standby.url, "select pg_promote()");
  for (const server of servers) {
    const serves = () => call(server, "/features/user-0/meter-feature0", {});
    await expect.poll(serves, { timeout: 60_000, interval: 50 }).toBe(200);
  }
  await pause(3_000);
  await expect.poll(total).toBeGreaterThan(before + 50);
  await load.stop();

  const connection: Connection = connect(standby.url);
  const levels = await connection.client<{ user: string; consumed: number }[]>`
    select c.user_id as user, u.consumed::int from contracts c join usage_levels u on u.contract_id = c.id`;
  for (const [user, { acknowledged, unknown }] of load.units) {
    const consumed = levels.find((level) => level.user === user)?.consumed ?? -1;
    expect(consumed, user).toBeGreaterThanOrEqual(acknowledged);
    expect(consumed, user).toBeLessThanOrEqual(acknowledged + unknown);
  }

  const stored = new Set(levels.map(({ user }) => user).filter((user) => user.startsWith("new-")));
  expect(load.contracts.acknowledged.filter((user) => !stored.has(user))).toEqual([]);
  const possible = new Set([...load.contracts.acknowledged, ...load.contracts.unknown]);
  expect([...stored].filter((user) => !possible.has(user))).toEqual([]);
  await numberEvents(connection.db);
  const events = await connection.client<{ user: string; count: number }[]>`
    select details->>'userId' as user, count(*)::int as count from outbox
    where code = 'CONTRACT_CREATED' and details->>'userId' like 'new-%' group by 1`;
  expect(events.filter(({ count }) => count !== 1)).toEqual([]);
  expect(new Set(events.map(({ user }) => user))).toEqual(stored);
  expect((await checkLedger(connection.db)).violations).toEqual([]);
  await connection.close();
}, 120_000);
