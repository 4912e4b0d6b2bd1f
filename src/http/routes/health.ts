import { Hono } from "hono";
import type { Resources } from "../../operations/context.ts";
import type { AppEnv, AppContext } from "../context.ts";
import { json, reply, replyJson } from "../reply.ts";

/** What an operator's tools may ask of a process. */
export interface Health {
  /** Undefined when requests should come here; otherwise why not, in a word or two. `db` gives the asking request's handle. */
  notReady(db: () => Resources["db"]): Promise<string | undefined>;
  /** Everything that is measured, in Prometheus' text format. */
  metrics?(): Promise<string>;
  /** Who shows it may read the metrics; without one they do not exist. */
  metricsToken?: string | undefined;
}

const NO_STORE = { "Cache-Control": "no-store" };

/**
 * `/live`: the process runs, whatever its database does. `/ready`: it can serve; 503 while the database is away, the schema
 * is older than the code, events are not followed, or the process is about to end. `/metrics` for whoever has the token.
 * Outside of /api/v1, where the specification's healthcheck stays what it is.
 */
export function healthRoutes(health: Health): Hono<AppEnv> {
  const routes = new Hono<AppEnv>()
    .get("/live", (c) => statusOf(c, { status: "alive" }))
    .get("/ready", async (c) => {
      const reason = await health.notReady(() => c.get("resources").db);
      return reason === undefined
        ? statusOf(c, { status: "ready" })
        : statusOf(c, { status: "not ready", reason }, 503);
    });
  const { metricsToken } = health;
  if (metricsToken === undefined || health.metrics === undefined) return routes;
  return routes.get("/metrics", async (c) => {
    if (!(await isToken(c.req.header("authorization"), metricsToken))) {
      c.get("request").headers["WWW-Authenticate"] = "Bearer";
      return json(c, { error: "Send METRICS_TOKEN as a Bearer token" }, 401);
    }
    const type = "text/plain; version=0.0.4; charset=utf-8";
    return reply(c, (await health.metrics?.()) ?? "", 200, { ...NO_STORE, "Content-Type": type });
  });
}

function statusOf(c: AppContext, body: object, status = 200): Response {
  return replyJson(c, JSON.stringify(body), status, {
    ...NO_STORE,
    ...(status === 503 ? { "Retry-After": "1" } : {}),
  });
}

/** Compared by digest, so that the time it takes says nothing about the token. */
async function isToken(authorization: string | undefined, token: string): Promise<boolean> {
  const given = /^Bearer +(\S+) *$/i.exec(authorization ?? "")?.[1] ?? "";
  const digest = async (text: string) =>
    new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  const [a, b] = await Promise.all([digest(given), digest(token)]);
  return a.every((byte, i) => byte === b[i]);
}
