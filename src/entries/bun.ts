import { drainBun, serveWithBun, type BunServer } from "./platform/bun-server.ts";
import { requireOneWorker } from "./process/config.ts";
import { runRest } from "./process/rest-process.ts";

/* The REST process on Bun. Any number of them may share a database. */
await runRest(({ fetch, port, host, config }) => {
  requireOneWorker(config);
  const server = serveWithBun(
    {
      port,
      host,
      idleSeconds: config.IDLE_TIMEOUT,
      fetch: (request: Request, server: BunServer) =>
        fetch(request, { clientAddress: () => server.requestIP(request)?.address ?? "" }),
    },
    "PORT",
  );
  return (deadlineMs) => drainBun(server, deadlineMs);
});
