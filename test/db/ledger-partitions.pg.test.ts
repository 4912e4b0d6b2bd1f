import { afterAll, beforeAll, expect, it } from "vitest";
import { checkLedger } from "../../src/db/invariants.ts";
import { makePartitions } from "../../src/db/queries/ledger-partitions.ts";
import { compactLedger } from "../../src/db/queries/retention.ts";
import { createRollUp } from "../../src/db/queries/usage-rollup.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { consumed, contract, tasker, upload } from "../support/contracting.ts";
import { spread } from "../support/seed.ts";

const DAY_MS = 86_400_000;
const now = new Date();
const daysAgo = (days: number) => new Date(now.getTime() - days * DAY_MS);

let api: TestApi;
beforeAll(async () => {
  api = await createTestApi();
  await upload(api, api.callers.all.key, tasker());
  await contract(api, api.callers.all.key, "ada");
});
afterAll(() => api.close());

/** Bounds are milliseconds since 1970. */
interface Partition {
  name: string;
  begins: number | null;
  ends: number | null;
  rows: number;
}

const BOUNDS = `part::text as name, extract(epoch from nullif(begins, '-infinity'))::float8 * 1000 as begins,
  extract(epoch from ends)::float8 * 1000 as ends`;

/** Partitions with the number of their rows, the default one last. */
async function partitions(): Promise<Partition[]> {
  const { client } = api.database.connection;
  const found = await client<Partition[]>`select ${client.unsafe(BOUNDS)} from faregate_ledger_partitions()`;
  return Promise.all(
    found.map(async (partition) => {
      const [row] = await client<{ rows: number }[]>`select count(*)::int as rows from ${client(partition.name)}`;
      return { ...partition, rows: row?.rows ?? 0 };
    }),
  );
}

/** Inserts movements without a balance, at moments in SQL. */
const insertAt = (moment: string, rows = 1) =>
  api.database.connection.client.unsafe(`
    insert into usage_ledger (contract_id, organization_id, service_id, limit_name, kind, operation_id, delta, created_at)
    select contract_id, organization_id, service_id, limit_name, 'consume', 'inserted', 0, ${moment} from usage_levels u, generate_series(1, ${rows})
    where u.limit_name = 'maxTasks' and exists (select from contracts c where c.id = u.contract_id and c.user_id = 'ada')`);

const carriedPerBalance = () => api.database.connection.client<{ most: number; carried: number }[]>`
  select coalesce(max(n), 0)::int as most, coalesce(sum(n), 0)::int as carried from (
    select count(*) as n from usage_ledger where operation_id = 'carried' group by contract_id, service_id, limit_name) c`;

it("partitions have a week each, up to a week ahead, and movements of today are in one", async () => {
  await makePartitions(api.resources.db, now);
  const found = await partitions();
  expect(found.at(0)).toMatchObject({ name: "usage_ledger_first", begins: null });
  expect(found.at(-1)).toEqual({ name: "usage_ledger_default", begins: null, ends: null, rows: 0 });
  const ranges = found.slice(1, -1);
  for (const { begins, ends } of ranges) expect(Number(ends) - Number(begins)).toBe(7 * DAY_MS);
  expect(Number(ranges.at(-1)?.ends)).toBeGreaterThanOrEqual(now.getTime() + 8 * DAY_MS);
  await insertAt("now()");
  const holding = (await partitions()).filter(({ rows }) => rows > 0);
  expect(holding.map(({ begins, ends }) => Number(begins) <= now.getTime() && now.getTime() < Number(ends))).toEqual([
    true,
  ]);
});

it("days with more than a million movements get partitions of a day", async () => {
  const later = new Date(now.getTime() + 15 * DAY_MS).toISOString();
  const newest = (await partitions()).at(-2)?.ends ?? 0;
  const session = await api.database.connection.client.reserve();
  try {
    await session`begin`;
    for (let again = true; again;) {
      // As analyzed by autovacuum.
      await session`update pg_class set reltuples = 20e6 where oid in (select inhrelid from pg_inherits)`;
      const [row] = await session<{ made: boolean }[]>`select faregate_make_partition(${later}::timestamptz) as made`;
      again = row?.made === true;
    }
    const found = await session<Partition[]>`select ${session.unsafe(BOUNDS)} from faregate_ledger_partitions()`;
    const made = found.filter(({ ends }) => Number(ends) > newest);
    expect(made.length).toBeGreaterThan(2);
    for (const { begins, ends } of made) expect(Number(ends) - Number(begins)).toBe(DAY_MS);
  } finally {
    await session`rollback`;
    session.release();
  }
});

it("movements of a time without event servers are accepted, and their partition is made afterwards", async () => {
  const later = "now() + interval '40 days'";
  await insertAt(later, 50);
  expect((await partitions()).at(-1)).toMatchObject({ name: "usage_ledger_default", rows: 50 });
  const then = new Date(now.getTime() + 41 * DAY_MS);
  await makePartitions(api.resources.db, then);
  const found = await partitions();
  expect(found.at(-1)).toMatchObject({ name: "usage_ledger_default", rows: 0 });
  expect(found.reduce((sum, { rows }) => sum + rows, 0)).toBe(51);
  const ranges = found.slice(0, -1);
  for (const [i, { ends }] of ranges.entries()) if (i > 0) expect(ranges[i]?.begins).toBe(ranges[i - 1]?.ends ?? ends);
  await api.database.connection.client`delete from usage_ledger where created_at > now() + interval '30 days'`;
});

