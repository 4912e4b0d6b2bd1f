import { asc, gt } from "drizzle-orm";
import { afterAll, beforeAll, expect, it } from "vitest";
import { connect } from "../../src/db/postgres/connect.ts";
import { readOutbox, readPage, recordEvent } from "../../src/db/queries/outbox.ts";
import { outbox } from "../../src/db/schema.ts";
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
  const before = await db.$count(outbox);
  await expect(
    db.transaction(async (tx) => {
      await recordEvent(tx, "o", event("undone"));
      throw new Error("undo");
    }),
  ).rejects.toThrow("undo");
  await db.transaction((tx) => recordEvent(tx, "o", event("done")));
  const rows = await db.select().from(outbox).where(gt(outbox.id, before));
  expect(rows.map(({ id, code, details }) => ({ id, code, details }))).toEqual([{ id: before + 1, ...event("done") }]);
});

it("long events are read a few at a time, each once and in order, by readers and by the feed", async () => {
  const { db } = database.connection;
  const start = await db.$count(outbox);
  const longer = "x".repeat(3_000_000);
  for (let number = 0; number < 12; number += 1) {
    await db.transaction((tx) => recordEvent(tx, "long", event(`${number} ${longer}`)));
    await db.transaction((tx) => recordEvent(tx, "other", event("short")));
  }
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
