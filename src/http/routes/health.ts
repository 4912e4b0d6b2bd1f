import { Hono } from "hono";
import type { Resources } from "../../operations/context.ts";
import type { AppEnv, AppContext } from "../context.ts";
import { json, reply, replyJson } from "../reply.ts";

/** Health and metrics for an operator's tools. */
export interface Health {
  /** Returns undefined if the process is ready, otherwise a short reason. `db` is the handle of the request. */
  notReady(db: () => Resources["db"]): Promise<string | undefined>;
  /** All metrics, in Prometheus' text format. */
  metrics?(): Promise<string>;
  /** Bearer token for the metrics. Default: no metrics. */
  metricsToken?: string | undefined;
}

const NO_STORE = { "Cache-Control": "no-store" };

/**
 * `/live`: the process runs, whatever its database does. `/ready`: it can serve; 503 while the database is unreachable,
 * the schema is outdated, the feed of events is stale, or the process drains. `/metrics`: with the token. All are
 * outside of /api/v1, whose health check the specification defines.
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

/** Compares digests, so that the duration reveals nothing about the token. */
async function isToken(authorization: string | undefined, token: string): Promise<boolean> {
  const given = /^Bearer +(\S+) *$/i.exec(authorization ?? "")?.[1] ?? "";
  const digest = async (text: string) =>
    new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  const [a, b] = await Promise.all([digest(given), digest(token)]);
  return a.every((byte, i) => byte === b[i]);
}
