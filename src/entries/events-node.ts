import { connect } from "../db/connect.ts";
import { createBroadcast } from "../events/broadcast.ts";
import { createFeed } from "../events/feed.ts";
import { databaseOf } from "./config.ts";
import { createHttpServer, drainable, listen } from "./http-server.ts";
import { runProcess } from "./lifecycle.ts";
import { openApplication } from "./resources.ts";

/** Clients wait up to 5 s between attempts to come back; who is back within this gets what was recorded meanwhile. */
const RETURN_MS = 10_000;

/*
 * The event server on Node: EVENTS_PORT, one origin for the socket and, unless EVENTS_ONLY, for the application.
 *
 * Started anew after a crash, it is told by the launcher which event its predecessor had handed over last (RESUME_AFTER),
 * reads on from there, and repeats what it reads to each client that connects in the first seconds: they were all cut off
 * together. Without that position it starts at the newest event: what was recorded before is for those who ask by id.
 */
await runProcess("events", async ({ config, log, tell, hasLauncher }) => {
  const { databaseUrl, secrets } = databaseOf(config, hasLauncher);
  const resumeAfter = process.env["RESUME_AFTER"];
  const broadcast = createBroadcast({ baseUrlPath: config.BASE_URL_PATH });
  if (resumeAfter !== undefined) broadcast.replayToReturning(RETURN_MS);
  const connection = connect(databaseUrl, { maxConnections: 1, applicationName: "faregate-events-feed" });
  let failing = false;
  const feed = createFeed({
    connection,
    after: resumeAfter === undefined ? undefined : Number(resumeAfter),
    onEvent: (event) => {
      failing = false;
      broadcast.publish(event);
      log("debug", "event published", { id: event.id, code: event.code, clients: broadcast.clientCount() });
    },
    onPosition: (id) => tell({ type: "position", id }),
    onError: (error) => {
      if (!failing) log("warn", "the outbox cannot be read for now", error);
      failing = true;
    },
  });
  const rest = config.EVENTS_ONLY
    ? undefined
    : await openApplication(config, secrets, { databaseUrl, applicationName: "faregate-events-rest", log });
  const server = createHttpServer((request, bindings) =>
    rest === undefined ? Response.json({ error: "Not found" }, { status: 404 }) : rest.app.fetch(request, bindings),
  );
  broadcast.attach(server);
  const drain = drainable(server);
  await feed.started;
  await listen(server, config.EVENTS_PORT, config.HOST, "EVENTS_PORT");
  log("info", "the event server is listening", { port: config.EVENTS_PORT, after: feed.position() });
  return async () => {
    await feed.stop();
    const drained = drain(10_000);
    broadcast.close();
    await drained;
    await Promise.all([connection.close(), rest?.close()]);
  };
});
