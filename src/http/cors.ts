import { API_PREFIX } from "./authorize.ts";
import type { AppContext, HttpSettings } from "./context.ts";
import { JWKS_PATH } from "./routes/token-keys.ts";

/** Published offers are for every web page, whatever origins are allowed. Source: contract offers §4. */
const isForEveryOrigin = (c: AppContext): boolean =>
  c.req.path.startsWith(`${API_PREFIX}/public-offers/`) || c.req.path === JWKS_PATH;

/**
 * Adds CORS headers to the answer, and returns the request's origin if it is allowed. hono/cors does not fit: it sends
 * the credentials header to origins that are not allowed too, and removes Content-Length from preflights.
 * Source: contract users-organizations §1.3, §1.7.
 */
export function originHeaders(settings: HttpSettings): (c: AppContext) => string | undefined {
  const allowed = (origin: string) =>
    settings.allowedOrigins.length === 0 ||
    origin === "http://localhost:5403" ||
    settings.allowedOrigins.includes(origin);
  return (c) => {
    const origin = c.req.header("origin");
    if (isForEveryOrigin(c)) {
      c.get("request").headers["Access-Control-Allow-Origin"] = "*";
      return origin;
    }
    const isAllowed = origin === undefined || allowed(origin);
    if (isAllowed) {
      const { headers } = c.get("request");
      headers["Vary"] = "Origin";
      headers["Access-Control-Allow-Credentials"] = "true";
      if (origin !== undefined) {
        headers["Access-Control-Allow-Origin"] = origin;
        headers["Access-Control-Expose-Headers"] =
          "X-Total-Count, X-Request-Id, Idempotent-Replayed, ETag, Retry-After, Date, Next-After, Link, X-Faregate-Billing";
      }
    }
    return isAllowed ? origin : undefined;
  };
}

/** Answers a CORS preflight. */
export function preflight(c: AppContext, origin: string | undefined): Response {
  const { headers } = c.get("request");
  if (isForEveryOrigin(c)) {
    c.header("Access-Control-Allow-Origin", "*");
    c.header("Access-Control-Allow-Methods", "GET,HEAD,OPTIONS");
    const asked = c.req.header("access-control-request-headers");
    if (asked !== undefined) c.header("Access-Control-Allow-Headers", asked);
    c.header("Content-Length", "0");
    return c.body(null, 204);
  }
  for (const name of ["Vary", "Access-Control-Allow-Credentials"]) c.header(name, headers[name]);
  if (origin !== undefined) {
    c.header("Access-Control-Allow-Origin", origin);
    c.header("Access-Control-Allow-Methods", "GET,HEAD,OPTIONS,POST,PUT,DELETE");
    const asked = c.req.header("access-control-request-headers");
    if (asked !== undefined) c.header("Access-Control-Allow-Headers", asked);
    c.header("Vary", "Origin, Access-Control-Request-Headers");
  }
  c.header("Content-Length", "0");
  return c.body(null, 204);
}
