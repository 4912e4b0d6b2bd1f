import { type Namespace, Server, type Socket } from "socket.io";
import { forwardedAddress } from "../core/access/forwarded.ts";
import { isPublicCode } from "../core/event-messages.ts";
import type { EventLog, OutboxEvent } from "../db/queries/outbox.ts";
import type { TestNotice } from "../db/queries/test-events.ts";
import {
  ENGINE_PATH,
  type FindOrganization,
  handshakeUrl,
  parseAuth,
  HandshakeError,
  type ResumeRequest,
} from "./handshake.ts";
import { createAddressLimit } from "./address-limit.ts";
import { bufferedBytes, connectionOf, cutSlowClients, type Patience } from "./slow-clients.ts";

/** The public Socket.IO channel. */
export interface Broadcast {
  /** Sends an event to every client of `/pricings`. Skips private events. */
  publish(event: Pick<OutboxEvent, "code" | "details"> & Partial<OutboxEvent>): void;
  /**
   * Sends a test event to connected plain clients, and to clients of the sender's organization. Clients with ids get
   * the id of the previous event, so that resuming from it misses nothing. Source: contract README, decision 6.
   */
  publishTest(notice: TestNotice): void;
  /** Until this time is over, each client that connects first receives everything that was published since this call. */
  replayToReturning(milliseconds: number): void;
  /** Serves the handshake on this HTTP server. Existing listeners keep every other path. */
  attach(server: HttpServer): void;
  /** Serves the connections of another engine, such as Bun's. */
  bind(engine: object): void;
  /** Number of clients in `/pricings`. */
  clientCount(): number;
  /**
   * Closes the transports, not the namespace, so that clients reconnect automatically. Many clients are closed over up
   * to 5 s, so that they do not reconnect at the same time.
   */
  close(): Promise<void>;
}

/** The part of node:http's server that is used; only entries may import it. */
type HttpServer = Exclude<Parameters<Server["attach"]>[0], number> & {
  prependListener(event: "request" | "upgrade", listener: (request: { url?: string }) => void): unknown;
};

/** Timings and sizes that the engine announces. Source: contract features-events §9.1. */
export const ENGINE_OPTIONS = { pingInterval: 25_000, pingTimeout: 20_000, maxHttpBufferSize: 1_000_000 };
/** The server ignores messages of clients, so a longer one closes the connection. */
const MAX_INBOUND_BYTES = 10 * 1024;

/** Room of clients that get messages of two fields. */
const PLAIN = "plain";
/** Room of clients that get ids too. Each organization has its own room of them. */
const NUMBERED = "numbered";
const roomOf = (organizationId: string | undefined) =>
  organizationId === undefined ? NUMBERED : `organization:${organizationId}`;

/** Clients per slice of a broadcast: about five milliseconds. */
const SLICE = 100;
/** Clients disconnected at once, and the maximum time to disconnect all of them. */
const CLOSED_AT_ONCE = 200;
const CLOSE_SPREAD_MS = 5000;
const CLOSE_TURN_MS = 50;

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
  /** Finds the organization of a key sent from this address. Rejects with HandshakeError for an invalid key. */
  findOrganization?: (organizationKey: string, address: string) => Promise<string>;
  /** Maximum length of a client's message. Default: 10 KB. Bun configures it in its own server. */
  maxInboundBytes?: number;
  /** Maximum connections per address. Default: unlimited. */
  maxPerAddress?: number;
  /** Number of proxies that append to X-Forwarded-For. */
  trustedProxies?: number;
  /** Limits for clients that do not read. Default: see slow-clients.ts. */
  patience?: Patience | undefined;
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
  const unwatch = cutSlowClients(pricings, options.onCut ?? (() => {}), options.patience);
  const findOrganization =
    options.findOrganization ?? (() => Promise.reject(new HandshakeError("organizationKey is not supported here")));
  const { maxPerAddress = 0, trustedProxies = 0 } = options;
  let missed: { code: string; details: object }[] | undefined;
  let forget: ReturnType<typeof setTimeout> | undefined;

  pricings.use((socket, next) => {
    const { auth, headers, address } = socket.handshake;
    const from = forwardedAddress(headers["x-forwarded-for"], trustedProxies) ?? address ?? "";
    const find: FindOrganization = (key) => findOrganization(key, from);
    parseAuth(options.log === undefined ? undefined : auth, find).then(
      (wish) => {
        socket.data = { wish };
        next();
      },
      (error: unknown) => {
        if (error instanceof HandshakeError) return next(error);
        report(error);
        // Clients do not retry after a rejection, but they do after a lost connection.
        socket.conn.close();
      },
    );
  });
  pricings.on("connection", (socket) => {
    const { wish } = socket.data as { wish: ResumeRequest | undefined };
    if (wish !== undefined && options.log !== undefined) {
      void follow(socket, wish, options.log, report);
      return;
    }
    void socket.join(PLAIN);
    for (const message of missed ?? []) socket.emit("message", message);
  });
  const send = sendInSlices(pricings);
  return {
    publish: ({ id, code, details, organizationId }) => {
      if (!isPublicCode(code)) return;
      missed?.push({ code, details });
      send([PLAIN], { code, details });
      send(organizationId ? [NUMBERED, roomOf(organizationId)] : [NUMBERED], { code, details, id });
    },
    publishTest: ({ organizationId, event: { code, details } }) => {
      send([PLAIN], { code, details });
      if (organizationId === null) return;
      send([roomOf(organizationId)], { code, details, id: options.log?.position() });
    },
    replayToReturning: (milliseconds) => {
      missed = [];
      clearTimeout(forget);
      forget = setTimeout(() => (missed = undefined), milliseconds);
    },
    attach: (server) => {
      io.attach(server);
      limitInbound(io.engine, options.maxInboundBytes ?? MAX_INBOUND_BYTES);
      if (maxPerAddress > 0) limitAddresses(io.engine, maxPerAddress, trustedProxies);
      const rewrite = (isUpgrade: boolean) => (request: { url?: string }) => {
        request.url = handshakeUrl(request.url ?? "/", options.baseUrlPath, isUpgrade) ?? request.url ?? "/";
      };
      server.prependListener("request", rewrite(false));
      server.prependListener("upgrade", rewrite(true));
    },
    bind: (engine) => void io.bind(engine as Parameters<Server["bind"]>[0]),
    clientCount: () => pricings.sockets.size,
    close: async () => {
      clearTimeout(forget);
      unwatch();
      const sockets = [...pricings.sockets.values()];
      const turns = Math.min(Math.floor(sockets.length / CLOSED_AT_ONCE), CLOSE_SPREAD_MS / CLOSE_TURN_MS);
      for (let turn = 0; turn < turns; turn += 1) {
        const rest = Math.ceil((sockets.length * (turns - turn)) / (turns + 1));
        for (const socket of sockets.splice(rest)) socket.conn.close();
        await new Promise((resolve) => setTimeout(resolve, CLOSE_TURN_MS));
      }
      io.engine.close();
    },
  };
}

