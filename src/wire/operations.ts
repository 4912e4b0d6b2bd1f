import { contractDetailOperations, contractOperations } from "./contracts.ts";
import { featureOperations } from "./features.ts";
import { ofrepOperations } from "./ofrep.ts";
import type { Operation } from "./operation.ts";
import { userOperations } from "./users.ts";

/**
 * Returns the operation inside one organization, where members call it with their user key. Its id ends in
 * `InOrganization`.
 */
const insideOrganization = (operation: Operation): Operation => ({
  ...operation,
  id: `${operation.id}InOrganization`,
  path: `/organizations/{organizationId}${operation.path}`,
  summary: `${operation.summary} in an organization`,
  description: `${operation.description} Members call it with their user key.`,
});

/**
 * Every operation of the HTTP interface. Literal paths precede parameters. A test holds the list against the router, in
 * both directions.
 */
export const OPERATIONS: readonly Operation[] = [
  ...userOperations,
  ...contractDetailOperations,
  ...contractOperations,
  ...contractOperations.map(insideOrganization),
  ...featureOperations,
  ...ofrepOperations,
];
