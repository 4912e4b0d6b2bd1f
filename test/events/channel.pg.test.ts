import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import { connect } from "../../src/db/postgres/connect.ts";
import { recordEvent } from "../../src/db/queries/outbox.ts";
import { createBroadcast } from "../../src/events/broadcast.ts";
import { createFeed } from "../../src/events/feed.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { openPricings, until } from "./raw-client.ts";

const POLL_MS = 60_000;

let database: TestDatabase;
const closing: (() => Promise<void>)[] = [];

beforeAll(async () => void (database = await createTestDatabase()));
afterAll(async () => {
  for (const close of closing.toReversed()) await close();
  await database.drop();
});

/** Assembles the parts of src/entries/events-node.ts in this process. */
async function openEventServer(): Promise<string> {
  const connection = connect(database.url, { maxConnections: 1 });
  const broadcast = createBroadcast({ baseUrlPath: "" });
  const feed = createFeed({ connection, onEvent: broadcast.publish, pollMs: POLL_MS });
  const server = createServer();
  broadcast.attach(server);
  await feed.started;
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push(async () => {
    await feed.stop();
    const closed = new Promise((resolve) => server.close(resolve));
    await broadcast.close();
    await closed;
    await connection.close(0);
  });
  return `ws://127.0.0.1:${(server.address() as AddressInfo).port}/events/?EIO=4&transport=websocket`;
}

it("two event servers side by side each send every committed event once and in order to their own clients", async () => {
  const servers = [await openEventServer(), await openEventServer()];
  const clients = await Promise.all([...servers, ...servers].map(openPricings));
  const pool = connect(database.url, { maxConnections: 8 });
  await Promise.all(
    Array.from({ length: 8 }, async (_, writer) => {
      for (let turn = 0; turn < 5; turn += 1) {
        await pool.db.transaction((tx) =>
          recordEvent(tx, "o", {
            code: "PRICING_ARCHIVED",
            details: { serviceName: `Tásker "${writer}"`, pricingVersion: `1.${turn}` },
          }),
        );
      }
    }),
  );
  await pool.close();
  // Then the feeds have numbered what was staged.
  await until(() => clients.every(({ frames }) => frames.length >= 42), "all frames at all clients");
  const committed = await database.connection.client<{ details: string }[]>`
    select details::text as details from outbox order by id`;
  const expected = committed.map(
    ({ details }) =>
      `42/pricings,["message",{"code":"PRICING_ARCHIVED","details":${JSON.stringify(JSON.parse(details))}}]`,
  );
  expect(expected).toHaveLength(40);
  for (const { frames, close } of clients) {
    expect(frames.slice(2)).toEqual(expected);
    close();
  }
});

it("an event reaches a client long before the poll would find it", async () => {
  const client = await openPricings(await openEventServer());
  const delays: number[] = [];
  for (let turn = 0; turn < 30; turn += 1) {
    await database.connection.db.transaction((tx) =>
      recordEvent(tx, "o", { code: "SERVICE_DISABLED", details: { serviceName: "Zoom" } }),
    );
    const committed = performance.now();
    await client.frame(2 + turn);
    delays.push(performance.now() - committed);
  }
  client.close();
  expect(Math.max(...delays)).toBeLessThan(POLL_MS / 4);
});
