import { StartupProblem } from "../db/connect.ts";
import { cannotListen } from "./http-server.ts";

/** What is used of Bun's server; its types would be everybody's, and Node's are. */
export interface BunServer {
  stop(closeActiveConnections?: boolean): Promise<void>;
  requestIP(request: Request): { address: string } | null;
}
interface Bun {
  serve(options: object): BunServer;
}

/** Longer than the idle time of the usual proxies, so that it is they who close; a stream's heartbeat comes sooner. */
const IDLE_SECONDS = 75;

/**
 * Serves with Bun's own server. `variable` names the setting that chose the port. StartupProblem when it cannot listen, or
 * when this is not Bun.
 */
export function serveWithBun(
  options: { port: number; host: string | undefined; [option: string]: unknown },
  variable: string,
): BunServer {
  const bun = (globalThis as { Bun?: Bun }).Bun;
  if (bun === undefined) throw new StartupProblem("This entry is for Bun; `npm start` is the one for Node.");
  const { port, host, ...rest } = options;
  try {
    return bun.serve({ idleTimeout: IDLE_SECONDS, ...rest, port, hostname: host ?? "::" });
  } catch (error) {
    throw cannotListen(error, { port, host, variable });
  }
}

/** Takes no new connection, lets requests in flight finish, and closes by force after `deadlineMs`. */
export async function drainBun(server: BunServer, deadlineMs: number): Promise<void> {
  await Promise.race([server.stop(), new Promise((resolve) => setTimeout(resolve, deadlineMs))]);
  await server.stop(true);
}
