import { afterAll, beforeEach, expect, it } from "vitest";
import { recordEvents } from "../../src/db/queries/outbox.ts";
import { createLog } from "../../src/events/log.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

const database: TestDatabase = await createTestDatabase();
const { db, client } = database.connection;
beforeEach(async () => {
  await client`truncate outbox`;
  await client`update outbox_counter set last_id = 0`;
});
afterAll(() => database.drop());

const named = (serviceName: string) => ({ code: "SERVICE_DISABLED", details: { serviceName } }) as const;
const record = (names: readonly string[]) =>
  db.transaction((tx) =>
    recordEvents(
      tx,
      names.map((name) => ({ organizationId: "o", event: named(name) })),
    ),
  );
const names = (count: number, length: number) => Array.from({ length: count }, (_, i) => `${i} `.padEnd(length, "x"));
const LIMIT = 100_000;

it("the event log keeps a bounded number of bytes in memory, whether read at start or appended, and reads the rest", async () => {
  const all = [...names(300, 10), ...names(200, 2000), ...names(50, 20)];
  await record(all);
  const filled = createLog(db, all.length, LIMIT);
  await filled.fill();
  const appended = createLog(db, 0, LIMIT);
  const rows = await client<{ id: string; details: { serviceName: string } }[]>`
    select id, details from outbox order by id`;
  for (const { id, details } of rows) {
    appended.append({
      id: Number(id),
      organizationId: "o",
      code: "SERVICE_DISABLED",
      details,
      createdAt: new Date(),
    });
    expect(appended.keptBytes()).toBeLessThanOrEqual(LIMIT);
  }
  for (const log of [filled, appended]) {
    expect(log.keptBytes()).toBeLessThanOrEqual(LIMIT);
    expect(log.keptBytes()).toBeGreaterThan(0);
    const read: string[] = [];
    for (let at = 0; at < all.length;) {
      const page = await log.read(at, {}, 100);
      expect(page.lost).toBe(false);
      read.push(...page.events.map(({ details }) => String(details["serviceName"])));
      at = page.position;
    }
    expect(read).toEqual(all);
  }
});

it("an event larger than all of the memory for them is not kept, and is read from the database", async () => {
  await record(names(1, 2 * LIMIT));
  const log = createLog(db, 0, LIMIT);
  await log.fill();
  log.append({ id: 1, organizationId: "o", ...named("x".repeat(2 * LIMIT)), createdAt: new Date() });
  expect(log.keptBytes()).toBe(0);
  expect((await log.read(0, {}, 10)).events).toHaveLength(1);
  const again = createLog(db, 1, LIMIT);
  await again.fill();
  expect(again.keptBytes()).toBe(0);
});
