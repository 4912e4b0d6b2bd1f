import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { io } from "socket.io-client";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Broadcast, createBroadcast } from "../../src/events/broadcast.ts";
import { handshakeUrl } from "../../src/events/handshake.ts";
import { openPricings, openRaw, type RawClient, until } from "./raw-client.ts";

let broadcast: Broadcast;
let server: Server;
let http: string;
let ws: string;

beforeEach(async () => {
  broadcast = createBroadcast({ baseUrlPath: "/space" });
  server = createServer((request, response) => response.end(`application ${request.url}`));
  broadcast.attach(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  http = `http://127.0.0.1:${port}`;
  ws = `ws://127.0.0.1:${port}`;
});
afterEach(async () => {
  const closed = new Promise((resolve) => server.close(resolve));
  await broadcast.close();
  server.closeAllConnections();
  await closed;
});

const HANDSHAKE = "/events/?EIO=4&transport=websocket";
const created = { code: "PRICING_CREATED", details: { serviceName: "Tasker", pricingVersion: "1.0.0" } };
const disabled = { code: "SERVICE_DISABLED", details: { serviceName: "Zoom" } };

describe("frames, byte for byte", () => {
  it("the connection is greeted, /pricings is joined, and a message has two elements and nothing more", async () => {
    const client = await openRaw(ws + HANDSHAKE);
    expect(await client.frame(0)).toMatch(
      /^0\{"sid":"[\w-]{20}","upgrades":\[\],"pingInterval":25000,"pingTimeout":20000,"maxPayload":1000000\}$/,
    );
    client.send("40/pricings,");
    expect(await client.frame(1)).toMatch(/^40\/pricings,\{"sid":"[\w-]{20}"\}$/);
    broadcast.publish(created);
    broadcast.publish(disabled);
    expect(await client.frame(2)).toBe(
      '42/pricings,["message",{"code":"PRICING_CREATED","details":{"serviceName":"Tasker","pricingVersion":"1.0.0"}}]',
    );
    expect(await client.frame(3)).toBe(
      '42/pricings,["message",{"code":"SERVICE_DISABLED","details":{"serviceName":"Zoom"}}]',
    );
    client.close();
  });

  it("the root namespace is accepted and stays silent; any other is refused on a connection that stays open", async () => {
    const client = await openRaw(ws + HANDSHAKE);
    await client.frame(0);
    client.send("40");
    expect(await client.frame(1)).toMatch(/^40\{"sid":"[\w-]{20}"\}$/);
    client.send("40/api/v1,");
    expect(await client.frame(2)).toBe('44/api/v1,{"message":"Invalid namespace"}');
    client.send("40/pricings,");
    await client.frame(3);
    broadcast.publish(disabled);
    expect(await client.frame(4)).toMatch(/^42\/pricings,/);
    expect(client.frames).toHaveLength(5);
    client.close();
  });

  it("what clients send is ignored, also when they ask for an acknowledgement", async () => {
    const client = await openPricings(ws + HANDSHAKE);
    const other = await openPricings(ws + HANDSHAKE);
    client.send('42/pricings,["message",{"code":"PRICING_ARCHIVED","details":{}}]');
    client.send('42/pricings,7["message",{}]');
    broadcast.publish(disabled);
    expect(await client.frame(2)).toContain("SERVICE_DISABLED");
    expect(await other.frame(2)).toContain("SERVICE_DISABLED");
    expect([client.frames.length, other.frames.length]).toEqual([3, 3]);
    client.close();
    other.close();
  });

  it("a frame larger than the announced payload closes its own connection and no other", async () => {
    const client = await openPricings(ws + HANDSHAKE);
    const other = await openPricings(ws + HANDSHAKE);
    client.send(`42/pricings,["message","${"x".repeat(1_000_001)}"]`);
    expect(await client.closed).toBe(1009);
    broadcast.publish(disabled);
    expect(await other.frame(2)).toContain("SERVICE_DISABLED");
    other.close();
  });
});

describe("the handshake's address", () => {
  it.each(["/events", "/events/", "/space/events", "/space/events/", "/api/v1/events/", "/space/api/v1/events"])(
    "an upgrade at %s is served",
    async (path) => {
      const client = await openPricings(`${ws}${path}?EIO=4&transport=websocket`);
      expect(client.frames).toHaveLength(2);
      client.close();
    },
  );

  it("every other path belongs to the application, events' helper routes included", async () => {
    for (const path of ["/", "/api/v1/events/status", "/api/v1/events", "/events/status", "/eventsx", "/space"]) {
      expect(await (await fetch(http + path)).text()).toBe(`application ${path}`);
    }
    expect(handshakeUrl("/spaceevents", "/space", false)).toBeUndefined();
    expect(handshakeUrl("/events?EIO=4&a=%2F", "", false)).toBe("/.faregate-handshake/?EIO=4&a=%2F");
  });

  it("any transport but WebSocket is refused, for every origin to read", async () => {
    const answer = await fetch(`${http}/events/?EIO=4&transport=polling`, {
      headers: { origin: "http://app.example" },
    });
    expect(answer.status).toBe(400);
    expect(answer.headers.get("access-control-allow-origin")).toBe("*");
    expect(await answer.text()).toBe('{"code":0,"message":"Transport unknown"}');
  });
});

describe("clients that come back", () => {
  it("a client whose transport is closed connects again by itself", async () => {
    const { port } = server.address() as AddressInfo;
    const socket = io(`${http}/pricings`, { path: "/events", transports: ["websocket"], reconnectionDelay: 20 });
    const messages: unknown[] = [];
    const reasons: string[] = [];
    socket.on("message", (...received) => messages.push(received));
    socket.on("disconnect", (reason) => reasons.push(reason));
    await until(() => socket.connected, "the connection");
    const closed = new Promise((resolve) => server.close(resolve));
    await broadcast.close();
    await closed;
    await until(() => !socket.connected, "the end of the connection");
    expect(reasons).toEqual(["transport close"]);

    broadcast = createBroadcast({ baseUrlPath: "" });
    server = createServer();
    broadcast.attach(server);
    await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
    await until(() => socket.connected, "the second connection");
    broadcast.publish(created);
    await until(() => messages.length === 1, "the message");
    expect(messages).toEqual([[created]]);
    socket.disconnect();
  });

  it("who connects while returning clients are awaited gets what was published since, once and before anything else", async () => {
    // Longer than both take to connect on a busy machine.
    broadcast.replayToReturning(3_000);
    broadcast.publish(created);
    const early = await openPricings(ws + HANDSHAKE);
    broadcast.publish(disabled);
    const late = await openPricings(ws + HANDSHAKE);
    for (const client of [early, late]) {
      expect(await client.frame(2)).toContain("PRICING_CREATED");
      expect(await client.frame(3)).toContain("SERVICE_DISABLED");
    }
    await new Promise((resolve) => setTimeout(resolve, 3_100));
    const last = await openPricings(ws + HANDSHAKE);
    broadcast.publish(disabled);
    await last.frame(2);
    await Promise.all([early.frame(4), late.frame(4)]);
    expect([early.frames.length, late.frames.length, last.frames.length]).toEqual([5, 5, 3]);
    for (const client of [early, late, last]) client.close();
  });
});

describe("a thousand clients", () => {
  const MANY = 1000;
  let clients: RawClient[] = [];
  beforeEach(async () => {
    clients = [];
    // In groups: a server resets connections beyond its backlog of 511 that wait to be accepted.
    while (clients.length < MANY) {
      clients.push(...(await Promise.all(Array.from({ length: 100 }, () => openPricings(ws + HANDSHAKE)))));
    }
  });

  it("get every message once and in order, and others are served in between", async () => {
    const codes = ["PRICING_CREATED", "PRICING_ARCHIVED", "PRICING_ACTIVED", "SERVICE_DISABLED"];
    for (const code of codes) broadcast.publish({ code, details: { serviceName: "Tasker" } });
    // The loop yielded before it had sent to all clients: the last ones are still pending.
    let turns = 0;
    while (clients.some(({ frames }) => frames.length < 2 + codes.length)) {
      await new Promise((resolve) => setImmediate(resolve));
      turns += 1;
    }
    expect(turns).toBeGreaterThan((MANY / 100) * codes.length - 2);
    for (const { frames } of clients) {
      expect(frames.slice(2).map((frame) => /"code":"(\w+)"/.exec(frame)?.[1])).toEqual(codes);
    }
  });

  it("are let go one after the other when the server is to end, so that they do not all come back at once", async () => {
    const moments: number[] = [];
    const from = performance.now();
    const all = clients.map(async ({ closed }) => {
      await closed;
      moments.push(performance.now() - from);
    });
    await broadcast.close();
    await Promise.all(all);
    expect(Math.max(...moments) - Math.min(...moments)).toBeGreaterThan(150);
    expect(Math.max(...moments)).toBeLessThan(5500);
  });
});
