import { io, type Socket } from "socket.io-client";
import { afterAll, afterEach, beforeEach, expect, it } from "vitest";
import { connect } from "../../src/db/postgres/connect.ts";
import { recordEvent, recordEvents } from "../../src/db/queries/outbox.ts";
import { HandshakeError } from "../../src/events/handshake.ts";
import { pruneOutbox } from "../../src/events/retention.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { createdEvent } from "../support/private-events.ts";
import { disableServices, type InProcessServer, openInProcess } from "./in-process.ts";
import { openPricings, openRaw, until } from "./raw-client.ts";

const database: TestDatabase = await createTestDatabase();
let server: InProcessServer;
const sockets: Socket[] = [];

const open = () =>
  openInProcess(database, {
    findOrganization: async (key) => {
      if (key === "org_mine") return "mine";
      throw new HandshakeError("Invalid Organization API Key");
    },
  });
beforeEach(async () => {
  await database.connection.client`truncate outbox`;
  await database.connection.client`update outbox_counter set last_id = 0`;
  server = await open();
});
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.disconnect();
  await server.close();
});
afterAll(() => database.drop());

interface Told {
  ids: number[];
  /** Names the received messages, in order: message ids, `position 3`, `resync 7`. */
  all: string[];
  errors: string[];
}

/** Joins with this `auth` and records every message. */
function join(auth: Record<string, unknown>, origin = server.origin): Told & { socket: Socket } {
  const told: Told = { ids: [], all: [], errors: [] };
  const socket = io(`${origin}/pricings`, { path: "/events", transports: ["websocket"], forceNew: true, auth });
  sockets.push(socket);
  socket.on("message", ({ id }: { id: number }) => {
    told.ids.push(id);
    told.all.push(String(id));
  });
  for (const name of ["position", "resync"]) {
    socket.on(name, ({ id }: { id: number }) => told.all.push(`${name} ${id}`));
  }
  socket.on("connect_error", (error) => told.errors.push(error.message));
  return { ...told, socket };
}
const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i);

it("a client that asks gets what it missed in order, then its position, then the live ones, each with its id", async () => {
  await disableServices(database, ["one", "two", "three"]);
  await until(() => server.log.position() === 3, "the feed");
  const client = await openRaw(server.ws);
  await client.frame(0);
  client.send('40/pricings,{"lastEventId":1}');
  await client.frame(4);
  await disableServices(database, ["four"]);
  await client.frame(5);
  expect(client.frames.slice(2)).toEqual([
    '42/pricings,["message",{"code":"SERVICE_DISABLED","details":{"serviceName":"two"},"id":2}]',
    '42/pricings,["message",{"code":"SERVICE_DISABLED","details":{"serviceName":"three"},"id":3}]',
    '42/pricings,["position",{"id":3}]',
    '42/pricings,["message",{"code":"SERVICE_DISABLED","details":{"serviceName":"four"},"id":4}]',
  ]);
  client.close();
});

it("beside it, a client without auth, or with one that asks for nothing, gets two fields and nothing from before", async () => {
  await disableServices(database, ["before"]);
  await until(() => server.log.position() === 1, "the feed");
  const plain = await openPricings(server.ws);
  const other = await openRaw(server.ws);
  await other.frame(0);
  other.send('40/pricings,{"token":"x"}');
  await other.frame(1);
  const asking = join({ lastEventId: 0 });
  await until(() => asking.all.length === 2, "the replay");
  await disableServices(database, ["now"]);
  for (const client of [plain, other]) {
    expect(await client.frame(2)).toBe(
      '42/pricings,["message",{"code":"SERVICE_DISABLED","details":{"serviceName":"now"}}]',
    );
    expect(client.frames).toHaveLength(3);
    client.close();
  }
  await until(() => asking.ids.length === 2, "the live one");
  expect(asking.all).toEqual(["1", "position 1", "2"]);
});

