import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { io } from "socket.io-client";
import { recordEvents } from "../../src/db/queries/outbox.ts";
import { openApiKey } from "../../src/operations/credentials.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { type RunningServer, startEventServer, testKeyring } from "../support/event-server.ts";
import { createdEvent } from "../support/private-events.ts";
import { openDeaf } from "./deaf-client.ts";
import { HANDSHAKE } from "./in-process.ts";
import { openPricings, openRaw, until } from "./raw-client.ts";
import { openReceiver } from "./webhook-receiver.ts";

describe.each(["Node", "Bun"] as const)("the event server's process on %s", (runtime) => {
  let database: TestDatabase;
  let server: RunningServer;
  let ws: string;
  beforeAll(async () => {
    database = await createTestDatabase();
    server = await startEventServer(database.url, { WEBHOOK_ALLOWED_HOSTS: "127.0.0.1" }, runtime);
    ws = server.url.replace("http", "ws");
  });
  afterAll(async () => {
    await server.stop();
    await database.drop();
  });
  let recorded = 0;
  const disable = async (serviceName: string, count = 1) => {
    const event = { code: "SERVICE_DISABLED", details: { serviceName } } as const;
    const events = Array.from({ length: count }, () => ({ organizationId: null, event }));
    await database.connection.db.transaction((tx) => recordEvents(tx, events));
    recorded += count;
  };

  it("greets, lets into / and /pricings, refuses other namespaces, and sends messages of two fields, byte for byte", async () => {
    const client = await openRaw(ws + HANDSHAKE);
    expect(await client.frame(0)).toMatch(
      /^0\{"sid":"[\w-]{20}","upgrades":\[\],"pingInterval":25000,"pingTimeout":20000,"maxPayload":1000000\}$/,
    );
    client.send("40");
    expect(await client.frame(1)).toMatch(/^40\{"sid":"[\w-]{20}"\}$/);
    client.send("40/api/v1,");
    expect(await client.frame(2)).toBe('44/api/v1,{"message":"Invalid namespace"}');
    client.send("40/pricings,");
    expect(await client.frame(3)).toMatch(/^40\/pricings,\{"sid":"[\w-]{20}"\}$/);
    client.send('42/pricings,7["message",{}]');
    await disable('Zoöm "1"');
    expect(await client.frame(4)).toBe(
      '42/pricings,["message",{"code":"SERVICE_DISABLED","details":{"serviceName":"Zoöm \\"1\\""}}]',
    );
    expect(client.frames).toHaveLength(5);
    client.close();
  });

  it("serves the handshake at its three addresses, refuses polling for every origin to read, and leaves the rest to REST", async () => {
    for (const path of ["/events", "/events/", "/api/v1/events/"]) {
      const client = await openPricings(`${ws}${path}?EIO=4&transport=websocket`);
      client.close();
    }
    const polling = await fetch(`${server.url}/events/?EIO=4&transport=polling`, {
      headers: { origin: "http://a.example" },
    });
    expect(polling.status).toBe(400);
    expect(polling.headers.get("access-control-allow-origin")).toBe("*");
    expect(await polling.text()).toBe('{"code":0,"message":"Transport unknown"}');
    const status = await fetch(`${server.url}/api/v1/events/status`);
    expect(await status.json()).toEqual({ status: "The WebSocket event service is active" });
  });

  it("gives a client that asks what it missed and what comes, and closes on a frame of more than 10 KB", async () => {
    await disable("missed", 150);
    const client = await openRaw(ws + HANDSHAKE);
    await client.frame(0);
    client.send(`40/pricings,{"lastEventId":${recorded - 150}}`);
    await until(() => client.frames.some((frame) => frame.includes('"position"')), "the position");
    await disable("live");
    await client.frame(2 + 150 + 1);
    // The split between missed and live events depends on timing; the position states it.
    const ids = client.frames.flatMap((frame) => /\["message",.*"id":(\d+)\}\]$/.exec(frame)?.[1] ?? []).map(Number);
    expect(ids).toEqual(Array.from({ length: 151 }, (_, i) => recorded - 150 + i));
    client.send("x".repeat(10_300));
    expect(await client.closed).toBeGreaterThan(1000);
  });

  it("refuses an unknown organization's key on a connection that stays open", async () => {
    const client = await openRaw(ws + HANDSHAKE);
    await client.frame(0);
    client.send('40/pricings,{"organizationKey":"org_unknown"}');
    expect(await client.frame(1)).toBe('44/pricings,{"message":"Invalid Organization API Key"}');
    client.close();
  });

  it("cuts a client that stops reading, and the others get everything", async () => {
    const deaf = await openDeaf(Number(new URL(server.url).port));
    const healthy = await openPricings(ws + HANDSHAKE);
    for (let turn = 0; turn < 20; turn += 1) {
      await disable("x".repeat(3000), 200);
      await healthy.frame(2 + 200 * (turn + 1) - 1);
    }
    await until(deaf.isClosed, "the end of the deaf one");
    healthy.close();
  }, 60_000);

  it("streams events over HTTP, as they come and after Last-Event-ID", async () => {
    const stop = new AbortController();
    const answer = await fetch(`${server.url}/api/v1/events/stream`, {
      headers: { "last-event-id": String(recorded - 1) },
      signal: stop.signal,
    });
    const reader = answer.body?.getReader();
    let text = "";
    const read = async (part: string) => {
      while (!text.includes(part)) text += new TextDecoder().decode((await reader?.read())?.value);
    };
    await read(`id: ${recorded}\ndata`);
    await disable("streamed");
    await read("streamed");
    stop.abort();
  });

  it("sends webhooks to where the operator allows, and to no private address otherwise", async () => {
    const receiver = await openReceiver();
    const keyring = await testKeyring();
    const api: TestApi = await createTestApi({
      settings: { webhookAllowedHosts: ["127.0.0.1"] },
      resources: { keyring },
    });
    const own = await startEventServer(api.database.url, { WEBHOOK_ALLOWED_HOSTS: "127.0.0.1" }, runtime);
    const { key } = api.callers.all;
    const add = (url: string) => api.call<{ id: string; secret: string }>("POST", "/webhooks", { key, body: { url } });
    const { body: allowed } = await add(receiver.url);
    const { body: refused } = await add("https://localhost:1/");
    const [row] = await api.database.connection
      .client`select secret_sealed as s from webhook_endpoints where id = ${allowed.id}`;
    expect(await openApiKey(keyring, String(row?.["s"]))).toBe(allowed.secret);
    await api.database.connection.db.transaction((tx) =>
      recordEvents(tx, [{ organizationId: api.callers.organizationId, event: createdEvent("u") }]),
    );
    await until(() => receiver.received.length === 1, "the webhook");
    await expect
      .poll(
        async () =>
          (await api.call<{ error: string }[]>("GET", `/webhooks/${refused.id}/deliveries`, { key })).body[0]?.error,
      )
      .toBe("Invalid URL: localhost is not an address of the public internet");
    expect(await own.stop()).toBe(0);
    await receiver.close();
    await api.close();
  });

  it("on SIGTERM closes the transport, not the namespace, so that clients come back by themselves, and exits 0", async () => {
    const own = await startEventServer(database.url, {}, runtime);
    const socket = io(`${own.url}/pricings`, { path: "/events", transports: ["websocket"], reconnectionDelay: 50 });
    const reasons: string[] = [];
    socket.on("disconnect", (reason) => reasons.push(reason));
    await until(() => socket.connected, "the connection");
    const stream = await fetch(`${own.url}/api/v1/events/stream`);
    const ended = stream.text();
    expect(await own.stop()).toBe(0);
    await ended;
    await until(() => reasons.length === 1, "the end");
    expect(reasons).toEqual(["transport close"]);
    const again = await startEventServer(database.url, { EVENTS_PORT: new URL(own.url).port }, runtime);
    await until(() => socket.connected, "the second connection");
    socket.disconnect();
    await again.stop();
  }, 40_000);
});
