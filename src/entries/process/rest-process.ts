import { MIGRATIONS } from "../platform/assets.ts";
import { requireMigrated } from "../../db/migrate.ts";
import { type Config, databaseOf } from "./config.ts";
import { runProcess } from "./lifecycle.ts";
import { openApplication } from "./resources.ts";

/** What a runtime serves, and where. */
export interface Served {
  /** `bindings.clientAddress` is the address that is connected, for the runtimes whose bindings do not show it. */
  fetch(request: Request, bindings: object): Response | Promise<Response>;
  port: number;
  /** Unset: every address of the machine, IPv4 and IPv6. */
  host: string | undefined;
  /** What the operator has set for connections. */
  config: Config;
}

/** Lets requests in flight finish, at most so long, and returns when nothing is open any more. */
export type Drain = (deadlineMs: number) => Promise<void>;

/** The REST process, on PORT, from start to end; `listen` is what a runtime does in its own way. */
export function runRest(listen: (served: Served) => Drain | Promise<Drain>): Promise<void> {
  return runProcess("rest", async ({ config, log, hasLauncher }) => {
    const { databaseUrl, secrets } = databaseOf(config, hasLauncher);
    if (!hasLauncher) await requireMigrated(databaseUrl, MIGRATIONS);
    const { app, health, endStreams, close } = await openApplication(config, secrets, {
      databaseUrl,
      applicationName: "faregate-rest",
      log,
    });
    const drain = await listen({
      fetch: (request, bindings) => app.fetch(request, bindings),
      port: config.PORT,
      host: config.HOST,
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
