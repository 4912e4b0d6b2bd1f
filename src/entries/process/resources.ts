import type { Hono } from "hono";
import { commandLine } from "../../core/command-line.ts";
import { type Invalidations, listenForInvalidations } from "../../db/postgres/invalidations.ts";
import { type Connection, connect, StartupProblem } from "../../db/postgres/connect.ts";
import { createApp, createHealthApp } from "../../http/app.ts";
import type { AppEnv, Log } from "../../http/context.ts";
import type { Tracing } from "../../http/tracing.ts";
import { contextOf, type Resources } from "../../operations/context.ts";
import { asFailure, Failure } from "../../operations/errors.ts";
import { tokenSigner } from "../../operations/token-keys.ts";
import { createKeyring } from "../../operations/credentials.ts";
import { allowHashes } from "../../operations/state/hashing-queue.ts";
import { createResources } from "../../operations/resources.ts";
import { createAnalysis } from "../../operations/state/analysis.ts";
import { openAnalysisPool, threadsOf } from "../platform/analysis-pool.ts";
import { openBcryptPool } from "../platform/bcrypt-pool.ts";
import { readAsset, readConsole } from "../platform/assets.ts";
import type { Config } from "./config.ts";
import type { Secrets } from "./given-secrets.ts";
import type { DatabaseAccess } from "./database-access.ts";
import { createDownload } from "../platform/download.ts";
import { isPublicAddress } from "../platform/public-lookup.ts";
import { createHealth, type ProcessHealth } from "./health.ts";
import { httpSettingsOf, settingsOf, timeoutsOf } from "./settings.ts";
import { createNodeSigner } from "../platform/token-signer.ts";
import { openTracing } from "../platform/tracing.ts";

/** Resources of a process, and how to close them. */
export interface OpenResources {
  resources: Resources;
  connection: Connection;
  health: ProcessHealth;
  /** Ends event streams when the process starts to drain; they never end otherwise. */
  endStreams(): void;
  /** Flushes counters and closes the pool. Running queries get at most 5 s. */
  close(): Promise<void>;
}

const FLUSH_MS = 1000;
const USES_MS = 60_000;

/** Opens the pool, derives the keys, and flushes counters every second. */
export async function openResources(
  config: Config,
  secrets: Secrets,
  options: { database: DatabaseAccess; applicationName: string; log?: Log },
): Promise<OpenResources> {
  const { database, applicationName, log } = options;
  allowHashes(config.PASSWORD_HASHES);
  const maxConnections = config.DATABASE_POOL_SIZE;
  const connection = connect(database.requests, {
    applicationName,
    maxConnections,
    timeouts: timeoutsOf(config),
  });
  const changes = followChanges(database, applicationName, log);
  const pool = openAnalysisPool({
    threads: config.ANALYSIS_THREADS ?? threadsOf(),
    memoryMb: config.ANALYSIS_MEMORY_MB,
    timeoutMs: config.ANALYSIS_TIMEOUT * 1000,
  });
  const bcrypt = openBcryptPool(config.PASSWORD_HASHES);
  const resources = createResources(connection, {
    analysis: createAnalysis({ runInThread: pool.run }),
    keyring: await createKeyring(secrets, createNodeSigner),
    settings: settingsOf(config),
    ...(changes === undefined ? {} : { changes }),
    isPublicAddress,
    compareBcrypt: bcrypt.compare,
    download: createDownload({ allowedHosts: config.PRICING_URL_ALLOWED_HOSTS }),
  });
  let failing = false;
  const flush = () =>
    resources.callCounter.flush().then(
      () => (failing = false),
      (error: unknown) => {
        // Logged once per outage, not once per second.
        if (!failing) log?.("warn", "counted calls cannot be written down for now", error);
        failing = true;
      },
    );
  const timer = setInterval(flush, FLUSH_MS);
  // Only the console shows these counts.
  const evaluatorsTimer = setInterval(() => void resources.evaluators.flush().catch(() => {}), FLUSH_MS);
  const flushUses = () => Promise.all([resources.keyUses.flush(), resources.deniedAttempts.flush()]).catch(() => {});
  const usesTimer = setInterval(flushUses, USES_MS);
  const stopping = new AbortController();
  return {
    connection,
    health: createHealth(config, connection, resources.callCounter),
    endStreams: () => stopping.abort(),
    resources: { ...resources, stopping: stopping.signal },
    close: async () => {
      clearInterval(timer);
      clearInterval(evaluatorsTimer);
      clearInterval(usesTimer);
      const written = Promise.all([flush(), flushUses(), resources.evaluators.flush().catch(() => {})]);
      await Promise.race([written, new Promise((resolve) => setTimeout(resolve, 2000))]);
      await Promise.all([connection.close(), changes?.close(), pool.close(), bcrypt.close()]);
    },
  };
}

