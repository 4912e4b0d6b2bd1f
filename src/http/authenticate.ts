import type { Context as HonoContext, MiddlewareHandler } from "hono";
import { isPlatformAdmin } from "../core/access/caller.ts";
import { denyAtGate, findRule } from "../core/access/permissions.ts";
import { identifyCaller, isIdentifier, organizationRole } from "../operations/access.ts";
import { Failure } from "../operations/errors.ts";
import { unknownKeyFailure } from "../operations/throttle.ts";
import { context, type AppEnv } from "./route.ts";

export const API_PREFIX = "/api/v1";

/** The path that rules and messages speak of: without the prefix; undefined outside of it. */
export function apiPath(path: string): string | undefined {
  if (path === API_PREFIX) return "/";
  return path.startsWith(`${API_PREFIX}/`) ? path.slice(API_PREFIX.length) : undefined;
}

/** Turns x-api-key into `c.get("caller")`; a key that is present and wrong is refused everywhere, public routes included. */
export const authenticate: MiddlewareHandler<AppEnv> = async (c, next) => {
  const resources = c.get("resources");
  try {
    c.set("caller", await identifyCaller(resources, c.req.header("x-api-key")));
  } catch (error) {
    if (!(error instanceof Failure) || error.code !== "unauthenticated") throw error;
    throw unknownKeyFailure(clientAddress(c.env), resources.now(), error);
  }
  await next();
};

/** Who is connected, where the runtime shows it (Node): a proxy in front is one address. Empty elsewhere. */
function clientAddress(bindings: unknown): string {
  const address = fieldOf(fieldOf(fieldOf(bindings, "incoming"), "socket"), "remoteAddress");
  return typeof address === "string" ? address : "";
}

function fieldOf(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null && name in value ? Reflect.get(value, name) : undefined;
}

/**
 * Asks the permission table, then, for a path inside an organization, whether it exists and what the caller is in it.
 * Route and rule are matched on the same path, so no spelling reaches a route that the table did not see.
 */
export const gate: MiddlewareHandler<AppEnv> = async (c, next) => {
  const caller = c.get("caller");
  const path = apiPath(c.req.path);
  const rule = path === undefined ? undefined : findRule(c.req.method, path);
  const namesOrganization = caller.kind === "user" && Boolean(c.req.query("organizationId"));
  const denial = denyAtGate(rule, caller, c.req.method, path ?? c.req.path, namesOrganization);
  if (denial !== undefined) {
    throw new Failure(denial.letter === "K" ? "unauthenticated" : "forbidden", denial.message, {
      details: denial.details,
    });
  }
  if (rule?.members !== undefined) await requireRole(c, path?.split("/")[2] ?? "", rule.members);
  await next();
};

async function requireRole(c: HonoContext<AppEnv>, organizationId: string, roles: readonly string[]): Promise<void> {
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

/** Counts what passed the gate for analytics; the answer never waits for it. */
export const countCall: MiddlewareHandler<AppEnv> = async (c, next) => {
  const { callCounter, now } = c.get("resources");
  callCounter.count(now(), c.req.method === "POST" && (apiPath(c.req.path) ?? "").startsWith("/features"));
  await next();
};
