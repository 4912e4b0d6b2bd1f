import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { type Connection, connect } from "../../src/db/postgres/connect.ts";
import {
  type Addressed,
  type OutboxEvent,
  recordEvent,
  recordEvents,
  recordSerialized,
  type SerializedEvent,
} from "../../src/db/queries/outbox.ts";
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

it("the next event is taken from its notification, without reading", async () => {
  const { names, events, connection } = await follow();
  const withoutReading: string[] = [];
  // While the first LISTEN is being made, the feed still reads.
  for (let tries = 1; withoutReading.length < 3 && tries <= 10; tries += 1) {
    // The feed has no other connection to read with.
    const only = await connection.client.reserve();
    await record(`n${tries}`);
    const arrived = until(() => events.length === tries, "the event", 1000);
    await arrived.then(
      () => withoutReading.push(`n${tries}`),
      () => {},
    );
    only.release();
    await until(() => events.length === tries, "the event");
  }
  expect(withoutReading).toHaveLength(3);
  expect(names().slice(-3)).toEqual(withoutReading);
});

it("events from notifications equal those that are read, in the same order", async () => {
  const live = await follow();
  const after = live.feed.position() ?? 0;
  const disabled = (serviceName: string) => ({ code: "SERVICE_DISABLED" as const, details: { serviceName } });
  const hidden: SerializedEvent = { organizationId: "o", code: "CONTRACT_DELETED", details: "{}" };
  const recorded: Addressed[][] = [
    [{ organizationId: null, event: disabled("of the instance") }],
    [{ organizationId: "o", event: disabled(`Ünï "quoted" \\ 1 2\n§ 😀`) }],
    [{ organizationId: "o", event: disabled("long ".repeat(2000)) }],
    [{ organizationId: "o", event: disabled("😀".repeat(1200)) }],
    [
      { organizationId: "o", event: disabled("first of two") },
      { organizationId: "p", event: disabled("second of two") },
    ],
    [{ organizationId: "o", event: disabled("after a private one") }],
    [{ organizationId: "o", event: disabled("last") }],
  ];
  for (const [index, events] of recorded.entries()) {
    await database.connection.db.transaction((tx) => recordEvents(tx, events));
    if (index === 4) {
      await database.connection.db.transaction((tx) => recordSerialized(tx, [hidden]));
    }
  }
  const total = recorded.flat().length + 1;
  await until(() => live.events.length === total, "all events");
  const { events } = await follow({ after });
  await until(() => events.length === total, "all events again");
  expect(live.events).toEqual(events);
  expect(events.map(({ id }) => id)).toEqual(events.map((_, i) => after + 1 + i));
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

it("events recorded while the LISTEN was cut off are handed over when it is restored, without a poll", async () => {
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
