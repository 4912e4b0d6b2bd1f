import { createHttpServer, drainable, listen } from "./platform/http-server.ts";
import { runRest } from "./process/rest-process.ts";
import { connectionLimitsOf } from "./process/settings.ts";
import { drainWithoutPrimary, forkWorker } from "./launcher/cluster.ts";
import { runWorkers, wantsWorkers } from "./launcher/workers.ts";

/* The REST process on Node, or several with WORKERS. Any number of them may share a database. */
await (wantsWorkers(process.env)
  ? runWorkers(forkWorker)
  : runRest(async ({ fetch, port, host, config }) => {
      drainWithoutPrimary();
      const server = createHttpServer(fetch, connectionLimitsOf(config));
      const drain = drainable(server);
      await listen(server, port, host, "PORT");
      return drain;
    }));
