import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { ServiceClient } from "../../../src/client/front/service-client.ts";
import { createTestToken } from "../../../src/client/front/test-token.ts";
import { answerWith, type LiveServer, startLiveServer } from "./live-server.ts";

/* Source: contract clients §1.9, §1.10. Against a stock Socket.IO server. */

let server: LiveServer;
let client: ServiceClient;
/** Names of the events heard, in order. */
let heard: string[];
let errors: Error[];

const listen = () => {
  heard = [];
  errors = [];
  client.on("synchronized", (...args: unknown[]) => heard.push(`synchronized/${args.length}`));
  client.on("error", (error) => errors.push(error));
};
const until = (check: () => void, timeout = 20_000) => vi.waitFor(check, { timeout, interval: 10 });
const later = (milliseconds: number) => new Promise<void>((done) => setTimeout(done, milliseconds));

beforeEach(async () => {
  // Full jitter, without waiting for it.
  vi.spyOn(Math, "random").mockReturnValue(0.02);
  server = await startLiveServer();
  client = new ServiceClient({ url: server.url, apiKey: "org_key" });
  listen();
});
afterEach(async () => {
  client.dispose();
  await server.close();
  vi.restoreAllMocks();
});

const connected = async () => {
  client.connect();
  await until(() => expect(client.connected).toBe(true));
};

test("R27: nothing connects until it is told to; then one socket joins /pricings and no other namespace", async () => {
  await later(30);
  expect(server.handshakes).toHaveLength(0);
  expect(client.connection.status).toBe("idle");
  const states: string[] = [];
  client.subscribeConnection(() => states.push(client.connection.status));
  client.connect();
  client.connectWebSocket();
  await until(() => expect(client.connected).toBe(true));
  await later(50);
  expect(server.handshakes).toHaveLength(1);
  expect(server.joined).toEqual(["/pricings"]);
  expect(heard).toEqual(["synchronized/0"]);
  expect([...new Set(states)]).toEqual(["connecting", "synchronized"]);
});

test("R24: connecting, evaluating and failing print nothing", async () => {
  const spies = (["debug", "log", "info", "warn", "error"] as const).map((method) => vi.spyOn(console, method));
  client.connect();
  await until(() => expect(client.connected).toBe(true));
  client.token.evaluateFeature("zoom-nothing");
  await client.setUserId("").catch(() => {});
  server.send("no message");
  await until(() => expect(errors).toHaveLength(1));
  const said = spies.flatMap((spy) => spy.mock.calls);
  for (const spy of spies) spy.mockRestore();
  expect(said).toEqual([]);
});

test("R11, N3: below a sub-path the handshake has the path, and the namespace has not", async () => {
  const below = await startLiveServer({ prefix: "/space" });
  const other = new ServiceClient({ url: `${below.url}//` });
  other.connect();
  await until(() => expect(other.connected).toBe(true));
  expect(below.handshakes[0]).toMatch(/^\/space\/events\/\?/);
  expect(below.joined).toEqual(["/pricings"]);
  other.dispose();
  await until(() => expect(below.connections()).toBe(0));
  await below.close();
});

test("the wire's codes arrive under their names, once; codes of newer servers are ignored", async () => {
  await connected();
  const details = { serviceName: "Zoom", pricingVersion: "1.0.0" };
  const events: unknown[] = [];
  for (const event of ["pricing_created", "pricing_archived", "pricing_activated", "service_disabled"] as const) {
    client.on(event, (given) => events.push([event, given]));
  }
  for (const code of [
    "PRICING_CREATED",
    "PRICING_ARCHIVED",
    "PRICING_ACTIVED",
    "PRICING_ACTIVATED",
    "SYNCHRONIZED",
    "NEW_ONE",
  ]) {
    server.send({ code, details });
  }
  server.send({ code: "ANOTHER" });
  server.send({ code: "SERVICE_DISABLED", details: { serviceName: "Zoom", more: 1 } });
  await until(() => expect(events).toHaveLength(5));
  expect(events).toEqual([
    ["pricing_created", details],
    ["pricing_archived", details],
    ["pricing_activated", details],
    ["pricing_activated", details],
    ["service_disabled", { serviceName: "Zoom", more: 1 }],
  ]);
  expect(errors).toEqual([]);
});

test("R17: what is no message becomes an error event, and the connection stays", async () => {
  await connected();
  for (const wrong of [
    null,
    "text",
    7,
    [],
    {},
    { code: 7 },
    { code: "PRICING_CREATED" },
    { code: "PRICING_CREATED", details: "x" },
  ]) {
    server.send(wrong);
  }
  await until(() => expect(errors).toHaveLength(8));
  expect(client.connected).toBe(true);
  expect(server.handshakes).toHaveLength(1);
});

