import { Hono } from "hono";
import { routePath } from "hono/route";
import { chain } from "../core/maybe-promise.ts";
import type { Resources } from "../operations/context.ts";
import { Failure } from "../operations/errors.ts";
import { API_PREFIX, authenticate, authorize, isOfrep, limitCalls, MCP_PATH, recordDenied } from "./authorize.ts";
import { readBody } from "./body.ts";
import { originHeaders, preflight } from "./cors.ts";
import { errorLinks } from "./error-links.ts";
import { answerError, type FailureBody } from "./errors.ts";
import { mcpFailure } from "./mcp/route.ts";
import { mountRoutes, type RouteOptions } from "./mounts.ts";
import { RegExpOrTrieRouter } from "./router.ts";
import type { RequestMetrics } from "./metrics.ts";
import { type AppEnv, type Log, newRequest, logRequest, type AppContext } from "./context.ts";
import { json } from "./reply.ts";
import { consoleRoutes } from "./routes/console.ts";
import { type Health, healthRoutes } from "./routes/health.ts";
import { ofrepFailure } from "./routes/ofrep.ts";
import { publicPricing } from "./routes/services.ts";
import { JWKS_PATH, tokenKeySet } from "./routes/token-keys.ts";
import { traceContextOf, type Tracing } from "./tracing.ts";
import { normalisePath, refuseDotSegments, requireDecodablePath } from "./paths.ts";

/** Requests slower than this are logged. */
const SLOW_SECONDS = 1;

/** Final segments that are literal where other routes have a parameter. */
export const API_ENDINGS = ["/pricing-token", "/services/lint"] as const;

/** True for calls that change no contract, key or service. A tool call makes a request of its own. */
const isEvaluation = (path: string) =>
  ["/features", "/holds", "/leases", "/usage"].some((start) => path.startsWith(API_PREFIX + start)) ||
  path === `${API_PREFIX}/snapshot` ||
  path === MCP_PATH;

/** Bodies of errors in other protocols, by path. */
function failureBodyOf(path: string): FailureBody | undefined {
  if (path === MCP_PATH) return mcpFailure;
  return isOfrep(path) ? ofrepFailure : undefined;
}

/** Kept as one object literal: V8 creates it five times faster than a spread, and every request needs it. */
const securityHeaders = (requestId: string): Record<string, string> => ({
  "x-request-id": requestId,
  "Content-Security-Policy":
    "default-src 'self';base-uri 'self';font-src 'self' https: data:;form-action 'self';frame-ancestors 'self';img-src 'self' data:;object-src 'none';script-src 'self';script-src-attr 'none';style-src 'self' https: 'unsafe-inline'",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Origin-Agent-Cluster": "?1",
  "Referrer-Policy": "no-referrer",
  "Strict-Transport-Security": "max-age=31536000; includeSubDomains",
  "X-Content-Type-Options": "nosniff",
  "X-DNS-Prefetch-Control": "off",
  "X-Download-Options": "noopen",
  "X-Frame-Options": "SAMEORIGIN",
  "X-Permitted-Cross-Domain-Policies": "none",
  "X-XSS-Protection": "0",
});

/**
 * Creates the REST application for any runtime. `open` returns the resources of a request. `bindings` is the second
 * argument that the runtime passes to fetch.
 */
