import { Server as Engine } from "@socket.io/bun-engine";
import { forwardedAddress } from "../core/access/forwarded.ts";
import { ENGINE_OPTIONS } from "../events/broadcast.ts";
import { createAddressLimit } from "../events/address-limit.ts";
import { ENGINE_PATH, handshakeUrl } from "../events/handshake.ts";
import { type BunServer, drainBun, serveWithBun } from "./platform/bun-server.ts";
import { openEventServer } from "./process/event-server.ts";
import { runProcess } from "./process/lifecycle.ts";

type Incoming = Parameters<Engine["handleRequest"]>[1];

const UNKNOWN_TRANSPORT = '{"code":0,"message":"Transport unknown"}';
/** Idle time-out of the engine; must exceed the ping interval. */
const IDLE_SECONDS = 60;

/*
 * The event server on Bun, over Bun's own WebSocket. Its engine silently drops data that a slow client does not read,
 * and cannot be WebSocket-only. So clients past the limit are disconnected, and polling is rejected earlier.
 */
await runProcess("events", async (started) => {
  const { config, log } = started;
  const events = await openEventServer(started);
  const engine = new Engine({ ...ENGINE_OPTIONS, path: ENGINE_PATH, cors: { origin: "*" } });
  events.broadcast.bind(engine);
  const websocket = {
    ...engine.handler().websocket,
    maxPayloadLength: config.SOCKET_MESSAGE_KB * 1024,
    backpressureLimit: config.SOCKET_BUFFER_KB * 1024,
    closeOnBackpressureLimit: true,
    idleTimeout: IDLE_SECONDS,
  };
  const limits = createAddressLimit(config.SOCKETS_PER_ADDRESS || Number.POSITIVE_INFINITY);
  // Read before the upgrade: afterwards Bun no longer exposes the address.
  const addresses = new WeakMap<Request, string>();
  engine.on("connection", (socket, request) => {
    const closed = limits.opened(addresses.get(request) ?? "");
    socket.on("close", closed);
  });
  const fetch = (request: Request, server: BunServer & Incoming): Response | Promise<Response> => {
    const url = new URL(request.url);
    const isUpgrade = request.headers.get("upgrade")?.toLowerCase() === "websocket";
    const address = handshakeUrl(url.pathname + url.search, config.BASE_URL_PATH, isUpgrade);
    if (address === undefined) {
      return events.fetch(request, { clientAddress: () => server.requestIP(request)?.address ?? "" });
    }
    if (request.method !== "OPTIONS" && !(isUpgrade && url.searchParams.get("transport") === "websocket")) {
      const headers = { "content-type": "application/json", "access-control-allow-origin": "*" };
      return new Response(UNKNOWN_TRANSPORT, { status: 400, headers });
    }
    const forwarded = forwardedAddress(request.headers.get("x-forwarded-for") ?? undefined, config.TRUSTED_PROXIES);
    const client = forwarded ?? server.requestIP(request)?.address ?? "";
    addresses.set(request, client);
    if (!limits.allows(client)) return new Response("too many connections", { status: 403 });
    return engine.handleRequest(rewritten(request, url.origin + address), server);
  };
  const server = serveWithBun(
    { port: config.EVENTS_PORT, host: config.HOST, idleSeconds: config.IDLE_TIMEOUT, fetch, websocket },
    "EVENTS_PORT",
  );
  log("info", "the event server is listening", { port: config.EVENTS_PORT, after: events.position() });
  return async () => {
    await events.beginStop();
    const drained = drainBun(server, 10_000);
    await events.broadcast.close();
    await drained;
    await events.close();
  };
});

/**
 * Returns the request with another URL. Bun upgrades only its own request object, so the engine gets that one with an
 * overridden url.
 */
function rewritten(request: Request, url: string): Request {
  Object.defineProperty(request, "url", { value: url });
  return request;
}
