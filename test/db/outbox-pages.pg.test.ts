import { drizzle } from "drizzle-orm/postgres-js";
import { afterAll, expect, it } from "vitest";
import { PUBLIC_EVENTS } from "../../src/core/event-messages.ts";
import { readPage } from "../../src/db/queries/outbox.ts";
import * as schema from "../../src/db/schema.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

const database: TestDatabase = await createTestDatabase();
const { client } = database.connection;
afterAll(() => database.drop());

/** Wraps the database and records the range of ids that each statement reads from the outbox. */
function watched() {
  const ranges: [number, number][] = [];
  const logQuery = (text: string, parameters: unknown[]) => {
    if (!text.includes('from "outbox" where')) return;
    const [after, upTo] = parameters.map(Number);
    ranges.push([after ?? Number.NaN, upTo ?? Number.POSITIVE_INFINITY]);
  };
  return { ranges, db: drizzle(client, { schema, logger: { logQuery } }) };
}

it("a reader that begins at 0 among other tenants' events has the outbox read in short statements, and gets what is its", async () => {
  await client`
    insert into outbox (id, organization_id, code, details)
    select n, 'theirs', 'CONTRACT_CREATED', '{}' from generate_series(1, 20000) n`;
  await client`
    insert into outbox (id, organization_id, code, details)
    select n, 'mine', 'SERVICE_DISABLED', '{}' from generate_series(20001, 20150) n`;
  await client`update outbox_counter set last_id = 20150`;
  for (const filter of [{ organizationId: "mine" }, PUBLIC_EVENTS]) {
    const { db, ranges } = watched();
    const first = await readPage(db, { after: 0, filter, limit: 100 });
    expect([first.events.length, first.events[0]?.id, first.position, first.lost]).toEqual([100, 20001, 20100, false]);
    const second = await readPage(db, { after: first.position, filter, limit: 100 });
    expect([second.events.length, second.position]).toEqual([50, 20150]);
    expect(Math.max(...ranges.map(([after, upTo]) => upTo - after))).toBeLessThanOrEqual(5000);
  }
  expect(await readPage(watched().db, { after: 0, upTo: 19_999, filter: PUBLIC_EVENTS, limit: 100 })).toEqual({
    events: [],
    position: 19_999,
    lost: false,
  });
});

it("a reader that begins before what is kept is told so at once, however much was removed", async () => {
  await client`update outbox set id = id + 100000000`;
  await client`update outbox_counter set last_id = 100020150`;
  const { db, ranges } = watched();
  expect(await readPage(db, { after: 5, filter: PUBLIC_EVENTS, limit: 100 })).toEqual({
    events: [],
    position: 100_020_150,
    lost: true,
  });
  expect(ranges.length).toBeLessThanOrEqual(1);
});
