import type { AddressInfo, Socket } from "node:net";
import { createServer, type Server } from "node:http";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { ServiceClient } from "../../../src/client/front/service-client.ts";
import { type LiveServer, startLiveServer } from "./live-server.ts";

/* Source: contract clients §1.10, connection lost. The page wakes while the channel connects, or waits to. */

let client: ServiceClient;
let errors: number;
/** Listeners of the page, by event. */
let listeners: Map<string, Set<() => void>>;

const until = (check: () => void) => vi.waitFor(check, { timeout: 20_000, interval: 10 });
const later = (milliseconds: number) => new Promise<void>((done) => setTimeout(done, milliseconds));
/** All that a browser says when a device returns: it is online, its tab is visible and restored. */
const wake = () => {
  for (const type of ["online", "visibilitychange", "pageshow"]) {
    for (const listener of listeners.get(type) ?? []) listener();
  }
};

beforeEach(() => {
  listeners = new Map();
  vi.stubGlobal("addEventListener", (type: string, listener: () => void) =>
    listeners.set(type, (listeners.get(type) ?? new Set()).add(listener)),
  );
  vi.stubGlobal("removeEventListener", (type: string, listener: () => void) => listeners.get(type)?.delete(listener));
});
afterEach(() => {
  client.dispose();
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

const clientOf = (url: string) => {
  errors = 0;
  client = new ServiceClient({ url });
  client.on("error", () => (errors += 1));
  return client;
};

/** A server that accepts connections and leaves the handshake unanswered until told to drop it. */
async function startSilentServer(port = 0): Promise<{ server: Server; attempts: Socket[]; url: string; port: number }> {
  const attempts: Socket[] = [];
  const server = createServer();
  server.on("upgrade", (_request, socket: Socket) => attempts.push(socket));
  await new Promise<void>((done) => server.listen(port, "127.0.0.1", done));
  const given = (server.address() as AddressInfo).port;
  return { server, attempts, url: `http://127.0.0.1:${given}`, port: given };
}

test("waking during an attempt starts no second one; if it fails, one more follows at once, then the back-off goes on", async () => {
  // The longest waits, so that nothing but waking retries within the test.
  vi.spyOn(Math, "random").mockReturnValue(1);
  const { server, attempts, url } = await startSilentServer();
  clientOf(url).connect();
  await until(() => expect(attempts).toHaveLength(1));
  attempts[0]?.destroy();
  await until(() => expect(errors).toBe(1));
  wake();
  await until(() => expect(attempts).toHaveLength(2));
  wake();
  wake();
  await later(100);
  expect(attempts).toHaveLength(2);

  const delays = vi.spyOn(globalThis, "setTimeout");
  attempts[1]?.destroy();
  await until(() => expect(attempts).toHaveLength(3));
  expect(errors).toBe(2);
  attempts[2]?.destroy();
  await until(() => expect(errors).toBe(3));
  // The waits of the channel: none after the failure that a waking preceded, then the third of the back-off.
  expect(delays.mock.calls.map(([, delay]) => delay).filter((delay) => delay === 0 || delay === 4000)).toEqual([
    0, 4000,
  ]);
  await later(100);
  expect(attempts).toHaveLength(3);
  client.dispose();
  await new Promise((done) => server.close(done));
});

test("waking after a refused namespace or a lost connection retries once, and joins once", async () => {
  vi.spyOn(Math, "random").mockReturnValue(1);
  let refuses = true;
  const server: LiveServer = await startLiveServer({ refuse: () => refuses });
  clientOf(server.url).connect();
  await until(() => expect(errors).toBe(1));
  refuses = false;
  wake();
  wake();
  await until(() => expect(client.connected).toBe(true));
  wake();
  await later(100);
  expect([server.handshakes.length, server.joined.length, server.connections()]).toEqual([2, 1, 1]);
  server.sockets.of("/pricings").disconnectSockets(true);
  await until(() => expect(client.connection.status).toBe("disconnected"));
  wake();
  wake();
  await until(() => expect(client.connected).toBe(true));
  wake();
  await later(100);
  expect([server.handshakes.length, server.joined.length, server.connections()]).toEqual([3, 2, 1]);
  client.dispose();
  await server.close();
});
