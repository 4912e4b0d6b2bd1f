import type { Hono } from "hono";
import { leastRecentlyUsed } from "../core/least-recently-used.ts";
import { connect } from "../db/postgres/connect.ts";
import type { Endpoint } from "../db/postgres/pooler.ts";
import { createIssuer } from "../db/queries/issuer.ts";
import { createApp } from "../http/app.ts";
import type { AppEnv } from "../http/context.ts";
import type { ReadAsset } from "../http/routes/documentation.ts";
import type { Resources } from "../operations/context.ts";
import { createKeyring } from "../operations/credentials.ts";
import { CallLimits } from "../operations/state/call-limits.ts";
import { allowHashes } from "../operations/state/hashing-queue.ts";
import { createAnalysis } from "../operations/state/analysis.ts";
import { createSignOnProvider } from "../operations/state/sign-on-provider.ts";
import { createPricingCache } from "../operations/state/pricing-cache.ts";
import { createResources } from "../operations/resources.ts";
import { readConfig } from "./process/config.ts";
import { databaseOf } from "./process/given-secrets.ts";
import { createDownload } from "./platform/download.ts";
import { createLog } from "./process/log.ts";
import { httpSettingsOf, settingsOf, timeoutsOf } from "./process/settings.ts";
import { fetchOnce } from "./platform/worker-download.ts";

/** Bindings of wrangler.toml. Variables and secrets of src/docs/operate.md are additional text bindings. */
interface Bindings {
  HYPERDRIVE: { connectionString: string };
  ASSETS: { fetch(address: string): Promise<Response> };
  [name: string]: unknown;
}
interface Invocation {
  waitUntil(work: Promise<unknown>): void;
}

/** A Worker may have six waiting connections; one is left for fetching a pricing. */
const MAX_CONNECTIONS = 5;
/**
 * A Worker is not notified when a stream's client leaves, and work for it is killed after 30 s. So the stream ends
 * before that, and the client reconnects.
 */
const MAX_STREAM_MS = 25_000;
/** Default size limit of a pricing. Workers have no threads, and tokenizing YAML of this size takes 40 ms. */
const PRICING_LIMIT_KB = "256";
/** Interval at which a key's last use is recorded. */
const USES_MS = 60_000;

/**
 * State that an isolate keeps between requests: values derived from its immutable bindings, compiled pricings by hash,
 * and the issuer, which cannot be stale. Nothing else from the database, and no connection: workerd binds sockets to
 * the request that opened them.
 */
interface Isolate {
  app: Hono<AppEnv>;
  open(): { resources: Resources; close(): Promise<void> };
}
let isolate: Isolate | undefined;

async function openIsolate(bindings: Bindings): Promise<Isolate> {
  const texts = Object.entries(bindings).filter((entry): entry is [string, string] => typeof entry[1] === "string");
  const config = readConfig({
    PRICING_LIMIT_KB,
    ...Object.fromEntries(texts),
    DATABASE_URL: bindings.HYPERDRIVE.connectionString,
  });
  const { databaseUrl: url, secrets } = databaseOf(config, false);
  // A connection serves one request, so that most statements run once: preparing them would cost a round trip each.
  const hyperdrive: Endpoint = { url, pooler: { keepsSessions: false, keepsStatements: false } };
  const { acquire: _, ...timeouts } = timeoutsOf(config);
  const log = createLog(config.LOG_LEVEL, "worker", console.log);
  allowHashes(config.PASSWORD_HASHES);
  const usesNotedAt = leastRecentlyUsed<number>(1000);
  const settings = settingsOf(config);
  const shared = {
    keyring: await createKeyring(secrets),
    settings,
    ...(settings.signOn === undefined ? {} : { signOn: createSignOnProvider(settings.signOn, () => new Date()) }),
    issuer: createIssuer(settings.publicUrl),
    download: createDownload({ allowedHosts: config.PRICING_URL_ALLOWED_HOSTS, fetchOnce }),
    pricingCache: createPricingCache(),
    callLimits: new CallLimits(),
    // Workers have no threads, and one request cannot wake another.
    analysis: createAnalysis({ mayWait: false }),
  };
  return {
    app: createApp({
      open: (given) => (given as { resources: Resources }).resources,
      settings: httpSettingsOf(config),
      log,
      health: {
        notReady: (db) =>
          db()
            .execute("select 1")
            .then(
              () => undefined,
              () => "database",
            ),
      },
      readAsset: readFrom(bindings, "docs"),
      readConsole: readFrom(bindings, "console"),
    }),
    open: () => {
      const connection = connect(hyperdrive, {
        maxConnections: MAX_CONNECTIONS,
        applicationName: "faregate-worker",
        timeouts,
      });
      const resources = createResources(connection, shared);
      const keyUses: Resources["keyUses"] = {
        ...resources.keyUses,
        note: (kind, id, now) => {
          if (now.getTime() - (usesNotedAt.get(id) ?? 0) < USES_MS) return;
          usesNotedAt.put(id, now.getTime());
          resources.keyUses.note(kind, id, now);
        },
      };
      return {
        resources: { ...resources, keyUses, stopping: AbortSignal.timeout(MAX_STREAM_MS) },
        close: async () => {
          const written = [resources.callCounter.flush(), resources.keyUses.flush()];
          await Promise.all(written).catch((error: unknown) => log("warn", "a call was not counted", error));
          await connection.close();
        },
      };
    },
  };
}

/** Reads the files that build/worker.ts has put into this folder. */
function readFrom({ ASSETS }: Bindings, folder: string): ReadAsset {
  return async (name) => {
    const answer = await ASSETS.fetch(`https://assets/${folder}/${name}`);
    return answer.ok ? new Uint8Array(await answer.arrayBuffer()) : undefined;
  };
}

/** Answers, and returns when everything that belongs to the answer is finished. */
async function serve(request: Request, bindings: Bindings): Promise<{ answer: Response; over: Promise<void> }> {
  const { app, open } = (isolate ??= await openIsolate(bindings));
  const { resources, close } = open();
  const clientAddress = () => request.headers.get("cf-connecting-ip") ?? "";
  const answer = await app.fetch(request, { resources, clientAddress });
  if (answer.body === null) return { answer, over: close() };
  // A stream keeps reading from the database, so its connections are closed when it ends for any reason.
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
  const over = answer.body
    .pipeTo(writable)
    .catch(() => {})
    .then(close);
  return { answer: new Response(readable, answer), over };
}

/*
 * The REST application on Cloudflare Workers, over Hyperdrive. It never LISTENs, because Hyperdrive pools by
 * transaction. Waits for all work, so that a client that leaves does not interrupt work that other requests share.
 */
export default {
  async fetch(request: Request, bindings: Bindings, invocation: Invocation): Promise<Response> {
    const serving = serve(request, bindings);
    invocation.waitUntil(serving.then(({ over }) => over));
    return (await serving).answer;
  },
};
