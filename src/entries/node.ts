import { createHttpServer, drainable, listen } from "./http-server.ts";
import { runRest } from "./rest-process.ts";

/* The REST process on Node. Any number of them may share a database. */
await runRest(async ({ fetch, port, host }) => {
  const server = createHttpServer(fetch);
  const drain = drainable(server);
  await listen(server, port, host, "PORT");
  return drain;
});
