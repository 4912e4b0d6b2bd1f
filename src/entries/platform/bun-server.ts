import { StartupProblem } from "../../db/postgres/connect.ts";
import { cannotListen } from "./http-server.ts";

/** The used part of Bun's server. Bun's own types are global and would clash with Node's. */
export interface BunServer {
  stop(closeActiveConnections?: boolean): Promise<void>;
  requestIP(request: Request): { address: string } | null;
}
interface Bun {
  serve(options: object): BunServer;
}

/**
 * Bounds of Bun's idle timeout. Bun also closes connections that await a response, or a stream between two heartbeats
 * (every 15 s), hence the minimum.
 */
const LEAST_IDLE_SECONDS = 20;
const MOST_IDLE_SECONDS = 255;

/**
 * Serves with Bun's own server, whose only timeout is the idle timeout. `variable` names the setting that chose the
 * port.
 * @throws StartupProblem when the port is unavailable or the runtime is not Bun.
 */
export function serveWithBun(
  options: { port: number; host: string | undefined; idleSeconds: number; [option: string]: unknown },
  variable: string,
): BunServer {
  const bun = (globalThis as { Bun?: Bun }).Bun;
  if (bun === undefined) throw new StartupProblem("This entry is for Bun; `npm start` is the one for Node.");
  const { port, host, idleSeconds, ...rest } = options;
  const idleTimeout = Math.min(MOST_IDLE_SECONDS, Math.max(LEAST_IDLE_SECONDS, idleSeconds));
  try {
    return bun.serve({ ...rest, idleTimeout, port, hostname: host ?? "::" });
  } catch (error) {
    throw cannotListen(error, { port, host, variable });
  }
}

/** Stops accepting connections, lets requests in flight finish, and closes by force after `deadlineMs`. */
export async function drainBun(server: BunServer, deadlineMs: number): Promise<void> {
  await Promise.race([server.stop(), new Promise((resolve) => setTimeout(resolve, deadlineMs))]);
  await server.stop(true);
}
