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

/** The Socket.IO side of the public channel. */
export interface Broadcast {
  /** Sends to every client of `/pricings`; events that are not for everybody are left out. */
  publish(event: Pick<OutboxEvent, "code" | "details"> & Partial<OutboxEvent>): void;
  /**
   * Sends to plain clients that are connected now and to those of the sender's organization. Clients that keep ids get the
   * id of the event before it: one that resumes from there misses nothing. Source: contract README, decision 6.
   */
  publishTest(notice: TestNotice): void;
  /** For so long, sends a client that connects everything published since this call, before anything else. */
  replayToReturning(milliseconds: number): void;
  /** Serves the handshake on this HTTP server and leaves every other path to the listeners it has now. */
  attach(server: HttpServer): void;
  /** Serves the connections of another engine, such as Bun's. */
  bind(engine: object): void;
  /** Number of clients in `/pricings`. */
  clientCount(): number;
  /**
   * Closes the transports, not the namespace, so that clients come back by themselves: many of them over up to 5 s, so that
   * they do not all come back at once.
   */
  close(): Promise<void>;
}

/** What is needed of a node:http server, which only entries may name. */
type HttpServer = Exclude<Parameters<Server["attach"]>[0], number> & {
  prependListener(event: "request" | "upgrade", listener: (request: { url?: string }) => void): unknown;
};

/** Times and sizes of the engine, as it announces them. Source: contract features-events §9.1. */
export const ENGINE_OPTIONS = { pingInterval: 25_000, pingTimeout: 20_000, maxHttpBufferSize: 1_000_000 };
/** What clients send is ignored, so what is longer than this is no mistake: it closes the connection. */
const MAX_INBOUND_BYTES = 10 * 1024;

/** Clients that get messages of two fields. */
const PLAIN = "plain";
/** Clients that get ids too; those of one organization are in a room of their own. */
const NUMBERED = "numbered";
const roomOf = (organizationId: string | undefined) =>
  organizationId === undefined ? NUMBERED : `organization:${organizationId}`;

/** Clients that are sent to before anybody else is let in: some five milliseconds. */
const SLICE = 100;
/** Clients whose connections are closed at once, and the time over which all of them are at most. */
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
  /** Finds the organization of a key that was shown from this address; Refusal for a wrong one. */
  findOrganization?: (organizationKey: string, address: string) => Promise<string>;
  /** Longest message from a client; absent: the usual one. On Bun its own server is told. */
  maxInboundBytes?: number;
  /** Connections an address may have; 0 or absent: any number. */
  maxPerAddress?: number;
  /** Proxies in front, each of which adds itself to X-Forwarded-For. */
  trustedProxies?: number;
  /** With clients that do not read; absent: the usual one. */
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
        // A refusal would be final for the client; a lost connection it opens again by itself.
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
 * Sends to everybody who is in the rooms at the time of the call, in the order of the calls, and lets others in between
 * slices: ten thousand clients in one go would be half a second in which nothing else happens. Who joins later is not among
 * them: it has been told, or will be, what came before.
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
    // Without a room, it would be everybody.
    if (ids.length === 0) return;
    waiting.push({ ids, message });
    if (waiting.length === 1) work();
  };
}

/** Sends everything after the client's last event and then lets it into the room of the live ones: no gap, nothing twice. */
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

/** What is used of the engine on Node. */
interface Engine {
  opts: { allowRequest?: (request: Incoming, done: (error: string | null, allowed: boolean) => void) => void };
  on(event: "connection", listener: (connection: { request: Incoming; once: OnceClosed }) => void): void;
}
interface Incoming {
  headers: Record<string, string | string[] | undefined>;
  socket: { remoteAddress?: string };
}
type OnceClosed = (event: "close", listener: () => void) => void;

/** Refuses the handshake of an address that has too many connections in this process. */
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

/** The engine announces one number for both directions, and clients rely on it; what is enforced is less. */
function limitInbound(engine: object, maxPayload: number): void {
  const { opts, init } = engine as { opts: { wsEngine: WebSocketServer }; init(): void };
  const Unlimited = opts.wsEngine;
  opts.wsEngine = class extends Unlimited {
    constructor(given: { maxPayload?: number }) {
      super({ ...given, maxPayload });
    }
  };
  // It does the same whenever the HTTP server begins to listen.
  init.call(engine);
}
