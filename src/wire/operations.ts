import type { Operation } from "./operation.ts";
import { userOperations } from "./users.ts";

/** Every operation of the HTTP interface. A test holds the list against the router, in both directions. */
export const OPERATIONS: readonly Operation[] = [...userOperations];

/**
 * Returns the operation inside one organization, where members call it with their user key. Its id ends in
 * `InOrganization`.
 */
export const insideOrganization = (operation: Operation): Operation => ({
  ...operation,
  id: `${operation.id}InOrganization`,
  path: `/organizations/{organizationId}${operation.path}`,
  summary: `${operation.summary} in an organization`,
  description: `${operation.description} Members call it with their user key.`,
});