/** Follows changes on an endpoint that keeps sessions. Undefined, and logged, where there is none. */
function followChanges({ sessions }: DatabaseAccess, applicationName: string, log?: Log): Invalidations | undefined {
  const warnOfPooler = () =>
    log?.(
      "warn",
      "DATABASE_URL leads to a connection pooler, and DATABASE_DIRECT_URL is not set: keys and contracts are read on every request",
    );
  if (sessions === undefined) {
    warnOfPooler();
    return undefined;
  }
  const url =
    sessions instanceof Promise
      ? sessions.then((found) => {
          if (found === undefined) warnOfPooler();
          return found?.url;
        })
      : sessions.url;
  let listening = true;
  return listenForInvalidations(url, {
    applicationName,
    onState: (isLive, error) => {
      if (!isLive && listening)
        log?.("warn", "changes cannot be followed for now: keys and contracts are read on every request", error);
      if (isLive && !listening) log?.("info", "changes are followed again");
      listening = isLive;
    },
  });
}

/** Creates the REST application over these resources. */
export function applicationOver(
  config: Config,
  resources: Resources,
  { health, log, tracing }: { health: ProcessHealth; log: Log; tracing: Tracing | undefined },
): Hono<AppEnv> {
  return createApp({
    open: () => resources,
    settings: httpSettingsOf(config),
    log,
    health,
    metrics: health.requests,
    tracing,
    readAsset,
    readConsole,
  });
}

/** Creates an application that serves only the health of the process. */
export function healthApplication(config: Config, health: ProcessHealth): Hono<AppEnv> {
  return createHealthApp(config.BASE_URL_PATH, health);
}

/** Creates the REST application with its own resources. */
export async function openApplication(
  config: Config,
  secrets: Secrets,
  options: { database: DatabaseAccess; applicationName: string; log: Log },
): Promise<{ app: Hono<AppEnv>; health: ProcessHealth; endStreams(): void; close(): Promise<void> }> {
  const traced = await openTracing(config, options.applicationName);
  const { resources, health, endStreams, close } = await openResources(config, secrets, options);
  if (config.TOKEN_SIGNATURE === "EdDSA") {
    await requireTokenSigner(resources).catch(async (error: unknown) => {
      await close();
      throw error;
    });
  }
  return {
    app: applicationOver(config, resources, { health, log: options.log, tracing: traced?.tracing }),
    health,
    endStreams,
    close: async () => {
      await Promise.all([close(), traced?.close()]);
    },
  };
}

/**
 * Checks that EdDSA tokens can be signed. Accepts an unreachable database: it may recover before the first request.
 * @throws StartupProblem if API_KEYS_SECRET does not decrypt the token key.
 */
export async function requireTokenSigner(resources: Resources): Promise<void> {
  try {
    await tokenSigner(contextOf(resources, { kind: "anonymous" }));
  } catch (error) {
    if (error instanceof Failure) {
      throw new StartupProblem(
        `The token key cannot be read with API_KEYS_SECRET: set the secret under which it was stored, or replace the key with ${commandLine("rotate-token-key --revoke")}.`,
        { cause: error },
      );
    }
    if (asFailure(error)?.code !== "unavailable") throw error;
  }
}
