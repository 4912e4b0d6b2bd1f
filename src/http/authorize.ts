import type { MaybePromise } from "../core/maybe-promise.ts";
import { type Caller, isPlatformAdmin } from "../core/access/caller.ts";
import { checkPermission, findRule } from "../core/access/permissions.ts";
import { identifyCaller, isIdentifier, organizationRole } from "../operations/access.ts";
import { Failure } from "../operations/errors.ts";
import { limitKeyCalls, unknownKeyFailure } from "../operations/state/call-limits.ts";
import { addressOf, context, type AppContext } from "./context.ts";

export const API_PREFIX = "/api/v1";

/** The path that rules and messages speak of: without the prefix; undefined outside of it. */
export function apiPath(path: string): string | undefined {
  if (path === API_PREFIX) return "/";
  return path.startsWith(`${API_PREFIX}/`) ? path.slice(API_PREFIX.length) : undefined;
}

/** Whether the path belongs to OFREP, a protocol that fixes its own paths, bodies and ways to send a key. */
export function isOfrep(path: string): boolean {
  return path.startsWith("/ofrep/");
}

/** The value of x-api-key; for OFREP that of `Authorization: Bearer` too, which anywhere else may be meant for somebody else. */
function sentKey(c: AppContext): string | undefined {
  const key = c.req.header("x-api-key");
  if (key || !isOfrep(c.req.path)) return key;
  return /^Bearer +(\S+) *$/i.exec(c.req.header("authorization") ?? "")?.[1];
}

/** Turns the key into `c.get("caller")`; a key that is present and wrong is refused everywhere, public routes included. */
export function authenticate(c: AppContext): MaybePromise<void> {
  try {
    const caller = identifyCaller(c.get("resources"), sentKey(c));
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

/** An unknown key is refused less politely to who tries many. */
function unknownKeyError(c: AppContext, error: unknown): unknown {
  if (!(error instanceof Failure) || error.code !== "unauthenticated") return error;
  return unknownKeyFailure(
    addressOf(c),
    c.get("resources").now(),
    error,
    c.get("server").settings.unknownKeysPerMinute,
  );
}

/** Refuses callers who come more often than the operator wants. */
export function limitCalls(c: AppContext, callsPerSecond: number): void {
  limitKeyCalls(c.get("caller"), c.get("resources").now(), callsPerSecond);
}

/**
 * Asks the permission table, then, for a path inside an organization, whether it exists and what the caller is in it. What
 * is not refused is counted for analytics.
 * Route and rule are matched on the same path, so no spelling reaches a route that the table did not see.
 */
export function authorize(c: AppContext): MaybePromise<void> {
  const caller = c.get("caller");
  const path = apiPath(c.req.path);
  const rule = path === undefined ? findRule(c.req.method, c.req.path, "/") : findRule(c.req.method, path);
  const namesOrganization = caller.kind === "user" && Boolean(c.req.query("organizationId"));
  const denial = checkPermission(rule, caller, c.req.method, path ?? c.req.path, namesOrganization);
  if (denial !== undefined) {
    throw new Failure(denial.letter === "K" ? "unauthenticated" : "forbidden", denial.message, {
      details: denial.details,
    });
  }
  if (rule?.members !== undefined) {
    return countUnlessDenied(c, requireRole(c, path?.split("/")[2] ?? "", rule.members));
  }
  return countCall(c);
}

/** A path inside an organization that there is not was no refusal. Source: users-organizations §1.5, features-events §10. */
async function countUnlessDenied(c: AppContext, admitted: Promise<void>): Promise<void> {
  const failure: unknown = await admitted.then(
    () => undefined,
    (error: unknown) => error,
  );
  if (!(failure instanceof Failure) || failure.code !== "forbidden") countCall(c);
  if (failure !== undefined) throw failure;
}

async function requireRole(c: AppContext, organizationId: string, roles: readonly string[]): Promise<void> {
  if (!isIdentifier(organizationId)) throw new Failure("notFound", "INVALID DATA: Invalid organization ID");
  const role = await organizationRole(context(c), organizationId);
  if (isPlatformAdmin(c.get("caller"))) return;
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

/** Notes an attempt to change something that was refused; the audit log has it within a minute. */
export function recordDenied(c: AppContext, route: string, status: number): void {
  const { method } = c.req;
  if (method === "GET" || method === "HEAD") return;
  const { deniedAttempts, now } = c.get("resources");
  // Not there when the key itself was refused.
  const caller: Caller = c.get("caller") ?? { kind: "anonymous" };
  const named = /^\/organizations\/([^/]+)/.exec(apiPath(c.req.path) ?? "")?.[1] ?? "";
  const organizationId = caller.kind === "key" ? caller.organizationId : isIdentifier(named) ? named : null;
  deniedAttempts.record(
    { caller, organizationId, route: `${method} ${route}`, status, requestId: c.get("request").id },
    now(),
  );
}

/** Counts what passed the gate for analytics; the answer never waits for it. */
function countCall(c: AppContext): void {
  const { callCounter, now } = c.get("resources");
  const evaluates = isOfrep(c.req.path) || (apiPath(c.req.path) ?? "").startsWith("/features");
  callCounter.count(now(), c.req.method === "POST" && evaluates);
}
