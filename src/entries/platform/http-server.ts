import type { Server, ServerResponse } from "node:http";
import { createServer as createNetServer, type Server as NetServer, type Socket } from "node:net";
import { createAdaptorServer } from "@hono/node-server";
import { StartupProblem } from "../../db/postgres/connect.ts";

/** Timeouts of a connection in milliseconds, and its header limit. Responses have no timeout. */
export interface ConnectionLimits {
  /** From connecting until all headers have arrived. Must not exceed `requestTimeout`. */
  headersTimeout: number;
  /** Until the whole request has arrived. */
  requestTimeout: number;
  /** Until the next request starts. Must exceed the idle timeout of proxies in front, so that they close first. */
  keepAliveTimeout: number;
  /** Total bytes of all headers. */
  maxHeaderSize: number;
}

/** Interval of Node's check for slow clients; timeouts may be exceeded by this much. */
const LOOK_EVERY_MS = 1000;

/** Grace period for the first request on a preconnected socket. */
const PRECONNECTED_MS = 500;

/** Maximum responses that wait for each other. */
const MAX_BURST = 32;

/**
 * Returns a function that delays a response until the other requests that have arrived are handled too, 32 at most. A burst of
 * responses wakes a client or proxy on the same machine once, instead of once per response, which saves a fifth of the
 * processor time of a small request.
 */
function createBursts(): () => Promise<void> {
  let burst: { size: number; sent: Promise<void>; send: () => void } | undefined;
  const sendNow = () => {
    burst?.send();
    burst = undefined;
  };
  const open = () => {
    let send = () => {};
    const sent = new Promise<void>((resolve) => (send = resolve));
    // Node runs it after the input of all sockets that are ready.
    setImmediate(sendNow);
    return { size: 0, sent, send };
  };
  return () => {
    burst ??= open();
    burst.size += 1;
    const { sent } = burst;
    if (burst.size === MAX_BURST) sendNow();
    return sent;
  };
}

/**
 * Creates an HTTP server from a fetch function, which receives `incoming` and `outgoing` as bindings. Clients that
 * exceed the limits are disconnected. Default: Node's own limits.
 */
export function createHttpServer(
  fetch: (request: Request, bindings: object) => Response | Promise<Response>,
  limits?: ConnectionLimits,
): Server {
  const sendTogether = createBursts();
  return createAdaptorServer({
    fetch: async (request: Request, bindings: object) => {
      const response = await fetch(request, bindings);
      await sendTogether();
      return response;
    },
    serverOptions: { connectionsCheckingInterval: LOOK_EVERY_MS, ...limits },
  }) as Server;
}

/**
 * Starts listening. `variable` names the setting that chose the port.
 * @throws StartupProblem when the port is unavailable.
 */
export function listen(server: NetServer, port: number, host: string | undefined, variable: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (error) => reject(cannotListen(error, { port, host, variable })));
    server.listen({ port, ...(host === undefined ? {} : { host }) }, resolve);
  });
}

/**
 * Listens once, exclusively, and stops again. `variable` names the setting that chose the port.
 * @throws StartupProblem when the port is unavailable.
 */
export async function requireFreePort(port: number, host: string | undefined, variable: string): Promise<void> {
  const probe = createNetServer();
  await listen(probe, port, host, variable);
  await new Promise((resolve) => probe.close(resolve));
}

/** Explains a listen error of any runtime, with the setting to change. */
export function cannotListen(
  error: unknown,
  { port, host, variable }: { port: number; host: string | undefined; variable: string },
): StartupProblem {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  const place = `${host ?? ""}${host === undefined ? "port " : ":"}${port}`;
  const sentence =
    code === "EADDRINUSE"
      ? `Port ${port} is already in use: stop what listens there, or set ${variable} to another port.`
      : code === "EACCES"
        ? `This user may not listen on ${place}: set ${variable} to a port above 1023.`
        : `Cannot listen on ${place} (${String(code ?? (error instanceof Error ? error.message : error))}): look at HOST and ${variable}.`;
  return new StartupProblem(sentence, { cause: error });
}

/**
 * Returns the response that Node is sending on this socket; Node has no public way to ask for it. Keeping the latest response per
 * socket would keep each request in memory until the next one, and garbage collections would take three times as long.
 */
const currentResponse = (socket: Socket & { _httpMessage?: ServerResponse | null }) => socket._httpMessage;

/**
 * Returns a function that drains the server. It stops accepting connections, lets requests in flight finish, and sends
 * `Connection: close` to keep-alive clients. It resolves when every connection is closed, by force after `deadlineMs`.
 */
export function drainable(server: Server): (deadlineMs: number) => Promise<void> {
  const sockets = new Set<Socket>();
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  /** Latest response that waited for an earlier one of its socket: the client has sent requests ahead of their answers. */
  const queued = new WeakMap<Socket, ServerResponse>();
  let draining = false;
  const closeAfter = (response: ServerResponse) => {
    if (!response.headersSent) response.setHeader("Connection", "close");
  };
  server.prependListener("request", ({ socket }, response: ServerResponse) => {
    if (response.socket === null) queued.set(socket, response);
    if (draining) closeAfter(response);
  });
  return async (deadlineMs) => {
    draining = true;
    for (const socket of sockets) {
      const last = queued.get(socket);
      // Node ends the connection after this response, so it must be the last one.
      const response = last?.writableFinished === false ? last : currentResponse(socket);
      if (response) closeAfter(response);
    }
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    const since = Date.now();
    const idle = setInterval(() => {
      server.closeIdleConnections();
      // Browsers preconnect; Node does not count a socket without a first request as idle.
      if (Date.now() - since < PRECONNECTED_MS) return;
      for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy();
    }, 50);
    const force = setTimeout(() => server.closeAllConnections(), deadlineMs);
    await closed;
    clearInterval(idle);
    clearTimeout(force);
  };
}
