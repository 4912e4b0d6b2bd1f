import { Server, type Socket } from "socket.io";
import { isPublicCode } from "../core/event-messages.ts";
import type { EventLog, OutboxEvent } from "../db/outbox.ts";
import { ENGINE_PATH, type FindOrganization, handshakeUrl, readWish, Refusal, type Wish } from "./handshake.ts";
import { bufferedBytes, connectionOf, cutSlowClients } from "./slow-clients.ts";

/** The Socket.IO side of the public channel. */
export interface Broadcast {
  /** Sends to every client of `/pricings`; events that are not for everybody are left out. */
  publish(event: Pick<OutboxEvent, "code" | "details"> & Partial<OutboxEvent>): void;
  /** For so long, sends a client that connects everything published since this call, before anything else. */
  replayToReturning(milliseconds: number): void;
  /** Serves the handshake on this HTTP server and leaves every other path to the listeners it has now. */
  attach(server: HttpServer): void;
  /** Serves the connections of another engine, such as Bun's. */
  bind(engine: object): void;
  /** Number of clients in `/pricings`. */
  clientCount(): number;
  /** Closes the transports, not the namespace, so that clients come back by themselves. */
  close(): void;
}

/** What is needed of a node:http server, which only entries may name. */
type HttpServer = Exclude<Parameters<Server["attach"]>[0], number> & {
  prependListener(event: "request" | "upgrade", listener: (request: { url?: string }) => void): unknown;
};

/** Times and sizes of the engine, as it announces them. Source: contract features-events §9.1. */
export const ENGINE_OPTIONS = { pingInterval: 25_000, pingTimeout: 20_000, maxHttpBufferSize: 1_000_000 };
/** What clients send is ignored, so what is longer than this is no mistake: it closes the connection. */
export const MAX_INBOUND_BYTES = 10 * 1024;

/** Clients that get messages of two fields. */
const PLAIN = "plain";
/** Clients that get ids too; those of one organization are in a room of their own. */
const NUMBERED = "numbered";
const roomOf = (organizationId: string | undefined) =>
  organizationId === undefined ? NUMBERED : `organization:${organizationId}`;

const REPLAY_PAGE = 100;
const RETRY_MS = 500;

/**
 * The public channel, exact to the byte for existing clients: WebSocket only, event `message` of two elements in
 * `/pricings`, `/` accepted and silent, other namespaces refused without closing the connection; what clients send is
 * ignored. No connection state recovery: it adds an offset to every frame. Source: contract features-events §9.1.
 *
 * A client that joins with `auth: { lastEventId, organizationKey? }` gets messages with their `id`, first everything after
 * `lastEventId`, in order, then `position` with the id up to which it has everything, then the live ones. Where
 * `lastEventId` is older than what is kept, or from elsewhere, it gets `resync` with the id to go on from instead: what
 * was missed has to be read from the service. Without a log nobody can ask.
 */
export function createBroadcast(options: {
  baseUrlPath: string;
  log?: EventLog;
  findOrganization?: FindOrganization;
  onError?: (error: unknown) => void;
  onCut?: (bytes: number) => void;
}): Broadcast {
  const io = new Server({
    ...ENGINE_OPTIONS,
    path: ENGINE_PATH,
    serveClient: false,
    transports: ["websocket"],
    cors: { origin: "*" },
  });
  const pricings = io.of("/pricings");
  const report = options.onError ?? (() => {});
  const unwatch = cutSlowClients(pricings, options.onCut ?? (() => {}));
  const findOrganization =
    options.findOrganization ?? (() => Promise.reject(new Refusal("organizationKey is not supported here")));
  let missed: { code: string; details: object }[] | undefined;
  let forget: ReturnType<typeof setTimeout> | undefined;

  pricings.use((socket, next) => {
    readWish(options.log === undefined ? undefined : socket.handshake.auth, findOrganization).then(
      (wish) => {
        socket.data = { wish };
        next();
      },
      (error: unknown) => {
        if (error instanceof Refusal) return next(error);
        report(error);
        // A refusal would be final for the client; a lost connection it opens again by itself.
        socket.conn.close();
      },
    );
  });
  pricings.on("connection", (socket) => {
    const { wish } = socket.data as { wish: Wish | undefined };
    if (wish !== undefined && options.log !== undefined) {
      void follow(socket, wish, options.log, report);
      return;
    }
    void socket.join(PLAIN);
    for (const message of missed ?? []) socket.emit("message", message);
  });
  return {
    publish: ({ id, code, details, organizationId }) => {
      if (!isPublicCode(code)) return;
      missed?.push({ code, details });
      pricings.to(PLAIN).emit("message", { code, details });
      const rooms = organizationId ? [NUMBERED, roomOf(organizationId)] : [NUMBERED];
      pricings.to(rooms).emit("message", { code, details, id });
    },
    replayToReturning: (milliseconds) => {
      missed = [];
      clearTimeout(forget);
      forget = setTimeout(() => (missed = undefined), milliseconds);
    },
    attach: (server) => {
      io.attach(server);
      limitInbound(io.engine);
      const rewrite = (isUpgrade: boolean) => (request: { url?: string }) => {
        request.url = handshakeUrl(request.url ?? "/", options.baseUrlPath, isUpgrade) ?? request.url ?? "/";
      };
      server.prependListener("request", rewrite(false));
      server.prependListener("upgrade", rewrite(true));
    },
    bind: (engine) => void io.bind(engine as Parameters<Server["bind"]>[0]),
    clientCount: () => pricings.sockets.size,
    close: () => {
      clearTimeout(forget);
      unwatch();
      io.engine.close();
    },
  };
}

/** Sends everything after the client's last event and then lets it into the room of the live ones: no gap, nothing twice. */
async function follow(socket: Socket, wish: Wish, log: EventLog, report: (error: unknown) => void): Promise<void> {
  const { filter } = wish;
  let at = wish.lastEventId ?? log.position();
  const gone = new AbortController();
  socket.once("disconnect", () => gone.abort());
  while (!gone.signal.aborted) {
    try {
      const page = await log.read(at, filter, REPLAY_PAGE);
      if (page.lost) socket.emit("resync", { id: page.position });
      for (const { id, code, details } of page.events) socket.emit("message", { code, details, id });
      at = page.position;
      // From here to the room there is no pause in which something could be published.
      if (at === log.position()) {
        socket.emit("position", { id: at });
        void socket.join(roomOf(filter.organizationId));
        return;
      }
      // Ahead: the client comes from a server that was quicker.
      if (at > log.position()) await log.moved(at - 1, gone.signal);
      else await drained(socket, gone.signal);
    } catch (error) {
      report(error);
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
}

/** Resolves when nothing waits for this client any more. */
async function drained(socket: Socket, signal: AbortSignal): Promise<void> {
  const connection = connectionOf(socket);
  while (!signal.aborted && (!connection.transport.writable || bufferedBytes(connection) > 0)) {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

type WebSocketServer = new (options: { maxPayload?: number }) => object;

/** The engine announces one number for both directions, and clients rely on it; what is enforced is less. */
function limitInbound(engine: object): void {
  const { opts, init } = engine as { opts: { wsEngine: WebSocketServer }; init(): void };
  const Unlimited = opts.wsEngine;
  opts.wsEngine = class extends Unlimited {
    constructor(given: { maxPayload?: number }) {
      super({ ...given, maxPayload: MAX_INBOUND_BYTES });
    }
  };
  // It does the same whenever the HTTP server begins to listen.
  init.call(engine);
}
