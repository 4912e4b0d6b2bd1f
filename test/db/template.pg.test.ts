import { sql } from "drizzle-orm";
import { afterAll, beforeAll, expect, it } from "vitest";
import { outboxCounter, users } from "../../src/db/schema.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

let one: TestDatabase;
let other: TestDatabase;

beforeAll(async () => {
  [one, other] = await Promise.all([createTestDatabase(), createTestDatabase()]);
});
afterAll(async () => {
  await Promise.all([one.drop(), other.drop()]);
});

it("every test database is migrated, empty and its own", async () => {
  expect(await one.connection.db.select().from(outboxCounter)).toEqual([
    { singleton: true, lastId: 0, settledSeq: 1, settlingSeq: 1, settlingUntil: "0" },
  ]);
  await one.connection.db.insert(users).values({ id: "a", username: "ada", passwordHash: "-", role: "USER" });
  expect(await one.connection.db.$count(users)).toBe(1);
  expect(await other.connection.db.$count(users)).toBe(0);
});

it("a test database ends in _test, writes durably and thinks in UTC", async () => {
  const [row] = await one.connection.db.execute<{ name: string; fsync: string; zone: string }>(
    sql`select current_database() as name, current_setting('fsync') as fsync, current_setting('TimeZone') as zone`,
  );
  expect(row).toMatchObject({ fsync: "on", zone: "UTC" });
  expect(row?.name).toMatch(/^faregate_[0-9a-f]{32}_test$/);
});
