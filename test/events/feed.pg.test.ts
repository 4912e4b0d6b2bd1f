import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { type Connection, connect } from "../../src/db/postgres/connect.ts";
import { recordEvent } from "../../src/db/queries/outbox.ts";
import type { OutboxEvent } from "../../src/db/queries/outbox.ts";
import { createFeed, type Feed } from "../../src/events/feed.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { until } from "./raw-client.ts";

let database: TestDatabase;
const running: { feed: Feed; connection: Connection }[] = [];

beforeAll(async () => void (database = await createTestDatabase()));
afterEach(async () => {
  for (const { feed, connection } of running.splice(0)) {
    await feed.stop();
    await connection.close(0);
  }
});
afterAll(() => database.drop());

const record = (serviceName: string) =>
  database.connection.db.transaction((tx) =>
    recordEvent(tx, "o", { code: "SERVICE_DISABLED", details: { serviceName } }),
  );

/** Creates a feed like an event server's. `pollMs` is long, so that only notifications advance it. */
async function follow(options: { after?: number; pollMs?: number } = {}) {
  const connection = connect(database.url, { maxConnections: 1, applicationName: "feed-under-test" });
  const events: OutboxEvent[] = [];
  const positions: number[] = [];
  const feed = createFeed({
    connection,
    pollMs: 60_000,
    onEvent: (event) => events.push(event),
    onPosition: (id) => positions.push(id),
    ...options,
  });
  running.push({ feed, connection });
  await feed.started;
  const names = () => events.map((event) => event.details["serviceName"]);
  return { feed, events, positions, names, connection };
}

const listeners = async () =>
  (await database.connection.client`select pid from pg_stat_activity
    where datname = current_database() and query ilike 'listen%'`) as unknown as { pid: number }[];

it("a feed hands over what commits after its start, in order and once, as soon as it is notified", async () => {
  await record("before");
  const { names, events } = await follow();
  for (const name of ["one", "two", "three"]) await record(name);
  await until(() => events.length === 3, "three events");
  expect(names()).toEqual(["one", "two", "three"]);
  expect(events.map(({ id }) => id)).toEqual([2, 3, 4]);
  expect(events[0]).toMatchObject({ organizationId: "o", code: "SERVICE_DISABLED" });
});

it("a feed that is told where another one stopped goes on right there, beyond one batch", async () => {
  const { feed } = await follow();
  const after = feed.position() ?? 0;
  await database.connection.client`with bumped as (update outbox_counter set last_id = last_id + 1203 returning last_id)
    insert into outbox (id, organization_id, code, details)
    select last_id - 1203 + i, 'o', 'SERVICE_DISABLED', json_build_object('serviceName', 'many')
    from bumped, generate_series(1, 1203) as i`;
  const { events, positions } = await follow({ after });
  await until(() => events.length === 1203, "all events");
  expect(positions).toEqual(Array.from({ length: 1203 }, (_, i) => after + 1 + i));
});

it("events recorded while the LISTEN was cut off are handed over when it is made anew, without a poll", async () => {
  const { names } = await follow();
  for (let round = 0; round < 5; round += 1) {
    let pids: { pid: number }[] = [];
    while (pids.length === 0) pids = await listeners();
    await Promise.all([
      database.connection
        .client`select pg_terminate_backend(pid) from unnest(${pids.map(({ pid }) => pid)}::int[]) as pid`,
      record(`${round} a`),
    ]);
    await record(`${round} b`);
    await until(() => names().length === 2 * (round + 1), `the events of round ${round}`);
  }
  expect(names()).toEqual([0, 1, 2, 3, 4].flatMap((round) => [`${round} a`, `${round} b`]));
});

it("without any notification the poll finds new events", async () => {
  const { names } = await follow({ pollMs: 50 });
  await database.connection.client`with bumped as (update outbox_counter set last_id = last_id + 1 returning last_id)
    insert into outbox (id, code, details) select last_id, 'SERVICE_DISABLED', '{"serviceName":"quiet"}' from bumped`;
  await until(() => names().length === 1, "the event");
  expect(names()).toEqual(["quiet"]);
});

it("two feeds side by side each hand over everything once", async () => {
  const [left, right] = [await follow(), await follow()];
  await Promise.all(Array.from({ length: 40 }, (_, i) => record(`n${i}`)));
  await until(() => left.events.length === 40 && right.events.length === 40, "all events on both");
  expect(left.events.map(({ id }) => id)).toEqual(right.events.map(({ id }) => id));
  expect(new Set(left.names()).size).toBe(40);
});

it("a stopped feed hands nothing over any more", async () => {
  const { feed, events } = await follow({ pollMs: 20 });
  await feed.stop();
  await record("late");
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(events).toEqual([]);
});
