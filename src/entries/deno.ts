import { StartupProblem } from "../db/postgres/connect.ts";
import { runWorkers, wantsWorkers } from "./launcher/workers.ts";
import { cannotListen } from "./platform/http-server.ts";
import { runRest } from "./process/rest-process.ts";

/** The part of Deno's server API that is used. Deno's own types would conflict with Node's. */
interface Deno {
  serve(
    options: { port: number; hostname: string; reusePort: boolean; signal: AbortSignal; onListen: () => void },
    handler: (request: Request, info: { remoteAddr: { hostname: string } }) => Response | Promise<Response>,
  ): { shutdown(): Promise<void> };
}

/* The REST process on Deno, or several with WORKERS. Any number of them may share a database. */
await (wantsWorkers(process.env)
  ? runWorkers()
  : runRest(({ fetch, port, host, reusePort }) => {
      const deno = (globalThis as unknown as { Deno?: Deno }).Deno;
      if (deno === undefined) throw new StartupProblem("This entry is for Deno; `npm start` is the one for Node.");
      const force = new AbortController();
      const options = { port, hostname: host ?? "::", reusePort, signal: force.signal, onListen: () => {} };
      try {
        const server = deno.serve(options, (request, { remoteAddr }) =>
          fetch(request, { clientAddress: () => remoteAddr.hostname }),
        );
        return async (deadlineMs) => {
          const forced = setTimeout(() => force.abort(), deadlineMs);
          await server.shutdown();
          clearTimeout(forced);
        };
      } catch (error) {
        throw cannotListen(error, { port, host, variable: "PORT" });
      }
    }));
