import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { Faregate } from "../../src/client/back/faregate.ts";
import { connect } from "../../src/db/postgres/connect.ts";
import { startEmbeddedPostgres } from "../../src/db/postgres/embedded.ts";
import { migrate } from "../../src/db/migrate.ts";
import { createLocalEvaluator } from "../../src/local/local.ts";
import { builtRestOn } from "../runtimes/runtimes.ts";
import { startRestServer } from "../support/event-server.ts";
import { MIGRATIONS } from "../support/postgres-server.ts";
import { contractUsers } from "../support/seed.ts";
import type { BenchRow } from "./pricing.ts";
import { pricingOf } from "./side-by-side.ts";

/*
 * Local evaluation beside HTTP, in one run: awaited answers from memory per second of processor time, against the calls per
 * second of the service; spends from leases; users that preload loads; memory. Source: contract tokens-and-leases §9.
 */

const USERS = 1_000;
/** Users of the measurement of memory. */
const MANY = 10_000;
const ROUND = 200_000;
const ROUNDS = 5;
const HTTP_CALLS = 3_000;
const CONCURRENCY = 64;
const FEATURE = "plain-feature7";
/** Reads a limit. */
const LIMITED = "plain-call";

const userOf = (i: number) => `user-${i + 1}`;

/** Processor seconds of this process. */
function processorSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

/** Makes awaited calls, by default one after the other. */
async function repeat(calls: number, call: (i: number) => Promise<unknown>, concurrency = 1): Promise<void> {
  let next = 0;
  const worker = async () => {
    while (next < calls) await call((next += 1));
  };
  await Promise.all(Array.from({ length: concurrency }, worker));
}

/** Highest rate over rounds of `calls` awaited calls, per second of processor time. */
async function localRate(calls: number, call: (i: number) => Promise<unknown>, concurrency?: number): Promise<number> {
  let best = 0;
  for (let round = 0; round < ROUNDS; round += 1) {
    const started = processorSeconds();
    await repeat(calls, call, concurrency);
    best = Math.max(best, calls / (processorSeconds() - started));
  }
  return best;
}

/** Highest rate over rounds of `calls` calls each, per second. */
async function wallRate(calls: number, make: (round: number) => Promise<unknown>): Promise<number> {
  let best = 0;
  for (let round = 0; round < ROUNDS; round += 1) {
    const started = performance.now();
    await make(round);
    best = Math.max(best, (calls / (performance.now() - started)) * 1000);
  }
  return best;
}

/** Highest rate of calls over HTTP, many at a time, per second. */
const httpRate = (calls: number, call: (i: number) => Promise<unknown>): Promise<number> =>
  wallRate(calls, () => repeat(calls, call, CONCURRENCY));

function heapBytes(): number {
  setFlagsFromString("--expose-gc");
  const collect: () => void = runInNewContext("gc");
  collect();
  collect();
  return process.memoryUsage().heapUsed;
}

const atLeast = (name: string, value: number, least: number, detail: string): BenchRow => ({
  name,
  value,
  target: `>= ${least}`,
  ok: value >= least,
  detail,
});

export async function run({ quick = false } = {}): Promise<BenchRow[]> {
  const folder = await mkdtemp(join(tmpdir(), "faregate-bench-"));
  const database = await startEmbeddedPostgres({ dataDir: folder, password: crypto.randomUUID() });
  try {
    await migrate(database.url, MIGRATIONS);
    const connection = connect(database.url);
    const apiKey = await contractUsers(connection, {
      pricing: pricingOf("Plain", 30, true),
      service: "plain",
      plan: "ALL",
      userIds: ["first"],
    });
    const sql = connection.client;
    await sql`insert into contracts (id, organization_id, user_id, username, start_date, end_date)
      select 'b' || lpad(to_hex(n), 23, '0'), c.organization_id, 'user-' || n, 'user-' || n, c.start_date, c.end_date
      from contracts c, generate_series(1, ${MANY}::integer) n`;
    await sql`insert into contract_services (contract_id, service_id, pricing_id, position, plan)
      select c.id, cs.service_id, cs.pricing_id, 0, 'ALL' from contracts c, contract_services cs
      where c.user_id like 'user-%'`;
    await sql`insert into usage_levels (contract_id, service_id, limit_name, position, consumed)
      select cs.contract_id, cs.service_id, 'calls', 0, 7 from contract_services cs
      join contracts c on c.id = cs.contract_id where c.user_id like 'user-%'`;
    await sql`analyze`;
    const server = await startRestServer(await builtRestOn("Node 20"), database.url);
    const client = new Faregate({ url: server.url, apiKey });
    const local = createLocalEvaluator({ url: server.url, apiKey });
    while (local.state !== "connected") await new Promise((resolve) => setTimeout(resolve, 10));
    const calls = quick ? ROUND / 10 : ROUND;
    const httpCalls = quick ? HTTP_CALLS / 10 : HTTP_CALLS;

    const before = heapBytes();
    const ids = Array.from({ length: MANY }, (_, i) => userOf(i));
    const preloaded = await wallRate(MANY / ROUNDS, (round) =>
      local.preload(ids.slice((round * MANY) / ROUNDS, ((round + 1) * MANY) / ROUNDS)),
    );
    const megabytes = (heapBytes() - before) / 1e6;

    const answers = await localRate(calls, (i) => local.evaluate(userOf(i % USERS), FEATURE));
    const evaluated = await httpRate(httpCalls, (i) => client.features.evaluate(userOf(i % USERS), FEATURE));
    const limited = await httpRate(httpCalls, (i) => client.features.evaluate(userOf(i % USERS), LIMITED));
    const consumption = { "plain-calls": 1 };
    const spend = (i: number) => local.evaluate(userOf(i % USERS), LIMITED, { consumption });
    // Leases begin, and grow to the rate at which they are spent.
    await repeat(2 * ROUND, spend, CONCURRENCY);
    const spends = await localRate(ROUND, spend, CONCURRENCY);
    const hot = await localRate(ROUND, () => spend(0));
    const { lease, service } = local.stats();
    await local.close();
    const consumed = await httpRate(httpCalls, () =>
      client.features.evaluate(userOf(0), LIMITED, { consumption, strict: true }),
    );
    await server.stop();
    await connection.close();
    const perSecond = (rate: number) => `${Math.round(rate).toLocaleString("en")}/s`;
    return [
      atLeast("awaited local answers per second and core, in millions", answers / 1e6, 1, perSecond(answers)),
      atLeast(
        "awaited local answers / evaluations over HTTP",
        answers / evaluated,
        100,
        `${perSecond(answers)} of ${perSecond(evaluated)}`,
      ),
      atLeast(
        "users that preload loads / evaluations with a limit over HTTP",
        preloaded / limited,
        2,
        `${perSecond(preloaded)} of ${perSecond(limited)}`,
      ),
      atLeast(
        "awaited spends from leases of 1,000 users per second and core, in thousands",
        spends / 1e3,
        300,
        `${perSecond(spends)}, of one user ${perSecond(hot)}; ${lease} of ${lease + service} from leases`,
      ),
      atLeast(
        "awaited spends from leases / consumptions of one contract over HTTP",
        spends / consumed,
        30,
        `${perSecond(spends)} of ${perSecond(consumed)}`,
      ),
      {
        name: "megabytes of memory for 10,000 users",
        value: megabytes,
        target: "<= 40",
        ok: megabytes <= 40,
      },
    ];
  } finally {
    await database.stop();
    await rm(folder, { recursive: true, force: true });
  }
}
