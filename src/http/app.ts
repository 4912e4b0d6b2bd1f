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
import { mcpFailure, mcpRoute } from "./mcp/route.ts";
import { RegExpOrTrieRouter } from "./router.ts";
import type { RequestMetrics } from "./metrics.ts";
import { type AppEnv, type HttpSettings, type Log, newRequest, logRequest, type AppContext } from "./context.ts";
import { json } from "./reply.ts";
import { billingMessageRoutes, billingRoutes, contractBillingRoutes } from "./routes/billing.ts";
import { changeRoutes } from "./routes/changes.ts";
import { consoleRoutes } from "./routes/console.ts";
import { approvalRoutes, changeRequestRoutes } from "./routes/approvals.ts";
import { auditLogRoutes } from "./routes/audit-log.ts";
import { contractRoutes, organizationContractRoutes } from "./routes/contracts.ts";
import { documentationRoutes, type ReadAsset } from "./routes/documentation.ts";
import { featureRoutes } from "./routes/features.ts";
import { ofrepFailure, ofrepRoutes } from "./routes/ofrep.ts";
import { gateRoutes } from "./routes/gate.ts";
import { invitationRoutes, organizationInvitationRoutes } from "./routes/invitations.ts";
import { contractMemberRoutes } from "./routes/members.ts";
import { contractBlockRoutes, organizationBlockRoutes } from "./routes/blocks.ts";
import { contractBudgetRoutes } from "./routes/budgets.ts";
import { contractHoldRoutes, holdRoutes } from "./routes/holds.ts";
import { featureLeaseRoutes, leaseRoutes } from "./routes/leases.ts";
import { type Health, healthRoutes } from "./routes/health.ts";
import { offerRoutes, publicOfferRoutes, publishingRoutes } from "./routes/offers.ts";
import { keyOrganizationRoute, organizationRoutes } from "./routes/organizations.ts";
import { contractOverrideRoutes, overrideRoutes } from "./routes/overrides.ts";
import { recoveryRoutes } from "./routes/recovery.ts";
import { contractScheduledRoutes, scheduledRoutes } from "./routes/scheduled.ts";
import { publicPricing, serviceRoutes } from "./routes/services.ts";
import { sessionRoutes } from "./routes/sessions.ts";
import { signOnRoutes } from "./routes/sign-on.ts";
import { snapshotRoutes } from "./routes/snapshot.ts";
import { streamRoutes } from "./routes/stream.ts";
import { systemRoutes } from "./routes/system.ts";
import { usageRoutes } from "./routes/usage.ts";
import { localEvaluationRoutes } from "./routes/local-evaluation.ts";
import { contractUsageRoutes, organizationUsageRoutes } from "./routes/usage-history.ts";
import { usageAlertRoutes } from "./routes/usage-alerts.ts";
import { userRoutes } from "./routes/users.ts";
import { JWKS_PATH, tokenKeySet } from "./routes/token-keys.ts";
import { webhookRoutes } from "./routes/webhooks.ts";
import { traceContextOf, type Tracing } from "./tracing.ts";

/** Requests slower than this are logged. */
const SLOW_SECONDS = 1;

/** Final segments that are literal where other routes have a parameter. */
export const API_ENDINGS = ["/pricing-token", "/services/lint"] as const;

