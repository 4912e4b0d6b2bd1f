import { fileURLToPath } from "node:url";
import { unstable_startWorker as startWorker } from "wrangler";
import { overTcp } from "../../db/postgres/address.ts";
import { VARIABLES } from "../process/config.ts";
import { databaseOf } from "../process/given-secrets.ts";
import { requireRepairedDriver } from "../platform/driver.ts";
import { runProcess } from "../process/lifecycle.ts";

/*
 * Runs the Worker locally for development and tests: workerd under wrangler. Uses the database as its Hyperdrive, and
 * this process's environment as its variables and secrets. Reloads changed sources.
 */
await runProcess("worker", async ({ config, log, hasLauncher }) => {
  requireRepairedDriver("cf/src");
  const { databaseUrl } = databaseOf(config, hasLauncher);
  // Do not request client metadata from Cloudflare during local runs.
  process.env["CLOUDFLARE_CF_FETCH_ENABLED"] = "false";
  process.env["CLOUDFLARE_HYPERDRIVE_LOCAL_CONNECTION_STRING_HYPERDRIVE"] = overTcp(databaseUrl);
  const given = VARIABLES.flatMap((name) => {
    const value = process.env[name];
    return value === undefined || name === "DATABASE_URL" ? [] : [[name, { type: "plain_text", value }] as const];
  });
  const worker = await startWorker({
    config: fileURLToPath(new URL("../../../wrangler.toml", import.meta.url)),
    bindings: Object.fromEntries(given),
    build: { nodejsCompatMode: "v2" },
    dev: { server: { hostname: config.HOST ?? "localhost", port: config.PORT }, inspector: false, logLevel: "warn" },
  });
  await worker.ready;
  log("info", "REST is listening", { port: config.PORT });
  return () => worker.dispose();
});
