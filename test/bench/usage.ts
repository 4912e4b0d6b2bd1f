import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import autocannon from "autocannon";
import { connect } from "../../src/db/connect.ts";
import { startEmbeddedPostgres } from "../../src/db/embedded.ts";
import { migrate } from "../../src/db/migrate.ts";
import { freePort, TEST_SECRETS } from "../support/event-server.ts";
import { contractUsers } from "../support/seed.ts";
import type { BenchRow } from "./pricing.ts";

/*
 * Consumption over HTTP against a bare handler with one UPDATE … RETURNING a request: same machine, same Postgres, same
 * size of pool, rounds in turn, medians.
 */

const ROOT = resolve(import.meta.dirname, "../..");
const CONTRACTS = 400;

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
    expression: pricingContext['features']['call'] && subscriptionContext['calls'] < pricingContext['usageLimits']['calls']
usageLimits:
  calls: { valueType: NUMERIC, defaultValue: .inf, unit: call, type: NON_RENEWABLE, trackable: true }
plans:
  ALL: { price: 0, features: null }
`;

async function start(script: readonly string[], environment: Record<string, string>, ready: () => Promise<boolean>) {
  const child: ChildProcess = spawn(process.execPath, ["--import", "tsx", ...script], {
    cwd: ROOT,
    env: { ...process.env, ...environment },
    stdio: ["ignore", "ignore", "inherit"],
  });
  const deadline = Date.now() + 20_000;
  while (!(await ready().catch(() => false))) {
    if (Date.now() > deadline) throw new Error(`${script[0]} did not start`);
    await new Promise((wait) => setTimeout(wait, 50));
  }
  return async () => {
    const gone = new Promise((done) => child.once("exit", done));
    child.kill("SIGTERM");
    await gone;
  };
}

interface Load {
  url: string;
  headers: Record<string, string>;
  body: string;
  paths: readonly string[];
}

/** Requests a second over `seconds` at `connections`; throws when any answer was not 2xx. */
async function measure(load: Load, connections: number, seconds: number): Promise<number> {
  const result = await autocannon({
    url: load.url,
    connections,
    duration: seconds,
    requests: load.paths.map((path) => ({ method: "POST" as const, path, headers: load.headers, body: load.body })),
  });
  if (result.non2xx > 0 || result.errors > 0)
    throw new Error(`${load.url}: ${result.non2xx} refused, ${result.errors} failed`);
  return result.requests.average;
}

const median = (values: readonly number[]) =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;

function shuffled(count: number): number[] {
  return Array.from({ length: count }, (_, i) => (i * 157) % count);
}

/** Measures consumption; `quick` takes shorter rounds. */
export async function run({ quick = false } = {}): Promise<BenchRow[]> {
  const folder = await mkdtemp(join(tmpdir(), "faregate-bench-"));
  const database = await startEmbeddedPostgres({ dataDir: folder, password: crypto.randomUUID() });
  const stops: (() => Promise<unknown>)[] = [];
  try {
    await migrate(database.url, fileURLToPath(new URL("../../src/db/migrations", import.meta.url)));
    const connection = connect(database.url);
    const userIds = Array.from({ length: CONTRACTS }, (_, i) => `user-${i}`);
    const key = await contractUsers(connection, { pricing: PRICING, service: "meter", plan: "ALL", userIds });
    await connection.close();
    const [barePort, port] = [await freePort(), await freePort()];
    const bareUrl = `http://127.0.0.1:${barePort}`;
    const url = `http://127.0.0.1:${port}`;
    stops.push(
      await start(
        ["test/bench/bare-handlers.ts", database.url, String(barePort)],
        {},
        async () => (await fetch(`${bareUrl}/json`)).ok,
      ),
      await start(
        ["src/entries/node.ts"],
        { ...TEST_SECRETS, DATABASE_URL: database.url, PORT: String(port), LOG_LEVEL: "warn" },
        async () => (await fetch(`${url}/api/v1/healthcheck`)).ok,
      ),
    );
    const json = { "content-type": "application/json" };
    const bare = (paths: readonly string[], body: string): Load => ({ url: bareUrl, headers: json, body, paths });
    const ours = (paths: readonly string[], body: string): Load => ({
      url,
      headers: { ...json, "x-api-key": key },
      body,
      paths: paths.map((path) => `/api/v1/features/${path}/meter-call`),
    });
    const one = '{"amount":1}';
    const consume = '{"meter-calls":1}';
    const users = shuffled(CONTRACTS).map((i) => `user-${i}`);
    const rows = shuffled(CONTRACTS).map((i) => `/update/${i}`);
    const selects = shuffled(CONTRACTS).map((i) => `/select/${i}`);
    const pairs: { name: string; against: Load; of: Load; connections: number; target: number }[] = [
      {
        name: "consume, distinct contracts, 64 connections / one UPDATE a request",
        against: bare(rows, one),
        of: ours(users, consume),
        connections: 64,
        target: 0.8,
      },
      {
        name: "consume, one hot contract, 64 connections / one UPDATE of a hot row a request",
        against: bare(["/update/1"], one),
        of: ours(["user-1"], consume),
        connections: 64,
        target: 3,
      },
      {
        name: "consume, distinct contracts, 1 connection / one UPDATE a request",
        against: bare(rows, one),
        of: ours(users, consume),
        connections: 1,
        target: 0,
      },
      {
        name: "evaluate one feature with its limit, 64 connections / one SELECT a request",
        against: bare(selects, one),
        of: ours(users, "{}"),
        connections: 64,
        target: 0,
      },
    ];
    const rounds = quick ? 3 : 5;
    const seconds = quick ? 2 : 5;
    const result: BenchRow[] = [];
    for (const pair of pairs) {
      const measured: { against: number; of: number }[] = [];
      await measure(pair.of, pair.connections, 1);
      for (let round = 0; round < rounds; round += 1) {
        measured.push({
          against: await measure(pair.against, pair.connections, seconds),
          of: await measure(pair.of, pair.connections, seconds),
        });
      }
      const value = median(measured.map((each) => each.of / each.against));
      const absolute = `${Math.round(median(measured.map((m) => m.of)))}/s of ${Math.round(median(measured.map((m) => m.against)))}/s`;
      result.push({
        name: `${pair.name} (${absolute})`,
        value,
        target: pair.target === 0 ? "told only" : `>= ${pair.target}`,
        ok: value >= pair.target,
      });
    }
    return result;
  } finally {
    for (const stop of stops) await stop();
    await database.stop();
    await rm(folder, { recursive: true, force: true });
  }
}
