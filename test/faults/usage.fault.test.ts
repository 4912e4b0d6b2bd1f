import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connect } from "../../src/db/postgres/connect.ts";
import { type EmbeddedPostgres, startEmbeddedPostgres } from "../../src/db/postgres/embedded.ts";
import { checkLedger } from "../../src/db/invariants.ts";
import { migrate } from "../../src/db/migrate.ts";
import { freePort, TEST_SECRETS } from "../support/event-server.ts";
import { MIGRATIONS } from "../support/postgres-server.ts";
import { contractUsers } from "../support/seed.ts";

/*
 * SIGKILL hits the REST process and Postgres in turn while many clients consume. A client with an Idempotency-Key
 * retries until 200: each unit counts once. For clients without one, every acknowledged unit counts, and no unit that
 * was never sent.
 */

const ROOT = resolve(import.meta.dirname, "../..");
const KILLS = 20;

const PRICING = `
saasName: Meter
syntaxVersion: "3.0"
version: "1.0.0"
createdAt: "2025-01-01"
currency: EUR
features:
  call:
    valueType: BOOLEAN
    defaultValue: true
    type: DOMAIN
    expression: subscriptionContext['calls'] < pricingContext['usageLimits']['calls'] && subscriptionContext['bytes'] < pricingContext['usageLimits']['bytes']
usageLimits:
  calls: { valueType: NUMERIC, defaultValue: .inf, unit: call, type: NON_RENEWABLE, trackable: true }
  bytes: { valueType: NUMERIC, defaultValue: .inf, unit: byte, type: NON_RENEWABLE, trackable: true }
plans:
  ALL: { price: 0, features: null }
`;

let folder: string;
let database: EmbeddedPostgres;
let databasePort: number;
const password = crypto.randomUUID();
let rest: ChildProcess;
let port: number;
let key: string;

const url = (path: string) => `http://127.0.0.1:${port}/api/v1${path}`;

async function until(condition: () => Promise<boolean>, what: string): Promise<void> {
  const deadline = Date.now() + 20_000;
  while (!(await condition().catch(() => false))) {
    if (Date.now() > deadline) throw new Error(`${what} took more than 20 s`);
    await new Promise((wait) => setTimeout(wait, 20));
  }
}

const serves = async () => (await fetch(url("/features/keyed"), { method: "POST", headers: { "x-api-key": key } })).ok;

function startRest(): void {
  rest = spawn(process.execPath, ["--import", "tsx", "src/entries/node.ts"], {
    cwd: ROOT,
    env: { ...process.env, ...TEST_SECRETS, DATABASE_URL: database.url, PORT: String(port), LOG_LEVEL: "error" },
    stdio: "ignore",
  });
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "faregate-faults-"));
  databasePort = await freePort();
  database = await startEmbeddedPostgres({ dataDir: folder, password, port: databasePort });
  await migrate(database.url, MIGRATIONS);
  const connection = connect(database.url);
  key = await contractUsers(connection, {
    pricing: PRICING,
    service: "meter",
    plan: "ALL",
    userIds: ["keyed", "plain"],
  });
  await connection.close();
  port = await freePort();
  startRest();
  await until(serves, "the first start");
}, 60_000);

afterAll(async () => {
  rest.kill("SIGKILL");
  await database.stop();
  await rm(folder, { recursive: true, force: true });
});

/** Consumes one call and three bytes. Returns the status; 0 when the connection broke. */
async function attempt(userId: string, idempotencyKey?: string): Promise<number> {
  try {
    const answer = await fetch(url(`/features/${userId}/meter-call`), {
      method: "POST",
      headers: {
        "x-api-key": key,
        "content-type": "application/json",
        ...(idempotencyKey === undefined ? {} : { "idempotency-key": idempotencyKey }),
      },
      body: '{"meter-calls":1,"meter-bytes":3}',
      signal: AbortSignal.timeout(10_000),
    });
    await answer.text();
    return answer.status;
  } catch {
    return 0;
  }
}

async function killRest(): Promise<void> {
  const gone = new Promise((done) => rest.once("exit", done));
  rest.kill("SIGKILL");
  await gone;
  startRest();
  await until(serves, "REST's return");
}

async function killDatabase(): Promise<void> {
  const pid = Number.parseInt(readFileSync(join(folder, "postgres", "postmaster.pid"), "utf8"), 10);
  const gone = database.exited;
  process.kill(pid, "SIGKILL");
  await gone;
  database = await startEmbeddedPostgres({ dataDir: folder, password, port: databasePort });
  await until(serves, "service after the database's return");
}

test(`after ${KILLS} kills of REST and of Postgres under load no acknowledged unit is lost and none is counted twice`, async () => {
  const stop = new AbortController();
  const unexpected = new Set<number>();
  const note = (status: number) => {
    if (status !== 0 && status !== 200 && status !== 503) unexpected.add(status);
  };
  let keyed = 0;
  const withKeys = Array.from({ length: 12 }, async () => {
    while (!stop.signal.aborted) {
      const unit = crypto.randomUUID();
      for (;;) {
        const status = await attempt("keyed", unit);
        note(status);
        if (status === 200) break;
        await new Promise((wait) => setTimeout(wait, 20));
      }
      keyed += 1;
    }
  });
  let sent = 0;
  let acknowledged = 0;
  const withoutKeys = Array.from({ length: 12 }, async () => {
    while (!stop.signal.aborted) {
      sent += 1;
      const status = await attempt("plain");
      note(status);
      if (status === 200) acknowledged += 1;
      else await new Promise((wait) => setTimeout(wait, 20));
    }
  });
  for (let kill = 0; kill < KILLS; kill += 1) {
    await new Promise((wait) => setTimeout(wait, 150));
    await (kill % 2 === 0 ? killRest() : killDatabase());
    expect(rest.exitCode, "REST survives the death of its database").toBeNull();
  }
  stop.abort();
  await Promise.all([...withKeys, ...withoutKeys]);
  expect([...unexpected]).toEqual([]);

  const connection = connect(database.url);
  try {
    const levels = await connection.client<{ userId: string; limit: string; consumed: string }[]>`
      select c.user_id as "userId", u.limit_name as limit, u.consumed
      from usage_levels u join contracts c on c.id = u.contract_id`;
    const consumed = (userId: string, limit: string) =>
      Number(levels.find((level) => level.userId === userId && level.limit === limit)?.consumed);
    expect(keyed).toBeGreaterThan(KILLS);
    expect(consumed("keyed", "calls")).toBe(keyed);
    expect(consumed("keyed", "bytes")).toBe(3 * keyed);
    expect(acknowledged).toBeGreaterThan(KILLS);
    expect(consumed("plain", "calls")).toBeGreaterThanOrEqual(acknowledged);
    expect(consumed("plain", "calls")).toBeLessThanOrEqual(sent);
    expect(consumed("plain", "bytes")).toBe(3 * consumed("plain", "calls"));
    expect((await checkLedger(connection.db)).violations).toEqual([]);
  } finally {
    await connection.close();
  }
}, 240_000);
