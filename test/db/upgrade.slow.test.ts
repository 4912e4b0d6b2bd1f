import { afterAll, beforeAll, expect, inject, it } from "vitest";
import { checkLedger } from "../../src/db/invariants.ts";
import { connect, type Connection } from "../../src/db/postgres/connect.ts";
import { migrate } from "../../src/db/migrate.ts";
import { makePartitions } from "../../src/db/queries/ledger-partitions.ts";
import { compactLedger } from "../../src/db/queries/retention.ts";
import { createRollUp } from "../../src/db/queries/usage-rollup.ts";
import { MIGRATIONS, onServer, withDatabase } from "../support/postgres-server.ts";
import { migrateToReleased, RELEASED_STATEMENTS } from "../support/released.ts";

/*
 * Upgrades a database of the last release under load. Clients consume, revert and delete, and an event server of that release
 * rolls up and compacts. Every change counts once.
 */

const CONTRACTS = 60;
const MOVEMENTS = 40_000;
const WRITERS = 4;
const name = `faregate_${crypto.randomUUID().replaceAll("-", "")}_test`;
let old: Connection;

beforeAll(async () => {
  const { url } = inject("postgres");
  await onServer(url, `create database ${name}`);
  await migrateToReleased(withDatabase(url, name));
  old = connect(withDatabase(url, name), { maxConnections: WRITERS + 4 });
  await fill();
});
afterAll(async () => {
  await old.close(0);
  await onServer(inject("postgres").url, `drop database if exists ${name} with (force)`);
});

async function fill(): Promise<void> {
  await old.client.unsafe(`
    insert into users (id, username, password_hash, role) values ('u', 'ada', 'x', 'ADMIN');
    insert into organizations (id, name, owner_id) values ('one', 'One', 'u');
    insert into services (id, organization_id, name, name_key) values ('s', 'one', 'S', 's');
    insert into pricings (id, organization_id, service_id, version, version_key, availability, source, model, model_hash, declared_at)
      values ('p', 'one', 's', '1', '1', 'active', '', '{}', '', now());
    insert into contracts (id, organization_id, user_id, username, start_date, end_date)
      select 'c' || n, 'one', 'user-' || n, 'user', now(), now() from generate_series(1, ${CONTRACTS}) n;
    insert into contract_services (contract_id, organization_id, service_id, pricing_id, position, add_ons)
      select id, 'one', 's', 'p', 0, '{}' from contracts;
    insert into usage_levels (contract_id, organization_id, service_id, limit_name, position, limit_value, consumed, used_tenths)
      select id, 'one', 's', 'max', 0, 1e12, 0, 0 from contracts;
    insert into usage_ledger (contract_id, organization_id, service_id, limit_name, kind, feature_id, operation_id, delta, created_at)
      select 'c' || (n % ${CONTRACTS} + 1), 'one', 's', 'max', 'consume', 's-f', 'filled', 1,
        now() - (${MOVEMENTS} - n) * (interval '300 days' / ${MOVEMENTS}) - interval '1 hour'
      from generate_series(1, ${MOVEMENTS}) n;
    update usage_levels u set consumed = sums.moved
      from (select contract_id, sum(delta) as moved from usage_ledger group by 1) sums where sums.contract_id = u.contract_id;
    analyze`);
}

/** Consumes 1 of a contract as both releases do. Returns false if the contract is gone, locked or has changed. */
async function consume(contract: string): Promise<boolean> {
  const movement = {
    contractId: contract,
    serviceId: "s",
    limitName: "max",
    amount: 1,
    featureId: "s-f",
    operationId: "used",
  };
  const [row] = await old.client<{ outcomes: string }[]>`
    with stamp as (
      select c.id, c.xmin::text || coalesce((
        select string_agg(' ' || u.xmin::text, '' order by u.position, u.service_id collate "C")
        from usage_levels u where u.contract_id = c.id), '') as stamp
      from contracts c where c.id = ${contract}
    )
    select outcomes from stamp, faregate_consume(array[id], array[stamp], array[id], ${JSON.stringify([movement])}::json, now())`;
  return row?.outcomes === "u";
}

