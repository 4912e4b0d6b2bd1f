import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Sql } from "postgres";
import { connect } from "../../src/db/postgres/connect.ts";
import { startEmbeddedPostgres } from "../../src/db/postgres/embedded.ts";
import { migrate } from "../../src/db/migrate.ts";
import { createRollUp } from "../../src/db/queries/usage-rollup.ts";
import { builtRestOn } from "../runtimes/runtimes.ts";
import { type RunningServer, startRestServer } from "../support/event-server.ts";
import { MIGRATIONS } from "../support/postgres-server.ts";
import { contractUsers } from "../support/seed.ts";
import type { BenchRow } from "./pricing.ts";
import { pricingOf } from "./side-by-side.ts";
import { measure } from "./wrk.ts";

/*
 * Measures histories of usage over a year of movements, a third of them of one contract. Measures batches of usage against
 * single consumptions of the same contracts.
 */

const CONTRACTS = 1_000;
const FEATURES = 5;
const CALLS = 40;
const ROUNDS = 3;
/** Batches in flight at once. */
const SENDERS = 4;
const JSON_TYPE = { "content-type": "application/json" };

export async function run({ quick = false } = {}): Promise<BenchRow[]> {
  const movements = quick ? 300_000 : 3_000_000;
  const folder = await mkdtemp(join(tmpdir(), "faregate-bench-"));
  const database = await startEmbeddedPostgres({ dataDir: folder, password: crypto.randomUUID() });
  try {
    await migrate(database.url, MIGRATIONS);
    const connection = connect(database.url);
    const key = await contractUsers(connection, {
      pricing: pricingOf("Meter", 0, true),
      service: "meter",
      plan: "ALL",
      userIds: ["user-0"],
    });
    await fill(connection.client, movements);
    const rollUp = createRollUp(connection.db);
    await rollUp();
    await rollUp();
    await connection.client.unsafe("vacuum analyze");
    await connection.close();
    const [program = "", ...given] = await builtRestOn("Node 20");
    const server = await startRestServer([program, ...given], database.url);
    try {
      return [...(await histories(server, key, movements)), ...(await batches(server, key, quick ? 2 : 5))];
    } finally {
      await server.stop();
    }
  } finally {
    await database.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

/** Copies the only contract, and spreads movements over a year. A third of them are of the first contract. */
async function fill(sql: Sql, movements: number): Promise<void> {
  const copies = sql`generate_series(1, ${CONTRACTS - 1}::int) n`;
  await sql`insert into contracts (id, organization_id, user_id, username, start_date, end_date, auto_renew)
    select 'copy-' || n, organization_id, 'user-' || n, 'user-' || n, start_date, end_date, auto_renew from contracts, ${copies}`;
  await sql`insert into contract_services (contract_id, service_id, pricing_id, position, plan, add_ons)
    select 'copy-' || n, service_id, pricing_id, position, plan, add_ons from contract_services, ${copies}`;
  await sql`insert into usage_levels (contract_id, service_id, limit_name, position, limit_value, consumed)
    select 'copy-' || n, service_id, limit_name, position, limit_value, 0 from usage_levels, ${copies}`;
  await sql`update usage_ledger_start set at = now() - interval '366 days'`;
  await sql`insert into usage_ledger
      (contract_id, organization_id, service_id, limit_name, kind, feature_id, operation_id, delta, created_at)
    select case when n % 3 = 0 or other = 0 then u.contract_id else 'copy-' || other end, u.organization_id, u.service_id, u.limit_name,
      'consume', 'meter-feature' || (hashint4(n) & 65535) % ${FEATURES}::int, 'filled-' || n, 1,
      now() - (${movements}::int - n) * (interval '365 days' / ${movements}::int)
    from usage_levels u, generate_series(1, ${movements}::int) n,
      lateral (select (hashint4(-n) & 1048575) % ${CONTRACTS}::int as other) chosen
    where u.contract_id not like 'copy-%'`;
  await sql`update usage_levels u set consumed = sums.moved
    from (select contract_id, sum(delta) as moved from usage_ledger group by 1) sums where sums.contract_id = u.contract_id`;
}

/** Times a call without its connection. Returns the 95th percentile and the median in milliseconds. */
async function time(url: string, key: string): Promise<{ p95: number; median: number }> {
  const times: number[] = [];
  for (let call = 0; call < CALLS + 3; call += 1) {
    const begun = performance.now();
    const answer = await fetch(url, { headers: { "x-api-key": key } });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${url}: ${answer.status} ${text}`);
    times.push(performance.now() - begun);
  }
  const sorted = times.slice(3).toSorted((a, b) => a - b);
  const at = (share: number) => sorted[Math.floor(CALLS * share)] ?? Number.NaN;
  return { p95: at(0.95), median: at(0.5) };
}

async function histories(server: RunningServer, key: string, movements: number): Promise<BenchRow[]> {
  const from = new Date(Date.now() - 30 * 86_400_000).toISOString();
  const rows: BenchRow[] = [];
  const large = `one contract with ${movements / 3} movements`;
  const organization = `an organization with ${movements} movements of ${CONTRACTS} contracts`;
  const small = `one contract of ${CONTRACTS}`;
  const asked: readonly [string, string, readonly string[], number][] = [
    [large, "/contracts/user-0/usage", ["hour", "day", "feature"], 100],
    [organization, "/usage", ["day", "feature", "user"], 100],
    [small, "/contracts/user-7/usage", ["day"], 20],
  ];
  for (const [name, path, groupings, target] of asked) {
    for (const by of groupings) {
      const { p95, median } = await time(`${server.url}/api/v1${path}?by=${by}&from=${from}`, key);
      rows.push({
        name: `30 days by ${by}, ${name}, p95 (ms)`,
        detail: `median ${Math.round(median)} ms`,
        value: p95,
        target: `<= ${target}`,
        ok: p95 <= target,
      });
    }
  }
  return rows;
}

/**
 * Compares batches of 1,000 items over all contracts with single consumptions of the contracts, in alternating rounds. The
 * senders share all contracts, so that each batch waits for the others, or have a part of them each.
 */
async function batches(server: RunningServer, key: string, seconds: number): Promise<BenchRow[]> {
  const users = Array.from({ length: CONTRACTS }, (_, n) => `user-${(n * 157) % CONTRACTS}`);
  const headers = { "x-api-key": key, ...JSON_TYPE };
  const single = {
    url: server.url,
    headers,
    body: '{"meter-calls":1}',
    paths: users.map((user) => `/api/v1/features/${user}/meter-call`),
  };
  const send = async (chosen: readonly string[]): Promise<number> => {
    const items = chosen.map((userId) => ({
      key: crypto.randomUUID(),
      userId,
      featureId: "meter-call",
      amounts: { "meter-calls": 1 },
    }));
    const begun = performance.now();
    const answer = await fetch(`${server.url}/api/v1/usage`, {
      method: "POST",
      headers,
      body: JSON.stringify(items),
    });
    const { counts } = (await answer.json()) as { counts: { counted: number } };
    if (counts.counted !== items.length) throw new Error(`a batch counted ${counts.counted}`);
    return performance.now() - begun;
  };
  const shared = Array.from({ length: SENDERS }, () => users);
  const apart = shared.map((all, sender) => all.map((_, n) => all[n - (n % SENDERS) + sender] ?? ""));
  const sendFor = async (lists: readonly (readonly string[])[]): Promise<number> => {
    const begun = performance.now();
    let sent = 0;
    const sender = async (list: readonly string[]) => {
      for (; performance.now() - begun < seconds * 1_000; sent += list.length) await send(list);
    };
    await Promise.all(lists.map(sender));
    return (sent * 1_000) / (performance.now() - begun);
  };
  const median = (values: readonly number[]) =>
    values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
  await measure(single, 64, seconds);
  await sendFor(shared);
  const rates: { shared: number; apart: number; singles: number }[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    rates.push({
      shared: await sendFor(shared),
      apart: await sendFor(apart),
      singles: (await measure(single, 64, seconds)).perSecond,
    });
  }
  const times: number[] = [];
  for (let call = 0; call < CALLS; call += 1) times.push(await send(users));
  const ratioOf = (kind: "shared" | "apart", senders: string): BenchRow => {
    const ratio = median(rates.map((rate) => rate[kind] / rate.singles));
    const [items, singles] = [median(rates.map((rate) => rate[kind])), median(rates.map((rate) => rate.singles))];
    return {
      name: `items in batches of 1,000, ${SENDERS} senders ${senders} / single consumptions, 64 connections`,
      detail: `${Math.round(items)}/s of ${Math.round(singles)}/s`,
      value: ratio,
      target: ">= 2",
      ok: ratio >= 2,
    };
  };
  return [
    ratioOf("shared", `of the same ${CONTRACTS} contracts`),
    ratioOf("apart", `of ${CONTRACTS / SENDERS} contracts each`),
    {
      name: `one batch of 1,000 items over ${CONTRACTS} contracts, median (ms)`,
      value: median(times),
      target: "<= 1000",
      ok: median(times) <= 1000,
    },
  ];
}
