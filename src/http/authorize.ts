import type { MaybePromise } from "../core/maybe-promise.ts";
import { type Caller, isPlatformAdmin } from "../core/access/caller.ts";
import type { PermissionRule } from "../core/access/permissions.ts";
import { findRule } from "../core/access/find-rule.ts";
import { checkPermission } from "../core/access/check-permission.ts";
import {
  identifyCaller,
  identifySession,
  isIdentifier,
  refuseMove,
  SESSION_ENDED,
  standingIn,
} from "../operations/access.ts";
import { Failure } from "../operations/errors.ts";
import { addressOf, context, type AppContext } from "./context.ts";
import { isFromAnotherPage, refuseAnotherPage, sessionTokenOf } from "./session-cookie.ts";

export const API_PREFIX = "/api/v1";

/** Returns the path without the API prefix, as rules and messages use it. Undefined outside the API. */
export function apiPath(path: string): string | undefined {
  if (path === API_PREFIX) return "/";
  return path.startsWith(`${API_PREFIX}/`) ? path.slice(API_PREFIX.length) : undefined;
}

/** True for paths of OFREP, a protocol with its own paths, bodies and key header. */
export function isOfrep(path: string): boolean {
  return path.startsWith("/ofrep/");
}

/** Path of the tools of agents. */
export const MCP_PATH = "/mcp";

/**
 * Returns the key of x-api-key. The protocols OFREP and MCP also accept `Authorization: Bearer`; elsewhere a proxy may own
 * that header.
 */
export function keyOf(c: AppContext): string | undefined {
  const key = c.req.header("x-api-key");
  if (key || !(isOfrep(c.req.path) || c.req.path === MCP_PATH)) return key;
  return /^Bearer +(\S+) *$/i.exec(c.req.header("authorization") ?? "")?.[1];
}

/**
 * Stores the key's owner in `c.get("caller")`, or without a key the user of the session's cookie. Rejects an unknown key on
 * every route, including public ones. A session that ended counts as none.
 * @throws Failure unauthenticated; forbidden for a change by cookie from another page.
 */
export function authenticate(c: AppContext): MaybePromise<void> {
  const key = keyOf(c);
  if (!key && apiPath(c.req.path) !== undefined) {
    const token = sessionTokenOf(c);
    if (token !== undefined) return authenticateSession(c, token);
  }
  try {
    const caller = identifyCaller(c.get("resources"), key);
    if (!(caller instanceof Promise)) return c.set("caller", caller);
    return caller.then(
      (known) => c.set("caller", known),
      (error: unknown) => {
        throw unknownKeyError(c, error);
      },
    );
  } catch (error) {
    throw unknownKeyError(c, error);
  }
}

async function authenticateSession(c: AppContext, token: string): Promise<void> {
  const isRead = c.req.method === "GET" || c.req.method === "HEAD";
  if (!isRead) refuseAnotherPage(c, true);
  if (isRead && isFromAnotherPage(c)) return c.set("caller", { kind: "anonymous" });
  const caller = await identifySession(c.get("resources"), token);
  c.get("request").sessionEnded = caller === undefined;
  c.set("caller", caller ?? { kind: "anonymous" });
}

/** Returns 429 instead of 401 once an address has tried too many unknown keys. */
function unknownKeyError(c: AppContext, error: unknown): unknown {
  if (!(error instanceof Failure) || error.code !== "unauthenticated") return error;
  const { callLimits, now } = c.get("resources");
  return callLimits.unknownKeyFailure(addressOf(c), now(), error, c.get("server").settings.unknownKeysPerMinute);
}

/** Enforces the operator's limit of calls per second and key. */
export function limitCalls(c: AppContext, callsPerSecond: number): void {
  const { callLimits, now } = c.get("resources");
  callLimits.countKeyCall(c.get("caller"), now(), callsPerSecond);
}

/**
 * Checks the permission table, and the caller's role for paths inside an organization. Counts admitted calls for
 * analytics. Rules and routes match the same path, so no spelling reaches a route that bypassed the table.
 */
