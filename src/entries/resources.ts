import type { Hono } from "hono";
import { type Connection, connect } from "../db/connect.ts";
import { createApp } from "../http/app.ts";
import type { AppEnv, Log } from "../http/route.ts";
import type { Resources } from "../operations/context.ts";
import { createKeyring } from "../operations/credentials.ts";
import { createResources } from "../operations/resources.ts";
import { readAsset } from "./assets.ts";
import type { Config, Secrets } from "./config.ts";
import { createDownload } from "./download.ts";

/** What a process opens once, and how it is closed. */
export interface OpenResources {
  resources: Resources;
  connection: Connection;
  /** Ends streams, which would otherwise go on for ever; called when the process begins to drain. */
  endStreams(): void;
  /** Writes down what is counted and ends the pool; running queries have at most 5 s. */
  close(): Promise<void>;
}

const FLUSH_MS = 1000;

/** Opens the pool, derives the keys, and writes the counted calls down every second. */
export async function openResources(
  config: Config,
  secrets: Secrets,
  options: { databaseUrl: string; applicationName: string; log?: Log },
): Promise<OpenResources> {
  const connection = connect(options.databaseUrl, { applicationName: options.applicationName });
  const resources = createResources(connection, {
    keyring: await createKeyring(secrets),
    settings: {
      tokenLifetimeSeconds: config.JWT_EXPIRATION,
      allowPublicSignup: config.ALLOW_PUBLIC_SIGNUP,
      allowTestEvents: config.ENABLE_TEST_EVENT,
      publicUrl: config.PUBLIC_URL,
      webhookAllowedHosts: config.WEBHOOK_ALLOWED_HOSTS,
    },
    download: createDownload({ allowedHosts: config.PRICING_URL_ALLOWED_HOSTS }),
  });
  let failing = false;
  const flush = () =>
    resources.callCounter.flush().then(
      () => (failing = false),
      (error: unknown) => {
        // Said once an outage, not once a second.
        if (!failing) options.log?.("warn", "counted calls cannot be written down for now", error);
        failing = true;
      },
    );
  const timer = setInterval(flush, FLUSH_MS);
  const stopping = new AbortController();
  return {
    connection,
    endStreams: () => stopping.abort(),
    resources: { ...resources, stopping: stopping.signal },
    close: async () => {
      clearInterval(timer);
      await Promise.race([flush(), new Promise((resolve) => setTimeout(resolve, 2000))]);
      await connection.close();
    },
  };
}

/** The REST application over these resources. */
export function applicationOver(config: Config, resources: Resources, log: Log): Hono<AppEnv> {
  return createApp({
    open: () => resources,
    settings: { allowedOrigins: config.ALLOWED_ORIGINS, baseUrlPath: config.BASE_URL_PATH },
    log,
    readAsset,
  });
}

/** The REST application over resources of its own. */
export async function openApplication(
  config: Config,
  secrets: Secrets,
  options: { databaseUrl: string; applicationName: string; log: Log },
): Promise<{ app: Hono<AppEnv>; endStreams(): void; close(): Promise<void> }> {
  const { resources, endStreams, close } = await openResources(config, secrets, options);
  return { app: applicationOver(config, resources, options.log), endStreams, close };
}