it("3,000 contracts that are written in turn leave at most one carried sum per balance, however often they are compacted", async () => {
  const { client } = api.database.connection;
  const contracts = 3_000;
  await spread(client, { organizations: 3, contracts });
  const use = (days: number, turns: number) => client`
    with given as (
      insert into usage_ledger (contract_id, organization_id, service_id, limit_name, kind, operation_id, delta, created_at)
      select u.contract_id, u.organization_id, u.service_id, u.limit_name, 'consume', 'turn-' || turn, turn,
        now() - ${days}::int * interval '1 day' + turn * interval '1 second'
      from generate_series(1, ${turns}::int) turn, usage_levels u where u.limit_name = 'maxTasks'
      order by turn, u.contract_id returning contract_id, service_id, limit_name, delta
    )
    update usage_levels u set consumed = u.consumed + g.delta,
      used_tenths = faregate_used_tenths(u.consumed + g.delta, u.limit_value)
    from (select contract_id, service_id, limit_name, sum(delta) as delta from given group by 1, 2, 3) g
    where u.contract_id = g.contract_id and u.service_id = g.service_id and u.limit_name = g.limit_name`;
  await use(40, 10);
  await use(12, 2);
  await use(0, 1);
  const rollUp = createRollUp(api.resources.db);
  while ((await rollUp()) === 0);
  const balances = contracts + 1;
  expect(await compactLedger(api.resources.db, now, 30)).toBe(balances * 10);
  expect(await carriedPerBalance()).toEqual([{ most: 1, carried: balances }]);
  expect((await checkLedger(api.resources.db)).violations).toEqual([]);
  // The next partition is dropped, and its sums are added to the carried ones.
  expect(await compactLedger(api.resources.db, now, 1)).toBe(balances * 2);
  expect(await carriedPerBalance()).toEqual([{ most: 1, carried: balances }]);
  expect((await checkLedger(api.resources.db)).violations).toEqual([]);
  expect(await compactLedger(api.resources.db, now, 1)).toBe(0);
});

it("a large first partition is not rewritten for a few old movements", async () => {
  const { client } = api.database.connection;
  const estimate = (rows: number) => client`
    update pg_class set reltuples = ${rows} where oid = (
      select part from faregate_ledger_partitions() where begins = '-infinity')`;
  await insertAt("now() - interval '60 days'", 20);
  await estimate(1_000_000);
  expect(await compactLedger(api.resources.db, now, 30)).toBe(0);
  await estimate(-1);
  expect(await compactLedger(api.resources.db, now, 30)).toBe(20);
  expect((await checkLedger(api.resources.db)).violations).toEqual([]);
});

it("movements that are recorded, moved and deleted between the two halves of a compaction are not lost", async () => {
  const { client } = api.database.connection;
  const { key } = api.callers.all;
  for (const user of ["late", "gone", "both"]) await contract(api, key, user);
  const move = (user: string, amount: number, days: number) => client`
    with moved as (
      insert into usage_ledger (contract_id, organization_id, service_id, limit_name, kind, operation_id, delta, created_at)
      select u.contract_id, u.organization_id, u.service_id, u.limit_name, 'consume', 'moved', ${amount}, ${daysAgo(days).toISOString()}::timestamptz
      from usage_levels u join contracts c on c.id = u.contract_id where c.user_id = ${user} and u.limit_name = 'maxTasks'
      returning contract_id, limit_name, delta
    )
    update usage_levels u set consumed = consumed + m.delta,
      used_tenths = faregate_used_tenths(consumed + m.delta, limit_value)
    from moved m
    where u.contract_id = m.contract_id and u.limit_name = m.limit_name`;
  for (const user of ["gone", "both"]) await move(user, 2, 60);
  const rollUp = createRollUp(api.resources.db);
  while ((await rollUp()) === 0);
  const [staged] = await client<
    { staged: boolean }[]
  >`select faregate_stage_ledger(${daysAgo(30).toISOString()}::timestamptz) as staged`;
  expect(staged).toEqual({ staged: true });
  for (const user of ["late", "both"]) await move(user, 3, 60);
  expect((await api.call("DELETE", "/contracts/gone", { key })).status).toBe(204);
  expect((await checkLedger(api.resources.db)).violations).toEqual([]);
  expect(await compactLedger(api.resources.db, now, 30)).toBe(4);
  expect((await checkLedger(api.resources.db)).violations).toEqual([]);
  expect(await consumed(api, key, "both")).toBe(5);
  expect((await carriedPerBalance())[0]?.most).toBe(1);
});

it("a long reader keeps a compaction waiting without blocking writers, and it goes on afterwards", async () => {
  const { client } = api.database.connection;
  const { key } = api.callers.all;
  await insertAt("now() - interval '50 days'", 20);
  const session = await client.reserve();
  try {
    await session.unsafe("begin; select count(*) from usage_ledger");
    const over = new AbortController();
    const compacting = compactLedger(api.resources.db, now, 30).finally(() => over.abort());
    const statuses: number[] = [];
    while (!over.signal.aborted) {
      const body = { "tasker-maxTasks": 1 };
      statuses.push((await api.call("POST", "/features/ada/tasker-board", { key, body })).status);
    }
    expect(await compacting).toBe(0);
    expect(new Set(statuses)).toEqual(new Set([200]));
    expect(statuses.length).toBeGreaterThan(5);
  } finally {
    await session`rollback`;
    session.release();
  }
  expect(await compactLedger(api.resources.db, now, 30)).toBe(20);
  expect((await checkLedger(api.resources.db)).violations).toEqual([]);
});
