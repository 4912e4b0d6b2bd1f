import type { Hono } from "hono";
import { leastRecentlyUsed } from "../core/least-recently-used.ts";
import { connect } from "../db/postgres/connect.ts";
import { createIssuer } from "../db/queries/issuer.ts";
import { createApp } from "../http/app.ts";
import type { AppEnv } from "../http/context.ts";
import type { ReadAsset } from "../http/routes/documentation.ts";
import type { Resources } from "../operations/context.ts";
import { createKeyring } from "../operations/credentials.ts";
import { allowHashes } from "../operations/state/hashing-queue.ts";
import { createAnalysis } from "../operations/state/analysis.ts";
import { createPricingCache } from "../operations/state/pricing-cache.ts";
import { createResources } from "../operations/resources.ts";
import { databaseOf, readConfig } from "./process/config.ts";
import { createDownload } from "./platform/download.ts";
import { createLog } from "./process/log.ts";
import { httpSettingsOf, settingsOf } from "./process/settings.ts";
import { fetchOnce } from "./platform/worker-download.ts";

/** What wrangler.toml binds; every variable and secret of src/docs/operate.md is a text beside them. */
interface Bindings {
  HYPERDRIVE: { connectionString: string };
  ASSETS: { fetch(address: string): Promise<Response> };
  [name: string]: unknown;
}
interface Invocation {
  waitUntil(work: Promise<unknown>): void;
}

/** A Worker may have six connections waiting at once; one is left for fetching a pricing. */
const MAX_CONNECTIONS = 5;
/**
 * Nothing tells a Worker that the client of a stream has left, and what it does for one that has is ended after 30 s: before
 * that the stream ends in order. The client, where there is one, comes back by itself.
 */
const MAX_STREAM_MS = 25_000;
/** A key's last use is written down once in so long, not by every request. */
const USES_MS = 60_000;

/**
 * What an isolate keeps between requests: what is made of its bindings, which never change, and compiled pricings by their
 * hash and the issuer of tokens, which cannot be stale. Nothing else that is read from the database, and nothing that is connected: workerd gives sockets to
 * the request that opened them and to no other.
 */
interface Isolate {
  app: Hono<AppEnv>;
  open(): { resources: Resources; close(): Promise<void> };
}
let isolate: Isolate | undefined;

async function openIsolate(bindings: Bindings): Promise<Isolate> {
  const texts = Object.entries(bindings).filter((entry): entry is [string, string] => typeof entry[1] === "string");
  const config = readConfig({ ...Object.fromEntries(texts), DATABASE_URL: bindings.HYPERDRIVE.connectionString });
  const { databaseUrl, secrets } = databaseOf(config, false);
  const log = createLog(config.LOG_LEVEL, "worker", console.log);
  allowHashes(config.PASSWORD_HASHES);
  const usesNotedAt = leastRecentlyUsed<number>(1000);
  const settings = settingsOf(config);
  const shared = {
    keyring: await createKeyring(secrets),
    settings,
    issuer: createIssuer(settings.publicUrl),
    download: createDownload({ allowedHosts: config.PRICING_URL_ALLOWED_HOSTS, fetchOnce }),
    pricingCache: createPricingCache(),
    // There are no threads here, and a request cannot be woken by another one.
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
      const connection = connect(databaseUrl, {
        maxConnections: MAX_CONNECTIONS,
        applicationName: "faregate-worker",
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

/** Reads what build-worker.ts has put into this folder. */
function readFrom({ ASSETS }: Bindings, folder: string): ReadAsset {
  return async (name) => {
    const answer = await ASSETS.fetch(`https://assets/${folder}/${name}`);
    return answer.ok ? new Uint8Array(await answer.arrayBuffer()) : undefined;
  };
}

/** Answers, and says when everything that belongs to the answer is over. */
async function serve(request: Request, bindings: Bindings): Promise<{ answer: Response; over: Promise<void> }> {
  const { app, open } = (isolate ??= await openIsolate(bindings));
  const { resources, close } = open();
  const clientAddress = () => request.headers.get("cf-connecting-ip") ?? "";
  const answer = await app.fetch(request, { resources, clientAddress });
  if (answer.body === null) return { answer, over: close() };
  // A stream goes on reading from the database: its connections are closed when it ends, whoever ends it.
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
  const over = answer.body
    .pipeTo(writable)
    .catch(() => {})
    .then(close);
  return { answer: new Response(readable, answer), over };
}

/*
 * The REST application on Cloudflare Workers, over Hyperdrive. It never listens: Hyperdrive pools by transaction.
 * Everything is waited for, so that a client that leaves does not stop a request in the middle of what others wait for.
 */
export default {
  async fetch(request: Request, bindings: Bindings, invocation: Invocation): Promise<Response> {
    const serving = serve(request, bindings);
    invocation.waitUntil(serving.then(({ over }) => over));
    return (await serving).answer;
  },
};
