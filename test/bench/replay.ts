import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { parsePricing } from "../../src/core/pricing/parse/pricing.ts";
import { type Connection, connect } from "../../src/db/postgres/connect.ts";
import { startEmbeddedPostgres } from "../../src/db/postgres/embedded.ts";
import { listenForInvalidations } from "../../src/db/postgres/invalidations.ts";
import { migrate } from "../../src/db/migrate.ts";
import { openAnalysisPool, threadsOf } from "../../src/entries/platform/analysis-pool.ts";
import { openReplay } from "../../src/operations/changes/replay.ts";
import { type Context, contextOf } from "../../src/operations/context.ts";
import { evaluateOne } from "../../src/operations/evaluation/features.ts";
import { createKeyring } from "../../src/operations/credentials.ts";
import { createResources } from "../../src/operations/resources.ts";
import { createAnalysis } from "../../src/operations/state/analysis.ts";
import { MIGRATIONS } from "../support/postgres-server.ts";
import type { BenchRow } from "./pricing.ts";

/*
 * Measures the replay of a month of many movements: its time, the memory that it adds, its first line of progress, its longest piece of
 * work on the event loop, and how long consumption of another organization takes in the same process, beside it and alone.
 */

const FROM = "2026-10-01T00:00:00.000Z";
const TO = "2026-11-01T00:00:00.000Z";
/** Contracts of the other organization. */
const OTHERS = 500;
/** Pause between two of its calls. */
const PACE_MS = 5;
const SAMPLE = new URL("../../src/samples/tasker.yml", import.meta.url);

