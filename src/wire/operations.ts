import type { Operation } from "./operation.ts";
import { userOperations } from "./users.ts";

/** Every operation of the HTTP interface. A test holds the list against the router, in both directions. */
export const OPERATIONS: readonly Operation[] = [...userOperations];