/**
 * Sends to every client in the rooms at the time of the call, in call order. Yields between slices, because ten
 * thousand clients in one go block for half a second. Clients that join later have received the message by replay, or
 * will.
 */
function sendInSlices(pricings: Namespace): (rooms: readonly string[], message: object) => void {
  const waiting: { ids: string[]; message: object }[] = [];
  const work = () => {
    const first = waiting[0];
    if (first === undefined) return;
    pricings.to(first.ids.splice(0, SLICE)).emit("message", first.message);
    if (first.ids.length === 0) waiting.shift();
    if (waiting.length > 0) setTimeout(work, 0);
  };
  return (rooms, message) => {
    const ids = [...new Set(rooms.flatMap((room) => [...(pricings.adapter.rooms.get(room) ?? [])]))];
    // An empty list of rooms would address everybody.
    if (ids.length === 0) return;
    waiting.push({ ids, message });
    if (waiting.length === 1) work();
  };
}

/**
 * Sends everything after the client's last event, then adds it to the room of live clients. Without gaps or duplicates.
 */
async function follow(
  socket: Socket,
  wish: ResumeRequest,
  log: EventLog,
  report: (error: unknown) => void,
): Promise<void> {
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
      // No await from here to the room, so nothing is published in between.
      if (at === log.position()) {
        socket.emit("position", { id: at });
        void socket.join(roomOf(filter.organizationId));
        return;
      }
      // The client is ahead: it comes from a faster server.
      if (at > log.position()) await log.moved(at - 1, gone.signal);
      else await drained(socket, gone.signal);
    } catch (error) {
      report(error);
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
}

/** Resolves when nothing is buffered for this client. */
async function drained(socket: Socket, signal: AbortSignal): Promise<void> {
  const connection = connectionOf(socket);
  while (!signal.aborted && (!connection.transport.writable || bufferedBytes(connection) > 0)) {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** The part of Node's engine that is used. */
interface Engine {
  opts: { allowRequest?: (request: Incoming, done: (error: string | null, allowed: boolean) => void) => void };
  on(event: "connection", listener: (connection: { request: Incoming; once: OnceClosed }) => void): void;
}
interface Incoming {
  headers: Record<string, string | string[] | undefined>;
  socket: { remoteAddress?: string };
}
type OnceClosed = (event: "close", listener: () => void) => void;

/** Rejects the handshake of an address with too many connections in this process. */
function limitAddresses(given: object, limit: number, trustedProxies: number): void {
  const engine = given as Engine;
  const limits = createAddressLimit(limit);
  const from = ({ headers, socket }: Incoming) =>
    forwardedAddress(headers["x-forwarded-for"], trustedProxies) ?? socket.remoteAddress ?? "";
  engine.opts.allowRequest = (request, done) => done("too many connections", limits.allows(from(request)));
  engine.on("connection", (connection) => {
    const closed = limits.opened(from(connection.request));
    connection.once("close", closed);
  });
}

type WebSocketServer = new (options: { maxPayload?: number }) => object;

/**
 * Enforces a smaller message size than the engine announces: it announces one number for both directions, and clients
 * rely on it.
 */
function limitInbound(engine: object, maxPayload: number): void {
  const { opts, init } = engine as { opts: { wsEngine: WebSocketServer }; init(): void };
  const Unlimited = opts.wsEngine;
  opts.wsEngine = class extends Unlimited {
    constructor(given: { maxPayload?: number }) {
      super({ ...given, maxPayload });
    }
  };
  // The engine repeats this whenever the HTTP server starts to listen.
  init.call(engine);
}
