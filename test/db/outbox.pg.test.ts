import { asc, gt, sql } from "drizzle-orm";
import { afterAll, beforeAll, expect, it } from "vitest";
import { connect } from "../../src/db/postgres/connect.ts";
import { newestEvent, numberEvents, readOutbox, readPage, recordEvent } from "../../src/db/queries/outbox.ts";
import { outbox, outboxCounter, outboxStaged } from "../../src/db/schema.ts";
import { createFeed } from "../../src/events/feed.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

let database: TestDatabase;
beforeAll(async () => void (database = await createTestDatabase()));
afterAll(() => database.drop());

const event = (serviceName: string) => ({ code: "SERVICE_DISABLED", details: { serviceName } }) as const;

it("a reader that goes on after the last id misses nothing of twenty concurrent writers", async () => {
  const pool = connect(database.url, { maxConnections: 20 });
  const committed: string[] = [];
  const seen: { id: number; name: string }[] = [];
  const writers = { areBusy: true };
  const readOn = async () => {
    await numberEvents(database.connection.db);
    const rows = await database.connection.db
      .select()
      .from(outbox)
      .where(gt(outbox.id, seen.at(-1)?.id ?? 0))
      .orderBy(asc(outbox.id));
    seen.push(...rows.map(({ id, details }) => ({ id, name: String(details["serviceName"] ?? "") })));
  };
  const reader = (async () => {
    while (writers.areBusy) await readOn();
  })();
  await Promise.all(
    Array.from({ length: 20 }, async (_, writer) => {
      for (let turn = 0; turn < 6; turn += 1) {
        const name = `${writer}-${turn}`;
        await pool.db.transaction(async (tx) => {
          await tx.execute(`select pg_sleep(${Math.random() / 100})`);
          await recordEvent(tx, "o", event(name));
        });
        committed.push(name);
      }
    }),
  );
  writers.areBusy = false;
  await reader;
  await readOn();
  await pool.close();
  expect(seen.map(({ id }) => id)).toEqual(Array.from({ length: 120 }, (_, i) => i + 1));
  expect(seen.map(({ name }) => name).sort()).toEqual(committed.sort());
});

it("a change that is rolled back leaves neither an event nor a gap", async () => {
  const { db } = database.connection;
  await numberEvents(db);
  const before = await db.$count(outbox);
  await expect(
    db.transaction(async (tx) => {
      await recordEvent(tx, "o", event("undone"));
      throw new Error("undo");
    }),
  ).rejects.toThrow("undo");
  await db.transaction((tx) => recordEvent(tx, "o", event("done")));
  await numberEvents(db);
  const rows = await db.select().from(outbox).where(gt(outbox.id, before));
  expect(rows.map(({ id, code, details }) => ({ id, code, details }))).toEqual([{ id: before + 1, ...event("done") }]);
});

it("long events are read a few at a time, each once and in order, by readers and by the feed", async () => {
  const { db } = database.connection;
  await numberEvents(db);
  const start = await db.$count(outbox);
  const longer = "x".repeat(3_000_000);
  for (let number = 0; number < 12; number += 1) {
    await db.transaction((tx) => recordEvent(tx, "long", event(`${number} ${longer}`)));
    await db.transaction((tx) => recordEvent(tx, "other", event("short")));
  }
  await numberEvents(db);
  const first = await readOutbox(db, { after: start, filter: { organizationId: "long" }, limit: 500 });
  expect(first).toHaveLength(6);
  expect(await readOutbox(db, { after: start, filter: {}, limit: 500, maxBytes: 1 })).toHaveLength(1);
  const ids: number[] = [];
  for (let after = start; ;) {
    const page = await readPage(db, { after, filter: { organizationId: "long" }, limit: 500 });
    after = page.position;
    if (page.events.length === 0) break;
    ids.push(...page.events.map(({ id }) => id));
  }
  expect(ids).toEqual(Array.from({ length: 12 }, (_, number) => start + 1 + 2 * number));
  const connection = connect(database.url, { maxConnections: 1 });
  const handed: number[] = [];
  const feed = createFeed({ connection, after: start, pollMs: 60_000, onEvent: ({ id }) => handed.push(id) });
  await expect.poll(() => handed.length, { timeout: 20_000 }).toBe(24);
  await feed.stop();
  await connection.close();
  expect(handed).toEqual(Array.from({ length: 24 }, (_, number) => start + 1 + number));
});