it("an upgrade under load loses and doubles nothing, and refuses nobody", async () => {
  const over = new AbortController();
  let counted = 0;
  let reverts = 0;
  const writer = async (which: number) => {
    for (let i = 0; !over.signal.aborted; i += 1) {
      const contract = `c${((i * WRITERS + which) % (CONTRACTS - 10)) + 1}`;
      if (await consume(contract)) counted += 1;
      if (i % 7 !== 0) continue;
      await old.client.begin(async (tx) => {
        const [locked] = await tx`select 1 from contracts where id = ${contract} for no key update`;
        if (locked === undefined) return;
        const now = new Date();
        const since = new Date(now.getTime() - 120_000).toISOString();
        await tx.unsafe(RELEASED_STATEMENTS.revert, [
          contract,
          "s-f",
          since,
          `revert-${which}-${i}`,
          now.toISOString(),
        ]);
        reverts += 1;
      });
    }
  };
  const server = async () => {
    for (let i = 0; !over.signal.aborted; i += 1) {
      const [newest] = await old.client.unsafe(RELEASED_STATEMENTS.newest);
      await old.client.unsafe(RELEASED_STATEMENTS.batch, [0, String(newest?.["id"])]);
      await old.client.unsafe(RELEASED_STATEMENTS.compact, [new Date(Date.now() - 290 * 86_400_000).toISOString()]);
      // Compaction locks ledger and contracts in the other order than the migration. An event server runs it once per minute.
      await new Promise((resolve) => setTimeout(resolve, 500));
      if (i < 10) await old.client`delete from contracts where id = ${`c${CONTRACTS - i}`}`;
    }
  };
  const load = Promise.all([...Array.from({ length: WRITERS }, (_, i) => writer(i)), server()]).finally(() =>
    over.abort(),
  );
  await expect.poll(() => counted).toBeGreaterThan(50);
  const [before] = await old.client<{ id: string }[]>`select max(id) as id from usage_ledger`;
  await migrate(withDatabase(inject("postgres").url, name), MIGRATIONS);
  const migrated = counted;
  const counting = async (more: number) => {
    await expect.poll(() => counted).toBeGreaterThan(more);
  };
  // A writer that fails ends the wait.
  await Promise.race([load, counting(migrated + 50)]);
  over.abort();
  await load;

  expect(reverts).toBeGreaterThan(5);
  const { client, db } = old;
  const [ledger] = await client<{ kind: string; bounded: boolean; least: string }[]>`
    select (select relkind from pg_class where oid = 'usage_ledger'::regclass) as kind,
      exists (select from pg_constraint where conname = 'usage_ledger_bound') as bounded,
      (select min(id) from usage_ledger where id > ${before?.id ?? 0}::bigint) as least`;
  expect(ledger).toMatchObject({ kind: "p", bounded: false });
  expect((await checkLedger(db)).violations).toEqual([]);
  // Each granted consumption has a row of its own, and no id was given twice.
  const [rows] = await client<{ used: number; ids: number; distinct: number }[]>`
    select count(*) filter (where operation_id = 'used')::int as used, count(*)::int as ids, count(distinct id)::int as distinct
    from usage_ledger`;
  expect(rows?.used).toBe(counted);
  expect(rows?.ids).toBe(rows?.distinct);

  await makePartitions(db, new Date());
  const rollUp = createRollUp(db);
  while ((await rollUp()) === 0);
  const partitions = await client<{ part: string }[]>`select part::text from faregate_ledger_partitions()`;
  expect(partitions.map(({ part }) => part)).toEqual(
    expect.arrayContaining(["usage_ledger_first", "usage_ledger_default"]),
  );
  // The first partition has movements of today: nothing of it goes yet.
  expect(await compactLedger(db, new Date(), 30)).toBe(0);
  expect((await checkLedger(db)).violations).toEqual([]);
}, 120_000);
