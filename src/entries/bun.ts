import { runWorkers, wantsWorkers } from "./launcher/workers.ts";
import { drainBun, serveWithBun, type BunServer } from "./platform/bun-server.ts";
import { runRest } from "./process/rest-process.ts";

/* The REST process on Bun, or several with WORKERS. Any number of them may share a database. */
await (wantsWorkers(process.env)
  ? runWorkers()
  : runRest(({ fetch, port, host, reusePort, config }) => {
      const server = serveWithBun(
        {
          port,
          host,
          reusePort,
          idleSeconds: config.IDLE_TIMEOUT,
          fetch: (request: Request, server: BunServer) =>
            fetch(request, { clientAddress: () => server.requestIP(request)?.address ?? "" }),
        },
        "PORT",
      );
      return (deadlineMs) => drainBun(server, deadlineMs);
    }));
