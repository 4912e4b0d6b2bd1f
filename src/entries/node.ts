import { databaseOf } from "./config.ts";
import { createHttpServer, drainable, listen } from "./http-server.ts";
import { runProcess } from "./lifecycle.ts";
import { openApplication } from "./resources.ts";

/* The REST process on Node: PORT. Any number of them may share a database. */
await runProcess("rest", async ({ config, log, hasLauncher }) => {
  const { databaseUrl, secrets } = databaseOf(config, hasLauncher);
  const { app, endStreams, close } = await openApplication(config, secrets, {
    databaseUrl,
    applicationName: "faregate-rest",
    log,
  });
  const server = createHttpServer((request, bindings) => app.fetch(request, bindings));
  const drain = drainable(server);
  await listen(server, config.PORT, config.HOST, "PORT");
  log("info", "REST is listening", { port: config.PORT });
  return async () => {
    endStreams();
    await drain(10_000);
    await close();
  };
});
