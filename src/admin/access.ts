import type { KeyScope, OrganizationRole, PlatformRole } from "../core/access/caller.ts";
import { findRule } from "../core/access/find-rule.ts";
import { checkPermission } from "../core/access/check-permission.ts";
import type { ApiKey, Organization } from "./answers.ts";
import type { Method } from "./api.ts";

/** The signed-in user and their role in the current organization. */
export interface Who {
  username: string;
  role: PlatformRole;
  inOrganization: OrganizationRole | undefined;
}

/** Returns a user's role in an organization; undefined for non-members. */
export function roleIn(organization: Organization | undefined, username: string): OrganizationRole | undefined {
  if (organization === undefined) return undefined;
  if (organization.owner === username) return "OWNER";
  return organization.members.find((member) => member.username === username)?.role;
}

/** Returns true when the server's permission table lets this user make this call. `path` is relative to /api/v1. */
export function may(who: Who, method: Method, path: string): boolean {
  const rule = findRule(method, path);
  const caller = { kind: "user", id: "", username: who.username, role: who.role } as const;
  if (checkPermission(rule, caller, method, path, false) !== undefined) return false;
  if (rule?.members === undefined || who.role === "ADMIN") return true;
  return who.inOrganization !== undefined && rule.members.includes(who.inOrganization);
}

/** Returns true when the permission table lets a key of this scope make this call. */
export function scopeMay(scope: KeyScope, method: Method, path: string): boolean {
  const caller = { kind: "key", keyId: "", organizationId: "", scope } as const;
  return checkPermission(findRule(method, path), caller, method, path, false) === undefined;
}

const LEAST_FIRST: readonly KeyScope[] = ["EVALUATION", "MANAGEMENT", "ALL"];

/** Finds the key of least scope that may make this call. Undefined when the user sees no such key unmasked. */
export function keyFor(keys: readonly ApiKey[], method: Method, path: string): ApiKey | undefined {
  const usable = keys.filter(({ key, scope }) => !key.includes("*") && scopeMay(scope, method, path));
  return usable.sort((a, b) => LEAST_FIRST.indexOf(a.scope) - LEAST_FIRST.indexOf(b.scope))[0];
}
