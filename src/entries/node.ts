import { createApp } from "../http/app.ts";
import { databaseOf } from "./config.ts";
import { createHttpServer, drainable, listen } from "./http-server.ts";
import { runProcess } from "./lifecycle.ts";
import { openResources } from "./resources.ts";

/* The REST process on Node: PORT. Any number of them may share a database. */
await runProcess("rest", async ({ config, log, hasLauncher }) => {
  const { databaseUrl, secrets } = databaseOf(config, hasLauncher);
  const { resources, close } = await openResources(config, secrets, {
    databaseUrl,
    applicationName: "faregate-rest",
    log,
  });
  const app = createApp({
    open: () => resources,
    settings: { allowedOrigins: config.ALLOWED_ORIGINS, baseUrlPath: config.BASE_URL_PATH },
    log,
  });
  const server = createHttpServer((request, bindings) => app.fetch(request, bindings));
  const drain = drainable(server);
  await listen(server, config.PORT, config.HOST, "PORT");
  log("info", "REST is listening", { port: config.PORT });
  return async () => {
    await drain(10_000);
    await close();
  };
});
