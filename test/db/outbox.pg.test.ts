import { asc, gt } from "drizzle-orm";
import { afterAll, beforeAll, expect, it } from "vitest";
import { connect } from "../../src/db/connect.ts";
import { recordEvent } from "../../src/db/outbox.ts";
import { outbox } from "../../src/db/schema.ts";
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
