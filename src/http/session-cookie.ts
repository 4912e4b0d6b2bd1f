import { parse, serialize } from "hono/utils/cookie";
import { Failure } from "../operations/errors.ts";
import { type AppContext, clientOf, requestOrigin } from "./context.ts";

/*
 * The cookie of a session, and the rule that keeps other pages from using it. Browsers send the cookie to every port of the
 * host, and to calls from other pages of its site: SameSite alone does not suffice. Source: contract sign-in §1.
 */

const NAME = "faregate_session";

/** True if browsers reach this server over https. */
function isSecure(c: AppContext): boolean {
  const { publicUrl } = c.get("resources").settings;
  return publicUrl?.startsWith("https:") === true || requestOrigin(c).protocol === "https:";
}

/** Path of cookies: everything that this server answers. */
const cookiePath = (c: AppContext) => c.get("server").settings.baseUrlPath || "/";

/** Returns the name with the prefix that browsers hold to its promise. `__Host-` excludes a sub-path. */
function prefixed(c: AppContext, name: string): string {
  if (!isSecure(c)) return name;
  return `${cookiePath(c) === "/" ? "__Host-" : "__Secure-"}${name}`;
}

/** Returns the value of a cookie that this server set. Undefined without one. */
export function cookieOf(c: AppContext, name: string): string | undefined {
  const header = c.req.header("cookie");
  if (header === undefined || !header.includes(name)) return undefined;
  const full = prefixed(c, name);
  return parse(header, full)[full];
}

/** Returns the text of Set-Cookie. Without `maxAge`, in seconds, the cookie lasts as long as the browser runs. */
export function cookieText(c: AppContext, name: string, value: string, maxAge?: number): string {
  return serialize(prefixed(c, name), value, {
    path: cookiePath(c),
    httpOnly: true,
    secure: isSecure(c),
    sameSite: "Lax",
    ...(maxAge === undefined ? {} : { maxAge }),
  });
}

/** Returns the token of the request's session cookie. */
export const sessionTokenOf = (c: AppContext): string | undefined => cookieOf(c, NAME);

const MAX_AGE_SECONDS = 30 * 86_400;

/** Returns the Set-Cookie of a session. The browser keeps it for the lifetime that the server enforces anyway. */
export function sessionCookie(c: AppContext, token: string): string {
  return cookieText(c, NAME, token, c.get("resources").settings.sessionLifetimeSeconds ?? MAX_AGE_SECONDS);
}

/** Returns the Set-Cookie that removes a session. */
export const endedSessionCookie = (c: AppContext): string => cookieText(c, NAME, "", 0);

/** Adds the session's cookie to the answer of a route. */
export function setSessionCookie(c: AppContext, token: string): void {
  const { headers } = c.get("request");
  headers["Set-Cookie"] = sessionCookie(c, token);
  headers["Cache-Control"] = "no-store";
}

const isRead = ({ method }: { method: string }) => method === "GET" || method === "HEAD" || method === "OPTIONS";

/** True if the browser names another page than one of this server as the sender. */
export function isFromAnotherPage(c: AppContext): boolean {
  const site = c.req.header("sec-fetch-site");
  const origin = c.req.header("origin");
  // A link from elsewhere may be followed. A script from elsewhere names its origin, and would read the answer.
  if (isRead(c.req)) return origin !== undefined && !isOwnOrigin(c, origin);
  if (site !== undefined) return site !== "same-origin";
  return origin !== undefined && !isOwnOrigin(c, origin);
}

/** True if the browser names a page of this server as the sender. */
const isFromOwnPage = (c: AppContext): boolean =>
  !isFromAnotherPage(c) && (c.req.header("sec-fetch-site") ?? c.req.header("origin")) !== undefined;

function isOwnOrigin(c: AppContext, origin: string): boolean {
  const { publicUrl } = c.get("resources").settings;
  return origin === requestOrigin(c).origin || (publicUrl !== undefined && origin === new URL(publicUrl).origin);
}

/**
 * Refuses a call that another page sent. With a cookie, a change has to name a page of this server.
 * @throws Failure forbidden.
 */
export function refuseAnotherPage(c: AppContext, hasCookie: boolean): void {
  const isAllowed = hasCookie && !isRead(c.req) ? isFromOwnPage(c) : !isFromAnotherPage(c);
  if (!isAllowed) throw new Failure("forbidden", "This request comes from another page");
}

/** Returns the browser that begins a session. */
export const visitorOf = (c: AppContext) => ({
  ...clientOf(c),
  agent: c.req.header("user-agent") ?? "",
  token: sessionTokenOf(c),
});
