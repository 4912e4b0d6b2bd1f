/*
 * Tables as a distributed Postgres (Citus) would hold them: by contract, so that an organization of millions of end users has its
 * rows on all nodes. test/db/statement-shapes.shape.test.ts holds statements to it. `faregate-server distribute` distributes only
 * tables of usage (src/db/archive.ts).
 */

/** Distributed tables with the column that names their contract. All rows of one contract are on one node. */
export const DISTRIBUTED_TABLES: Readonly<Record<string, string>> = {
  block_draws: "contract_id",
  budget_balances: "contract_id",
  contract_billing: "contract_id",
  contract_blocks: "contract_id",
  contract_budgets: "contract_id",
  contract_history: "contract_id",
  contract_members: "contract_id",
  contract_overrides: "contract_id",
  contract_services: "contract_id",
  contract_states: "contract_id",
  contracts: "id",
  holds: "contract_id",
  scheduled_changes: "contract_id",
  scheduled_subscriptions: "contract_id",
  usage_archive: "contract_id",
  usage_days: "contract_id",
  usage_hours: "contract_id",
  usage_ledger: "contract_id",
  usage_ledger_next: "contract_id",
  usage_levels: "contract_id",
  usage_resets: "contract_id",
};

/** Tables of which each node has a copy: contracts refer to them, or are read with them. */
export const COPIED_TABLES: ReadonlySet<string> = new Set([
  "billing_connections",
  "members",
  "organization_keys",
  "organizations",
  "pricings",
  "services",
  "users",
  "webhook_endpoints",
]);

/** How a distributed Postgres holds a table: on all nodes by contract, as a copy on each node, or on the coordinator. */
export type Placement = "distributed" | "copied" | "coordinator";

/** Returns the placement of a table. All that is not listed stays on the coordinator. */
export function placementOf(table: string): Placement {
  if (Object.hasOwn(DISTRIBUTED_TABLES, table)) return "distributed";
  return COPIED_TABLES.has(table) ? "copied" : "coordinator";
}