export function createApp(
  options: RouteOptions & {
    open: (bindings: unknown) => Resources | Promise<Resources>;
    log?: Log;
    /** Default: only the specification's health check. */
    health?: Health;
    /** Counts each request. */
    metrics?: Pick<RequestMetrics, "record">;
    /** Traces each request that is not a preflight. */
    tracing?: Tracing | undefined;
  },
): Hono<AppEnv> {
  const { settings } = options;
  const server = { settings, log: options.log, errorLinks: errorLinks(`${settings.baseUrlPath}${API_PREFIX}`) };
  const app = new Hono<AppEnv>({
    getPath: (request) => normalisePath(request.url, settings.baseUrlPath),
    router: new RegExpOrTrieRouter(API_ENDINGS),
  });

  const allowOrigin = originHeaders(settings);
  const { metrics, tracing } = options;
  /** Counts an answer, and logs one that failed or was slow. */
  const measure = (c: AppContext, status: number) => {
    const seconds = (performance.now() - c.get("request").startedAt) / 1000;
    const isTrouble = status >= 500 || seconds > SLOW_SECONDS;
    // Log the route pattern, never the path, which contains ids and names.
    const route = routePath(c, -1);
    if (status === 401 || status === 403) recordDenied(c, route, status);
    metrics?.record(c.req.method, route, status, seconds);
    c.get("request").trace?.end({ route, status, requestId: c.get("request").id });
    if (!isTrouble && settings.logsRequests !== true) return;
    logRequest(c, status >= 500 ? "warn" : "info", "request", {
      route,
      status,
      milliseconds: Math.round(seconds * 1000),
    });
  };
  // Only two middlewares: each adds promises and a route match to every request.
  app.use(async (c, next) => {
    const given = c.req.header("x-request-id");
    const requestId = given !== undefined && /^[\w.-]{1,64}$/.test(given) ? given : crypto.randomUUID();
    const request = newRequest(requestId, securityHeaders(requestId));
    c.set("server", server);
    c.set("request", request);
    const origin = allowOrigin(c);
    if (c.req.method === "OPTIONS") {
      c.header("x-request-id", requestId);
      return preflight(c, origin);
    }
    if (tracing !== undefined) {
      request.trace = tracing.start(c.req.method, traceContextOf(c.req.header("traceparent")));
    }
    const opened = options.open(c.env);
    c.set("resources", opened instanceof Promise ? await opened : opened);
    requireDecodablePath(c);
    refuseDotSegments(c);
    const read = readBody(c);
    if (read !== undefined) await read;
    request.reachedHandlers = true;
    await next();
    // Applies the headers where a route created its own Response, such as a stream.
    if (!request.headersApplied) for (const [name, value] of Object.entries(request.headers)) c.header(name, value);
    measure(c, c.res.status);
    return undefined;
  });
  if (options.health !== undefined) app.route("/", healthRoutes(options.health));
  app.get("/static/pricings/:file", publicPricing);
  app.get(JWKS_PATH, tokenKeySet);
  if (options.readConsole !== undefined) app.route("/", consoleRoutes(settings.baseUrlPath, options.readConsole));
  app.use((c, next) => {
    const admitted = chain(authenticate(c), () => {
      if (settings.keyCallsPerSecond && c.req.path !== MCP_PATH) limitCalls(c, settings.keyCallsPerSecond);
      return authorize(c);
    });
    const { method } = c.req;
    const isChange = method !== "GET" && method !== "HEAD" && !isEvaluation(c.req.path);
    if (admitted === undefined && !isChange) return next();
    return (async () => {
      await admitted;
      await next();
      // Read-your-writes: wait until this process has dropped its stale cache entries before answering.
      if (isChange) await c.get("resources").invalidationsApplied?.();
    })();
  });

  mountRoutes(app, options);
  app.notFound((c) => answerError(new Failure("notFound", `Cannot ${c.req.method} ${c.req.path}`), c));
  app.onError((error, c) => {
    const answer = answerError(error, c, failureBodyOf(c.req.path));
    // The first middleware does not measure a request that failed before it reached the handlers.
    if (!c.get("request").reachedHandlers) measure(c, answer.status);
    return answer;
  });
  return app;
}

/** Creates the application of a process that serves only its health. */
export function createHealthApp(baseUrlPath: string, health: Health): Hono<AppEnv> {
  const server = { settings: { allowedOrigins: [], baseUrlPath }, log: undefined, errorLinks: errorLinks(baseUrlPath) };
  const app = new Hono<AppEnv>({ getPath: (request) => normalisePath(request.url, baseUrlPath) });
  app.use(async (c, next) => {
    c.set("server", server);
    const requestId = crypto.randomUUID();
    c.set("request", newRequest(requestId, { "x-request-id": requestId }));
    await next();
  });
  app.route("/", healthRoutes(health));
  app.notFound((c) => json(c, { error: "Not found" }, 404));
  return app;
}
