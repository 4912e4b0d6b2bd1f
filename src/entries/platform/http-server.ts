import type { Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { createAdaptorServer } from "@hono/node-server";
import { StartupProblem } from "../../db/postgres/connect.ts";

/** Bounds of a connection; times in milliseconds. A request that is being worked on is not limited. */
export interface ConnectionLimits {
  /** Until the headers are there, from the connection on; not longer than `requestTimeout`. */
  headersTimeout: number;
  /** Until the whole request is there. */
  requestTimeout: number;
  /** Until the next request begins. Longer than the idle time of proxies in front, so that it is they who close. */
  keepAliveTimeout: number;
  /** Bytes of all headers together. */
  maxHeaderSize: number;
}

/** How often Node looks for clients that are too slow, and so how much longer than their time they may have. */
const LOOK_EVERY_MS = 1000;

/** A request on its way over a connection that was opened for it arrives within this. */
const PRECONNECTED_MS = 500;

/**
 * An HTTP server over a fetch function; `incoming` and `outgoing` are passed as its bindings. Who is slower, or sends more
 * headers, than the limits allow is cut; without limits, those of Node hold.
 */
export function createHttpServer(
  fetch: (request: Request, bindings: object) => Response | Promise<Response>,
  limits?: ConnectionLimits,
): Server {
  return createAdaptorServer({
    fetch,
    serverOptions: { connectionsCheckingInterval: LOOK_EVERY_MS, ...limits },
  }) as Server;
}

/** Listens; StartupProblem with one sentence when it cannot. `variable` names the setting that chose the port. */
export function listen(server: Server, port: number, host: string | undefined, variable: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (error) => reject(cannotListen(error, { port, host, variable })));
    server.listen({ port, ...(host === undefined ? {} : { host }) }, resolve);
  });
}

/** Why a server cannot listen, on whichever runtime, and which setting to look at. */
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
 * Returns a function that takes no new connection, lets requests in flight finish, asks clients to close kept ones, and
 * returns when nothing is open any more, or by force after `deadlineMs`.
 */
export function drainable(server: Server): (deadlineMs: number) => Promise<void> {
  /** Each with the last answer on it: kept until the next one, which costs less than to take note of its end. */
  const connections = new Map<Socket, ServerResponse | undefined>();
  let draining = false;
  const closeAfter = (response: ServerResponse) => {
    if (!response.headersSent) response.setHeader("Connection", "close");
  };
  server.prependListener("request", ({ socket }, response: ServerResponse) => {
    connections.set(socket, response);
    if (draining) closeAfter(response);
  });
  server.on("connection", (socket) => {
    connections.set(socket, undefined);
    socket.once("close", () => connections.delete(socket));
  });
  return async (deadlineMs) => {
    draining = true;
    for (const response of connections.values()) if (response !== undefined) closeAfter(response);
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    const since = Date.now();
    const idle = setInterval(() => {
      server.closeIdleConnections();
      // Clients connect ahead of a need; what has never been used is not idle to Node.
      if (Date.now() - since < PRECONNECTED_MS) return;
      for (const socket of connections.keys()) if (socket.bytesRead === 0) socket.destroy();
    }, 50);
    const force = setTimeout(() => server.closeAllConnections(), deadlineMs);
    await closed;
    clearInterval(idle);
    clearTimeout(force);
  };
}
