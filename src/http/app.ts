import { Hono, type Context as HonoContext, type MiddlewareHandler } from "hono";
import type { Resources } from "../operations/context.ts";
import { Failure } from "../operations/errors.ts";
import { API_PREFIX, authenticate, countCall, gate } from "./authenticate.ts";
import { readBody } from "./body.ts";
import { answerError } from "./errors.ts";
import { type AppEnv, type Log, singleQueryParameters } from "./route.ts";
import { contractRoutes, organizationContractRoutes } from "./routes/contracts.ts";
import { documentationRoutes, type ReadAsset } from "./routes/documentation.ts";
import { featureRoutes } from "./routes/features.ts";
import { organizationRoutes } from "./routes/organizations.ts";
import { publicPricing, serviceRoutes } from "./routes/services.ts";
import { streamRoutes } from "./routes/stream.ts";
import { systemRoutes } from "./routes/system.ts";
import { userRoutes } from "./routes/users.ts";
import { webhookRoutes } from "./routes/webhooks.ts";

/** What an operator decides about the HTTP interface. */
export interface HttpSettings {
  /** Exact origins; empty means every origin. `http://localhost:5403` is always allowed. */
  allowedOrigins: readonly string[];
  /** A sub-path such as `/space` under which everything is served too; empty for none. */
  baseUrlPath: string;
}

const SECURITY_HEADERS: Readonly<Record<string, string>> = {
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
};

/**
 * The whole REST application, for any runtime. `open` returns the resources of a request and is the only seam to it;
 * bindings are whatever the runtime passes as the second argument of fetch.
 */
export function createApp(options: {
  open: (bindings: unknown) => Resources | Promise<Resources>;
  settings: HttpSettings;
  log?: Log;
  /** Files of the reference page; without it there is the document but no page. */
  readAsset?: ReadAsset;
  /** Bounds of event streams, where they are not the usual ones. */
  streams?: Parameters<typeof streamRoutes>[0];
}): Hono<AppEnv> {
  const { settings } = options;
  const app = new Hono<AppEnv>({ getPath: (request) => normalisePath(request.url, settings.baseUrlPath) });

  app.use(async (c, next) => {
    const given = c.req.header("x-request-id") ?? "";
    const requestId = /^[\w.-]{1,64}$/.test(given) ? given : crypto.randomUUID();
    c.set("requestId", requestId);
    if (options.log !== undefined) {
      const log = options.log;
      c.set("log", (level, message, detail) => log(level, `${message} request=${requestId}`, detail));
    }
    c.set("headers", { "x-request-id": requestId });
    c.set("isComplete", false);
    await next();
    // An answer that a route made in its own way, a stream for one.
    if (!c.get("isComplete")) for (const [name, value] of Object.entries(c.get("headers"))) c.header(name, value);
  });
  app.use(cors(settings));
  app.use(async (c, next) => {
    c.set("resources", await options.open(c.env));
    await next();
  });
  app.use(decodablePath);
  app.use(readBody);
  app.get("/static/pricings/:file", publicPricing);
  app.use(authenticate);
  app.use(gate);
  app.use(countCall);
  app.use(singleQueryParameters);

  app.route(`${API_PREFIX}/users`, userRoutes);
  app.route(`${API_PREFIX}/organizations`, organizationRoutes);
  app.route(`${API_PREFIX}/services`, serviceRoutes);
  app.route(`${API_PREFIX}/organizations/:organizationId/services`, serviceRoutes);
  app.route(`${API_PREFIX}/contracts`, contractRoutes);
  app.route(`${API_PREFIX}/organizations/:organizationId/contracts`, organizationContractRoutes);
  app.route(`${API_PREFIX}/features`, featureRoutes);
  app.route(`${API_PREFIX}/webhooks`, webhookRoutes);
  app.route(`${API_PREFIX}/organizations/:organizationId/webhooks`, webhookRoutes);
  app.route(API_PREFIX, systemRoutes);
  app.route(API_PREFIX, streamRoutes(options.streams));
  app.route(API_PREFIX, documentationRoutes(settings.baseUrlPath, options.readAsset));

  app.notFound((c) => answerError(new Failure("notFound", `Cannot ${c.req.method} ${c.req.path}`), c));
  app.onError(answerError);
  return app;
}

/** The path without the sub-path prefix and without one trailing slash; still percent-encoded, as rules and routes see it. */
function normalisePath(url: string, baseUrlPath: string): string {
  const start = url.indexOf("/", url.indexOf("://") + 3);
  const end = url.slice(start).search(/[?#]/);
  let path = start < 0 ? "/" : url.slice(start, end < 0 ? undefined : start + end);
  if (baseUrlPath !== "" && (path === baseUrlPath || path.startsWith(`${baseUrlPath}/`))) {
    path = path.slice(baseUrlPath.length) || "/";
  }
  return path.length > 1 && path.endsWith("/") ? path.slice(0, -1) : path;
}

const decodablePath: MiddlewareHandler<AppEnv> = async (c, next) => {
  if (c.req.path.includes("%")) {
    try {
      decodeURIComponent(c.req.path);
    } catch (cause) {
      throw new Failure("invalid", "INVALID DATA: The path is not valid percent-encoding", { cause });
    }
  }
  await next();
};

/** CORS and security headers. Source: contract users-organizations §1.3, §1.7. */
function cors(settings: HttpSettings): MiddlewareHandler<AppEnv> {
  const allowed = (origin: string) =>
    settings.allowedOrigins.length === 0 ||
    origin === "http://localhost:5403" ||
    settings.allowedOrigins.includes(origin);
  return async (c, next) => {
    const origin = c.req.header("origin");
    const isAllowed = origin === undefined || allowed(origin);
    if (c.req.method === "OPTIONS") return preflight(c, isAllowed ? origin : undefined);
    const headers = Object.assign(c.get("headers"), SECURITY_HEADERS);
    if (isAllowed) {
      headers["Vary"] = "Origin";
      headers["Access-Control-Allow-Credentials"] = "true";
      if (origin !== undefined) {
        headers["Access-Control-Allow-Origin"] = origin;
        headers["Access-Control-Expose-Headers"] = "X-Total-Count, X-Request-Id, Idempotent-Replayed";
      }
    }
    await next();
    return undefined;
  };
}

function preflight(c: HonoContext<AppEnv>, origin: string | undefined): Response {
  if (origin !== undefined) {
    c.header("Access-Control-Allow-Origin", origin);
    c.header("Access-Control-Allow-Credentials", "true");
    c.header("Access-Control-Allow-Methods", "GET,HEAD,OPTIONS,POST,PUT,DELETE");
    const asked = c.req.header("access-control-request-headers");
    if (asked !== undefined) c.header("Access-Control-Allow-Headers", asked);
    c.header("Vary", "Origin, Access-Control-Request-Headers");
  }
  c.header("Content-Length", "0");
  return c.body(null, 204);
}
