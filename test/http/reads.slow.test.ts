import { afterAll, beforeAll, expect, test } from "vitest";
import { connect } from "../../src/db/postgres/connect.ts";
import { type Answer, createTestApi, type Method, type TestApi } from "../support/api.ts";
import { contract, upload } from "../support/contracting.ts";
import { createTestDatabase } from "../support/database.ts";
import { meterPricing } from "../support/pricings.ts";
import { spread } from "../support/seed.ts";

/*
 * Postgres keeps the plan of a prepared statement until a table of it is analyzed. Made while the table was small, the plan may
 * be to read all of it. Here no table is ever analyzed.
 */

const OTHERS = { organizations: 20, contracts: 4_000 };
/** More than enough for Postgres to keep the plans of prepared statements. */
const WARM_UP_CALLS = 8;

let api: TestApi;
beforeAll(async () => {
  const database = await createTestDatabase();
  await database.connection.close(0);
  const connection = connect(database.url, { applicationName: "faregate-test", maxConnections: 2 });
  const tables = await connection.client<{ name: string }[]>`
    select format('%I', relname) as name from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'`;
  for (const { name } of tables) await connection.client.unsafe(`alter table ${name} set (autovacuum_enabled = false)`);
  // As after the first migration: the template may have been analyzed.
  await connection.client`update pg_class set relpages = 0, reltuples = -1 where relnamespace = 'public'::regnamespace`;
  const drop = async () => {
    await connection.close(0);
    await database.drop();
  };
  api = await createTestApi({ database: { ...database, connection, drop } });
});
afterAll(() => api.close());

interface Step {
  method: Method;
  path: string;
  body?: unknown;
}
const post = (path: string, body?: unknown): Step => ({ method: "POST", path, body });
const get = (path: string): Step => ({ method: "GET", path });
const AMOUNTS = { "meter-calls": 1 };

let cold = 0;

/** Calls by name, each with the same effect whenever it runs. */
const CALLS: Record<string, (run: (step: Step) => Promise<Answer<{ hold: { id: string } }>>) => Promise<unknown>> = {
  "evaluate one feature": (run) => run(post("/features/ada/meter-call")),
  "evaluate a contract that is not cached": (run) => run(post(`/features/cold-${(cold += 1)}/meter-call`)),
  "evaluate all features": (run) => run(post("/features/ada")),
  "issue a pricing token": (run) => run(post("/features/ada/pricing-token")),
  consume: (run) => run(post("/features/ada/meter-call", AMOUNTS)),
  "take and settle a hold": async (run) => {
    const { body } = await run(post("/features/ada/meter-call?hold=PT1H", AMOUNTS));
    await run(post(`/holds/${body.hold.id}`, AMOUNTS));
  },
  "take, extend and release a hold": async (run) => {
    const { body } = await run(post("/features/ada/meter-call?hold=PT1H", AMOUNTS));
    await run(post(`/holds/${body.hold.id}?extend=PT2H`));
    await run({ method: "DELETE", path: `/holds/${body.hold.id}` });
  },
  "consume and revert": async (run) => {
    await run(post("/features/ada/meter-call", AMOUNTS));
    await run(post("/features/ada/meter-call?revert=true"));
  },
  "show a contract": (run) => run(get("/contracts/ada")),
  "list the audit log": (run) => run(get("/audit-log?limit=10")),
};

async function rowsRead(): Promise<number> {
  const { client } = api.database.connection;
  // Each connection tells what it has read.
  await Promise.all([0, 1].map(() => client`select pg_stat_force_next_flush(), pg_sleep(0.03)`));
  await Promise.all([0, 1].map(() => client`select pg_sleep(0.03)`));
  const [row] = await client<{ rows: string }[]>`
    select (select sum(seq_tup_read) from pg_stat_user_tables) + (select sum(idx_tup_read) from pg_stat_user_indexes) as rows`;
  return Number(row?.rows);
}

async function readsPerCall(key: string): Promise<Record<string, number>> {
  const reads: Record<string, number> = {};
  const run = async ({ method, path, body }: Step) => {
    const answer = await api.call<{ hold: { id: string } }>(method, path, { key, body });
    expect(answer.status, `${method} ${path}: ${JSON.stringify(answer.body)}`).toBeLessThan(300);
    return answer;
  };
  for (const [name, call] of Object.entries(CALLS)) {
    for (let i = 0; i < WARM_UP_CALLS; i += 1) await call(run);
    const before = await rowsRead();
    await call(run);
    reads[name] = (await rowsRead()) - before;
  }
  return reads;
}

async function growOtherOrganizations(): Promise<void> {
  const sql = api.database.connection.client;
  await spread(sql, OTHERS);
  const all = sql`contracts c join contract_services cs on cs.contract_id = c.id where c.id like 'contract-%'`;
  await sql`insert into holds (id, contract_id, organization_id, feature_id, amounts, on_expiry, state, created_at, until)
    select c.id || '-' || n, c.id, c.organization_id, 'meter-call', '[]', 'release', 'open', '2025-06-01', '2026-01-01'
    from generate_series(1, 4) n, ${all}`;
  await sql`insert into audit_log (at, organization_id, actor_kind, action, target)
    select '2025-06-01', c.organization_id, 'anonymous', 'contract.create', c.id from ${all}`;
}

test("what a call reads does not grow with other organizations, whatever Postgres planned for empty tables", async () => {
  const { key } = api.callers.all;
  await upload(
    api,
    key,
    meterPricing("{ valueType: NUMERIC, defaultValue: .inf, unit: call, type: NON_RENEWABLE, trackable: true }"),
  );
  const cold = Array.from({ length: 2 * (WARM_UP_CALLS + 1) }, (_, i) => `cold-${i + 1}`);
  for (const userId of ["ada", ...cold]) {
    await contract(api, key, userId, {
      contractedServices: { meter: "1.0.0" },
      subscriptionPlans: { meter: "ALL" },
    });
  }
  const few = await readsPerCall(key);
  await growOtherOrganizations();
  const many = await readsPerCall(key);
  const grown = Object.entries(many).filter(([name, reads]) => reads - (few[name] ?? 0) > OTHERS.contracts / 4);
  expect(Object.fromEntries(grown)).toEqual({});
});
