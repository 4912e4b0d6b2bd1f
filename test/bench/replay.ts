import { readFileSync, rmSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { Agent } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parsePricing } from "../../src/core/pricing/parse/pricing.ts";
import { type Connection, connect } from "../../src/db/postgres/connect.ts";
import { startEmbeddedPostgres } from "../../src/db/postgres/embedded.ts";
import { migrate } from "../../src/db/migrate.ts";
import { hashApiKey } from "../../src/operations/credentials.ts";
import { builtRestOn } from "../runtimes/runtimes.ts";
import { type RunningServer, startRestServer, testKeyring } from "../support/event-server.ts";
import { MIGRATIONS } from "../support/postgres-server.ts";
import type { BenchRow } from "./pricing.ts";
import { megabytesOf } from "./processes.ts";
import { exchange } from "../support/exchange.ts";

/*
 * Measures the replay of a month of many movements in a REST process: its time, the memory that it adds, its first line of progress,
 * its longest piece of work on the event loop, and how long consumption of another organization takes beside it and alone.
 */

const FROM = "2026-10-01T00:00:00.000Z";
const TO = "2026-11-01T00:00:00.000Z";
/** End of the billing periods: no call renews them while the bench runs. */
const END = "2036-11-01T00:00:00.000Z";
/** Contracts of the other organization. */
const OTHERS = 500;
/** Pause between two of its calls. */
const PACE_MS = 5;
const SAMPLE = new URL("../../src/samples/tasker.yml", import.meta.url);
const LONGEST_PIECE = new URL("longest-piece.mjs", import.meta.url);

/** Key of an organization. */
const keyOf = (organization: string) => `org_${Buffer.from(organization).toString("hex").padEnd(64, "0")}`;

