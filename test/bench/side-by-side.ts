import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { connect } from "../../src/db/postgres/connect.ts";
import { startEmbeddedPostgres } from "../../src/db/postgres/embedded.ts";
import { migrate } from "../../src/db/migrate.ts";
import { freePort, TEST_SECRETS } from "../support/event-server.ts";
import { contractUsers } from "../support/seed.ts";
import { builtRestOn, type Runtime, RUNTIMES } from "../runtimes/runtimes.ts";
import { onServer, withDatabase } from "../support/postgres-server.ts";
import { yamlUpload } from "../support/uploads.ts";
import type { BenchRow } from "./pricing.ts";
import { postmasterOf } from "./processes.ts";
import { type Load, measure, type Measured } from "./wrk.ts";

/*
 * Compares Faregate with the bare handlers: same machine, Postgres and pool size, alternating rounds, medians.
 */

const ROOT = resolve(import.meta.dirname, "../..");
const CONTRACTS = 400;
/** After a few thousand calls the JIT compilers have settled. Short rounds need less: their figures are only for the gate. */
const WARM_UP_SECONDS = 3;
/**
 * Requests per second of rows with one connection, few enough for slow machines. If each side got as many as it answers, the
 * quicker one would be asked four times as often, and its code would stay in caches that the other finds cold.
 */
export const ALONE_PER_SECOND = 300;
/** Faregate's runtime; the bare handlers always run on Node. */
export const RUNTIME = RUNTIMES.find((name) => name === process.env["BENCH_RUNTIME"]) ?? "Node 20";

const feature = (name: string, condition: string) => `
  ${name}:
    valueType: BOOLEAN
    defaultValue: true
    type: DOMAIN
    expression: ${condition}`;

/** Builds a pricing whose features depend on the plan alone; `metered` adds one with a counted limit. */
export const pricingOf = (name: string, features: number, metered: boolean) => `
saasName: ${name}
syntaxVersion: "3.0"
version: "1.0.0"
createdAt: "2025-01-01"
currency: EUR
features:${Array.from({ length: features }, (_, i) => feature(`feature${i}`, `pricingContext['features']['feature${i}']`)).join("")}${
  metered
    ? `${feature("call", "pricingContext['features']['call'] && subscriptionContext['calls'] < pricingContext['usageLimits']['calls']")}
usageLimits:
  calls: { valueType: NUMERIC, defaultValue: .inf, unit: call, type: NON_RENEWABLE, trackable: true }`
    : ""
}
plans:
  ALL: { price: 0, features: null }
`;

/** Equivalent loads for both sides. */
export interface Pair {
  name: string;
  against: Load;
  of: Load;
  connections: number;
  /** Requests per second of both sides. Default: as many as each answers. */
  perSecond?: number;
  target: number;
  /** Compares processor time per request instead of requests per second. */
  processorTimeOf?: "server" | "server and Postgres";
}

/** Builds loads for the bare handlers and for Faregate's features. */
export interface Sides {
  bare(paths: readonly string[], body: string): Load;
  ours(paths: readonly string[], body: string): Load;
  /** Starts Faregate on another runtime beside, over the same database. What it returns sends a load of `ours` there. */
  oursOn(runtime: Runtime): Promise<(load: Load) => Load>;
  /** Numbers of all contracts, shuffled against their row order. */
  contracts: readonly number[];
  /** For a peer started beside: a temporary folder, its own database, and a hook to stop it. */
  folder: string;
  newDatabase(name: string): Promise<string>;
  onStop(stop: () => Promise<unknown>): void;
}

/** Starts a process and waits until `ready` returns true. */
export async function start(
  [program = "", ...given]: readonly string[],
  environment: Record<string, string>,
  ready: () => Promise<boolean>,
) {
  const child: ChildProcess = spawn(program, given, {
    cwd: ROOT,
    env: { ...process.env, ...environment },
    stdio: ["ignore", "ignore", "inherit"],
  });
  const deadline = Date.now() + 20_000;
  while (!(await ready().catch(() => false))) {
    if (Date.now() > deadline) throw new Error(`${given.join(" ")} did not start`);
    await new Promise((wait) => setTimeout(wait, 50));
  }
  const stop = async () => {
    const gone = new Promise((done) => child.once("exit", done));
    child.kill("SIGTERM");
    await gone;
  };
  return { pid: child.pid, stop };
}

/** Contracts end users `plain-0`, `plain-1`, … to the plain service only. */
async function contractPlain(url: string, key: string): Promise<void> {
  const post = async (path: string, body: FormData | string) => {
    const headers = { "x-api-key": key, ...(typeof body === "string" ? { "content-type": "application/json" } : {}) };
    const answer = await fetch(url + path, { method: "POST", headers, body });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  };
  await post("/services", yamlUpload(pricingOf("Plain", 30, false)));
  for (let i = 0; i < CONTRACTS; i += 1) {
    const userId = `plain-${i}`;
    await post(
      "/contracts",
      JSON.stringify({
        userContact: { userId, username: userId },
        contractedServices: { plain: "1.0.0" },
        subscriptionPlans: { plain: "ALL" },
        subscriptionAddOns: {},
      }),
    );
  }
}

const median = (values: readonly number[]) =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;

