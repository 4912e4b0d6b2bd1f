import type { KeyScope, OrganizationRole, PlatformRole } from "../core/access/caller.ts";
import { denyAtGate, findRule } from "../core/access/permissions.ts";
import type { ApiKey, Organization } from "./answers.ts";
import type { Method } from "./api.ts";

/** Who is using the console, in the organization that is looked at. */
export interface Who {
  username: string;
  role: PlatformRole;
  inOrganization: OrganizationRole | undefined;
}

/** What somebody is in an organization; undefined for nobody there. */
export function roleIn(organization: Organization | undefined, username: string): OrganizationRole | undefined {
  if (organization === undefined) return undefined;
  if (organization.owner === username) return "OWNER";
  return organization.members.find((member) => member.username === username)?.role;
}

/** Whether the server's own table lets this user make this call; `path` relative to /api/v1. */
export function may(who: Who, method: Method, path: string): boolean {
  const rule = findRule(method, path);
  const caller = { kind: "user", id: "", username: who.username, role: who.role } as const;
  if (denyAtGate(rule, caller, method, path, false) !== undefined) return false;
  if (rule?.members === undefined || who.role === "ADMIN") return true;
  return who.inOrganization !== undefined && rule.members.includes(who.inOrganization);
}

/** Whether the table lets a key of this scope make this call. */
export function scopeMay(scope: KeyScope, method: Method, path: string): boolean {
  const caller = { kind: "key", keyId: "", organizationId: "", scope } as const;
  return denyAtGate(findRule(method, path), caller, method, path, false) === undefined;
}

const LEAST_FIRST: readonly KeyScope[] = ["EVALUATION", "MANAGEMENT", "ALL"];

/**
 * The key of least scope that may make a call which only organization keys may make; undefined when this reader sees none
 * in clear.
 */
export function keyFor(keys: readonly ApiKey[], method: Method, path: string): ApiKey | undefined {
  const usable = keys.filter(({ key, scope }) => !key.includes("*") && scopeMay(scope, method, path));
  return usable.sort((a, b) => LEAST_FIRST.indexOf(a.scope) - LEAST_FIRST.indexOf(b.scope))[0];
}
