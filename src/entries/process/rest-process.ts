import { MIGRATIONS } from "../platform/migrations.ts";
import { requireMigrated } from "../../db/migrate.ts";
import type { Config } from "./config.ts";
import { databaseOf } from "./given-secrets.ts";
import { reachDatabase } from "./database-access.ts";
import { runProcess } from "./lifecycle.ts";
import { openApplication } from "./resources.ts";
import { metricsOfAll, workerNumber } from "./worker-metrics.ts";

/** The application and where a runtime serves it. */
export interface Served {
  /** `bindings.clientAddress` is the peer's address, for runtimes whose bindings do not expose it. */
  fetch(request: Request, bindings: object): Response | Promise<Response>;
  port: number;
  /** Default: all interfaces, IPv4 and IPv6. */
  host: string | undefined;
  /** True if other workers listen on this port too, with SO_REUSEPORT. */
  reusePort: boolean;
  /** Settings of connections. */
  config: Config;
}

/** Waits for requests in flight, at most `deadlineMs`, and resolves when no connection is open. */
export type Drain = (deadlineMs: number) => Promise<void>;

/** Runs the REST process on PORT. `listen` starts the runtime's own server. */
export function runRest(listen: (served: Served) => Drain | Promise<Drain>): Promise<void> {
  return runProcess("rest", async ({ config, log, hasLauncher }) => {
    const { databaseUrl, secrets } = databaseOf(config, hasLauncher);
    const database = await reachDatabase(config, databaseUrl);
    if (!hasLauncher) await requireMigrated(database.requests, MIGRATIONS);
    const { app, health, endStreams, close } = await openApplication(config, secrets, {
      database,
      applicationName: "faregate-rest",
      log,
    });
    health.metrics = metricsOfAll(health.metrics);
    const drain = await listen({
      fetch: (request, bindings) => app.fetch(request, bindings),
      port: config.PORT,
      host: config.HOST,
      reusePort: workerNumber() !== undefined,
      config,
    });
    log("info", "REST is listening", { port: config.PORT });
    return async () => {
      await health.drain();
      endStreams();
      await drain(10_000);
      await close();
    };
  });
}