/** Measures one pair: alternating rounds after a warm-up, medians of them, and the spread of the ratios. */
export async function compare(pair: Pair, rounds: number, seconds: number): Promise<BenchRow> {
  const { connections, perSecond } = pair;
  const measured: { against: Measured; of: Measured }[] = [];
  for (const side of [pair.against, pair.of]) await measure(side, connections, Math.min(WARM_UP_SECONDS, 2 * seconds));
  // The kernel counts processor time in ticks of 10 ms: few requests need more seconds.
  const measuredSeconds = perSecond === undefined ? seconds : 3 * seconds;
  for (let round = 0; round < rounds; round += 1) {
    measured.push({
      against: await measure(pair.against, connections, measuredSeconds, perSecond),
      of: await measure(pair.of, connections, measuredSeconds, perSecond),
    });
  }
  const { processorTimeOf } = pair;
  const middle = (side: "of" | "against", field: keyof Measured) => median(measured.map((each) => each[side][field]));
  const both = (field: keyof Measured) => [middle("of", field), middle("against", field)].map(Math.round);
  const [rates, cpu, postgres] = [both("perSecond"), both("cpuMicros"), both("postgresMicros")];
  const [p50, p99, p999] = [middle("of", "p50"), middle("of", "p99"), middle("of", "p999")];
  const withPostgres = processorTimeOf === "server and Postgres";
  const microsOf = ({ cpuMicros, postgresMicros }: Measured) => cpuMicros + (withPostgres ? postgresMicros : 0);
  const cpuRatios = measured.map(({ of, against }) => microsOf(against) / microsOf(of));
  const ratios =
    processorTimeOf === undefined ? measured.map(({ of, against }) => of.perSecond / against.perSecond) : cpuRatios;
  const value = median(ratios);
  const times = cpu.map((micros, i) => (withPostgres ? `${micros} + ${postgres[i]}` : String(micros)));
  return {
    name: pair.name,
    detail: [
      `ratio ${Math.min(...ratios).toFixed(2)}–${Math.max(...ratios).toFixed(2)}`,
      ...(cpu.some(Number.isNaN) ? [] : [`processor time ${times.join(" of ")} µs`]),
      `${rates.join("/s of ")}/s`,
      `p50 ${p50.toFixed(1)}, p99 ${p99.toFixed(1)}, p99.9 ${p999.toFixed(1)} ms`,
    ].join("; "),
    value,
    target: `>= ${pair.target}`,
    ok: value >= pair.target,
    cpuRatio: median(cpuRatios),
  };
}

/** Starts both sides over one new, seeded database and measures every pair. `quick` takes fewer and shorter rounds. */
export async function sideBySide(
  pairsOf: (sides: Sides) => readonly Pair[] | Promise<readonly Pair[]>,
  quick: boolean,
): Promise<BenchRow[]> {
  const folder = await mkdtemp(join(tmpdir(), "faregate-bench-"));
  const database = await startEmbeddedPostgres({ dataDir: folder, password: crypto.randomUUID() });
  const stops: (() => Promise<unknown>)[] = [];
  try {
    await migrate(database.url, fileURLToPath(new URL("../../src/db/migrations", import.meta.url)));
    const connection = connect(database.url);
    const numbers = Array.from({ length: CONTRACTS }, (_, i) => i);
    const userIds = numbers.map((i) => `user-${i}`);
    const key = await contractUsers(connection, {
      pricing: pricingOf("Meter", 0, true),
      service: "meter",
      plan: "ALL",
      userIds,
    });
    await connection.close();
    const postgresPid = postmasterOf(folder);
    const barePort = await freePort();
    const bareUrl = `http://127.0.0.1:${barePort}`;
    const bare = await start(
      [process.execPath, "--import", "tsx", "test/bench/bare-handlers.ts", database.localUrl, String(barePort)],
      {},
      async () => (await fetch(`${bareUrl}/ready`)).ok,
    );
    stops.push(bare.stop);
    const json = { "content-type": "application/json" };
    const startOurs = async (runtime: Runtime) => {
      const port = await freePort();
      const url = `http://127.0.0.1:${port}`;
      const environment = { ...TEST_SECRETS, DATABASE_URL: database.localUrl, PORT: String(port), LOG_LEVEL: "warn" };
      const isUp = async () => (await fetch(`${url}/api/v1/healthcheck`)).ok;
      const { pid, stop } = await start(
        await builtRestOn(runtime, { databaseUrl: database.localUrl }),
        environment,
        isUp,
      );
      stops.push(stop);
      return { url, pid };
    };
    const ours = await startOurs(RUNTIME);
    await contractPlain(`${ours.url}/api/v1`, key);
    const pairs = await pairsOf({
      bare: (paths, body) => ({
        url: bareUrl,
        headers: { ...json, "x-api-key": "key" },
        body,
        paths,
        pid: bare.pid,
        postgresPid,
      }),
      ours: (paths, body) => ({
        ...ours,
        headers: { ...json, "x-api-key": key },
        body,
        paths: paths.map((path) => `/api/v1/features/${path}`),
        postgresPid,
      }),
      oursOn: async (runtime) => {
        const other = await startOurs(runtime);
        return (load) => ({ ...load, ...other });
      },
      contracts: numbers.map((i) => (i * 157) % CONTRACTS),
      folder,
      newDatabase: async (name) => {
        await onServer(database.url, `create database ${name}`);
        return withDatabase(database.url, name);
      },
      onStop: (stop) => stops.push(stop),
    });
    const rows: BenchRow[] = [];
    for (const pair of pairs) rows.push(await compare(pair, quick ? 3 : 5, quick ? 1 : 4));
    return rows;
  } finally {
    for (const stop of stops) await stop();
    await database.stop();
    await rm(folder, { recursive: true, force: true });
  }
}