export function authorize(c: AppContext): MaybePromise<void> {
  const caller = c.get("caller");
  const path = apiPath(c.req.path);
  const rule = path === undefined ? findRule(c.req.method, c.req.path, "/") : findRule(c.req.method, path);
  const namesOrganization = caller.kind === "user" && Boolean(c.req.query("organizationId"));
  const denial = checkPermission(rule, caller, c.req.method, path ?? c.req.path, namesOrganization);
  if (denial?.letter === "K" && c.get("request").sessionEnded) {
    const ended = new Failure("unauthenticated", SESSION_ENDED);
    throw unknownKeyError(c, ended);
  }
  if (denial !== undefined) {
    throw new Failure(denial.letter === "K" ? "unauthenticated" : "forbidden", denial.message, {
      details: denial.details,
    });
  }
  if (caller.kind === "key" && caller.move !== undefined) refuseMove(caller.move, isRead(c, rule));
  if (rule?.members !== undefined) {
    return countUnlessDenied(c, requireRole(c, path?.split("/")[2] ?? "", rule));
  }
  return countCall(c);
}

/** Counts calls to unknown organizations too: they were not denied. Source: users-organizations §1.5, features-events §10. */
async function countUnlessDenied(c: AppContext, admitted: Promise<void>): Promise<void> {
  const failure: unknown = await admitted.then(
    () => undefined,
    (error: unknown) => error,
  );
  if (!(failure instanceof Failure) || failure.code !== "forbidden") countCall(c);
  if (failure !== undefined) throw failure;
}

/** True for calls that change nothing of an organization. */
function isRead(c: AppContext, rule: PermissionRule | undefined): boolean {
  if (c.req.method === "GET" || c.req.method === "HEAD" || rule?.reads === true) return true;
  if (rule?.reads === undefined) return false;
  return Object.keys(c.get("body") as object).length === 0 && c.req.query("revert") === undefined;
}

async function requireRole(c: AppContext, organizationId: string, rule: PermissionRule): Promise<void> {
  const { members: roles = [] } = rule;
  if (!isIdentifier(organizationId)) throw new Failure("notFound", "INVALID DATA: Invalid organization ID");
  const { role, move } = await standingIn(context(c), organizationId);
  refuseMove(move, isRead(c, rule));
  if (isPlatformAdmin(c.get("caller"))) return;
  if (role === undefined && rule.hidesFromOutsiders === true) {
    throw new Failure("notFound", `Organization with ID ${organizationId} not found`);
  }
  if (role === undefined) {
    throw new Failure(
      "forbidden",
      "This route requires user authentication. Either you did not provide an user API key or your are not a member of this organization",
    );
  }
  if (!roles.includes(role)) {
    throw new Failure(
      "forbidden",
      `You do not have permission to access this resource. Allowed roles: ${roles.join(", ")}`,
    );
  }
}

/** Records a denied mutation. It reaches the audit log within a minute. */
export function recordDenied(c: AppContext, route: string, status: number): void {
  const { method } = c.req;
  if (method === "GET" || method === "HEAD") return;
  const { deniedAttempts, now } = c.get("resources");
  // Undefined if the key itself was rejected.
  const caller: Caller = c.get("caller") ?? { kind: "anonymous" };
  const named = /^\/organizations\/([^/]+)/.exec(apiPath(c.req.path) ?? "")?.[1] ?? "";
  const organizationId = caller.kind === "key" ? caller.organizationId : isIdentifier(named) ? named : null;
  deniedAttempts.record(
    { caller, organizationId, route: `${method} ${route}`, status, requestId: c.get("request").id },
    now(),
  );
}

/** Counts an admitted call for analytics, without delaying the answer. A tool call is counted by its own request. */
function countCall(c: AppContext): void {
  if (c.req.path === MCP_PATH) return;
  const { callCounter, now } = c.get("resources");
  const evaluates = isOfrep(c.req.path) || (apiPath(c.req.path) ?? "").startsWith("/features");
  callCounter.count(now(), c.req.method === "POST" && evaluates);
}
