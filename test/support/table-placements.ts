import { DISTRIBUTED } from "../../src/db/archive.ts";

/*
 * Tables as `faregate-server distribute` places them on a Citus coordinator. test/db/statement-shapes.shape.test.ts holds statements to
 * it.
 */

/** Distributed tables with the column that names their contract. All rows of one contract are on one node. */
export const DISTRIBUTED_TABLES: Readonly<Record<string, string>> = Object.fromEntries(
  DISTRIBUTED.map((name) => [name, "contract_id"]),
);

/** How a distributed Postgres holds a table: on all nodes by contract, or on the coordinator. */
export type Placement = "distributed" | "coordinator";

/** Returns the placement of a table. All that is not listed stays on the coordinator. */
export const placementOf = (table: string): Placement =>
  Object.hasOwn(DISTRIBUTED_TABLES, table) ? "distributed" : "coordinator";