export async function run({ quick = false } = {}): Promise<BenchRow[]> {
  const contracts = quick ? 500 : 10_000;
  const movements = contracts * 300;
  const folder = await mkdtemp(join(tmpdir(), "faregate-bench-"));
  const database = await startEmbeddedPostgres({ dataDir: folder, password: crypto.randomUUID() });
  const connection = connect(database.url, { maxConnections: 4 });
  let server: RunningServer | undefined;
  try {
    await migrate(database.url, MIGRATIONS);
    await fill(connection, contracts, movements);
    const piece = join(folder, "longest-piece");
    const started = await startRestServer(await builtRestOn("Node 20"), database.url, {
      NODE_OPTIONS: `--import ${LONGEST_PIECE.href}`,
      LONGEST_PIECE: piece,
    });
    server = started;
    const { pid } = started.process;
    const longestPiece = async () => {
      rmSync(piece, { force: true });
      started.process.kill("SIGUSR2");
      for (;;) {
        await pause(20);
        try {
          return Number(readFileSync(piece, "utf8"));
        } catch {
          // It is not written yet.
        }
      }
    };
    await consumeFor(started.url, pause(quick ? 500 : 5_000));
    const alone = await consumeFor(started.url, pause(quick ? 2_000 : 15_000));
    await longestPiece();
    const before = megabytesOf(pid);
    let most = before;
    const sampling = setInterval(() => (most = Math.max(most, megabytesOf(pid))), 50);
    const begun = performance.now();
    const replaying = replay(started.url);
    const beside = consumeFor(started.url, replaying);
    const { first, report } = await replaying;
    const seconds = (performance.now() - begun) / 1_000;
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
      row("memory that it adds (MB)", most - before, 300, `${before.toFixed(0)} to ${most.toFixed(0)}`),
      row("first line of progress (ms)", first, 1_000),
      row("longest piece on the event loop (ms of processor time)", await longestPiece(), 50),
      row(
        "consumption of others beside it / alone, p99",
        during.p99 / alone.p99,
        2,
        `${of(during.p99, alone.p99)}, medians ${of(during.median, alone.median)}`,
      ),
    ];
  } finally {
    await server?.stop();
    await connection.close(0);
    await database.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Replays October under the second version. Returns the report, and after how many milliseconds the first line came. */
async function replay(url: string): Promise<{ first: number; report: { movements: number } }> {
  const begun = performance.now();
  const answer = await fetch(`${url}/api/v1/services/tasker/replay`, {
    method: "POST",
    headers: { "x-api-key": keyOf("one"), "content-type": "application/json", accept: "application/x-ndjson" },
    body: JSON.stringify({ pricingVersion: "2.0.0", from: FROM, to: TO, keepPlans: true }),
  });
  if (!answer.ok || answer.body === null) throw new Error(`a replay was answered ${answer.status}`);
  let first = Number.NaN;
  let text = "";
  for await (const part of answer.body.pipeThrough(new TextDecoderStream())) {
    if (Number.isNaN(first)) first = performance.now() - begun;
    text += part;
  }
  const last = JSON.parse(text.trim().split("\n").at(-1) ?? "") as { report?: { movements: number } };
  if (last.report === undefined) throw new Error(`a replay ended with ${JSON.stringify(last)}`);
  return { first, report: last.report };
}

/** Consumes 1 of changing contracts until `over` settles. Returns percentiles in milliseconds. */
async function consumeFor(url: string, over: Promise<unknown>): Promise<{ median: number; p99: number }> {
  const done = new AbortController();
  const end = () => done.abort();
  void over.then(end, end);
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const headers = { "x-api-key": keyOf("two"), "content-type": "application/json" };
  const times: number[] = [];
  for (let call = 0; !done.signal.aborted; call += 1) {
    const begun = performance.now();
    const path = `/api/v1/features/user-${(call % OTHERS) + 1}/tasker-board`;
    const { status, text } = await exchange(url + path, { method: "POST", agent, headers }, '{"tasker-maxTasks":1}');
    times.push(performance.now() - begun);
    if (!text.includes('"eval":true')) throw new Error(`a consumption was answered ${status} ${text}`);
    await pause(PACE_MS);
  }
  agent.destroy();
  const at = (share: number) =>
    times.toSorted((one, other) => one - other)[Math.floor(times.length * share)] ?? Number.NaN;
  return { median: at(0.5), p99: at(0.99) };
}

/** Fills October with movements of all contracts in turn. The second version grants fewer tasks. */
async function fill({ client: sql }: Connection, contracts: number, movements: number): Promise<void> {
  const keyring = await testKeyring();
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
      insert into organization_keys (id, organization_id, scope, key_hash, key_sealed)
        values ('key-${id}', '${id}', 'ALL', '${await hashApiKey(keyring, keyOf(id))}', 'sealed');
      insert into services (id, organization_id, name, name_key) values ('s-${id}', '${id}', 'Tasker', 'tasker');`);
    for (const [index, model] of models.entries()) {
      const version = `${index + 1}.0.0`;
      await sql`insert into pricings (id, organization_id, service_id, version, version_key, availability, source, model, model_hash, declared_at)
        values (${`${id}-${index}`}, ${id}, ${`s-${id}`}, ${version}, ${version}, 'active', '', ${model}::text::json, ${`h${index}`}, now())`;
    }
    await sql.unsafe(`
      insert into contracts (id, organization_id, user_id, username, start_date, end_date, auto_renew, renewal_value, renewal_unit)
        select '${id}-' || n, '${id}', 'user-' || n, 'user', '${FROM}', '${END}', true, 1, 'MONTH' from generate_series(1, ${users}) n;
      insert into contract_services (contract_id, organization_id, service_id, pricing_id, position, plan, add_ons)
        select id, '${id}', 's-${id}', '${id}-0', 0, 'BUSINESS', '{}' from contracts where organization_id = '${id}';
      insert into usage_levels (contract_id, organization_id, service_id, limit_name, position, limit_value, consumed, used_tenths)
        select id, '${id}', 's-${id}', 'maxTasks', 0, 2000, 0, 0 from contracts where organization_id = '${id}';
      insert into contract_states (contract_id, organization_id, since, cause, start_date, end_date, auto_renew, renewal_days, renewal_value,
        renewal_unit, services, levels)
        select id, '${id}', '${FROM}', 'creation', start_date, end_date, true, 30, 1, 'MONTH',
          json_build_array(json_build_object('serviceId', 's-${id}', 'key', 'tasker', 'disabled', false, 'pricingId', '${id}-0',
            'version', '1.0.0', 'hash', 'h0', 'plan', 'BUSINESS', 'addOns', json_build_object())),
          json_build_array(json_build_object('serviceId', 's-${id}', 'limitName', 'maxTasks', 'resetAt', timestamptz '${END}', 'anchor',
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
