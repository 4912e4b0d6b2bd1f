import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Server as SocketServer } from "socket.io";
import { createTestToken } from "../../../src/client/front/test-token.ts";

/** One request for a token. */
export interface TokenCall {
  method: string;
  path: string;
  headers: IncomingMessage["headers"];
  body: string;
}

/** Handler of the token route. Default: a token with `zoom-meetings` on for the user. */
export type TokenAnswer = (userId: string, response: ServerResponse) => void;

/** A stock Socket.IO server with the token route, as one origin; what Faregate's own server looks like to a client. */
export interface LiveServer {
  url: string;
  port: number;
  /** Every upgrade request's path, in order. */
  handshakes: string[];
  /** Called at each upgrade request, before it is answered. */
  upgraded: () => void;
  /** Every namespace that a client asked for, in order. */
  joined: string[];
  calls: TokenCall[];
  answer: TokenAnswer;
  /** Engine connections open at this moment. */
  connections(): number;
  /** Sends a `message` to everybody in /pricings. */
  send(message: unknown): void;
  sockets: SocketServer;
  close(): Promise<void>;
}

/** Answers with this token, or status and body. */
export function answerWith(response: ServerResponse, body: unknown, status = 200): void {
  response.writeHead(status, { "content-type": "application/json", "access-control-allow-origin": "*" });
  response.end(JSON.stringify(body));
}

/** Answers at once with a token of `zoom-meetings` whose `sub` is the user. */
export function grant(userId: string, response: ServerResponse): void {
  answerWith(response, { pricingToken: createTestToken({ sub: userId, features: { "zoom-meetings": true } }) });
}

/** Starts it on a free port, or on this one. */
export async function startLiveServer(
  options: { port?: number; prefix?: string; refuse?: () => boolean } = {},
): Promise<LiveServer> {
  const prefix = options.prefix ?? "";
  const http: Server = createServer((request, response) => {
    if (request.method === "OPTIONS") {
      const allowed = { "access-control-allow-origin": "*", "access-control-allow-headers": "*" };
      response.writeHead(204, allowed).end();
      return;
    }
    let body = "";
    request.on("data", (chunk: Buffer) => (body += chunk.toString()));
    request.on("end", () => {
      const { method = "", url = "", headers } = request;
      const userId = url.slice(`${prefix}/api/v1/features/`.length, -"/pricing-token".length);
      live.calls.push({ method, path: url, headers, body });
      live.answer(decodeURIComponent(userId), response);
    });
  });
  const sockets = new SocketServer(http, {
    path: `${prefix}/events/`,
    transports: ["websocket"],
    cors: { origin: "*" },
  });
  const pricings = sockets.of("/pricings");
  pricings.use((_socket, next) => next(options.refuse?.() === true ? new Error("refused") : undefined));
  const live: LiveServer = {
    url: "",
    port: 0,
    handshakes: [],
    upgraded: () => {},
    joined: [],
    calls: [],
    answer: grant,
    connections: () => sockets.engine.clientsCount,
    send: (message) => pricings.emit("message", message),
    sockets,
    close: async () => {
      http.closeAllConnections();
      await sockets.close();
    },
  };
  pricings.on("connection", () => live.joined.push("/pricings"));
  sockets.on("connection", () => live.joined.push("/"));
  http.prependListener("upgrade", (request) => {
    live.handshakes.push(request.url ?? "");
    live.upgraded();
  });
  await new Promise<void>((done) => http.listen(options.port ?? 0, "127.0.0.1", done));
  live.port = (http.address() as AddressInfo).port;
  live.url = `http://127.0.0.1:${live.port}${prefix}`;
  return live;
}