it("there is neither a gap nor a duplicate at the seam while events are being written, from memory and from the database", async () => {
  const COUNT = 400;
  await disableServices(database, range(1, 50).map(String));
  // A server whose memory holds none of the earlier events.
  const late = await openInProcess(database);
  const pool = connect(database.url, { maxConnections: 4 });
  const writing = Promise.all(
    range(1, 4).map(async () => {
      for (let turn = 0; turn < (COUNT - 50) / 4; turn += 1) {
        await pool.db.transaction((tx) =>
          recordEvent(tx, null, { code: "SERVICE_DISABLED", details: { serviceName: "x" } }),
        );
      }
    }),
  );
  const clients: { from: number; told: Told }[] = [];
  for (const turn of range(1, 40)) {
    const from = Math.floor((turn * server.log.position()) / 40);
    clients.push({ from, told: join({ lastEventId: from }, turn % 2 ? server.origin : late.origin) });
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  await writing;
  await pool.close();
  const total = 50 + Math.floor((COUNT - 50) / 4 + 0.999) * 4;
  await until(() => clients.every(({ told }) => told.ids.at(-1) === total), "the last event at every client");
  for (const { from, told } of clients) expect(told.ids).toEqual(range(from + 1, total));
  await late.close();
});

it("a client that is ahead of its server waits for it, and gets nothing twice", async () => {
  await disableServices(database, ["one"]);
  await until(() => server.log.position() === 1, "the feed");
  // Written directly to the table: no notification, and the feed polls once per minute. Its first read may still be coming.
  const reader = await server.reader.client.reserve();
  await database.connection.client`with bumped as (update outbox_counter set last_id = 3 returning 1)
    insert into outbox (id, code, details) values (2, 'SERVICE_DISABLED', '{}'), (3, 'SERVICE_DISABLED', '{}')`;
  const ahead = join({ lastEventId: 3 });
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(ahead.all).toEqual([]);
  reader.release();
  await disableServices(database, ["four"]);
  await until(() => ahead.ids.length === 1, "the next event");
  expect(ahead.all.filter((one) => !one.startsWith("position"))).toEqual(["4"]);
});

it("who asks for what is pruned, or comes from another database, is told to resync and goes on from there", async () => {
  await disableServices(database, range(1, 30).map(String));
  await until(() => server.log.position() === 30, "the feed");
  await database.connection.client`update outbox set created_at = now() - interval '8 days' where id <= 25`;
  await database.connection.client`update webhook_cursor set last_id = 30`;
  expect(await pruneOutbox(database.connection.db, new Date(), { days: 7, keepEvents: 10, batch: 4 })).toBe(20);
  await server.close();
  server = await open();
  const tooOld = join({ lastEventId: 19 });
  const fromElsewhere = join({ lastEventId: 31 });
  const justKept = join({ lastEventId: 20 });
  await until(() => [tooOld, fromElsewhere, justKept].every(({ all }) => all.length >= 2), "the answers");
  await disableServices(database, ["next"]);
  await until(() => [tooOld, fromElsewhere, justKept].every(({ ids }) => ids.at(-1) === 31), "the next event");
  expect(tooOld.all).toEqual(["resync 30", "position 30", "31"]);
  expect(fromElsewhere.all).toEqual(["resync 30", "position 30", "31"]);
  expect(justKept.ids).toEqual(range(21, 31));
});

it("a key narrows the channel to its organization's events, missed and live", async () => {
  await disableServices(database, ["a"], "mine");
  await disableServices(database, ["b"], "theirs");
  await until(() => server.log.position() === 2, "the feed");
  const mine = join({ lastEventId: 0, organizationKey: "org_mine" });
  const fromNow = join({ organizationKey: "org_mine" });
  await until(() => mine.all.length === 2 && fromNow.all.length === 1, "the replay");
  await disableServices(database, ["c"], "theirs");
  await disableServices(database, ["d"], "mine");
  await until(() => mine.ids.length === 2 && fromNow.ids.length === 1, "the live one");
  expect(mine.all).toEqual(["1", "position 2", "4"]);
  expect(fromNow.all).toEqual(["position 2", "4"]);
});

it.each([
  [{ organizationKey: "org_unknown" }, "Invalid Organization API Key"],
  [{ organizationKey: 7 }, "organizationKey must be a string"],
  [{ lastEventId: -1 }, "lastEventId must be the id of an event, or null to begin with the next one"],
  [{ lastEventId: "abc" }, "lastEventId must be the id of an event, or null to begin with the next one"],
])("%j is refused with a sentence, on a connection that stays open", async (auth, sentence) => {
  const client = await openRaw(server.ws);
  await client.frame(0);
  client.send(`40/pricings,${JSON.stringify(auth)}`);
  expect(await client.frame(1)).toBe(`44/pricings,{"message":${JSON.stringify(sentence)}}`);
  client.send("40/pricings,");
  expect(await client.frame(2)).toMatch(/^40\/pricings,/);
  client.close();
});

it("what concerns end users is never on the channel, whatever a client asks for; its position moves on all the same", async () => {
  const clients = [join({ lastEventId: 0 }), join({ lastEventId: 0, organizationKey: "org_mine" })];
  const plain = await openPricings(server.ws);
  await until(() => clients.every(({ all }) => all.length === 1), "the positions");
  await database.connection.db.transaction((tx) =>
    recordEvents(tx, [
      { organizationId: "mine", event: createdEvent("u") },
      {
        organizationId: "mine",
        event: { code: "PRICING_CREATED", details: { serviceName: "S", pricingVersion: "1" } },
      },
    ]),
  );
  const later = join({ lastEventId: 0 });
  await until(() => [...clients, later].every(({ ids }) => ids.length === 1), "the public one");
  for (const { ids } of [...clients, later]) expect(ids).toEqual([2]);
  await plain.frame(2);
  expect(plain.frames).toHaveLength(3);
  plain.close();
});