/** True if the next event gets its id at once. */
async function isSettled(): Promise<boolean> {
  const { db } = database.connection;
  await numberEvents(db);
  const [row] = await db.execute<{ settled: boolean }>(
    sql`select settled_seq = (select last_value from outbox_staged_seq_seq) as settled from outbox_counter`,
  );
  return row?.settled ?? false;
}

it("writers do not wait for the transaction that holds the counter, and their events follow in the order of one contract", async () => {
  const { db } = database.connection;
  // Transactions in other databases of the server delay it.
  await expect.poll(isSettled, { timeout: 30_000 }).toBe(true);
  const before = await newestEvent(db);
  const pool = connect(database.url, { maxConnections: 2 });
  const record = (name: string) => pool.db.transaction((tx) => recordEvent(tx, "o", event(name)));
  const staged = () => db.$count(outboxStaged);
  await pool.db.transaction(async (tx) => {
    await recordEvent(tx, "o", event("first"));
    for (const name of ["second", "third"]) await record(name);
    expect(await staged()).toBe(2);
  });
  // Staged events are still there, so an id taken now would overtake theirs.
  await record("fourth");
  expect(await staged()).toBe(3);
  expect(
    (await readPage(db, { after: before, filter: {}, limit: 10 })).events.map(({ id, details }) => [id, details]),
  ).toEqual(["first", "second", "third", "fourth"].map((serviceName, i) => [before + 1 + i, { serviceName }]));
  expect(await staged()).toBe(0);
  await pool.close();
});

/** Numbers events until ids are assigned at once again. Transactions of other databases on the server delay it. */
async function untilSettled(): Promise<void> {
  const { db } = database.connection;
  const unsettled = async () => {
    await numberEvents(db);
    return db.$count(outboxCounter, sql`settled_seq <> (select last_value from outbox_staged_seq_seq)`);
  };
  await expect.poll(unsettled, { timeout: 20_000 }).toBe(0);
}

it("ids are assigned at once again when all transactions have ended that may have staged an event", async () => {
  const { db } = database.connection;
  const pool = connect(database.url, { maxConnections: 3 });
  const record = (tx: typeof db, name: string) => recordEvent(tx, "o", event(name));
  let commit = () => {};
  const open = new Promise<void>((resolve) => (commit = resolve));
  let isStaged = () => {};
  const begun = new Promise<void>((resolve) => (isStaged = resolve));
  let late: Promise<void> | undefined;
  await pool.db.transaction(async (tx) => {
    await record(tx, "holder");
    late = pool.db.transaction(async (inner) => {
      await record(inner, "late");
      isStaged();
      await open;
    });
    await begun;
  });
  const before = await newestEvent(db);
  for (let turn = 0; turn < 3; turn += 1) await numberEvents(db);
  await pool.db.transaction((tx) => record(tx, "meanwhile"));
  // Not numbered at once: the event that is not committed yet has a lower seq.
  expect(await db.$count(outboxStaged)).toBe(1);
  commit();
  await late;
  await untilSettled();
  await pool.db.transaction((tx) => record(tx, "direct"));
  expect(await db.$count(outboxStaged)).toBe(0);
  const rows = await db.select().from(outbox).where(gt(outbox.id, before)).orderBy(asc(outbox.id));
  expect(rows.map(({ id, details }) => [id, details["serviceName"]])).toEqual(
    ["late", "meanwhile", "direct"].map((name, i) => [before + 1 + i, name]),
  );
  await pool.close();
});

it("staged events of a database whose transaction ids and sequence begin again are numbered", async () => {
  const { db } = database.connection;
  const before = await newestEvent(db);
  await db.execute(sql`update outbox_counter set settled_seq = 1e9, settling_seq = 1e9, settling_until = '9000000000'`);
  await db.transaction((tx) => recordEvent(tx, "o", event("restored")));
  expect(await db.$count(outboxStaged)).toBe(1);
  expect(await newestEvent(db)).toBe(before + 1);
  await untilSettled();
  await db.transaction((tx) => recordEvent(tx, "o", event("direct")));
  expect(await db.$count(outboxStaged)).toBe(0);
});
