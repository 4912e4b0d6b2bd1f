import { StartupProblem } from "../../db/postgres/connect.ts";
import { cannotListen } from "./http-server.ts";

/** What is used of Bun's server; its types would be everybody's, and Node's are. */
export interface BunServer {
  stop(closeActiveConnections?: boolean): Promise<void>;
  requestIP(request: Request): { address: string } | null;
}
interface Bun {
  serve(options: object): BunServer;
}

/**
 * What Bun takes. It ends a connection over which nothing has gone for so long, also while an answer is awaited or a stream
 * is silent between two heartbeats, of 15 s.
 */
const LEAST_IDLE_SECONDS = 20;
const MOST_IDLE_SECONDS = 255;

/**
 * Serves with Bun's own server, which has no other time-outs. `variable` names the setting that chose the port. StartupProblem when it cannot listen, or
 * when this is not Bun.
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

/** Takes no new connection, lets requests in flight finish, and closes by force after `deadlineMs`. */
export async function drainBun(server: BunServer, deadlineMs: number): Promise<void> {
  await Promise.race([server.stop(), new Promise((resolve) => setTimeout(resolve, deadlineMs))]);
  await server.stop(true);
}
