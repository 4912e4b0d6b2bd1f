import { Server } from "socket.io";
import type { OutboxEvent } from "./feed.ts";

/** The Socket.IO side of the public channel. */
export interface Broadcast {
  /** Sends to every client of `/pricings`. */
  publish(event: Pick<OutboxEvent, "code" | "details">): void;
  /** For so long, sends a client that connects everything published since this call, before anything else. */
  replayToReturning(milliseconds: number): void;
  /** Serves the handshake on this HTTP server and leaves every other path to the listeners it has now. */
  attach(server: HttpServer): void;
  /** Number of open connections. */
  clientCount(): number;
  /** Closes the transports, not the namespace, so that clients come back by themselves. */
  close(): void;
}

/** What is needed of a node:http server, which only entries may name. */
type HttpServer = Exclude<Parameters<Server["attach"]>[0], number> & {
  prependListener(event: "request" | "upgrade", listener: (request: { url?: string }) => void): unknown;
};

/** Where the engine listens; requests get here by `handshakeUrl` only, so that `/events/status` stays with the application. */
const ENGINE_PATH = "/.faregate-handshake/";

/**
 * The engine's address for a request to the handshake, undefined for any other: `/events` with or without a slash, the
 * same below the sub-path, and for upgrades the address that the specification gives clients as `wsUrl`.
 * Source: contract features-events §9.1, §13.10.
 */
export function handshakeUrl(url: string, baseUrlPath: string, isUpgrade: boolean): string | undefined {
  const end = url.indexOf("?");
  let path = end < 0 ? url : url.slice(0, end);
  if (baseUrlPath !== "" && path.startsWith(`${baseUrlPath}/`)) path = path.slice(baseUrlPath.length);
  if (path.endsWith("/")) path = path.slice(0, -1);
  if (path !== "/events" && !(isUpgrade && path === "/api/v1/events")) return undefined;
  return ENGINE_PATH + (end < 0 ? "" : url.slice(end));
}

/**
 * The public channel, exact to the byte for existing clients: WebSocket only, event `message` of two elements in
 * `/pricings`, `/` accepted and silent, other namespaces refused without closing the connection; what clients send is
 * ignored. No connection state recovery: it adds an offset to every frame. Source: contract features-events §9.1.
 */
export function createBroadcast(options: { baseUrlPath: string }): Broadcast {
  const io = new Server({
    path: ENGINE_PATH,
    serveClient: false,
    transports: ["websocket"],
    cors: { origin: "*" },
    pingInterval: 25_000,
    pingTimeout: 20_000,
    maxHttpBufferSize: 1_000_000,
  });
  const pricings = io.of("/pricings");
  let missed: { code: string; details: Record<string, string> }[] | undefined;
  let forget: ReturnType<typeof setTimeout> | undefined;

  pricings.on("connection", (socket) => {
    for (const message of missed ?? []) socket.emit("message", message);
  });
  return {
    publish: ({ code, details }) => {
      missed?.push({ code, details });
      pricings.emit("message", { code, details });
    },
    replayToReturning: (milliseconds) => {
      missed = [];
      clearTimeout(forget);
      forget = setTimeout(() => (missed = undefined), milliseconds);
    },
    attach: (server) => {
      io.attach(server);
      const rewrite = (isUpgrade: boolean) => (request: { url?: string }) => {
        request.url = handshakeUrl(request.url ?? "/", options.baseUrlPath, isUpgrade) ?? request.url ?? "/";
      };
      server.prependListener("request", rewrite(false));
      server.prependListener("upgrade", rewrite(true));
    },
    clientCount: () => io.engine.clientsCount,
    close: () => {
      clearTimeout(forget);
      io.engine.close();
    },
  };
}
