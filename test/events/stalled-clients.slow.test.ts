import { afterAll, beforeAll, expect, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { type DeafClient, openDeaf } from "./deaf-client.ts";
import { type InProcessServer, openInProcess } from "./in-process.ts";
import { openPricings, until } from "./raw-client.ts";

let database: TestDatabase;
let server: InProcessServer;
const idle: DeafClient[] = [];
beforeAll(async () => {
  database = await createTestDatabase();
  server = await openInProcess(database);
});
afterAll(async () => {
  for (const client of idle) client.destroy();
  await server.close();
  await database.drop();
});

it("clients that stop reading are cut off before they cost much; the others get everything at once", async () => {
  const { port } = new URL(server.origin);
  const deaf = await Promise.all(Array.from({ length: 10 }, () => openDeaf(Number(port))));
  idle.push(...deaf);
  const healthy = await openPricings(server.ws);
  const message = { code: "SERVICE_DISABLED", details: { serviceName: "x".repeat(1000) } };
  const before = process.memoryUsage().rss;
  const COUNT = 8000;
  let slowest = 0;
  for (let sent = 0; sent < COUNT; sent += 1) {
    const start = performance.now();
    server.broadcast.publish(message);
    if (sent % 40 === 39) {
      await healthy.frame(2 + sent);
      slowest = Math.max(slowest, performance.now() - start);
      if (sent % 400 === 399) await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
  await until(() => server.cut.length === deaf.length, "the end of those that do not read");
  expect(healthy.frames).toHaveLength(2 + COUNT);
  expect(server.broadcast.clientCount()).toBe(1);
  // If the server kept them, 10 times 8 MB would be buffered, mostly in this process.
  expect(process.memoryUsage().rss - before).toBeLessThan(80 * 1024 * 1024);
  // Clients that do not read may take five seconds before they are cut.
  expect(slowest).toBeLessThan(5_000);
  healthy.close();
});

it.each([
  ["lets more wait than the operator allows", { bufferedBytes: 16 * 1024, stallMs: 3_600_000 }],
  ["reads nothing for longer than the operator allows", { bufferedBytes: 1e9, stallMs: 4_000 }],
])("a client that %s is cut", async (_, patience) => {
  const strict = await openInProcess(database, { patience });
  const { port } = new URL(strict.origin);
  const deaf = await openDeaf(Number(port));
  const healthy = await openPricings(strict.ws);
  // Sends more than the socket buffers of both sides hold.
  for (let sent = 0; sent < 20; sent += 1) {
    strict.broadcast.publish({ code: "SERVICE_DISABLED", details: { serviceName: "x".repeat(1_000_000) } });
    await healthy.frame(2 + sent);
  }
  await until(() => strict.cut.length === 1 && deaf.isClosed(), "the end of the one that does not read", 20_000);
  expect(strict.cut[0]).toBeGreaterThan(16 * 1024);
  expect(strict.broadcast.clientCount()).toBe(1);
  healthy.close();
  deaf.destroy();
  await strict.close();
});

it("a frame of more than 10 KB closes the connection it came on, and no other", async () => {
  const talkative = await openPricings(server.ws);
  const other = await openPricings(server.ws);
  talkative.send(`42/pricings,["message","${"x".repeat(9_000)}"]`);
  server.broadcast.publish({ code: "SERVICE_DISABLED", details: { serviceName: "still here" } });
  await talkative.frame(2);
  talkative.send(`42/pricings,["message","${"x".repeat(10_300)}"]`);
  expect(await talkative.closed).toBe(1009);
  server.broadcast.publish({ code: "SERVICE_DISABLED", details: { serviceName: "Zoom" } });
  expect(await other.frame(3)).toContain("Zoom");
  other.close();
});