test("synchronized registered while connected is called once, a moment later, unless removed", async () => {
  await connected();
  const late = vi.fn();
  client.on("synchronized", late);
  expect(late).not.toHaveBeenCalled();
  const removed = vi.fn();
  client.on("synchronized", removed)();
  await later(5);
  expect(late).toHaveBeenCalledTimes(1);
  expect(removed).not.toHaveBeenCalled();
});

test("the same however often it is registered at once, and one that throws is reported and stops no other", async () => {
  const quiet = vi.spyOn(console, "error").mockReturnValue();
  await connected();
  const [again, heardToo] = [vi.fn(), vi.fn()];
  client.on("synchronized", () => {
    throw new Error("listener");
  });
  client.on("synchronized", again)();
  client.on("synchronized", again);
  client.on("synchronized", again);
  client.on("synchronized", heardToo);
  await later(5);
  expect([again, heardToo].map((late) => late.mock.calls)).toEqual([[[]], [[]]]);
  expect(quiet.mock.calls).toEqual([[expect.objectContaining({ message: "listener" })]]);
});

test("details arrive as they were received, whatever is in the object", async () => {
  await connected();
  const created = vi.fn();
  client.on("pricing_created", created);
  client.on("pricing_archived", created);
  for (const details of [{}, { serviceName: 5 }]) {
    server.send({ code: "PRICING_CREATED", details });
    server.send({ code: "PRICING_ARCHIVED", details });
  }
  await until(() => expect(created).toHaveBeenCalledTimes(4));
  expect(created.mock.calls.flat()).toEqual([{}, {}, { serviceName: 5 }, { serviceName: 5 }]);
  expect(errors).toEqual([]);
});

describe("R5: closing leaves nothing behind", () => {
  test("N9: when connected; listeners stay and the channel can be opened again", async () => {
    await connected();
    client.disconnectWebSocket();
    client.disconnect();
    expect(client.connection.status).toBe("idle");
    await until(() => expect(server.connections()).toBe(0));
    await connected();
    await until(() => expect(heard).toEqual(["synchronized/0", "synchronized/0"]));
    expect(server.handshakes).toHaveLength(2);
  });

  test("while the socket code is loading", async () => {
    client.connect();
    client.disconnect();
    await later(80);
    expect(server.handshakes).toHaveLength(0);
  });

  test("while the handshake is under way", async () => {
    server.upgraded = () => client.disconnect();
    client.connect();
    await until(() => expect(server.handshakes).toHaveLength(1));
    await later(80);
    expect(server.connections()).toBe(0);
    expect(heard).toEqual([]);
  });

  test("while waiting to try again", async () => {
    await server.close();
    client.connect();
    await until(() => expect(errors.length).toBeGreaterThan(0));
    client.dispose();
    const before = errors.length;
    server = await startLiveServer({ port: server.port });
    await later(150);
    expect(server.handshakes).toHaveLength(0);
    expect(errors).toHaveLength(before);
  });
});