export async function run({ quick = false } = {}): Promise<BenchRow[]> {
  const contracts = quick ? 500 : 10_000;
  const movements = contracts * 300;
  const folder = await mkdtemp(join(tmpdir(), "faregate-bench-"));
  const database = await startEmbeddedPostgres({ dataDir: folder, password: crypto.randomUUID() });
  const connection = connect(database.url, { maxConnections: 4 });
  const pool = openAnalysisPool({ threads: threadsOf(), memoryMb: 192, timeoutMs: 60_000 });
  const changes = listenForInvalidations(database.url, { applicationName: "faregate-bench" });
  try {
    await migrate(database.url, MIGRATIONS);
    await fill(connection, contracts, movements);
    const keyring = await createKeyring({
      apiKeysSecret: "x".repeat(40),
      jwtSecret: "y".repeat(40),
      jwtSalt: "z".repeat(20),
    });
    const resources = {
      ...createResources(connection, {
        changes,
        keyring,
        settings: { tokenLifetimeSeconds: 3600, allowPublicSignup: false },
        now: () => new Date(TO),
      }),
      analysis: createAnalysis({ runInThread: pool.run }),
    };
    const ofOrganization = (organizationId: string) =>
      contextOf(resources, { kind: "key", keyId: "k", organizationId, scope: "ALL" });
    const other = ofOrganization("two");
    await consumeFor(other, pause(quick ? 500 : 3_000));
    const alone = await consumeFor(other, pause(quick ? 2_000 : 15_000));
    const delays = monitorEventLoopDelay({ resolution: 5 });
    const pieces = measurePieces();
    const before = process.memoryUsage();
    let most = before;
    const sampling = setInterval(() => {
      const now = process.memoryUsage();
      if (now.rss > most.rss) most = now;
    }, 50);
    delays.enable();
    const begun = performance.now();
    let first = Infinity;
    const replay = await openReplay(ofOrganization("one"), {
      organizationId: "one",
      serviceName: "Tasker",
      pricingVersion: "2.0.0",
      draft: undefined,
      from: new Date(FROM),
      to: new Date(TO),
      targets: { groups: [] },
      keepPlans: true,
      top: 20,
    });
    const replaying = replay({ onProgress: () => (first = Math.min(first, performance.now() - begun)) });
    const beside = consumeFor(other, replaying);
    const report = await replaying;
    const seconds = (performance.now() - begun) / 1_000;
    delays.disable();
    const piece = pieces.close();
    clearInterval(sampling);
    const during = await beside;
    if (report.movements !== movements) throw new Error(`${report.movements} of ${movements} movements were replayed`);
    const row = (name: string, value: number, bound: number, detail?: string): BenchRow => ({
      name,
      value,
      target: `<= ${bound}`,
      ok: value <= bound,
      ...(detail === undefined ? {} : { detail }),
    });
    const of = (one: number, other: number) => `${one.toFixed(1)} of ${other.toFixed(1)} ms`;
    return [
      row(`replay of ${movements} movements of ${contracts} contracts (s)`, seconds, 60),
      row(
        "memory that it adds (MB)",
        (most.rss - before.rss) / 2 ** 20,
        300,
        `${megabytes(before.rss)} to ${megabytes(most.rss)}; heap of the server ${megabytes(before.heapTotal)} to ${megabytes(most.heapTotal)}`,
      ),
      row("first line of progress (ms)", first, 1_000),
      row(
        "longest piece on the event loop (ms of processor time)",
        piece,
        50,
        `delay p99.9 ${(delays.percentile(99.9) / 1e6).toFixed(0)} ms`,
      ),
      row(
        "consumption of others beside it / alone, p99",
        during.p99 / alone.p99,
        2,
        `${of(during.p99, alone.p99)}, medians ${of(during.median, alone.median)}`,
      ),
    ];
  } finally {
    await pool.close();
    await changes.close();
    await connection.close(0);
    await database.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

const megabytes = (bytes: number) => (bytes / 2 ** 20).toFixed(0);

const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Consumes 1 of changing contracts until `over` settles. Returns percentiles in milliseconds. */
async function consumeFor(ctx: Context, over: Promise<unknown>): Promise<{ median: number; p99: number }> {
  const done = new AbortController();
  void over.finally(() => done.abort());
  const times: number[] = [];
  for (let call = 0; !done.signal.aborted; call += 1) {
    const begun = performance.now();
    const answer = await evaluateOne(ctx, {
      userId: `user-${(call % OTHERS) + 1}`,
      featureId: "tasker-board",
      expected: { "tasker-maxTasks": 1 },
      mode: { server: false },
      strict: false,
      dryRun: false,
      explain: false,
    });
    times.push(performance.now() - begun);
    if (!answer.eval) throw new Error(`a consumption was answered ${JSON.stringify(answer)}`);
    await pause(PACE_MS);
  }
  const at = (share: number) =>
    times.toSorted((one, other) => one - other)[Math.floor(times.length * share)] ?? Number.NaN;
  return { median: at(0.5), p99: at(0.99) };
}

/**
 * Measures the processor time of this thread between turns of the event loop, which bounds its longest synchronous piece. The delay of
 * the loop also counts the time in which a busy machine runs something else. Linux alone counts it.
 */
function measurePieces(): { close(): number } {
  // Nanoseconds on a processor, of the thread whose id is that of the process.
  const read = () => Number(readFileSync(`/proc/self/task/${process.pid}/schedstat`, "utf8").split(" ")[0]) / 1e6;
  let longest = 0;
  let last = read();
  const timer = setInterval(() => {
    const now = read();
    longest = Math.max(longest, now - last);
    last = now;
  }, 5);
  return {
    close: () => {
      clearInterval(timer);
      return longest;
    },
  };
}

/** Fills October with movements of all contracts in turn. The second version grants fewer tasks. */
async function fill({ client: sql }: Connection, contracts: number, movements: number): Promise<void> {
  const text = readFileSync(SAMPLE, "utf8");
  const models = [text, text.replace("value: 2000\n", "value: 250\n")].map((each) => {
    const parsed = parsePricing(each, new Date(TO));
    if (!parsed.ok) throw new Error("the sample is no pricing");
    return JSON.stringify(parsed.pricing);
  });
  await sql`insert into users (id, username, password_hash, role) values ('u', 'ada', 'x', 'ADMIN')`;
  for (const [id, users] of [
    ["one", contracts],
    ["two", OTHERS],
  ] as const) {
    await sql.unsafe(`
      insert into organizations (id, name, owner_id) values ('${id}', '${id}', 'u');
      insert into services (id, organization_id, name, name_key) values ('s-${id}', '${id}', 'Tasker', 'tasker');`);
    for (const [index, model] of models.entries()) {
      const version = `${index + 1}.0.0`;
      await sql`insert into pricings (id, organization_id, service_id, version, version_key, availability, source, model, model_hash, declared_at)
        values (${`${id}-${index}`}, ${id}, ${`s-${id}`}, ${version}, ${version}, 'active', '', ${model}::text::json, ${`h${index}`}, now())`;
    }
    await sql.unsafe(`
      insert into contracts (id, organization_id, user_id, username, start_date, end_date, auto_renew, renewal_value, renewal_unit)
        select '${id}-' || n, '${id}', 'user-' || n, 'user', '${FROM}', '${TO}', true, 1, 'MONTH' from generate_series(1, ${users}) n;
      insert into contract_services (contract_id, organization_id, service_id, pricing_id, position, plan, add_ons)
        select id, '${id}', 's-${id}', '${id}-0', 0, 'BUSINESS', '{}' from contracts where organization_id = '${id}';
      insert into usage_levels (contract_id, organization_id, service_id, limit_name, position, limit_value, consumed, used_tenths)
        select id, '${id}', 's-${id}', 'maxTasks', 0, 2000, 0, 0 from contracts where organization_id = '${id}';
      insert into contract_states (contract_id, organization_id, since, cause, start_date, end_date, auto_renew, renewal_days, renewal_value,
        renewal_unit, services, levels)
        select id, '${id}', '${FROM}', 'creation', start_date, end_date, true, 30, 1, 'MONTH',
          json_build_array(json_build_object('serviceId', 's-${id}', 'key', 'tasker', 'disabled', false, 'pricingId', '${id}-0',
            'version', '1.0.0', 'hash', 'h0', 'plan', 'BUSINESS', 'addOns', json_build_object())),
          json_build_array(json_build_object('serviceId', 's-${id}', 'limitName', 'maxTasks', 'resetAt', timestamptz '${TO}', 'anchor',
            timestamptz '${FROM}', 'periodValue', 1, 'periodUnit', 'MONTH'))
        from contracts where organization_id = '${id}'`);
  }
  await sql.unsafe(`
    insert into usage_ledger (contract_id, organization_id, service_id, limit_name, kind, feature_id, operation_id, delta, created_at)
      select 'one-' || (n % ${contracts} + 1), 'one', 's-one', 'maxTasks', 'consume', 'tasker-board', 'call-' || n, 1,
        timestamptz '${FROM}' + n * (interval '30 days' / ${movements})
      from generate_series(1, ${movements}) n;
    analyze`);
}
