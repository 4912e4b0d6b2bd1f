import type { Caller } from "./caller.ts";
import type { PermissionRule } from "./permissions.ts";

/** Refusal of a caller without a key. */
export const KEY_REQUIRED = 'API Key not found. Please ensure to add an API Key as value of the "x-api-key" header.';

/** Reason for denying a request. K is a missing key (401); the others are 403. Letters as in the contract. */
export interface Denial {
  letter: "K" | "R" | "S" | "U" | "X";
  message: string;
  details?: string;
}

/**
 * Checks if the rule allows the caller to attempt the request; undefined means yes. Without a rule, nobody may: paths
 * outside the API need a row in the table. Organization roles are checked later.
 */
export function checkPermission(
  rule: PermissionRule | undefined,
  caller: Caller,
  method: string,
  path: string,
  namesOrganization: boolean,
): Denial | undefined {
  if (rule === undefined) {
    return {
      letter: "X",
      message: "You do not have permission to access this resource",
      details: `No permission rule found for ${method} ${path}`,
    };
  }
  if (rule.access === "public") return undefined;
  if (caller.kind === "anonymous") {
    return {
      letter: "K",
      message: KEY_REQUIRED,
    };
  }
  if (caller.kind === "user") {
    if (rule.access.users.includes(caller.role)) return undefined;
    if (namesOrganization && rule.adminNamingOrganization && caller.role === "ADMIN") return undefined;
    return {
      letter: "R",
      message: `Your user role (${caller.role}) does not have permission to ${method} ${path}`,
    };
  }
  if (rule.access.keys === "user-only") {
    return {
      letter: "U",
      message: "This route requires a user API key. Organization API keys are not allowed",
    };
  }
  if (rule.access.keys.includes(caller.scope)) return undefined;
  return {
    letter: "S",
    message: `Your organization API key role (${caller.scope}) does not have permission to ${method} ${path}`,
  };
}