describe("it comes back", () => {
  test("after the server was gone, with one synchronized and the token still there", async () => {
    await client.setUserId("ada");
    await connected();
    await server.close();
    await until(() => expect(client.connection.status).not.toBe("synchronized"));
    expect(client.token.evaluateFeature("zoom-meetings")).toBe(true);
    await until(() => expect(errors.length).toBeGreaterThan(1));
    expect(client.connection.error).toBeInstanceOf(Error);
    server = await startLiveServer({ port: server.port });
    await until(() => expect(client.connected).toBe(true));
    expect(heard).toEqual(["synchronized/0", "synchronized/0"]);
    expect(client.connection.error).toBeNull();
    expect(server.joined).toEqual(["/pricings"]);
  });

  test("errors of the connection are sentences that name its address", async () => {
    const channel = `event channel at ws://127.0.0.1:${server.port}/events/`;
    await connected();
    // A packet that no client can decode.
    for (const { conn } of server.sockets.of("/pricings").sockets.values()) conn.transport.send([{ type: "error" }]);
    await until(() => expect(errors).toHaveLength(1));
    await server.close();
    await until(() => expect(errors.length).toBeGreaterThan(1));
    const lost = `The connection to the ${channel} was lost: transport error`;
    const unreachable = `The ${channel} could not be reached: websocket error`;
    expect(errors.map(({ message }) => message).slice(0, 2)).toEqual([lost, unreachable]);
    expect(client.connection.error?.message).toBe(unreachable);
    // A page that prints an error as JSON must not show an event of the browser.
    expect(JSON.stringify(errors.at(-1))).toBe("{}");
  });

  test("R12: after the server closed the namespace", async () => {
    await connected();
    server.sockets.of("/pricings").disconnectSockets();
    await until(() => expect(server.joined).toHaveLength(2));
    await until(() => expect(heard).toHaveLength(2));
  });

  test("R12: after the server refused the namespace, each refusal an error event", async () => {
    let refusals = 3;
    await server.close();
    server = await startLiveServer({ port: server.port, refuse: () => (refusals -= 1) >= 0 });
    await connected();
    expect(errors.map(({ message }) => message)).toEqual(["refused", "refused", "refused"]);
  });

  test("at once when the page is online or shown again, and on reconnect()", async () => {
    const wake = new Map<string, Set<() => void>>();
    vi.stubGlobal("addEventListener", (type: string, listener: () => void) =>
      wake.set(type, (wake.get(type) ?? new Set()).add(listener)),
    );
    vi.stubGlobal("removeEventListener", (type: string, listener: () => void) => wake.get(type)?.delete(listener));
    await server.close();
    vi.spyOn(Math, "random").mockReturnValue(1);
    client.connect();
    // The next attempt would come after four seconds.
    await until(() => expect(errors).toHaveLength(3));
    server = await startLiveServer({ port: server.port });
    await later(50);
    expect(server.handshakes).toHaveLength(0);
    for (const listener of wake.get("online") ?? []) listener();
    await until(() => expect(client.connected).toBe(true), 3500);
    client.reconnect();
    await until(() => expect(server.handshakes).toHaveLength(2));
    await until(() => expect(client.connected).toBe(true));
    client.dispose();
    expect([...wake.values()].every((listeners) => listeners.size === 0)).toBe(true);
    vi.unstubAllGlobals();
  });
});

describe("the token is asked for again", () => {
  const details = { serviceName: "Zoom", pricingVersion: "1" };
  const calls = () => server.calls.length;

  test("once after archiving or disabling of a service of the token, not of others, nor after other events", async () => {
    server.answer = (_user, response) =>
      answerWith(response, { pricingToken: createTestToken({ features: { "zoom-meetings": calls() === 1 } }) });
    await client.setUserId("ada");
    const release = client.retain(true);
    await until(() => expect(client.connected).toBe(true));
    server.send({ code: "PRICING_CREATED", details });
    server.send({ code: "PRICING_ACTIVED", details });
    server.send({ code: "PRICING_ARCHIVED", details: { serviceName: "Zo" } });
    server.send({ code: "PRICING_ARCHIVED", details: { serviceName: "Other" } });
    await later(120);
    expect(calls()).toBe(1);
    server.send({ code: "PRICING_ARCHIVED", details });
    server.send({ code: "SERVICE_DISABLED", details: { serviceName: "ZOOM" } });
    await until(() => expect(calls()).toBe(2));
    await until(() => expect(client.token.evaluateFeature("zoom-meetings")).toBe(false));
    await later(120);
    expect(calls()).toBe(2);
    release();
  });

  test("once the service is back, for a user whose page started without it", async () => {
    await server.close();
    const release = client.retain(true);
    await expect(client.setUserId("ada")).rejects.toMatchObject({ code: "NETWORK" });
    await until(() => expect(errors.length).toBeGreaterThan(0));
    server = await startLiveServer({ port: server.port });
    await until(() => expect(client.token.evaluateFeature("zoom-meetings")).toBe(true));
    expect(calls()).toBe(1);
    release();
  });

  test("after a gap, for what was missed; not after the first synchronization", async () => {
    await client.setUserId("ada");
    const release = client.retain(true);
    await until(() => expect(client.connected).toBe(true));
    await later(120);
    expect(calls()).toBe(1);
    server.sockets.of("/pricings").disconnectSockets();
    await until(() => expect(calls()).toBe(2));
    release();
  });
});

test("it can be imported where there is neither WebSocket nor fetch nor document", async () => {
  for (const name of ["WebSocket", "fetch", "document", "window", "addEventListener"]) vi.stubGlobal(name, undefined);
  vi.resetModules();
  const fresh = await import("../../../src/client/client.ts");
  expect(new fresh.TokenService(createTestToken({ features: { "a-b": true } })).evaluateFeature("a-b")).toBe(true);
  vi.unstubAllGlobals();
});
