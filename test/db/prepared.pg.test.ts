import { sql } from "drizzle-orm";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connect, type Database } from "../../src/db/postgres/connect.ts";
import { retrySerializationFailures } from "../../src/db/postgres/retry.ts";
import { readFacts } from "../../src/db/queries/contract-facts.ts";
import { recordStates } from "../../src/db/queries/contract-states.ts";
import { outboxCounter } from "../../src/db/schema.ts";
import { putLevels } from "../../src/db/queries/contract-levels.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());

/** Lists the prepared statements with this marker on the pool's only connection. */
async function prepared(db: Database, marker: string): Promise<number> {
  const [row] = await db.execute<{ count: string }>(
    sql`select count(*) as count from pg_prepared_statements where statement like ${`%${marker}%`} and statement not like '%pg_prepared%'`,
  );
  return Number(row?.count);
}

test("a statement that is sent again and again is prepared once, in and out of transactions and savepoints", async () => {
  const { db, close } = connect(database.url, { maxConnections: 1 });
  const ask = (tx: Database, n: number) => tx.execute<{ n: number }>(sql`select ${n}::int as n, 'often' as marker`);
  expect(await ask(db, 1)).toMatchObject([{ n: 1 }]);
  expect(await prepared(db, "often")).toBe(0);
  for (let n = 0; n < 5; n += 1) expect(await ask(db, n)).toMatchObject([{ n }]);
  await db.transaction(async (tx) => {
    for (let n = 0; n < 5; n += 1) expect(await ask(tx, n)).toMatchObject([{ n }]);
    await tx.transaction((inner) => ask(inner, 7));
  });
  expect(await prepared(db, "often")).toBe(1);
  await db.transaction(async (tx) => {
    for (let n = 0; n < 5; n += 1) await tx.transaction((inner) => inner.execute(sql`select ${n}::int, 'nested'`));
  });
  expect(await prepared(db, "nested")).toBe(1);
  await close();
});

test("statements on one contract are planned for their first executions only", async () => {
  const { db, close } = connect(database.url, { maxConnections: 1 });
  const now = new Date();
  for (let n = 0; n < 20; n += 1) {
    const contractIds = [String(n)];
    await readFacts(db, contractIds);
    await recordStates(db, { contractIds, cause: "creation", now });
    await putLevels(db, [{ contractIds, next: [] }], now);
  }
  const statements = await db.execute<{ statement: string; custom_plans: string }>(
    sql`select statement, custom_plans from pg_prepared_statements where statement like '%contracts%'`,
  );
  const planned = statements.map(({ statement, custom_plans: plans }) => [statement.slice(0, 60), Number(plans)]);
  expect(planned).toHaveLength(3);
  expect(planned.filter(([, plans]) => Number(plans) > 5)).toEqual([]);
  await close();
});

test("statements that are sent together execute in the order of their list, whichever builder made them", async () => {
  const { db, close } = connect(database.url, { maxConnections: 1 });
  await db.execute(sql`create sequence turns`);
  const turn = sql<string>`nextval('turns')`;
  const raw = async (tx: Database, n: number) =>
    (await tx.execute<{ n: string }>(sql`select ${n}::int, ${turn} as n`))[0];
  const plain = async (tx: Database) => (await tx.execute<{ n: string }>(sql`select ${turn} as n`))[0];
  const built = async (tx: Database, n: number) => {
    const [row] = await tx
      .select({ n: turn })
      .from(outboxCounter)
      .where(sql`${n}::int > 0`);
    return row;
  };
  const both = (tx: Database, n: number) => Promise.all([built(tx, n), raw(tx, n)]);
  const inserted = async (tx: Database, n: number) => {
    const [row] = await tx.update(outboxCounter).set({ lastId: n }).returning({ n: turn });
    return row;
  };
  for (let round = 1; round < 8; round += 1) {
    const turns = await db.transaction((tx) =>
      Promise.all([raw(tx, round), both(tx, round), plain(tx), inserted(tx, round), built(tx, round), raw(tx, round)]),
    );
    const order = turns.flat().map((row) => Number(row?.n));
    expect(order).toEqual(order.toSorted((a, b) => a - b));
  }
  await close();
});

test("an error in a prepared statement rolls the transaction back and leaves the connection usable", async () => {
  const { db, close } = connect(database.url, { maxConnections: 1 });
  for (let n = 1; n < 7; n += 1) await db.execute(sql`select 1 / ${n}::int, 'failing'`);
  await expect(db.transaction((tx) => tx.execute(sql`select 1 / ${0}::int, 'failing'`))).rejects.toThrow(
    "Failed query",
  );
  expect(await db.execute(sql`select 1 / ${1}::int as one, 'failing'`)).toMatchObject([{ one: 1 }]);
  await close();
});

test("nothing is prepared for a pool behind a pooler that loses statements, and no more than a bounded number for any", async () => {
  const pooler = { keepsSessions: false, keepsStatements: false };
  const without = connect({ url: database.url, pooler }, { maxConnections: 1 });
  for (let n = 0; n < 8; n += 1) await without.db.execute(sql`select ${n}::int, 'never'`);
  expect(await prepared(without.db, "never")).toBe(0);
  await without.close();

  const many = connect(database.url, { maxConnections: 1 });
  for (let text = 0; text < 260; text += 1) {
    for (let n = 0; n < 4; n += 1) await many.db.execute(sql`select ${n}::int, ${sql.raw(`'various ${text}'`)}`);
  }
  expect(await prepared(many.db, "various")).toBe(200);
  await many.close();
});

test("a text that is as long as callers make it is never prepared", async () => {
  const { db, close } = connect(database.url, { maxConnections: 1 });
  const long = sql.raw(`'lengthy ${"x".repeat(8192)}'`);
  for (let n = 0; n < 8; n += 1) expect(await db.execute(sql`select ${n}::int as n, ${long}`)).toMatchObject([{ n }]);
  expect(await prepared(db, "lengthy")).toBe(0);
  await close();
});

test.each([
  ["a backend loses its prepared statements, as behind a pooler", "deallocate all"],
  ["a migration changes the columns of a prepared statement", "alter table columns add column more integer"],
])("%s, and statements and transactions succeed", async (_, change) => {
  const { db, client, close } = connect(database.url, { maxConnections: 1 });
  await db.execute(sql`drop table if exists columns`);
  await db.execute(sql`create table columns as select 1 as one`);
  const read = (from: Database) => from.execute(sql`select * from columns where one = ${1}::int`);
  for (let n = 0; n < 5; n += 1) await read(db);
  expect(await prepared(db, "from columns where")).toBe(1);

  await client.unsafe(change);
  expect(await read(db)).toMatchObject([{ one: 1 }]);

  for (let n = 0; n < 5; n += 1) await read(db);
  await client.unsafe(change === "deallocate all" ? change : "alter table columns add column most integer");
  let attempts = 0;
  const transaction = () =>
    db.transaction(async (tx) => {
      attempts += 1;
      await tx.execute(sql`update columns set one = one`);
      return read(tx);
    });
  expect(await retrySerializationFailures(transaction)).toMatchObject([{ one: 1 }]);
  expect(attempts).toBe(2);
  await close();
});
