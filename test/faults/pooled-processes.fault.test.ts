import { spawnSync } from "node:child_process";
import { rmSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { checkLedger } from "../../src/db/invariants.ts";
import { migrate } from "../../src/db/migrate.ts";
import { connect } from "../../src/db/postgres/connect.ts";
import { type EmbeddedPostgres, startEmbeddedPostgres } from "../../src/db/postgres/embedded.ts";
import { launch, launchAndWait, ports, signIn, useLaunchers } from "../entries/launcher.ts";
import { HANDSHAKE } from "../events/in-process.ts";
import { openPricings } from "../events/raw-client.ts";
import { restOn } from "../runtimes/runtimes.ts";
import { makeDatabaseFolder } from "../support/database-folder.ts";
import { tasker } from "../support/contracting.ts";
import {
  freePort,
  REST,
  type RunningServer,
  startEventServer,
  startRestServer,
  TEST_SECRETS,
} from "../support/event-server.ts";
import { type PgBouncer, startPgBouncer } from "../support/pgbouncer.ts";
import { MIGRATIONS, onServer, withDatabase } from "../support/postgres-server.ts";
import { contractUsers } from "../support/seed.ts";

/*
 * Real processes whose DATABASE_URL leads to PgBouncer in transaction mode, with and without DATABASE_DIRECT_URL. Nobody
 * tells them that it is one.
 */

const USERS = Array.from({ length: 8 }, (_, index) => `user-${index}`);

let folder: string;
let postgres: EmbeddedPostgres;
let pooler: PgBouncer;
let key: string;
const servers: RunningServer[] = [];
beforeAll(async () => {
  folder = makeDatabaseFolder("pooled");
  postgres = await startEmbeddedPostgres({ dataDir: folder, password: "sesame" });
  await migrate(postgres.url, MIGRATIONS);
  const connection = connect(postgres.url);
  key = await contractUsers(connection, {
    pricing: tasker({ maxTasks: 1_000_000 }),
    service: "tasker",
    plan: "PRO",
    userIds: USERS,
  });
  await connection.close();
  pooler = await startPgBouncer(postgres.url, { default_pool_size: 4 });
}, 60_000);
afterAll(async () => {
  for (const server of servers) server.process.kill("SIGKILL");
  await pooler.stop();
  await postgres.stop();
  rmSync(folder, { recursive: true, force: true });
});

const url = () => pooler.url("faregate");
const kept = async (started: Promise<RunningServer>): Promise<RunningServer> => {
  const server = await started;
  servers.push(server);
  return server;
};

async function call(
  server: RunningServer,
  path: string,
  body?: object,
  method = body === undefined ? "GET" : "POST",
): Promise<{ status: number; body: unknown }> {
  const answer = await fetch(`${server.url}/api/v1${path}`, {
    method,
    headers: { "x-api-key": key, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  return { status: answer.status, body: text === "" ? undefined : JSON.parse(text) };
}

/** Consumes through these servers from many clients at once. Returns the statuses and how often each came. */
async function consumeThrough(through: readonly RunningServer[], calls: number): Promise<Record<string, number>> {
  const statuses: Record<string, number> = {};
  const client = async (first: number) => {
    for (let n = first; n < calls; n += 16) {
      const server = through[n % through.length];
      if (server === undefined) throw new Error("no server");
      const path = `/features/${USERS[n % USERS.length]}/tasker-board`;
      // Some consumptions raise events, reads and dry runs go beside them.
      const answers = [await call(server, path, { "tasker-maxTasks": 1 })];
      if (n % 4 === 0) answers.push(await call(server, `/contracts/${USERS[n % USERS.length]}`));
      if (n % 4 === 1) answers.push(await call(server, `${path}?dryRun=true`, { "tasker-maxTasks": 1 }));
      for (const { status } of answers) statuses[status] = (statuses[status] ?? 0) + 1;
    }
  };
  await Promise.all(Array.from({ length: 16 }, (_, first) => client(first)));
  return statuses;
}

/** Reads a stream of events until it is closed. */
async function follow(server: RunningServer, path: string): Promise<{ text(): string; close(): void }> {
  const abort = new AbortController();
  const answer = await fetch(`${server.url}/api/v1${path}`, { headers: { "x-api-key": key }, signal: abort.signal });
  expect(answer.status).toBe(200);
  let text = "";
  const read = async () => {
    for await (const chunk of answer.body ?? []) text += Buffer.from(chunk).toString();
  };
  void read().catch(() => {});
  return { text: () => text, close: () => abort.abort() };
}

async function counted(): Promise<number> {
  const connection = connect(postgres.url, { maxConnections: 1 });
  try {
    const { violations } = await checkLedger(connection.db);
    expect(violations).toEqual([]);
    const [row] = await connection.client<{ sum: string }[]>`select sum(consumed)::text as sum from usage_levels`;
    return Number(row?.sum);
  } finally {
    await connection.close();
  }
}

it("with a direct address, REST and event servers serve, follow changes, and count each call once", async () => {
  const direct = { DATABASE_DIRECT_URL: postgres.url };
  const rest = await kept(startRestServer(REST, url(), direct));
  const events = await kept(startEventServer(url(), direct));
  const before = await counted();
  const statuses = await consumeThrough([rest, events], 400);
  expect(Object.keys(statuses)).toEqual(["200"]);
  expect(await counted()).toBe(before + 400);

  // Both depend on LISTEN: the event server's feed, and the beats for local evaluators.
  const feed = await follow(events, "/events/stream");
  const changes = await follow(rest, "/events/stream?changes=true");
  expect((await call(events, "/contracts", contract("newcomer"))).status).toBe(201);
  expect((await call(events, "/contracts/newcomer", undefined, "DELETE")).status).toBe(204);
  await vi.waitUntil(() => feed.text().includes("CONTRACT_CREATED"), { timeout: 30_000 });
  await vi.waitUntil(() => /event: change[^]*event: beat/.test(changes.text()), { timeout: 30_000 });
  feed.close();
  changes.close();
  // Half a second without a heartbeat, which a busy machine may take, is worth a line.
  const expected = "ALLOWED_ORIGINS|changes cannot be followed for now: ";
  expect(rest.output() + events.output()).not.toMatch(new RegExp(`"level":"(warn|error)"(?!.*(${expected}))`));
}, 120_000);

it("without one, REST serves by reading on every request, says so, and counts each call once", async () => {
  const pair = [await kept(startRestServer(REST, url())), await kept(startRestServer(REST, url()))];
  const before = await counted();
  expect(Object.keys(await consumeThrough(pair, 400))).toEqual(["200"]);
  expect(await counted()).toBe(before + 400);
  await expect
    .poll(() => pair[0]?.output())
    .toContain("DATABASE_DIRECT_URL is not set: keys and contracts are read on every request");
  // Nobody may listen on a backend that others get.
  const connection = connect(postgres.url, { maxConnections: 1 });
  expect(
    await connection.client`select 1 from pg_stat_activity where query ilike 'listen%' and application_name like '%changes'
    and state_change > now() - interval '1 second' and client_port is null`,
  ).toEqual([]);
  await connection.close();
}, 120_000);

const contract = (userId: string) => ({
  userContact: { userId, username: userId },
  contractedServices: { tasker: "1.0.0" },
  subscriptionPlans: { tasker: "PRO" },
  subscriptionAddOns: {},
});

it("without one, an event server refuses to start with one sentence, and so where the direct one is a pooler too", async () => {
  await expect(startEventServer(url())).rejects.toThrow(
    "the server did not start: DATABASE_URL leads to a connection pooler that keeps no sessions, and events and locks need one: set DATABASE_DIRECT_URL to an address of the same database without a pooler.\n",
  );
  await expect(startEventServer(url(), { DATABASE_DIRECT_URL: url() })).rejects.toThrow(
    "the server did not start: DATABASE_DIRECT_URL leads to a connection pooler that keeps no sessions: set it to an address of the same database without a pooler.\n",
  );
});

it("a Worker, whose Hyperdrive is a transaction pooler, serves and counts each call once", async () => {
  const worker = await kept(startRestServer(await restOn("workerd"), url()));
  const before = await counted();
  expect(Object.keys(await consumeThrough([worker], 200))).toEqual(["200"]);
  expect(await counted()).toBe(before + 200);
  await worker.stop();
}, 120_000);

describe("npm run doctor", () => {
  const examine = (environment: Record<string, string>) => {
    const given = ["dist/server/doctor.js"];
    const env = { ...process.env, ...TEST_SECRETS, DATABASE_URL: url(), ...environment };
    return spawnSync(process.execPath, given, { env, encoding: "utf8" });
  };

  it("names the pooler, what follows without a direct address, and the two lines to set", () => {
    const { status, stdout } = examine({});
    expect(status).toBe(1);
    expect(stdout).toContain(
      "FAIL  pooler        DATABASE_URL leads to a transaction pooler: event servers and commands refuse it, and REST reads keys and contracts on every request. Set both:\n" +
        "      DATABASE_URL (as it is)\n" +
        "      DATABASE_DIRECT_URL=postgres://faregate:…@<host of the database>:5432/faregate\n",
    );
    expect(stdout).toMatch(/^ok {4}database {6}PostgreSQL \d+/m);
    expect(stdout).not.toContain("sesame");
  });

  it("accepts it with a direct address, and names the time-outs that the role lacks", () => {
    const { stdout } = examine({ DATABASE_DIRECT_URL: postgres.url });
    expect(stdout).toContain(
      "ok    pooler        DATABASE_URL leads to a transaction pooler that keeps no prepared statements; DATABASE_DIRECT_URL keeps sessions.\n" +
        "warn  pooler        Statements outside of transactions lack settings behind a pooler: alter role faregate set statement_timeout = '30s'; alter role faregate set lock_timeout = '10s'; alter role faregate set jit = off;\n",
    );
    expect(stdout).toMatch(/^ok {4}notify/m);
  });
});

/** Creates an empty database of this name. Returns its addresses through the pooler and past it. */
async function newDatabase(name: string): Promise<{ DATABASE_URL: string; DATABASE_DIRECT_URL: string }> {
  await onServer(postgres.url, `create database ${name}`);
  return { DATABASE_URL: pooler.url(name), DATABASE_DIRECT_URL: withDatabase(postgres.url, name) };
}

describe("npm start", () => {
  useLaunchers();

  it("without one refuses with the same sentence", async () => {
    const launcher = launch({ ...TEST_SECRETS, DATABASE_URL: url() });
    expect(await launcher.exit).toBe(1);
    expect(launcher.errors()).toMatch(/^DATABASE_URL leads to a connection pooler .+ without a pooler\.\n$/);
  });

  it("with one migrates an empty database, serves, and sends events to sockets", { timeout: 120_000 }, async () => {
    const launcher = await launchAndWait({
      ...TEST_SECRETS,
      ...(await newDatabase("launched")),
      ENABLE_TEST_EVENT: "true",
    });
    const password = /with the password (\S+)/.exec(launcher.output())?.[1] ?? "";
    const signedIn = await signIn(password);
    expect(signedIn.status).toBe(200);
    const { apiKey } = (await signedIn.json()) as { apiKey: string };
    const socket = await openPricings(`ws://127.0.0.1:${ports.EVENTS_PORT}${HANDSHAKE}`);
    const sent = await fetch(`http://127.0.0.1:${ports.PORT}/api/v1/events/test-event`, {
      method: "POST",
      headers: { "x-api-key": apiKey, "content-type": "application/json" },
      body: JSON.stringify({ serviceName: "Tasker", pricingVersion: "1.0.0" }),
    });
    expect(sent.status).toBe(200);
    expect(await socket.frame(2)).toContain('"serviceName":"Tasker"');
    socket.close();
    expect(launcher.errors()).toBe("");
    launcher.process.kill("SIGTERM");
    expect(await launcher.exit).toBe(0);
  });
});

it("migrations go to the direct address alone: they need no pooler", async () => {
  const { DATABASE_DIRECT_URL } = await newDatabase("migrated");
  const nowhere = `postgres://faregate@127.0.0.1:${await freePort()}/migrated`;
  const { status, stdout, stderr } = spawnSync(process.execPath, ["dist/server/migrate.js"], {
    env: { ...process.env, ...TEST_SECRETS, DATABASE_URL: nowhere, DATABASE_DIRECT_URL },
    encoding: "utf8",
  });
  expect([status, stderr]).toEqual([0, ""]);
  expect(stdout).toMatch(/^The schema is up to date/);
});

describe("DATABASE_POOLER", () => {
  it("true makes a direct address one of a pooler", async () => {
    const isPooled = { DATABASE_POOLER: "true" };
    await expect(startEventServer(postgres.url, isPooled)).rejects.toThrow("set DATABASE_DIRECT_URL to an address");
    const rest = await kept(startRestServer(REST, postgres.url, isPooled));
    expect(Object.keys(await consumeThrough([rest], 50))).toEqual(["200"]);
    await expect.poll(rest.output).toContain("DATABASE_DIRECT_URL is not set");
    await rest.stop();
  });

  it("false makes a pooler a direct address, which works as far as the pooler allows", async () => {
    const rest = await kept(startRestServer(REST, url(), { DATABASE_POOLER: "false" }));
    expect((await call(rest, `/features/${USERS[0]}/tasker-board`, {})).status).toBe(503);
    expect(rest.output()).not.toContain("DATABASE_DIRECT_URL is not set");
    await rest.stop();
  });
});

it("REST that starts before its pooler serves once that is there", async () => {
  const port = await freePort();
  const late = new URL(url());
  late.port = String(port);
  const rest = await kept(startRestServer(REST, late.href));
  expect((await call(rest, `/features/${USERS[0]}/tasker-board`, {})).status).toBe(503);
  const own = await startPgBouncer(postgres.url, { listen_port: port });
  try {
    const path = `/features/${USERS[0]}/tasker-board`;
    await vi.waitUntil(async () => (await call(rest, path, { "tasker-maxTasks": 1 })).status === 200, {
      timeout: 20_000,
    });
    expect(Object.keys(await consumeThrough([rest], 100))).toEqual(["200"]);
    await vi.waitUntil(() => rest.output().includes("DATABASE_DIRECT_URL is not set"), { timeout: 20_000 });
  } finally {
    await rest.stop();
    await own.stop();
  }
}, 120_000);
