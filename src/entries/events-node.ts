import { openEventServer } from "./event-server.ts";
import { createHttpServer, drainable, listen } from "./http-server.ts";
import { runProcess } from "./lifecycle.ts";
import { connectionLimitsOf } from "./settings.ts";

/* The event server on Node: EVENTS_PORT, one origin for the socket and, unless EVENTS_ONLY, for the application. */
await runProcess("events", async (started) => {
  const { config, log } = started;
  const events = await openEventServer(started);
  const server = createHttpServer(events.fetch, connectionLimitsOf(config));
  events.broadcast.attach(server);
  const drain = drainable(server);
  await listen(server, config.EVENTS_PORT, config.HOST, "EVENTS_PORT");
  log("info", "the event server is listening", { port: config.EVENTS_PORT, after: events.position() });
  return async () => {
    await events.beginStop();
    const drained = drain(10_000);
    await events.broadcast.close();
    await drained;
    await events.close();
  };
});
