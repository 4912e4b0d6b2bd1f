import { Server as Engine } from "@socket.io/bun-engine";
import { StartupProblem } from "../db/connect.ts";
import { ENGINE_OPTIONS, MAX_INBOUND_BYTES } from "../events/broadcast.ts";
import { ENGINE_PATH, handshakeUrl } from "../events/handshake.ts";
import { MAX_BUFFERED_BYTES } from "../events/slow-clients.ts";
import { openEventServer } from "./event-server.ts";
import { runProcess } from "./lifecycle.ts";

/** What is used of Bun's server; its types would be everybody's, and Node's are. */
interface BunServer {
  stop(closeActiveConnections?: boolean): Promise<void>;
}
interface Bun {
  serve(options: object): BunServer;
}
type Incoming = Parameters<Engine["handleRequest"]>[1];

const UNKNOWN_TRANSPORT = '{"code":0,"message":"Transport unknown"}';
/** The engine takes a pause of the client for its end after this; it must be longer than the ping's interval. */
const IDLE_SECONDS = 60;
const DRAIN_MS = 10_000;

/*
 * The event server on Bun: the same as on Node over Bun's own WebSocket. Its engine drops what a slow client does not take,
 * without a word, and cannot be WebSocket-only; so a client past the limit is cut, and polling is refused before it.
 */
await runProcess("events", async (started) => {
  const { config, log } = started;
  const bun = (globalThis as { Bun?: Bun }).Bun;
  if (bun === undefined)
    throw new StartupProblem("This event server needs Bun: `npm run start:events` is the one for Node.");
  const events = await openEventServer(started);
  const engine = new Engine({ ...ENGINE_OPTIONS, path: ENGINE_PATH, cors: { origin: "*" } });
  events.broadcast.bind(engine);
  const websocket = {
    ...engine.handler().websocket,
    maxPayloadLength: MAX_INBOUND_BYTES,
    backpressureLimit: MAX_BUFFERED_BYTES,
    closeOnBackpressureLimit: true,
    idleTimeout: IDLE_SECONDS,
  };
  const fetch = (request: Request, server: Incoming): Response | Promise<Response> => {
    const url = new URL(request.url);
    const isUpgrade = request.headers.get("upgrade")?.toLowerCase() === "websocket";
    const address = handshakeUrl(url.pathname + url.search, config.BASE_URL_PATH, isUpgrade);
    if (address === undefined) return events.fetch(request, {});
    if (request.method !== "OPTIONS" && !(isUpgrade && url.searchParams.get("transport") === "websocket")) {
      const headers = { "content-type": "application/json", "access-control-allow-origin": "*" };
      return new Response(UNKNOWN_TRANSPORT, { status: 400, headers });
    }
    return engine.handleRequest(rewritten(request, url.origin + address), server);
  };
  const server = listen(bun, { port: config.EVENTS_PORT, hostname: config.HOST, fetch, websocket, idleTimeout: 75 });
  log("info", "the event server is listening", { port: config.EVENTS_PORT, after: events.position() });
  return async () => {
    await events.beginStop();
    const drained = server.stop();
    events.broadcast.close();
    await Promise.race([drained, new Promise((resolve) => setTimeout(resolve, DRAIN_MS))]);
    await server.stop(true);
    await events.close();
  };
});

/**
 * The request under another address. Bun upgrades only the request that it gave out, so the engine gets that one with a
 * url of its own.
 */
function rewritten(request: Request, url: string): Request {
  Object.defineProperty(request, "url", { value: url });
  return request;
}

function listen(bun: Bun, options: { port: number; hostname: string | undefined; [name: string]: unknown }): BunServer {
  try {
    return bun.serve({ ...options, hostname: options.hostname ?? "::" });
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    if (code !== "EADDRINUSE") throw error;
    throw new StartupProblem(
      `Port ${options.port} is already in use: stop what listens there, or set EVENTS_PORT to another port.`,
      { cause: error },
    );
  }
}