/** Prefix of the calls of members, who name their organization. */
const IN_ORGANIZATION = "/organizations/:organizationId";

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
export function createApp(options: {
  open: (bindings: unknown) => Resources | Promise<Resources>;
  settings: HttpSettings;
  log?: Log;
  /** Default: only the specification's health check. */
  health?: Health;
  /** Counts each request. */
  metrics?: Pick<RequestMetrics, "record">;
  /** Traces each request that is not a preflight. */
  tracing?: Tracing | undefined;
  /** Files of the reference page. Default: the document without a page. */
  readAsset?: ReadAsset;
  /** Files of the built console. Default: no console. */
  readConsole?: ReadAsset;
  /** Bounds of event streams, for tests. */
  streams?: Parameters<typeof streamRoutes>[0];
}): Hono<AppEnv> {
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

  const mount = (path: string, routes: Hono<AppEnv>) => app.route(API_PREFIX + path, routes);
  /** Mounts routes for the organization of the caller's key, and for one that the path names. */
  const mountTwice = (path: string, routes: Hono<AppEnv>, inOrganization = routes) => {
    mount(path, routes);
    mount(`${IN_ORGANIZATION}${path}`, inOrganization);
  };
  mount("/users", userRoutes);
  mount("/sessions", sessionRoutes);
  mount("/recovery", recoveryRoutes);
  mount("/auth", signOnRoutes);
  mount("/organization", keyOrganizationRoute);
  mount("/organizations", organizationRoutes);
  mount(`${IN_ORGANIZATION}/invitations`, organizationInvitationRoutes);
  mount("/invitations", invitationRoutes);
  mountTwice("/services", serviceRoutes);
  mountTwice("/services", changeRoutes);
  mountTwice("/services", offerRoutes);
  mount("/public-offers", publicOfferRoutes);
  mount(`${IN_ORGANIZATION}/public-offer`, publishingRoutes);
  mountTwice("/contracts", contractRoutes, organizationContractRoutes);
  mountTwice("/contracts", contractOverrideRoutes);
  mountTwice("/overrides", overrideRoutes);
  mountTwice("/contracts", contractScheduledRoutes);
  mountTwice("/contracts", contractHoldRoutes);
  mountTwice("/contracts", contractBlockRoutes);
  mountTwice("/contracts", contractMemberRoutes);
  mountTwice("/contracts", contractBudgetRoutes);
  mount(`${IN_ORGANIZATION}/blocks`, organizationBlockRoutes);
  mount("/holds", holdRoutes);
  mountTwice("/scheduled", scheduledRoutes);
  mount("/features", featureRoutes);
  mount("/features", featureLeaseRoutes);
  mount("/leases", leaseRoutes);
  mount("/snapshot", snapshotRoutes);
  mount("/usage", usageRoutes);
  mountTwice("/usage", organizationUsageRoutes);
  mountTwice("/contracts", contractUsageRoutes);
  mountTwice("/contracts", contractBillingRoutes);
  mount(`${IN_ORGANIZATION}/billing`, billingRoutes);
  mount("/billing", billingMessageRoutes);
  mountTwice("/webhooks", webhookRoutes);
  app.route("/ofrep/v1/evaluate/flags", ofrepRoutes);
  mountTwice("/audit-log", auditLogRoutes);
  mount(`${IN_ORGANIZATION}/gate`, gateRoutes);
  mount(`${IN_ORGANIZATION}/approvals`, approvalRoutes);
  mount(`${IN_ORGANIZATION}/change-requests`, changeRequestRoutes);
  mount(`${IN_ORGANIZATION}/usage-alerts`, usageAlertRoutes);
  mount(`${IN_ORGANIZATION}/local-evaluation`, localEvaluationRoutes);
  mount("", systemRoutes);
  mount("", streamRoutes(options.streams));
  mount("", documentationRoutes(settings.baseUrlPath, options.readAsset));
  app.all(
    MCP_PATH,
    mcpRoute({
      fetch: (request, bindings) => app.fetch(request, bindings as object),
      baseUrlPath: settings.baseUrlPath,
      readConsole: options.readConsole,
    }),
  );

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

/** Strips the sub-path prefix and one trailing slash. The result stays percent-encoded, as rules and routes expect. */
function normalisePath(url: string, baseUrlPath: string): string {
  const start = url.indexOf("/", url.indexOf("://") + 3);
  const end = url.slice(start).search(/[?#]/);
  let path = start < 0 ? "/" : url.slice(start, end < 0 ? undefined : start + end);
  if (baseUrlPath !== "" && (path === baseUrlPath || path.startsWith(`${baseUrlPath}/`))) {
    path = path.slice(baseUrlPath.length) || "/";
  }
  return path.length > 1 && path.endsWith("/") ? path.slice(0, -1) : path;
}

function requireDecodablePath(c: AppContext): void {
  if (!c.req.path.includes("%")) return;
  try {
    decodeURIComponent(c.req.path);
  } catch (cause) {
    throw new Failure("invalid", "INVALID DATA: The path is not valid percent-encoding", { cause });
  }
}

const DOT_SEGMENT = /(?:^|\/)(?:\.|%2e){1,2}(?:\/|$)/i;

/**
 * Refuses a path with the segment `.` or `..`, encoded or not. Resolving it would carry out another call than the one that
 * was sent. Node's server passes the path as it arrived in `incoming`; other runtimes only in the request, where Bun and
 * Workers have resolved it already.
 */
function refuseDotSegments(c: AppContext): void {
  const sent = (c.env as { incoming?: { url?: string } } | undefined)?.incoming?.url ?? c.req.path;
  if (!sent.includes(".") && !sent.includes("%2")) return;
  const end = sent.search(/[?#]/);
  if (DOT_SEGMENT.test(end < 0 ? sent : sent.slice(0, end)))
    throw new Failure("invalid", "INVALID DATA: The path must not have the segments . and ..");
}
